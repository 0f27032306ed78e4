"""te.gradient, judged by finite differences of the NumPy reference in float64, and what it declares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import build, every_target
from tilewright import te, tir, topi
from tilewright.expr import intrinsics
from tilewright.tensor.reference import reference

STEP = 1e-5


def values_of(tensors: Sequence[te.Tensor], low: float = -1, high: float = 1) -> dict[te.Tensor, np.ndarray]:
    rng = np.random.default_rng(7)
    return {t: rng.uniform(low, high, [int(e) for e in t.shape]) for t in tensors}


def differences(output: te.Tensor, by: te.Tensor, values: dict[te.Tensor, np.ndarray]) -> np.ndarray:
    """The Jacobian, of shape output.shape + by.shape."""
    found = np.zeros([int(e) for e in (*output.shape, *by.shape)])
    for at in np.ndindex(*values[by].shape):
        ends = []
        for sign in (1, -1):
            moved = values[by].copy()
            moved[at] += sign * STEP
            ends.append(reference(output, {**values, by: moved})[0])
        found[(..., *at)] = (ends[0] - ends[1]) / (2 * STEP)
    return found


def check(
    output: te.Tensor, inputs: Sequence[te.Tensor], others: Sequence[te.Tensor] = (), **ends: float
) -> list[te.Tensor]:
    """Jacobians, and gradients for a head of the output's shape; returns these."""
    head = te.placeholder(output.shape, output.dtype, name="head")
    values = values_of([*inputs, *others, head], **ends)
    known = {t: v for t, v in values.items() if t is not head}
    made = te.gradient(output, inputs, head)
    jacobians = te.gradient(output, list(inputs))
    for by, gradient, jacobian in zip(inputs, made, jacobians, strict=True):
        assert gradient.shape == by.shape
        assert jacobian.shape == (*output.shape, *by.shape)
        want = differences(output, by, known)
        np.testing.assert_allclose(reference(jacobian, values)[0], want, rtol=1e-4, atol=1e-5)
        rank = len(output.shape)
        summed = np.tensordot(values[head], want, (list(range(rank)), list(range(rank))))
        np.testing.assert_allclose(reference(gradient, values)[0], summed, rtol=1e-4, atol=1e-5)
    return made


A = te.placeholder((4, 5), name="A")
B = te.placeholder((5, 3), name="B")
V = te.placeholder((5,), name="V")
D4 = te.placeholder((1, 2, 6, 7), name="D4")
k = te.reduce_axis((0, 5), name="k")

FORMULAS: dict[str, tuple[Callable[[Any], Any], float, float]] = {
    "polynomial": (lambda x: x * x * 3 - x / 2 + 1, -1, 1),
    "quotient": (lambda x: (x + 1) / (x * x + 2), -1, 1),
    "exponentials": (lambda x: te.exp(x) + te.exp2(x) + te.exp10(x), -1, 1),
    "logarithms": (lambda x: te.log(x) + te.log2(x) + te.log10(x) * te.log1p(x), 0.3, 2),
    "roots": (lambda x: te.sqrt(x) + te.rsqrt(x) * x, 0.3, 2),
    "sigmoids": (lambda x: te.sigmoid(x) * te.tanh(x) + te.erf(x), -1, 1),
    "saturation": (lambda x: intrinsics.TABLE["saturate"](x * 2) * x, -1, 1),
    "circular": (lambda x: te.sin(x) * te.cos(x) + te.tan(x), -1, 1),
    "inverse circular": (lambda x: te.asin(x) + te.acos(x) * te.atan(x), -0.8, 0.8),
    "hyperbolic": (lambda x: te.sinh(x) + te.cosh(x) + te.asinh(x) + te.atanh(x), -0.8, 0.8),
    "inverse of cosh": (lambda x: te.acosh(x), 1.2, 3),
    "powers": (lambda x: te.power(x, 2.5) + te.power(1.5, x) + te.power(x, x), 0.3, 2),
    "two arguments": (lambda x: te.hypot(x, x * 2 + 1) + te.atan2(x, 2.0 - x) + te.fmod(x + 3.2, 1.5 + x * 0), -1, 1),
    "choices": (lambda x: te.max(x, 0.1) + te.min(x * 2, 0.3) + te.abs(x) + te.copysign(x, -1.0), -1, 1),
    "conditions": (lambda x: te.if_then_else(x > 0, x * x, -x) + tir.Select(x < 0.5, te.exp(x), x), -1, 1),
    "roundings": (lambda x: te.floor(x * 3) * x + te.round(x * 5) + x.astype("int32") * x, -1, 1),
    "remainder": (lambda x: (x + 3.3) % 1.7 * x, -1, 1),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    formula, low, high = FORMULAS[name]
    check(te.compute((4, 5), lambda i, j: formula(A[i, j]), name="C"), [A], low=low, high=high)


def matmul() -> te.Tensor:
    return te.compute((4, 3), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")


def test_matrix_product() -> None:
    """The gradients of a matrix product are two of them, whose sums run over one axis alone."""
    by_a, by_b = check(matmul(), [A, B])
    assert [axis.dom.extent.value for axis in by_a.op.reduce_axis] == [3]
    assert [axis.dom.extent.value for axis in by_b.op.reduce_axis] == [4]
    assert "if_then_else" not in str(by_a.op.body)


@pytest.mark.parametrize(
    ("stride", "padding", "dilation", "sums"),
    [(1, 0, 1, [2, 2, 3]), (2, 1, 1, [2, 3]), (3, (2, 1), 1, [2]), (1, 1, 2, [2, 2, 3]), (2, 2, 2, [2, 2, 3])],
)
def test_convolutions(stride: int, padding: Any, dilation: int, sums: list[int]) -> None:
    """Sums run over filters and the window; not over windows that do not overlap."""
    W = te.placeholder((2, 2, 3, 2), name="W")
    by_data, by_weights = check(topi.nn.conv2d_nchw(D4, W, stride, padding, dilation), [D4, W])
    (padded,) = by_data.op.input_tensors if not by_data.op.reduce_axis else (by_data,)
    assert sorted(axis.dom.extent.value for axis in padded.op.reduce_axis) == sums
    assert by_weights.op.reduce_axis


def test_depthwise_and_grouped_convolutions() -> None:
    W = te.placeholder((2, 2, 3, 3), name="W")
    check(topi.nn.depthwise_conv2d_nchw(D4, W, 2, 1, 1), [D4, W])
    G = te.placeholder((2, 1, 3, 3), name="G")
    check(topi.nn.group_conv2d_nchw(D4, G, 1, 0, 1, 2), [D4, G])


SHAPES: dict[str, Callable[[], te.Tensor]] = {
    "reshape": lambda: topi.reshape(A, (2, 10)),
    "transpose": lambda: topi.transpose(A),
    "flip": lambda: topi.flip(A, 1),
    "stride": lambda: topi.strided_slice(A, [0, 1], [4, 5], [2, 2]),
    "pad": lambda: topi.nn.pad(A, (1, 2), (0, 1)),
    "stencil": lambda: te.compute((4, 3), lambda i, j: A[i, j] + A[i, j + 1] * A[3 - i, j + 2], name="C"),
    "broadcast": lambda: te.compute((6, 4, 5), lambda b, i, j: A[i, j] * b, name="C"),
    "diagonal": lambda: te.compute((4,), lambda i: A[i, i] * A[i, i + 1], name="C"),
    "three digits": lambda: topi.reshape(D4, (12, 7)),
    "tiles": lambda: te.compute((2, 2), lambda i, j: te.sum(A[i * 2 + r, j * 2 + q], axis=[r, q]), name="C"),
    "softmax": lambda: topi.nn.softmax(A),
    "layer norm": lambda: topi.nn.l2_normalize(D4, 1e-3, [1]),
    "average": lambda: topi.nn.pool2d(D4, (3, 2), (2, 2), (1, 1), (1, 0, 1, 1), "avg"),
}
r, q = te.reduce_axis((0, 2), name="r"), te.reduce_axis((0, 2), name="q")


@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str) -> None:
    output = SHAPES[name]()
    check(output, [D4 if name in ("three digits", "layer norm", "average") else A])


def test_a_reshape_is_a_reshape() -> None:
    for shape in ((2, 10), (20,), (5, 2, 2)):
        (made,) = te.gradient(topi.reshape(A, shape), [A], te.placeholder(shape, name="head"))
        assert made.op.reduce_axis == ()


def test_tiles_that_do_not_overlap_need_no_sum() -> None:
    (made,) = te.gradient(SHAPES["tiles"](), [A], te.placeholder((2, 2), name="head"))
    assert made.op.reduce_axis == ()


def product() -> te.Tensor:
    multiply = te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), name="product")
    return te.compute((4,), lambda i: multiply(A[i, k] + V[k] * A[i, 0], axis=k), name="P")


def pair() -> tuple[te.Tensor, te.Tensor]:
    """A sum and the sum of squares, reduced together."""
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], x[1] + y[1]),
        lambda a, b: (te.const(0, a), te.const(0, b)),
        name="both",
    )
    made: tuple[te.Tensor, te.Tensor] = te.compute((4,), lambda i: both((A[i, k], A[i, k] * A[i, k]), axis=k), name="S")
    return made


def test_reductions() -> None:
    check(te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="M"), [A])
    check(te.compute((4,), lambda i: te.min(A[i, k] * V[k], axis=k), name="M"), [A, V])
    check(product(), [A, V])
    check(topi.nn.pool2d(D4, (2, 3), (2, 1), (1, 1), (0, 0, 0, 0), "max"), [D4])
    where = te.compute((4,), lambda i: te.sum(A[i, k] * V[k], axis=k, where=k < i + 1), name="W")
    check(where, [A, V])
    started = te.compute((4,), lambda i: te.sum(A[i, k] * V[k], axis=k, init=V[i] * V[i + 1]), name="S")
    check(started, [A, V])
    for part in pair():
        check(part, [A])


def test_a_graph_with_shared_and_intermediate_tensors() -> None:
    """C is read twice; D is on the way; the derivative by D is asked for, too."""
    C = te.compute((4, 5), lambda i, j: te.tanh(A[i, j]) * V[j], name="C")
    D = te.compute((4,), lambda i: te.sum(C[i, k] * C[i, k], axis=k), name="D")
    E = te.compute((4, 5), lambda i, j: C[i, j] / (D[i] + 1), name="E")
    check(E, [A, V])
    by_d, by_e = te.gradient(E, [D, E], te.placeholder((4, 5), name="head"))
    assert (by_d.shape, by_e.shape) == (D.shape, E.shape)


def test_a_head_with_a_prefix() -> None:
    C = matmul()
    head = te.placeholder((7, 4, 3), name="head")
    (made,) = te.gradient(C, A, head)
    assert [int(e) for e in made.shape] == [7, 4, 5]
    values = values_of([A, B, head])
    found = reference(made, values)[0]
    np.testing.assert_allclose(found, np.einsum("pij,kj->pik", values[head], values[B]), rtol=1e-9)


def test_a_gather() -> None:
    """Which elements are read is known only when it runs."""
    index = te.placeholder((6,), "int32", name="index")
    table = te.placeholder((4, 3), name="table")
    C = te.compute((6, 3), lambda i, j: table[index[i], j], name="C")
    head = te.placeholder((6, 3), name="head")
    (made,) = te.gradient(C, [table], head)
    at, values = np.array([0, 3, 3, 1, 0, 3], "int32"), np.random.default_rng(0).uniform(size=(6, 3))
    want = np.zeros((4, 3))
    np.add.at(want, at, values)
    np.testing.assert_allclose(reference(made, {index: at, head: values})[0], want)


def test_what_does_not_depend_is_zero() -> None:
    by_b, by_rounded = te.gradient(te.compute((4, 5), lambda i, j: te.floor(A[i, j]), name="C"), [B, A])
    assert reference(by_b, {})[0].shape == (4, 5, 5, 3)
    assert not reference(by_b, {})[0].any()
    assert not reference(by_rounded, {})[0].any()


def test_the_derivative_by_itself_is_the_identity() -> None:
    (made,) = te.gradient(V, V)
    np.testing.assert_array_equal(reference(made, {})[0], np.eye(5))


def test_a_maximum_with_ties_counts_one_of_them() -> None:
    M = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="M")
    head = te.placeholder((4,), name="head")
    (made,) = te.gradient(M, [A], head)
    found = reference(made, {A: np.ones((4, 5)), head: np.arange(4.0)})[0]
    assert found.sum(axis=1).tolist() == [0, 1, 2, 3]


@every_target
def test_scheduled_on_every_target(target: str) -> None:
    """The gradient of a padded convolution, which is one stage without the border, on sizes that do not divide."""
    W = te.placeholder((2, 2, 3, 3), name="W")
    output = topi.nn.conv2d_nchw(D4, W, 2, 1, 1)
    head = te.placeholder(output.shape, name="head")
    (made,) = te.gradient(output, [D4], head)
    s = te.create_schedule(made.op)
    sums = s.cache_write(made, "local" if target != "llvm" else "global")
    outer, inner = s[made].split(s[made].fuse(*made.op.axis), factor=16)
    s[sums].compute_at(s[made], inner)
    if target != "llvm":
        s[made].bind(outer, te.thread_axis("blockIdx.x"))
        s[made].bind(inner, te.thread_axis("threadIdx.x"))
    values = values_of([W, head])
    f, dev = build(s, [W, head, made], target), tw.device(target)
    found = tw.nd.empty(tuple(int(e) for e in made.shape), device=dev)
    f(*(tw.nd.array(values[t].astype("float32"), dev) for t in (W, head)), found)
    np.testing.assert_allclose(found.numpy(), reference(made, values)[0], rtol=1e-4, atol=1e-5)


def test_sizes_known_at_the_call() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    X, Y = te.placeholder((n, m), name="X"), te.placeholder((m,), name="Y")
    axis = te.reduce_axis((0, m), name="r")
    C = te.compute((n,), lambda i: te.sum(X[i, axis] * Y[axis], axis=axis), name="C")
    head = te.placeholder((n,), name="head")
    by_x, by_y = te.gradient(C, [X, Y], head)
    s = te.create_schedule([by_x.op, by_y.op])
    f = tw.build(s, [X, Y, head, by_x, by_y], "llvm")
    x, y, h = (np.random.default_rng(1).uniform(size=size).astype("float32") for size in ((3, 4), 4, 3))
    found = tw.nd.empty((3, 4)), tw.nd.empty((4,))
    f(*map(tw.nd.array, (x, y, h)), *found)
    np.testing.assert_allclose(found[0].numpy(), np.outer(h, y), rtol=1e-5)
    np.testing.assert_allclose(found[1].numpy(), h @ x, rtol=1e-5)


def test_half_precision() -> None:
    X = te.placeholder((4, 5), "float16", name="X")
    C = te.compute((4,), lambda i: te.sum(X[i, k].astype("float32") * 2.0, axis=k), name="C")
    (made,) = te.gradient(C, [X], te.placeholder((4,), name="head"))
    assert made.dtype == "float16"
    W = te.placeholder((5,), "float16", name="W")
    D = te.compute((4,), lambda i: te.sum(X[i, k].astype("float32") * W[k].astype("float32"), axis=k), name="D")
    narrowed = te.gradient(D, [X, W], te.placeholder((4,), name="head"))
    assert [made.dtype for made in narrowed] == ["float16", "float16"]
    assert narrowed[1].op.input_tensors[0].dtype == "float32"  # sums


def test_mistakes() -> None:
    C = matmul()
    whole = te.placeholder((4, 5), "int32", name="N")
    with refused("gradient", "the derivative by 'N' of type int32", fix="tensors of floats"):
        te.gradient(C, [whole])
    with refused("gradient", "the derivative by 3 is asked for"):
        te.gradient(C, 3)
    with refused("gradient", "the output is of type int32", fix="a tensor of floats"):
        te.gradient(te.compute((4, 5), lambda i, j: whole[i, j], name="M"), [A])
    with refused("gradient", "the output is 3"):
        te.gradient(3, [A])
    for head in (te.placeholder((3, 4), name="head"), te.placeholder((4, 3), "float64", name="head"), 3):
        with refused("gradient", "the head is", "for the output 'C', float32[4, 3]", fix="a shape that ends"):
            te.gradient(C, [A], head)
    E = te.extern((4, 5), [A], lambda ins, outs: outs[0].vstore([0, 0], ins[0].vload([0, 0])), name="E")
    with refused("gradient", "through 'E', a te.extern", fix="with te.compute"):
        te.gradient(te.compute((4, 5), lambda i, j: E[i, j] * 2, name="C"), [A])
    foreign = te.compute((4, 5), lambda i, j: tir.call_pure_extern("float32", "sinf", A[i, j]), name="F")
    with refused("gradient", "the derivative of call_pure_extern(...)", fix="exp"):
        te.gradient(foreign, [A])
    most = te.compute((4,), lambda i: te.max(A[i, k], axis=k, init=V[i]), name="M")
    with refused("gradient", "starts at values of its own", fix="after the reduction"):
        te.gradient(most, [A])
