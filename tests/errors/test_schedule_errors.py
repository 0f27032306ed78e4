"""Wrong uses of the schedule's primitives: one test a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import intrin, te


class Example:
    """C = A @ B plus an element-wise D of it, as two stages."""

    def __init__(self) -> None:
        self.A, self.B = te.placeholder((16, 24), name="A"), te.placeholder((24, 12), name="B")
        self.k = te.reduce_axis((0, 24), "k")
        self.C = te.compute((16, 12), lambda i, j: te.sum(self.A[i, self.k] * self.B[self.k, j], axis=self.k), "C")
        self.D = te.compute((16, 12), lambda x, y: self.C[x, y] * 2.0, "D")
        self.s = te.create_schedule(self.D.op)


@pytest.fixture
def e() -> Example:
    return Example()


def other() -> Any:
    """A tensor of another schedule."""
    A = te.placeholder((4,), name="other_A")
    return te.compute((4,), lambda z: A[z] + 1.0, name="other")


# Stages and axes.


def test_a_tensor_of_another_schedule(e: Example) -> None:
    T = other()
    with refused("s[...]", "tensor 'other' is not part of this schedule", "A, B, C, D", fix="an output that depends"):
        e.s[T]


def test_something_that_is_no_tensor(e: Example) -> None:
    with refused("s[...]", "'C' is not a tensor", fix="a tensor or an operation of this schedule"):
        e.s["C"]


def test_an_axis_of_another_stage(e: Example) -> None:
    with refused("split", "axis 'x' is not an axis of stage 'C', which has the loops i, j, k", fix="s[T].op.axis"):
        e.s[e.C].split(e.D.op.axis[0], factor=4)


def test_an_axis_that_is_no_longer_a_loop(e: Example) -> None:
    e.s[e.C].split(e.C.op.axis[0], factor=4)
    with refused("bind", "axis 'i' of stage 'C' is no longer a loop: it became i.outer, i.inner", fix="j, k"):
        e.s[e.C].bind(e.C.op.axis[0], te.thread_axis("threadIdx.x"))


def test_something_that_is_no_axis(e: Example) -> None:
    with refused("split", "argument 'parent' for stage 'C' is 3, not an axis", fix="the loops of 'C': i, j, k"):
        e.s[e.C].split(3, factor=4)  # type: ignore[arg-type]


KINDS: list[tuple[Callable[[Example], Any], str, str, str]] = [
    (lambda e: e.s[e.C].reorder(e.k, e.A), "reorder", "is Tensor(shape=[16, 24]", "loops of 'C': i, j, k"),
    (lambda e: e.s[e.C].reorder([e.k]), "reorder", "is [IterVar(k", "one by one (*axes)"),
    (lambda e: e.s[e.C].split(e.C.op.axis, 4), "split", "not an axis", "one by one (*axes)"),
    (lambda e: e.s[e.C].bind(None, te.thread_axis("threadIdx.x")), "bind", "is None, not an axis", "i, j, k"),
    (lambda e: e.s[e.C].compute_at(e.s[e.D], None), "compute_at", "for stage 'D' is None", "x, y"),
    (lambda e: e.s[e.C].compute_at(3, e.D.op.axis[0]), "compute_at", "3 is not a tensor", "of this schedule"),
    (lambda e: e.s[(f := Example()).s[f.C]], "s[...]", "Stage(C: i, j, k) is a stage of another schedule", "s[T]"),
    (lambda e: e.s.cache_write([], "local"), "cache_write", "no tensor is given", "one stage"),
    (lambda e: e.s.cache_read(e.A, "shared", None), "cache_read", "None is not a tensor", "of this schedule"),
    (lambda e: e.s[e.C].pragma(e.k, "auto_unroll_max_step", -1), "pragma", "has the value -1", "whole number"),
    (lambda e: e.s.apply("splt"), "apply", "there is no primitive 'splt'", "split, fuse"),
    (lambda e: e.s.replay(3), "replay", "the steps are 3", "s.steps"),
    (lambda e: e.s.replay([3]), "replay", "step 1 is the unknown 3", "split, fuse"),
    (lambda e: e.s.replay([["split", {"stage": 2}]]), "replay", "step 1, split of [{'stage': 2}]", "the same tensors"),
    (lambda e: e.s.replay([["split", {"x": 1}]]), "replay", "{'x': 1} cannot be replayed", "as s.steps records them"),
]


@pytest.mark.parametrize("row", KINDS, ids=lambda row: row[2][:40])
def test_an_argument_of_the_wrong_kind(e: Example, row: tuple[Callable[[Example], Any], str, str, str]) -> None:
    attempt, primitive, says, fix = row
    with refused(primitive, says, fix=fix):
        attempt(e)


def test_an_input_has_no_loops(e: Example) -> None:
    with refused("split", "'A' is an input, so it has no loops", fix="s.cache_read"):
        e.s[e.A].split(e.C.op.axis[0], factor=4)


def test_an_inlined_stage_has_no_loops(e: Example) -> None:
    E = te.compute((16, 12), lambda x, y: e.D[x, y] + 1.0, "E")
    s = te.create_schedule(E.op)
    s[e.D].compute_inline()
    with refused("compute_at", "stage 'D' is inlined into its readers", fix="drop its compute_inline"):
        s[e.C].compute_at(s[e.D], e.D.op.axis[0])


def test_a_schedule_of_nothing() -> None:
    with refused("create_schedule", "needs at least one operation", fix="B.op"):
        te.create_schedule([])


def test_a_schedule_of_no_operation() -> None:
    with refused("create_schedule", "42 is neither an operation nor a tensor", fix="B.op"):
        te.create_schedule(42)


# split, tile.


@pytest.mark.parametrize("factor", [0, -4])
def test_split_by_a_factor_out_of_range(e: Example, factor: int) -> None:
    with refused("split", f"factor={factor} for axis 'x' of stage 'D' is below 1", fix=">= 1"):
        e.s[e.D].split(e.D.op.axis[0], factor=factor)


def test_split_by_nparts_out_of_range(e: Example) -> None:
    with refused("split", "nparts=0 for axis 'x' of stage 'D' is below 1", fix=">= 1"):
        e.s[e.D].split(e.D.op.axis[0], nparts=0)


@pytest.mark.parametrize("factor", [2.5, "4", True])
def test_split_by_what_is_no_whole_number(e: Example, factor: Any) -> None:
    with refused("split", f"factor={factor!r} for axis 'x' of stage 'D' is not a whole number", fix="int"):
        e.s[e.D].split(e.D.op.axis[0], factor=factor)


def test_split_without_a_factor(e: Example) -> None:
    with refused(
        "split", "neither factor nor nparts is given for axis 'x' of stage 'D'", fix="factor= (the inner extent)"
    ):
        e.s[e.D].split(e.D.op.axis[0])


def test_split_by_both(e: Example) -> None:
    with refused("split", "both factor=4 and nparts=2 are given for axis 'x' of stage 'D'", fix="nparts= (the outer"):
        e.s[e.D].split(e.D.op.axis[0], factor=4, nparts=2)


def test_tile_by_a_factor_out_of_range(e: Example) -> None:
    with refused("split", "factor=0 for axis 'y' of stage 'D' is below 1"):
        e.s[e.D].tile(*e.D.op.axis, 4, 0)


# fuse, reorder.


def test_fuse_of_loops_that_are_no_neighbours(e: Example) -> None:
    with refused("fuse", "the loops 'i' and 'k' of stage 'C' are not neighbours in (i, j, k)", fix="reorder first"):
        e.s[e.C].fuse(e.C.op.axis[0], e.k)


def test_a_loop_of_data_and_reduction_is_not_bound(e: Example) -> None:
    mixed = e.s[e.C].fuse(e.C.op.axis[1], e.k)
    with refused(
        "bind", "'j.k.fused' of stage 'C' is fused from data axes and reduction axes", fix="data axes with data axes"
    ):
        e.s[e.C].bind(mixed, te.thread_axis("threadIdx.x"))


def test_a_loop_of_data_and_reduction_is_not_factored(e: Example) -> None:
    mixed = e.s[e.C].fuse(e.C.op.axis[1], e.k)
    with refused(
        "rfactor", "'j.k.fused' of stage 'C' is fused from data axes and reduction axes", fix="data axes with data axes"
    ):
        e.s.rfactor(e.C, mixed)


def test_a_loop_of_data_and_reduction_among_threads_that_combine_results(e: Example) -> None:
    outer, inner = e.s[e.C].split(e.k, factor=4)
    e.s[e.C].reorder(outer, e.C.op.axis[1], inner)
    e.s[e.C].bind(outer, te.thread_axis("threadIdx.x"))
    e.s[e.C].fuse(e.C.op.axis[1], inner)
    with refused(
        "bind", "its loop 'j.k.inner.fused' is fused from data axes and reduction axes", fix="data axes with data axes"
    ):
        tilewright.lower(e.s, [e.A, e.B, e.D])


def test_loops_of_a_tensorized_stage_are_not_fused_from_data_and_reduction(e: Example) -> None:
    e.s[e.C].tensorize(e.C.op.axis[0], intrin.mma("tf32"))
    with refused(
        "fuse", "stage 'C' is tensorized, and 'j' is a data-parallel axis, 'k' a reduction axis", fix="data axes"
    ):
        e.s[e.C].fuse(e.C.op.axis[1], e.k)


def test_tensorized_loops_are_not_fused_from_data_and_reduction(e: Example) -> None:
    mixed = e.s[e.C].fuse(e.C.op.axis[1], e.k)
    with refused("tensorize", "is fused from data axes and reduction axes", fix="data axes with data axes"):
        e.s[e.C].tensorize(mixed, intrin.mma("float16"))


def test_fuse_of_a_loop_with_itself(e: Example) -> None:
    x, _ = e.D.op.axis
    with refused("fuse", "axis 'x' of stage 'D' is given twice in (x, x)", fix="once"):
        e.s[e.D].fuse(x, x)


def test_reorder_across_stages(e: Example) -> None:
    with refused("reorder", "axis 'x' is not an axis of stage 'C'", "i, j, k"):
        e.s[e.C].reorder(e.C.op.axis[1], e.D.op.axis[0])


def test_reorder_of_one_loop_twice(e: Example) -> None:
    i, j = e.C.op.axis
    with refused("reorder", "axis 'i' of stage 'C' is given twice in (i, j, i)", fix="once"):
        e.s[e.C].reorder(i, j, i)


# bind.


def test_bind_to_something_that_is_no_thread_axis(e: Example) -> None:
    with refused(
        "bind",
        "axis 'i' of stage 'C' cannot be bound to axis 'j', which is not a thread axis",
        fix='te.thread_axis("blockIdx.x")',
    ):
        e.s[e.C].bind(*e.C.op.axis)


def test_bind_to_a_name(e: Example) -> None:
    with refused(
        "bind", "axis 'i' of stage 'C' cannot be bound to 'threadIdx.x', which is not a thread", fix="te.thread_axis("
    ):
        e.s[e.C].bind(e.C.op.axis[0], "threadIdx.x")  # type: ignore[arg-type]


def test_bind_of_two_loops_to_one_tag(e: Example) -> None:
    i, j = e.C.op.axis
    e.s[e.C].bind(i, te.thread_axis("threadIdx.x"))
    with refused("bind", "axes 'i' and 'j' of stage 'C' would both be threadIdx.x", fix="or fuse the two loops"):
        e.s[e.C].bind(j, te.thread_axis("threadIdx.x"))


@pytest.mark.parametrize("tag", ["blockIdx.x", "vthread"])
def test_bind_of_a_reduction_axis_to_what_cannot_combine(e: Example, tag: str) -> None:
    says = f"axis 'k' of stage 'C' is a reduction axis, and {tag} cannot combine results"
    with refused("bind", says, fix="s.rfactor(C, k)"):
        e.s[e.C].bind(e.k, te.thread_axis(tag))


def test_a_data_loop_inside_what_threads_combine(e: Example) -> None:
    i, j = e.C.op.axis
    outer, inner = e.s[e.C].split(e.k, factor=4)
    e.s[e.C].bind(inner, te.thread_axis("threadIdx.x"))
    e.s[e.C].bind(i, te.thread_axis("blockIdx.x"))
    e.s[e.C].reorder(outer, inner, j)
    with refused("bind", "its data loop 'j' is inside the reduction loop 'k.outer'", fix="s[C].reorder(j, k.outer)"):
        tilewright.lower(e.s, [e.A, e.B, e.D, e.C])


def test_a_vectorized_loop_around_what_threads_combine(e: Example) -> None:
    i, j = e.C.op.axis
    e.s[e.C].bind(e.k, te.thread_axis("threadIdx.x"))
    e.s[e.C].bind(i, te.thread_axis("blockIdx.x"))
    e.s[e.C].vectorize(e.s[e.C].split(j, factor=4)[1])
    with refused(
        "vectorize", "combine results one by one, but its loop 'j.inner' is vectorized", fix="unroll 'j.inner'"
    ):
        tilewright.lower(e.s, [e.A, e.B, e.D, e.C])


def test_threads_that_combine_in_a_block_of_unknown_size() -> None:
    n = te.size_var("n")
    A, k = te.placeholder((8, n), name="A"), te.reduce_axis((0, n), "k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    with refused("bind", "its extent `n` of threadIdx.x is not constant", fix="split the bound axes"):
        tilewright.build(s, [A, B], "cuda")


@pytest.mark.parametrize("given", [3, None, "threadIdx.x == 0", te.var("n")])
def test_a_store_predicate_that_is_not_a_condition(e: Example, given: Any) -> None:
    with refused("set_store_predicate", "for stage 'C' is", "which is not a condition", fix="tx.var.equal(0)"):
        e.s[e.C].set_store_predicate(given)


def test_an_unknown_thread_tag() -> None:
    with refused("thread_axis", "unknown thread tag 'threadidx.x'", fix="threadIdx.x"):
        te.thread_axis("threadidx.x")


def test_a_thread_axis_without_a_tag() -> None:
    with refused("thread_axis", "unknown thread tag ''", fix="blockIdx.x"):
        te.thread_axis((0, 64))


# unroll, vectorize, parallel, pragma.


def test_vectorize_of_a_reduction(e: Example) -> None:
    with refused("vectorize", "axis 'k' of stage 'C' is a reduction axis", "depend on each other", fix="(i, j)"):
        e.s[e.C].vectorize(e.k)


def test_parallel_of_a_reduction(e: Example) -> None:
    with refused("parallel", "axis 'k' of stage 'C' is a reduction axis", fix="(i, j)"):
        e.s[e.C].parallel(e.k)


def test_an_unknown_pragma(e: Example) -> None:
    with refused("pragma", "unknown pragma 3 for axis 'i' of stage 'C'", fix="auto_unroll_max_step"):
        e.s[e.C].pragma(e.C.op.axis[0], 3, 16)


def test_a_pragma_without_its_number(e: Example) -> None:
    with refused("pragma", "'auto_unroll_max_step' has the value None for axis 'i' of stage 'C'", fix="a whole number"):
        e.s[e.C].pragma(e.C.op.axis[0], "auto_unroll_max_step")


# compute_at, compute_inline, set_scope.


def test_compute_at_a_stage_that_does_not_read_it(e: Example) -> None:
    F = te.compute((16, 12), lambda p, q: e.A[p, q] + 1.0, "F")
    s = te.create_schedule([e.D.op, F.op])
    with refused("compute_at", "stage 'F' does not read 'C'", fix="compute 'C' at a stage that reads it: D"):
        s[e.C].compute_at(s[F], F.op.axis[0])


def test_compute_at_of_an_output(e: Example) -> None:
    with refused("compute_at", "stage 'D' is an output", "cannot be computed inside another stage", fix="C"):
        e.s[e.D].compute_at(e.s[e.C], e.C.op.axis[0])


def test_compute_at_an_axis_of_another_stage(e: Example) -> None:
    with refused("compute_at", "axis 'i' is not an axis of stage 'D', which has the loops x, y"):
        e.s[e.C].compute_at(e.s[e.D], e.C.op.axis[0])


def test_compute_at_an_input(e: Example) -> None:
    with refused("compute_at", "'A' is an input, so it has no loops"):
        e.s[e.C].compute_at(e.s[e.A], e.D.op.axis[0])


def test_compute_inline_of_a_reduction(e: Example) -> None:
    with refused("compute_inline", "stage 'C' is a reduction", fix="s[C].compute_at(reader, axis)"):
        e.s[e.C].compute_inline()


def test_compute_inline_of_an_output(e: Example) -> None:
    with refused("compute_inline", "stage 'D' is an output", "has to be stored", fix="C"):
        e.s[e.D].compute_inline()


def test_compute_inline_of_an_input(e: Example) -> None:
    with refused("compute_inline", "'A' is an input", fix="s.cache_read"):
        e.s[e.A].compute_inline()


def test_an_unknown_scope(e: Example) -> None:
    with refused("set_scope", "unknown memory scope 'register' for 'C'", fix="'local'"):
        e.s[e.C].set_scope("register")


# cache_read, cache_write.


def test_cache_read_by_a_stage_that_does_not_read_the_tensor(e: Example) -> None:
    with refused("cache_read", "stage 'D' does not read 'A'; it reads C", fix="cache_write"):
        e.s.cache_read(e.A, "shared", [e.D])


def test_cache_read_by_nobody(e: Example) -> None:
    with refused("cache_read", "no reader of 'A' is given", fix="C"):
        e.s.cache_read(e.A, "shared", [])


def test_cache_read_into_an_unknown_scope(e: Example) -> None:
    with refused("cache_read", "unknown memory scope 'smem' for 'A'", fix="'shared'"):
        e.s.cache_read(e.A, "smem", [e.C])


def test_cache_read_of_a_tensor_of_another_schedule(e: Example) -> None:
    T = other()
    with refused("cache_read", "tensor 'other' is not part of this schedule"):
        e.s.cache_read(T, "shared", [e.C])


def test_cache_write_after_splitting_the_reduction(e: Example) -> None:
    e.s[e.C].split(e.k, factor=4)
    with refused("cache_write", "reduction axes k of stage 'C' are split already", fix="call cache_write before"):
        e.s.cache_write(e.C, "local")


def test_cache_write_of_an_input(e: Example) -> None:
    with refused("cache_write", "'A' is an input", fix="s.cache_read"):
        e.s.cache_write(e.A, "local")


def test_cache_write_into_an_unknown_scope(e: Example) -> None:
    with refused("cache_write", "unknown memory scope 3 for 'C'", fix="'local'"):
        e.s.cache_write(e.C, 3)  # type: ignore[arg-type]


def test_cache_write_of_two_stages(e: Example) -> None:
    with refused("cache_write", "['C', 'D'] come from different stages", fix="one stage at a time"):
        e.s.cache_write([e.C, e.D], "local")


# Replaying.


def test_replay_of_an_unknown_step(e: Example) -> None:
    with refused("replay", "step 1 is the unknown 'splt'", fix="split"):
        e.s.replay([["splt", {"stage": 2}]])


def test_replay_on_a_schedule_of_other_tensors(e: Example) -> None:
    T = other()
    s = te.create_schedule(T.op)
    with refused("replay", "step 1, split of [{'stage': 3}", "0 other_A, 1 other", fix="the same tensors"):
        s.replay([["split", {"stage": 3}, {"axis": [3, 0]}, 4, None]])
