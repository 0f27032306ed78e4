"""rfactor: partial results against NumPy, on the interpreter and every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats, run
from tests.programs.harness import every_target
from tilewright import te, tir

Reduction = Callable[..., Any]


class Rows:
    """B[i] = the reduction of a row of A."""

    def __init__(self, rows: int = 6, columns: int = 100, reduction: Reduction = te.sum, **options: Any) -> None:
        self.A = te.placeholder((rows, columns), name="A")
        self.k = te.reduce_axis((0, columns), "k")
        self.B = te.compute((rows,), lambda i: reduction(self.A[i, self.k], axis=self.k, **options), name="B")
        self.s = te.create_schedule(self.B.op)
        self.values = floats(rows, columns)

    def result(self) -> np.ndarray:
        out = empty(*(int(e.value) for e in self.B.shape))
        run(tw.lower(self.s, [self.A, self.B])["main"], self.values, out)
        return out


def test_a_split_reduction() -> None:
    rows = Rows(columns=96)
    _, inner = rows.s[rows.B].split(rows.k, factor=16)
    partial = rows.s.rfactor(rows.B, inner)
    assert partial.name == "B.rf"
    assert [int(e.value) for e in partial.shape] == [16, 6]
    assert [a.name for a in rows.s[partial].op.axis] == ["k.inner", "i"]
    assert [a.name for a in rows.s[partial].op.reduce_axis] == ["k.outer"]
    assert [a.name for a in rows.s[rows.B].op.reduce_axis] == ["k.inner.v"]
    assert rows.s[rows.B].op.axis == rows.B.op.axis
    np.testing.assert_allclose(rows.result(), rows.values.sum(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("factor_axis", [0, 1, -1, -2])
@pytest.mark.parametrize(("columns", "factor"), [(100, 16), (7, 16), (1, 1), (97, 97)])
def test_uneven_parts_are_guarded(columns: int, factor: int, factor_axis: int) -> None:
    rows = Rows(columns=columns)
    _, inner = rows.s[rows.B].split(rows.k, factor=factor)
    partial = rows.s.rfactor(rows.B, inner, factor_axis)
    assert rows.s[partial].op.axis[factor_axis % 2].name == "k.inner"
    np.testing.assert_allclose(rows.result(), rows.values.sum(1), rtol=1e-4, atol=1e-5)


def test_the_outer_loop_and_the_whole_axis() -> None:
    rows = Rows()
    outer, _ = rows.s[rows.B].split(rows.k, nparts=3)
    rows.s.rfactor(rows.B, outer)
    np.testing.assert_allclose(rows.result(), rows.values.sum(1), rtol=1e-4, atol=1e-5)
    whole = Rows()
    partial = whole.s.rfactor(whole.B, whole.k)
    assert not whole.s[partial].op.reduce_axis
    np.testing.assert_allclose(whole.result(), whole.values.sum(1), rtol=1e-4, atol=1e-5)


def test_a_range_that_does_not_start_at_zero() -> None:
    A = te.placeholder((4, 50), name="A")
    k = te.reduce_axis((10, 47), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    for factored in (False, True):
        s = te.create_schedule(B.op)
        axis = k if factored else s[B].split(k, factor=8)[1]
        s.rfactor(B, axis)
        values, out = floats(4, 50), empty(4)
        run(tw.lower(s, [A, B])["main"], values, out)
        np.testing.assert_allclose(out, values[:, 10:47].sum(1), rtol=1e-4, atol=1e-5)


def test_conditions_and_first_values_stay() -> None:
    A, start = te.placeholder((5, 40), name="A"), te.placeholder((5,), name="start")
    k = te.reduce_axis((0, 40), "k")
    B = te.compute((5,), lambda i: te.sum(A[i, k], axis=k, where=k % 3 == i % 3, init=start[i]), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, factor=7)[1])
    values, first, out = floats(5, 40), floats(5), empty(5)
    run(tw.lower(s, [A, start, B])["main"], values, first, out)
    kept = np.arange(40)[None, :] % 3 == np.arange(5)[:, None] % 3
    np.testing.assert_allclose(out, first + (values * kept).sum(1), rtol=1e-4, atol=1e-5)


def test_two_reduction_axes_fused_and_split() -> None:
    A = te.placeholder((3, 6, 10), name="A")
    y, x = te.reduce_axis((0, 6), "y"), te.reduce_axis((0, 10), "x")
    B = te.compute((3,), lambda i: te.max(A[i, y, x], axis=[y, x]), name="B")
    values = floats(3, 6, 10)
    for choose in (lambda s: s[B].split(s[B].fuse(y, x), factor=8)[1], lambda s: y, lambda s: s[B].split(x, 4)[0]):
        s = te.create_schedule(B.op)
        s.rfactor(B, choose(s))
        out = empty(3)
        run(tw.lower(s, [A, B])["main"], values, out)
        np.testing.assert_array_equal(out, values.max((1, 2)))


def test_several_outputs() -> None:
    index, value = te.placeholder((4, 30), "int32", "index"), te.placeholder((4, 30), name="value")
    k = te.reduce_axis((0, 30), "k")
    argmax = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
        name="argmax",
    )
    T0, T1 = te.compute((4,), lambda i: argmax((index[i, k], value[i, k]), axis=k), name="T")
    s = te.create_schedule(T0.op)
    made = s.rfactor(T0, s[T0].split(k, factor=4)[1])
    assert [t.name for t in made] == ["T.rf.v0", "T.rf.v1"]
    values, numbers = floats(4, 30), np.tile(np.arange(30, dtype="int32"), (4, 1))
    places, largest = np.full(4, 77, "int32"), empty(4)
    run(tw.lower(s, [index, value, T0, T1])["main"], numbers, values, places, largest)
    np.testing.assert_array_equal(places, values.argmax(1))
    np.testing.assert_array_equal(largest, values.max(1))


def test_what_is_computed_inside_moves_along() -> None:
    A = te.placeholder((6, 32), name="A")
    C = te.compute((6, 32), lambda i, j: A[i, j] * 2, name="C")
    k = te.reduce_axis((0, 32), "k")
    B = te.compute((6,), lambda i: te.sum(C[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(k, factor=8)
    s[C].compute_at(s[B], outer)
    partial = s.rfactor(B, inner)
    assert s[C].placement.stage == s[partial].id  # type: ignore[union-attr]
    values, out = floats(6, 32), empty(6)
    run(tw.lower(s, [A, B])["main"], values, out)
    np.testing.assert_allclose(out, values.sum(1) * 2, rtol=1e-4, atol=1e-5)


def test_a_binding_moves_along() -> None:
    rows = Rows(columns=64)
    _, inner = rows.s[rows.B].split(rows.k, factor=16)
    rows.s[rows.B].bind(inner, te.thread_axis("threadIdx.x"))
    partial = rows.s.rfactor(rows.B, inner)
    axis = rows.s[partial].op.axis[0]
    assert rows.s[partial].value.annotation(axis).thread.thread_tag == "threadIdx.x"  # type: ignore[union-attr]


@every_target
def test_on_every_target(target: str) -> None:
    n = te.size_var("n")
    A, k = te.placeholder((n, 200), name="A"), te.reduce_axis((0, 200), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    partial = s.rfactor(B, s[B].split(k, factor=16)[1])
    for tensor, axis in ((partial, s[partial].op.axis[0]), (B, s[B].op.axis[0])):
        if target != "llvm":
            outer, inner = s[tensor].split(axis, factor=8)
            s[tensor].bind(outer, te.thread_axis("blockIdx.x"))
            s[tensor].bind(inner, te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, B], target)
    dev = tw.device(target)
    values = floats(9, 200)
    out = tw.nd.array(np.full(9, np.nan, "float32"), dev)
    f(tw.nd.array(values, dev), out)
    np.testing.assert_allclose(out.numpy(), values.sum(1, dtype="float64"), rtol=1e-4, atol=1e-4)


def test_replay() -> None:
    rows, again = Rows(), Rows()
    rows.s.rfactor(rows.B, rows.s[rows.B].split(rows.k, factor=16)[1], 1)
    again.s.replay([step.to_json() for step in rows.s.steps])
    assert str(tw.lower(rows.s, [rows.A, rows.B])) == str(tw.lower(again.s, [again.A, again.B]))


def test_refused() -> None:
    rows = Rows()
    with refused("rfactor", "axis 'i' of stage 'B' is a data axis", fix="use a reduction axis: k"):
        rows.s.rfactor(rows.B, rows.B.op.axis[0])
    for given in (2, -3, "0", True, 0.0):
        with refused("rfactor", f"factor_axis={given!r} is not a dimension", "which has 2", fix="from -2 to 1"):
            rows.s.rfactor(rows.B, rows.k, given)  # type: ignore[arg-type]
    with refused("rfactor", "'A' is an input", fix="te.compute"):
        rows.s.rfactor(rows.A, rows.k)
    C = te.compute((4,), lambda i: rows.B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    with refused("rfactor", "stage 'C' is not a reduction", fix="te.sum"):
        s.rfactor(C, C.op.axis[0])


def test_a_condition_that_reads_is_asked_inside_the_tensor_only() -> None:
    """The guard of an uneven split comes before a condition that reads the tensor."""
    A, k = te.placeholder((7,), name="A"), te.reduce_axis((0, 7), "k")
    B = te.compute((1,), lambda i: te.sum(A[k], axis=k, where=A[k] > 0.0), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, factor=3)[0])
    values, out = floats(7), empty(1)
    run(tw.lower(s, [A, B])["main"], values, out)
    np.testing.assert_allclose(out, values[values > 0].sum(), rtol=1e-5)


def test_a_stage_at_a_loop_that_ends_moves_and_can_be_placed_again() -> None:
    A = te.placeholder((16, 32), name="A")
    D = te.compute((16, 32), lambda i, k: A[i, k] * 2, name="D")
    k = te.reduce_axis((0, 32), name="k")
    B = te.compute((16,), lambda i: te.sum(D[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    outer, _ = s[B].split(B.op.axis[0], factor=4)
    s[D].compute_at(s[B], outer)
    _, inner = s[B].split(k, factor=8)
    with pytest.warns(UserWarning, match="'D' was computed at 'i.outer', a loop that ends with rfactor"):
        partial = s.rfactor(B, inner)
    values, out = floats(16, 32), np.full(16, 77, "float32")
    for axis in (None, s[partial].op.axis[0]):
        if axis is not None:
            s[D].compute_at(s[partial], axis)
        run(tw.lower(s, [A, B])["main"], values, out)
        np.testing.assert_allclose(out, 2 * values.sum(1), rtol=1e-4, atol=1e-5)


def test_the_axes_of_the_partial_result_are_those_of_the_reduction() -> None:
    n = te.size_var("n")
    k1, k2 = te.reduce_axis((0, n), "k1"), te.reduce_axis((0, n), "k2")
    A = te.placeholder((n, n, n), name="A")
    B = te.compute((n,), lambda i: te.sum(A[i, k1, k2], axis=[k1, k2]), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(k1, factor=4)
    partial = s.rfactor(B, inner)
    whole, part = partial.op.body[0].axis
    assert whole is k2
    assert part.var is outer.var
    loops = [axis.name for axis in s[partial].leaf_iter_vars]
    assert loops == ["k1.inner", "i", "k1.outer", "k2"]  # in the order that the loops had


ODD: dict[str, tuple[Any, Any, str]] = {
    "starts at 1": (lambda x, y: x + y, lambda t: te.const(1, t), "starts at 1, which would count several times"),
    "subtracts": (lambda x, y: x - y, lambda t: te.const(0, t), "not commutative: 2 and 3 give -1"),
    "halves": (lambda x, y: (x + y) * 0.5, lambda t: te.const(0, t), "not associative: of 2, 3, 5"),
}


@pytest.mark.parametrize("name", ODD)
def test_a_reducer_whose_parts_are_not_the_whole(name: str) -> None:
    """Parts are refused; a single loop computes as declared, also by an automatic schedule."""
    combine, start, message = ODD[name]
    odd = te.comm_reducer(combine, start, name="odd")
    rows = Rows(columns=64, reduction=odd)
    with refused("rfactor", "'B' would be computed in parts", message, fix="fidentity" if "starts" in name else "give"):
        rows.s.rfactor(rows.B, rows.k)
    bound = Rows(columns=64, reduction=odd)
    bound.s[bound.B].bind(bound.k, te.thread_axis("threadIdx.x"))
    with refused("bind", message):
        tw.lower(bound.s, [bound.A, bound.B])
    expected = np.full(6, start("float32").value, "float64")
    for column in rows.values.astype("float64").T:
        expected = combine(expected, column)
    rows.s = tw.auto_schedule([rows.B], "cuda -arch=sm_90")
    np.testing.assert_allclose(rows.result(), expected, rtol=1e-4)


def test_reducers_whose_start_counts_once() -> None:
    """The largest of values and 0; and a pair whose first values are -infinity, the difference of which is NaN."""

    def joined(x: Any, y: Any) -> tuple[Any, Any]:
        most = te.max(x[0], y[0])
        return most, x[1] * te.exp(x[0] - most) + y[1] * te.exp(y[0] - most)

    pair = te.comm_reducer(joined, lambda a, b: (te.const(float("-inf"), a), te.const(0, b)))
    A, k = te.placeholder((4, 64), name="A"), te.reduce_axis((0, 64), "k")
    B, _ = te.compute((4,), lambda i: pair((A[i, k], te.const(1.0)), axis=k), name="B")
    te.create_schedule(B.op).rfactor(B, k)
    positive = te.comm_reducer(lambda x, y: te.max(x, y), lambda t: te.const(0, t))
    rows = Rows(reduction=positive)
    rows.s.rfactor(rows.B, rows.k)
    np.testing.assert_allclose(rows.result(), np.maximum(rows.values.max(1), 0))
