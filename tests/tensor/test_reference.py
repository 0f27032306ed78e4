"""The NumPy reference against NumPy's own functions, and against sums written out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.tensor import reference_graph as module
from tilewright.tensor.reference import reference

RNG = np.random.default_rng(7)


def conv1d(M: int, N: int) -> tuple[Any, Any, Any]:
    A, W = te.placeholder((M,), name="A"), te.placeholder((N,), name="W")
    r = te.reduce_axis((0, N), "r")

    def term(i: Any) -> Any:
        inside = tir.all(i - r >= 0, i - r < M)
        return te.sum(tir.if_then_else(inside, A[i - r], tir.const(0, "float32")) * W[r], axis=r)

    return A, W, te.compute((M + N - 1,), term, "B")


@pytest.mark.parametrize(("M", "N"), [(1, 1), (13, 5), (3, 11), (16384, 32)])
def test_a_convolution(M: int, N: int) -> None:
    A, W, B = conv1d(M, N)
    a, w = RNG.standard_normal(M).astype("float32"), RNG.standard_normal(N).astype("float32")
    (found,) = reference([B], {A: a, W: w})
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, np.convolve(a.astype("float64"), w.astype("float64")), rtol=1e-12, atol=1e-12)


def test_a_chain_of_stages_over_several_dimensions() -> None:
    X, K = te.placeholder((2, 3, 5), name="X"), te.placeholder((5, 4), name="K")
    k = te.reduce_axis((0, 5), "k")
    doubled = te.compute((2, 3, 5), lambda i, j, k: X[i, j, k] * 2 + i, "doubled")
    product = te.compute((2, 3, 4), lambda i, j, m: te.sum(doubled[i, j, k] * K[k, m], axis=k), "product")
    flipped = te.compute((4, 3, 2), lambda m, j, i: te.exp(product[1 - i, j, m]), "flipped")
    x, y = RNG.standard_normal((2, 3, 5)), RNG.standard_normal((5, 4))
    first, last = reference([product, flipped], {X: x, K: y})
    expected = (x * 2 + np.arange(2)[:, None, None]) @ y
    np.testing.assert_allclose(first, expected)
    np.testing.assert_allclose(last, np.exp(expected[::-1].transpose(2, 1, 0)))


def test_floats_are_computed_in_the_asked_type() -> None:
    A = te.placeholder((1000,), "float16", "A")
    k = te.reduce_axis((0, 1000), "k")
    B = te.compute((), lambda: te.sum(A[k] * A[k], axis=k), "B")
    a = np.full(1000, 0.1)
    np.testing.assert_allclose(reference(B, {A: a})[0], 10.0, rtol=1e-12)
    (single,) = reference(B, {A: a}, dtype="float32")
    assert single.dtype == np.float32


def test_tensors_of_no_dimension() -> None:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() * 3.0 + 1.0, "B")
    C = te.compute((4,), lambda i: B() + i.astype("float32"), "C")
    b, c = reference([B, C], {A: 2})
    assert b.shape == ()
    assert b == 7
    np.testing.assert_array_equal(c, [7, 8, 9, 10])


def test_several_outputs() -> None:
    A = te.placeholder((5,), name="A")
    low, high = te.compute((5,), lambda i: (A[i] - 1.0, A[i] + 1.0), "both")
    found = reference([high, low], {A: np.arange(5)})
    np.testing.assert_array_equal(found, [np.arange(5) + 1, np.arange(5) - 1])


def argmax(*, last: bool) -> Any:
    """The first place of the largest value; with `last` the last one."""

    def better(x: Any, y: Any) -> Any:
        return x[1] > y[1] if last else x[1] >= y[1]

    return te.comm_reducer(
        lambda x, y: (tir.Select(better(x, y), x[0], y[0]), tir.Select(better(x, y), x[1], y[1])),
        lambda i, v: (tir.const(-1, i), te.min_value(v)),
        name="argmax",
    )


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("at_once", [1, 4, 1 << 20])
def test_a_reduction_of_pairs_keeps_the_order(last: bool, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ties show in which order values are combined."""
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    P, A = te.placeholder((3, 23), "int32", "P"), te.placeholder((3, 23), name="A")
    k = te.reduce_axis((0, 23), "k")
    where, value = te.compute((3,), lambda i: argmax(last=last)((P[i, k], A[i, k]), axis=k), "T")
    a = RNG.integers(0, 4, (3, 23))
    found, largest = reference([where, value], {P: np.tile(np.arange(23), (3, 1)), A: a})
    np.testing.assert_array_equal(largest, a.max(axis=1))
    np.testing.assert_array_equal(found, 22 - a[:, ::-1].argmax(axis=1) if last else a.argmax(axis=1))
    assert found.dtype == np.int32


@pytest.mark.parametrize("at_once", [1, 10, 1 << 20])
def test_large_reductions_are_taken_in_parts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AT_ONCE", at_once)
    A = te.placeholder((4, 7, 3), name="A")
    y, x = te.reduce_axis((2, 7), "y"), te.reduce_axis((0, 3), "x")
    B = te.compute((4,), lambda i: te.sum(A[i, y, x] * (y + x), axis=[y, x]), "B")
    a = RNG.standard_normal((4, 7, 3))
    weight = np.arange(7)[:, None] + np.arange(3)
    np.testing.assert_allclose(reference(B, {A: a})[0], (a * weight)[:, 2:].sum(axis=(1, 2)))


def test_where_and_init_of_a_reduction() -> None:
    A = te.placeholder((3, 6), name="A")
    k = te.reduce_axis((0, 6), "k")
    even = te.compute((3,), lambda i: te.max(A[i, k], axis=k, where=(k % 2).equal(0)), "even")
    started = te.compute((3,), lambda i: te.sum(A[i, k], axis=k, init=i.astype("float32") * 10.0), "started")
    nothing = te.compute((3,), lambda i: te.min(A[i, k], axis=k, where=k > 9), "nothing")
    a = RNG.standard_normal((3, 6))
    found = reference([even, started, nothing], {A: a})
    np.testing.assert_allclose(found[0], a[:, ::2].max(axis=1))
    np.testing.assert_allclose(found[1], a.sum(axis=1) + np.array([0, 10, 20]))
    np.testing.assert_array_equal(found[2], [np.inf] * 3)


def test_a_reduction_over_nothing_is_the_identity() -> None:
    A = te.placeholder((3, 0), name="A")
    k = te.reduce_axis((0, 0), "k")
    total = te.compute((3,), lambda i: te.sum(A[i, k], axis=k), "total")
    least = te.compute((3,), lambda i: te.min(A[i, k], axis=k), "least")
    found = reference([total, least], {A: np.zeros((3, 0))})
    np.testing.assert_array_equal(found, [[0] * 3, [np.inf] * 3])


def test_integers_keep_their_type_and_wrap() -> None:
    A = te.placeholder((4,), "int8", "A")
    B = te.compute((4,), lambda i: A[i] + A[i], "B")
    found = reference(B, {A: np.array([1, 100, -100, -128])})[0]
    assert found.dtype == np.int8
    np.testing.assert_array_equal(found, [2, -56, 56, 0])


def test_both_ways_to_divide_integers() -> None:
    A = te.placeholder((6,), "int32", "A")
    ways = [tir.floordiv, tir.floormod, tir.truncdiv, tir.truncmod]

    def divided(f: Any) -> Any:
        return te.compute((6,), lambda i: f(A[i], -3), "B")

    found = [divided(f) for f in ways]
    values = np.array([-7, -3, -1, 0, 5, 9])
    expected = [values // -3, values % -3, np.trunc(values / -3), np.fmod(values, -3)]
    np.testing.assert_array_equal(reference(found, {A: values}), expected)


def test_conversions() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i].astype("int32"), "B")
    C = te.compute((4,), lambda i: (A[i] > 0.0).astype("int32"), "C")
    b, c = reference([B, C], {A: [-1.9, 0.0, 1.9, 2.5]})
    np.testing.assert_array_equal(b, [-1, 0, 1, 2])
    np.testing.assert_array_equal(c, [0, 0, 1, 1])


def test_a_float_beyond_an_integer_type_becomes_the_nearest_of_it() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i].astype("int8"), "B")
    np.testing.assert_array_equal(reference(B, {A: [300.0, -1e30, np.inf, np.nan]})[0], [127, -128, 127, 0])


def test_functions() -> None:
    a = np.array([0.3, 0.5, 2.5, 3.5])
    pairs = {
        "sigmoid": 1 / (1 + np.exp(-a)),
        "rsqrt": a**-0.5,
        "round": [0, 1, 3, 4],
        "nearbyint": [0, 0, 2, 4],
        "erf": [0.3286267594591274, 0.5204998778130465, 0.9995930479825550, 0.9999992569016276],
        "atan": np.arctan(a),
        "power": a**2.0,
    }
    A = te.placeholder((4,), name="A")

    def applied(name: str) -> Any:
        extra = (2.0,) if name == "power" else ()
        return te.compute((4,), lambda i: getattr(te, name)(A[i], *extra), name)

    for name, expected in pairs.items():
        np.testing.assert_allclose(reference(applied(name), {A: a})[0], expected, rtol=1e-12, err_msg=name)


def test_bits() -> None:
    A = te.placeholder((4,), "int32", "A")
    B = te.compute((4,), lambda i: tir.popcount(A[i]) + tir.clz(A[i]) * 100 + ((A[i] >> 1) & 3) * 10000, "B")
    values = np.array([0, 1, 6, -1])
    assert reference(B, {A: values})[0].tolist() == [3200, 3101, 2902 + 30000, 32 + 30000]


def test_only_the_branch_that_is_taken_is_evaluated() -> None:
    A, D = te.placeholder((4,), name="A"), te.placeholder((6,), "int32", "D")
    B = te.compute((6,), lambda i: tir.if_then_else(tir.all(i >= 1, A[i - 1] > 0.0, i < 5), A[i - 1], 0.0), "B")
    with pytest.raises(UserError, match=r"reads element \[4\] of 'A', which has shape \[4\]"):
        reference(B, {A: np.ones(4)})
    C = te.compute((6,), lambda i: tir.if_then_else(tir.all(i >= 1, i < 5, A[i - 1] > 0.0), A[i - 1], -1.0), "C")
    np.testing.assert_array_equal(reference(C, {A: [1, -2, 3, 4]})[0], [-1, 1, -1, 3, 4, -1])
    E = te.compute((6,), lambda i: tir.if_then_else(D[i].equal(0), 7, 12 // D[i]), "E")
    np.testing.assert_array_equal(reference(E, {D: [0, 1, 2, 0, 5, -5]})[0], [7, 12, 6, 7, 2, -3])
    with pytest.raises(UserError, match="divides by zero"):
        reference(te.compute((6,), lambda i: 12 // D[i], "F"), {D: np.zeros(6)})


def test_sizes_come_from_the_inputs() -> None:
    n, m = te.size_var("n"), te.var("m")
    A = te.placeholder((n,), name="A")
    B = te.compute((n - 2,), lambda i: A[i] + A[i + 2] * m, "B")
    a = np.arange(5.0)
    np.testing.assert_array_equal(reference(B, {A: a, m: 3})[0], a[:3] + a[2:] * 3)
    with pytest.raises(UserError, match="no value is given for the variable 'm'"):
        reference(B, {A: a})


def test_inputs_are_checked() -> None:
    A = te.placeholder((3, 4), name="A")
    B = te.compute((3,), lambda i: A[i, 0], "B")
    with pytest.raises(UserError, match=r"no value is given for the input 'A'"):
        reference(B, {})
    with pytest.raises(UserError, match=r"'A' has shape \[4, 3\], but the tensor has \[3, 4\]"):
        reference(B, {A: np.zeros((4, 3))})


def test_a_value_that_is_shared_under_conditions_is_computed_once() -> None:
    """Each of 300 levels uses the one below three times, under different conditions."""
    A = te.placeholder((8,), name="A")

    def body(i: Any) -> Any:
        value = A[i]
        for k in range(300):
            value = te.if_then_else(value > float(k), value - 1.0, value * 2.0 + 1.0)
        return value

    a = np.arange(8.0)
    expected = a
    for k in range(300):
        expected = np.where(expected > k, expected - 1.0, expected * 2.0 + 1.0)
    np.testing.assert_array_equal(reference(te.compute((8,), body, "B"), {A: a})[0], expected)


def test_a_shared_read_is_a_fault_only_where_it_is_evaluated() -> None:
    A, n = te.placeholder((4,), name="A"), te.var("n")

    def body(i: Any) -> Any:
        shared = A[i + 1]
        return te.if_then_else(i < n, shared, te.if_then_else(i < 2, shared * 2.0, 0.0))

    B = te.compute((4,), body, "B")
    a = np.arange(4.0)
    assert reference(B, {A: a, n: 3})[0].tolist() == [1, 2, 3, 0]
    with pytest.raises(UserError, match=r"reads element \[4\] of 'A'"):
        reference(B, {A: a, n: 4})


def test_a_scan_of_two_states() -> None:
    X, p, q = (te.placeholder((6, 3), name=name) for name in "Xpq")
    first = te.compute((2, 3), lambda t, i: X[t, i], name="first")
    start = te.compute((2, 3), lambda t, i: X[t, i] * 2, name="start")
    cell = te.compute((6, 3), lambda t, i: p[t - 1, i] + p[t - 2, i], name="cell")
    step = te.compute((6, 3), lambda t, i: cell[t, i] * 0.5, name="step")
    other = te.compute((6, 3), lambda t, i: te.max(q[t - 1, i], X[t, i]) + step[t, i], name="other")
    P, Q = te.scan([first, start], [step, other], [p, q], inputs=[X])
    x = np.random.default_rng(1).standard_normal((6, 3))
    want_p, want_q = x.copy(), x * 2
    for t in range(2, 6):
        want_p[t] = (want_p[t - 1] + want_p[t - 2]) * 0.5
        want_q[t] = np.maximum(want_q[t - 1], x[t]) + want_p[t]
    got_p, got_q = reference([P, Q], {X: x})
    np.testing.assert_allclose(got_p, want_p)
    np.testing.assert_allclose(got_q, want_q)


@pytest.mark.parametrize("name", ["a sum from 1 on", "differences"])
def test_reducers_whose_parts_are_not_the_whole(name: str) -> None:
    """Terms are combined one by one, without the terms that a condition leaves out."""
    combine, start = {"a sum from 1 on": (lambda x, y: x + y, 1.0), "differences": (lambda x, y: x - y, 0.0)}[name]
    odd = te.comm_reducer(combine, lambda t: te.const(start, t), name="odd")
    A, k = te.placeholder((6, 10), "float64", "A"), te.reduce_axis((0, 10), "k")
    a = RNG.standard_normal((6, 10))
    (found,) = reference(te.compute((6,), lambda i: odd(A[i, k], axis=k, where=k < 7), "B"), {A: a})
    wanted = a[:, :7].sum(1)
    np.testing.assert_allclose(found, start + wanted if start else -wanted, rtol=1e-12)


def test_a_large_sum_of_products_from_1_on() -> None:
    odd = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(1.0, t), name="odd")
    A, B, k = te.placeholder((512, 32), name="A"), te.placeholder((32, 256), name="B"), te.reduce_axis((0, 32), "k")
    C = te.compute((512, 256), lambda i, j: odd(A[i, k] * B[k, j], axis=k), "C")
    a, b = RNG.standard_normal((512, 32)), RNG.standard_normal((32, 256))
    np.testing.assert_allclose(reference(C, {A: a, B: b})[0], a @ b + 1, rtol=1e-9, atol=1e-9)
