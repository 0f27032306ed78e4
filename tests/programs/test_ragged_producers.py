"""Tensors that reductions over ranges of values read, computed at every place; and the places that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.programs.harness import build, result
from tilewright import te, tir
from tilewright.core.errors import UserError
from tilewright.runtime.array import array

N, M = 6, 9
LENGTHS = np.array([3, 0, -2, 9, 1, 5], "int32")
A = np.random.default_rng(0).integers(-3, 4, (N, M)).astype("float32")
WANTED = np.array([2 * row[: max(length, 0)].sum() for row, length in zip(A, LENGTHS, strict=True)])


class Program:
    """B[i] = sum of P[i, r] over r < K[i], where P = 2 A and K = L."""

    def __init__(self, symbolic: bool = False) -> None:
        n, m = (te.size_var("n"), te.size_var("m")) if symbolic else (N, M)
        self.A, self.L = te.placeholder((n, m), name="A"), te.placeholder((n,), "int32", "L")
        self.P = te.compute((n, m), lambda i, j: self.A[i, j] * 2, name="P")
        self.K = te.compute((n,), lambda i: self.L[i] + 0, name="K")

        def total(i: Any) -> Any:
            r = te.reduce_axis((0, self.K[i]), "r")
            return te.sum(self.P[i, r], axis=r)

        self.B = te.compute((n,), total, name="B")
        self.s = te.create_schedule(self.B.op)
        self.i, self.r = self.B.op.axis[0], self.B.op.reduce_axis[0]

    def check(self, target: str = "llvm") -> None:
        module = build(self.s, [self.A, self.L, self.B], target)
        np.testing.assert_array_equal(result(module, [A, LENGTHS], (N,), "float32"), WANTED)


def at_a_tile(p: Program) -> None:
    p.s[p.P].compute_at(p.s[p.B], p.s[p.B].split(p.r, factor=4)[0])


def at_a_part(p: Program) -> None:
    p.s[p.P].compute_at(p.s[p.B], p.s[p.B].split(p.r, nparts=2)[0])


def in_a_cache(p: Program) -> None:
    cache = p.s.cache_write(p.B, "local")
    stage = p.s[cache]
    stage.compute_at(p.s[p.B], p.i)
    p.s[p.K].compute_at(stage, stage.op.axis[0])
    p.s[p.P].compute_at(stage, stage.split(stage.op.reduce_axis[0], factor=4)[0])


PLACES: dict[str, Callable[[Program], Any]] = {
    "at the root": lambda p: None,
    "lengths inlined": lambda p: p.s[p.K].compute_inline(),
    "lengths at i": lambda p: p.s[p.K].compute_at(p.s[p.B], p.i),
    "lengths at a tile": lambda p: p.s[p.K].compute_at(p.s[p.B], p.s[p.B].split(p.i, factor=4)[0]),
    "values inlined": lambda p: p.s[p.P].compute_inline(),
    "values at i": lambda p: p.s[p.P].compute_at(p.s[p.B], p.i),
    "values at r": lambda p: p.s[p.P].compute_at(p.s[p.B], p.r),
    "values at a tile": at_a_tile,
    "values at a part": at_a_part,
    "in a cache": in_a_cache,
}


@pytest.mark.parametrize("symbolic", [False, True])
def test_what_a_range_of_values_reads_is_computed_anywhere(symbolic: bool) -> None:
    for place in PLACES.values():
        program = Program(symbolic)
        place(program)
        program.check()


@pytest.mark.parametrize(
    "target", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("opencl", "cuda")]
)
def test_a_tile_in_shared_memory_of_a_range_of_values(target: str) -> None:
    """One block per element: its threads fetch a tile of values at a time, between barriers."""
    p = Program()
    s, stage = p.s, p.s[p.B]
    s[p.K].compute_inline()
    stage.bind(p.i, te.thread_axis("blockIdx.x"))
    outer, inner = stage.split(p.r, factor=4)
    stage.bind(inner, te.thread_axis("threadIdx.x"))
    s[p.P].set_scope("shared")
    s[p.P].compute_at(stage, outer)
    s[p.P].bind(s[p.P].op.axis[1], te.thread_axis("threadIdx.x"))
    p.check(target)


REFUSED: dict[str, tuple[str, Callable[[Program], Any]]] = {
    "lengths inside": ("computed inside of it", lambda p: p.s[p.K].compute_at(p.s[p.B], p.r)),
    "unroll": ("not constant", lambda p: p.s[p.B].unroll(p.r)),
    "bind": ("bound to threadIdx.x", lambda p: p.s[p.B].bind(p.r, te.thread_axis("threadIdx.x"))),
    "reorder": ("depends on 'i'", lambda p: p.s[p.B].reorder(p.r, p.i)),
    "fuse": ("depends on a data axis", lambda p: p.s[p.B].fuse(p.i, p.r)),
    "rfactor": ("depends on a data axis", lambda p: p.s.rfactor(p.B, p.s[p.B].split(p.r, factor=4)[1])),
    "factor": ("read from a tensor", lambda p: p.s[p.B].split(p.i, factor=p.L[0])),
    "nparts": ("read from a tensor", lambda p: p.s[p.B].split(p.i, nparts=p.L[0])),
    "predicate": ("read from a tensor", lambda p: p.s[p.B].set_store_predicate(p.L[0] > 1)),
    "align": ("read from a tensor", lambda p: p.s[p.P].storage_align(p.P.op.axis[0], p.L[0], 0)),
    "threads": ("read from a tensor", lambda p: te.thread_axis((0, p.L[0]), "threadIdx.x")),
    "shape": ("read from a tensor", lambda p: te.compute((p.L[0],), lambda i: p.A[0, i])),
    "input": ("read from a tensor", lambda p: te.placeholder((2, p.L[0]))),
    "buffer": ("read from a tensor", lambda p: tir.decl_buffer((p.L[0],))),
    "strides": ("read from a tensor", lambda p: tir.decl_buffer((4,), strides=[p.L[0]])),
}


def test_places_in_which_no_value_of_a_tensor_can_stand() -> None:
    for message, step in REFUSED.values():
        program = Program()
        with pytest.raises(UserError, match=message):  # noqa: PT012
            step(program)
            build(program.s, [program.A, program.L, program.B], "llvm")


def test_axes_that_depend_on_each_other_are_not_fused() -> None:
    def total(i: Any, n: Any) -> Any:
        p = te.reduce_axis((0, 4), "p")
        q = te.reduce_axis((0, n(p)), "q")
        return te.sum(a[p, q], axis=[p, q])

    a, w = te.placeholder((4, 4), name="a"), te.placeholder((4,), "int32", "w")
    for end in (lambda p: w[p], lambda p: p + 1):
        b = te.compute((2,), lambda i, end=end: total(i, end), name="b")
        s = te.create_schedule(b.op)
        with pytest.raises(UserError, match="depends on"):
            s[b].fuse(*b.op.reduce_axis)


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_elements_are_initialised_if_the_fused_reduction_is_empty(target: str) -> None:
    """A loop over elements and terms together has no iterations then."""
    k, factor = te.var("k"), te.comm_reducer(lambda x, y: x * y, lambda t: te.const(1, t), "prod")
    a = te.placeholder((N, k), name="a")
    r, q = te.reduce_axis((0, k), "r"), te.reduce_axis((0, 0), "q")
    for axis, parts in ((r, 0), (r, 4), (q, 0)):
        b = te.compute((N,), lambda i, axis=axis: factor(a[i, axis], axis=axis), name="b")
        s = te.create_schedule(b.op)
        fused = s[b].fuse(b.op.axis[0], axis)
        if parts:
            s[b].split(fused, factor=parts)
        module = build(s, [a, b], target)
        for length in (0, 3):
            values = np.full((N, length), 2, "float32")
            wanted = 8 if length and axis is r else 1
            np.testing.assert_array_equal(result(module, [values], (N,), "float32"), np.full(N, wanted))


def test_fused_ranges_of_negative_length_are_empty() -> None:
    n, m = te.var("n"), te.var("m")
    a, r, q = te.placeholder((N, M), name="a"), te.reduce_axis((0, n), "r"), te.reduce_axis((0, m), "q")
    b = te.compute((1,), lambda i: te.sum(a[r, q], axis=[r, q]), name="b")
    s = te.create_schedule(b.op)
    s[b].fuse(r, q)
    module = build(s, [a, n, m, b], "llvm")
    for rows, columns in ((2, 3), (-2, 3), (2, -3), (-2, -3), (0, 3)):
        out = array(np.full(1, 7, "float32"))
        module(array(A), rows, columns, out)
        assert out.numpy()[0] == A[: max(rows, 0), : max(columns, 0)].sum()


def test_argmax_of_a_range_of_values() -> None:
    def larger(x: Any, y: Any) -> Any:
        keep = x[1] >= y[1]
        return te.if_then_else(keep, x[0], y[0]), te.if_then_else(keep, x[1], y[1])

    argmax = te.comm_reducer(larger, lambda t0, t1: (te.const(-1, t0), te.min_value(t1)), name="argmax")
    a, n = te.placeholder((N, M), name="a"), te.placeholder((N,), "int32", "n")

    def found(i: Any) -> Any:
        r = te.reduce_axis((0, n[i]), "r")
        return argmax((r.var, a[i, r]), axis=r)

    index, value = te.compute((N,), found, name="b")
    s = te.create_schedule(index.op)
    s[index].split(index.op.reduce_axis[0], factor=4)
    module = build(s, [a, n, index, value], "llvm")
    out = [array(np.full(N, 7, kind)) for kind in ("int32", "float32")]
    module(array(A), array(LENGTHS), *out)
    wanted = [int(row[:k].argmax()) if k > 0 else -1 for row, k in zip(A, LENGTHS, strict=True)]
    np.testing.assert_array_equal(out[0].numpy(), wanted)
