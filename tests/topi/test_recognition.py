"""Convolutions and gradients of them, recognised in declarations of any form, against sums from the definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright import te, topi
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.schedule.handle import ScheduleHandle
from tilewright.tensor.reference import reference
from tilewright.tensor.tensor import Tensor, topological
from tilewright.topi.idioms.convolutions import recognised

CUDA, LLVM = Target("cuda -arch=sm_90"), Target("llvm")
TOLERANCE = {"float64": 1e-13, "float32": 2e-6, "float16": 2e-3}
Program = tuple[Tensor, list[Tensor]]


def placeholders(x: tuple[int, ...], w: tuple[int, ...], dtype: str = "float32") -> tuple[Tensor, Tensor]:
    return te.placeholder(x, dtype, "X"), te.placeholder(w, dtype, "W")


def by_topi(
    make: Callable[..., Any], x: tuple[int, ...], w: tuple[int, ...], *options: Any, dtype: str = "float32"
) -> Program:
    X, W = placeholders(x, w, dtype)
    return make(X, W, *options), [X, W]


def causal() -> Program:
    X, W = placeholders((2, 3, 20), (3, 4), "float64")
    r = te.reduce_axis((0, 4), "r")

    def element(n: Any, c: Any, t: Any) -> Any:
        return te.sum(te.if_then_else(t + r >= 3, X[n, c, t + r - 3], te.const(0.0, "float64")) * W[c, r], axis=r)

    return te.compute((2, 3, 20), element, "Y"), [X, W]


def true_convolution() -> Program:
    """The window runs backwards, and channels of a group are an axis of their own."""
    X, W = placeholders((2, 9, 8, 6), (3, 3, 3, 6))
    rc, ry, rx = te.reduce_axis((0, 3), "rc"), te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")

    def element(n: Any, y: Any, x: Any, f: Any) -> Any:
        return te.sum(X[n, y + 2 - ry, x + 2 - rx, f // 3 * 3 + rc] * W[rc, ry, rx, f], axis=[rc, ry, rx])

    return te.compute((2, 7, 6, 6), element, "Y"), [X, W]


def narrowed() -> Program:
    X, W = placeholders((1, 6, 6, 8), (3, 3, 8, 16), "float16")
    Y = topi.nn.conv2d_nhwc(X, W, 1, 1, 1, "float32")
    return te.compute(Y.shape, lambda *i: Y(*i).astype("float16"), "Z"), [X, W]


PROGRAMS: dict[str, Callable[[], Program]] = {
    "depthwise, stride 2": lambda: by_topi(topi.nn.depthwise_conv2d_nchw, (2, 3, 9, 8), (3, 1, 3, 3), 2, 1, 1),
    "multiplier, NHWC": lambda: by_topi(topi.nn.depthwise_conv2d_nhwc, (2, 7, 6, 3), (3, 3, 3, 2), 1, 1, 1),
    "groups, dilation": lambda: by_topi(topi.nn.group_conv2d_nchw, (2, 4, 9, 8), (6, 2, 3, 3), 1, 1, 2, 2),
    "a line, stride 2": lambda: by_topi(topi.nn.conv1d_ncw, (2, 3, 17), (4, 3, 3), 2, 1, 1, dtype="float64"),
    "causal": causal,
    "true convolution": true_convolution,
    "float16": narrowed,
}  # fmt: skip


def of_program(program: Program) -> tuple[dict[str, Tensor], list[Tensor]]:
    """The result and its gradients, and all inputs."""
    result, inputs = program
    head = te.placeholder(result.shape, str(result.dtype), "H")
    names = [f"d{t.name}" for t in inputs]
    return dict(zip(["Y", *names], [result, *te.gradient(result, inputs, head)], strict=True)), [*inputs, head]


def sums_of(tensor: Tensor) -> Any:
    """The last reduction that a tensor is computed from."""
    return [op for op in topological([tensor.op]) if op.reduce_axis][-1]


def check(tensor: Tensor, inputs: list[Tensor], target: Target, compiled: Any) -> ScheduleHandle:
    """Compare a tensor, scheduled automatically, with its declaration in float64."""
    read = [t for t in inputs if t.op in topological([tensor.op])]
    s = tw.auto_schedule([tensor], target)
    rng = np.random.default_rng(0)
    values = {t: rng.uniform(-1, 1, [int(e) for e in t.shape]).astype(str(t.dtype)) for t in read}
    device = tw.cuda() if target.is_gpu else tw.cpu()
    out = tw.nd.array(np.full([int(e) for e in tensor.shape], np.nan, str(tensor.dtype)), device)
    compiled(s, [*read, tensor], target)(*(tw.nd.array(v, device) for v in values.values()), out)
    right = reference(tensor, {t: v.astype(np.float64) for t, v in values.items()})[0]
    error = np.linalg.norm(out.numpy().astype(np.float64) - right)
    assert error <= TOLERANCE[str(tensor.dtype)] * np.linalg.norm(right)
    return s


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_recognised(name: str) -> None:
    tensors, _ = of_program(PROGRAMS[name]())
    found = {key: recognised(sums_of(tensor)) for key, tensor in tensors.items()}
    assert all(layer is not None for layer in found.values())
    assert found["dW"] is not None
    assert found["dW"].workload.name == "weight_gradient"


def each(fast: str) -> list[Any]:
    return [pytest.param(name, marks=() if name == fast else pytest.mark.slow) for name in PROGRAMS]


@pytest.mark.parametrize("name", each("true convolution"))
def test_on_the_cpu(name: str) -> None:
    tensors, inputs = of_program(PROGRAMS[name]())
    for tensor in tensors.values():
        check(tensor, inputs, LLVM, tw.build)


@emulates
@pytest.mark.parametrize("name", each("causal"))
def test_on_an_emulated_gpu(name: str) -> None:
    tensors, inputs = of_program(PROGRAMS[name]())
    with emulation():
        for tensor in tensors.values():
            check(tensor, inputs, CUDA, emulated)


def drawn(rng: np.random.Generator) -> Program:
    """A layer of random sizes, in a random order of dimensions, declared in one of several ways."""

    def pick(*values: int) -> int:
        return int(rng.choice(values))

    groups, per, shared = pick(1, 2, 3), pick(1, 1, 2), pick(1, 1, 2, 3)
    rank, batch, dtype = pick(1, 2, 2, 2), pick(1, 2, 3), str(rng.choice(["float32", "float64", "float16"]))
    sizes, taps = [pick(5, 6, 8, 9) for _ in range(rank)], [pick(1, 2, 3, 4) for _ in range(rank)]
    stride, dilation = [pick(1, 1, 2, 3) for _ in range(rank)], [pick(1, 1, 2) for _ in range(rank)]
    before, after = ([pick(0, 1, 2, 3) for _ in range(rank)] for _ in range(2))
    places = [
        (n + p + q - (k - 1) * d - 1) // s + 1
        for n, p, q, k, d, s in zip(sizes, before, after, taps, dilation, stride, strict=True)
    ]
    if min(places) < 1:
        return drawn(rng)
    last, filters = bool(rng.integers(2)), groups * shared
    place = (lambda n, c, s: (n, *s, c)) if last else (lambda n, c, s: (n, c, *s))
    of_weights = [(filters, per, *taps), (*taps, per, filters), (per, filters, *taps)][pick(0, 1, 2)]
    X, W = placeholders(place(batch, groups * per, sizes), of_weights, dtype)
    kind = "float64" if dtype == "float64" else "float32"
    axes = [te.reduce_axis((0, k), f"r{i}") for i, k in enumerate(taps)]
    rc = te.reduce_axis((0, per), "rc")

    def read(i: Any) -> Any:
        space = i[1:-1] if last else i[2:]
        inside = [te.all(a >= p, a < n + p) for a, p, n in zip(space, before, sizes, strict=True)]
        seen = X(*place(i[0], i[-1] if last else i[1], [a - p for a, p in zip(space, before, strict=True)]))
        return te.if_then_else(te.all(*inside), seen, te.const(0.0, dtype))

    stored = bool(rng.integers(2))
    padded = te.compute(
        place(batch, groups * per, [n + p + q for n, p, q in zip(sizes, before, after, strict=True)]),
        lambda *i: read(i),
        "padded",
    )

    def element(*i: Any) -> Any:
        f, space = i[-1] if last else i[1], i[1:-1] if last else i[2:]
        at = [a * s + r * d for a, s, r, d in zip(space, stride, axes, dilation, strict=True)]
        index = place(i[0], f // shared * per + rc, at)
        weight = {0: (f, rc, *axes), 1: (*axes, rc, f), 2: (rc, f, *axes)}[
            [(filters, per, *taps), (*taps, per, filters), (per, filters, *taps)].index(of_weights)
        ]
        seen = padded(*index) if stored else read(index)
        return te.sum(seen.astype(kind) * W(*weight).astype(kind), axis=[rc, *axes])

    sums = te.compute(place(batch, filters, places), element, "sums")
    return te.compute(sums.shape, lambda *i: sums(*i).astype(dtype), "Y") if kind != dtype else sums, [X, W]


@pytest.mark.slow
@emulates
@pytest.mark.parametrize("part", range(10))
def test_random_layers(part: int) -> None:
    for seed in range(10 * part, 10 * part + 10):
        tensors, inputs = of_program(drawn(np.random.default_rng(seed)))
        for name in ("Y", "dX", "dW"):
            check(tensors[name], inputs, LLVM, tw.build)
            with emulation():
                check(tensors[name], inputs, CUDA, emulated)


def test_steps_replay() -> None:
    tensors, inputs = of_program(PROGRAMS["causal"]())
    args = [inputs[0], inputs[2], tensors["dW"]]
    s = tw.auto_schedule([tensors["dW"]], CUDA)
    again = te.create_schedule(tensors["dW"].op)
    again.replay([step.to_json() for step in s.steps])
    assert str(tw.lower(again, args)) == str(tw.lower(s, args))
    names: dict[str, Any] = {}
    exec(s.as_python(), names)
    assert str(tw.lower(names["schedule"](tensors["dW"]), args)) == str(tw.lower(s, args))


def test_legacy_gradients_of_depthwise_layers() -> None:
    """Smaller layers are windows, as for any reduction."""
    shape = (8, 28, 28, 64)
    X, W = placeholders(shape, (3, 3, 64, 1))
    head = te.placeholder(shape, "float32", "H")
    by_input = topi.nn.depthwise_conv2d_backward_input_nhwc(W, head, shape, shape, 1, 1)
    by_weight = topi.nn.depthwise_conv2d_backward_weight_nhwc(X, head, shape, (3, 3, 64, 1), 1, 1)
    for made, schedule in (
        (by_input, topi.cuda.schedule_depthwise_conv2d_backward_input_nhwc),
        (by_weight, topi.cuda.schedule_depthwise_conv2d_backward_weight_nhwc),
    ):
        with CUDA:
            steps = schedule([made]).steps
        assert any(step.primitive == "redeclare" for step in steps)


def sums(shape: tuple[int, ...], over: tuple[int, ...], term: Callable[..., Any]) -> Any:
    axes = [te.reduce_axis((0, n), name=f"r{k}") for k, n in enumerate(over)]
    return te.compute(shape, lambda *i: te.sum(term(*i, *axes), axis=axes), "Y").op


def starting_at(value: float) -> Any:
    total = te.comm_reducer(lambda a, b: a + b, lambda dtype: te.const(value, dtype), "total")
    r = te.reduce_axis((0, 3), "r")
    return te.compute((4, 7), lambda c, t: total(A[c, t + r] * K[c, r], axis=r), "Y").op


A, K = te.placeholder((4, 9), name="A"), te.placeholder((4, 3), name="K")
OTHERS = {
    "a product of matrices": sums((4, 4), (9,), lambda i, j, r: A[i, r] * A[j, r]),
    "a constant factor": sums((4, 7), (3,), lambda c, t, r: A[c, t + r] * K[c, r] * 2.0),
    "a condition on places and channels": sums(
        (4, 7), (3,), lambda c, t, r: te.if_then_else(t + r > c, A[c, t + r], 0.0) * K[c, r]
    ),
    "a triangle of taps": sums((4, 7), (3,), lambda c, t, r: te.if_then_else(r <= t, A[c, t + r], 0.0) * K[c, r]),
    "terms that count twice": sums((4, 7), (3, 2), lambda c, t, r, _: A[c, t + r] * K[c, r]),
    "a window that does not slide evenly": sums((4, 5), (3,), lambda c, t, r: A[c, t + t // 2 + r] * K[c, r]),
    "places modulo a length": sums((4, 9), (3,), lambda c, t, r: A[c, (t + r) % 9] * K[c, r]),
    "places in another order of bits": sums((4, 6), (3,), lambda c, t, r: A[c, (t ^ 1) + r] * K[c, r]),
    "places of a shorter type": sums((4, 7), (3,), lambda c, t, r: A[c, (t * 128).astype("int8") + r] * K[c, r]),
    "places of a float": sums((4, 7), (3,), lambda c, t, r: A[c, (t * 0.5).astype("int32") + r] * K[c, r]),
    "places that a variable moves": sums((4, 7), (3,), lambda c, t, r: A[c, t + r + te.var("m")] * K[c, r]),
    "a sum that starts at 1": starting_at(1.0),
    "channels of another order": sums((4, 7), (3,), lambda c, t, r: A[3 - c, t + r] * K[c, r]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_are_not_recognised(name: str) -> None:
    assert recognised(OTHERS[name]) is None


def test_a_convolution_that_is_not_recognised_runs_by_rules() -> None:
    op = OTHERS["channels of another order"]
    s = check(op.output(0), [A, K], LLVM, tw.build)
    assert all(step.primitive != "redeclare" for step in s.steps)


def test_wrong_options_of_a_declaration() -> None:
    tensors, _ = of_program(PROGRAMS["a line, stride 2"]())
    s = te.create_schedule(tensors["dW"].op)
    for name in ("topi/conv2d", "topi/weight_gradient.copied"):  # of another computation, and of other layers
        with pytest.raises(UserError, match="is not a convolution"):
            s[tensors["dW"]].redeclare("convolution", [name, 0, "cuda"])
