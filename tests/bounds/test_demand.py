"""The region of a stage that its readers need, compared with the elements that they read one after the other."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.loops.running import empty, floats, run
from tilewright import te
from tilewright.bounds.infer import infer_bounds
from tilewright.core.errors import UserError
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import Var

PICK = st.sampled_from


def region(s: Any, tensor: Any) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
    """(minimum, extent) of each dimension of a stage, and the loops around it."""
    found = infer_bounds(s.value)[s.value.producer(tensor).id]
    return [(part.min, part.extent) for part in found.region], tuple(found.outer)


@settings(max_examples=40, deadline=None)
@given(PICK([1, 2, 3]), PICK([1, 2, 3]), PICK([1, 2]), PICK([2, 3, 4, 5]), PICK(["root", "outer", "inner"]))
def test_a_window_needs_what_its_points_read(window: int, stride: int, dilation: int, factor: int, place: str) -> None:
    n = 12
    reach = (n - 1) * stride + (window - 1) * dilation + 1
    A = te.placeholder((reach,), name="A")
    B = te.compute((reach,), lambda i: A[i] * 2.0, "B")
    k = te.reduce_axis((0, window), "k")
    C = te.compute((n,), lambda i: te.sum(B[i * stride + k * dilation], axis=k), "C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=factor)
    if place != "root":
        s[B].compute_at(s[C], outer if place == "outer" else inner)
    ((low, extent),), _ = region(s, B)
    loops = {"root": [], "outer": [outer], "inner": [outer, inner]}[place]
    ranges = [range(-(-n // factor)), range(factor)]
    for values in product(*ranges[: len(loops)]):
        env: dict[Var, int] = dict(zip([axis.var for axis in loops], values, strict=True))
        rest = product(*ranges[len(loops) :])
        points = [(*values, *more) for more in rest]
        reads = [
            (o * factor + i) * stride + t * dilation for o, i in points if o * factor + i < n for t in range(window)
        ]
        if reads:
            first, count = evaluate(low, env), evaluate(extent, env)
            assert first <= min(reads)
            assert max(reads) < first + count
            if place == "root":
                assert (first, count) == (0, reach)
            elif len(points) == sum(o * factor + i < n for o, i in points):
                assert (first, count) == (min(reads), max(reads) - min(reads) + 1)


def test_two_readers_need_both_their_parts() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, "B")
    C = te.compute((10,), lambda i: B[i + 2] + B[i + 7], "C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=5)
    s[B].compute_at(s[C], outer)
    ((low, extent),), _ = region(s, B)
    assert evaluate(low, {outer.var: 1}) == 7
    assert evaluate(extent, {}) == 10


def test_threads_that_share_memory_need_the_parts_of_all() -> None:
    """A thread index runs where the stage is in shared memory, and holds still where it is each thread's own."""
    A = te.placeholder((32,), name="A")
    for scope, expected in (("shared", 8), ("local", 1)):
        C = te.compute((32,), lambda i: A[i] * 2.0, "C")
        s = te.create_schedule(C.op)
        copy = s.cache_read(A, scope, [C])
        block, thread = s[C].split(C.op.axis[0], factor=8)
        s[C].bind(block, te.thread_axis("blockIdx.x"))
        s[C].bind(thread, te.thread_axis("threadIdx.x"))
        s[copy].compute_at(s[C], thread)
        ((_, extent),), _ = region(s, copy)
        assert evaluate(extent, {}) == expected


def test_a_stage_that_no_other_reads_is_needed_whole() -> None:
    A = te.placeholder((5, 7), name="A")
    B = te.compute((5, 7), lambda i, j: A[i, j], "B")
    found, outer = region(te.create_schedule(B.op), B)
    assert [evaluate(extent, {}) for _, extent in found] == [5, 7]
    assert outer == ()


def test_a_reader_outside_of_the_loop_is_an_error() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i], "B")
    C = te.compute((8,), lambda i: B[i] + 1.0, "C")
    D = te.compute((8,), lambda i: B[i] + C[i], "D")
    s = te.create_schedule(D.op)
    s[B].compute_at(s[C], C.op.axis[0])
    with pytest.raises(UserError, match="'D', which reads it, is outside that loop"):
        infer_bounds(s.value)


def test_an_index_that_is_read_from_memory_may_be_any() -> None:
    """One element, named by another tensor: the stage keeps all of what may be named."""
    A, where = te.placeholder((8,), name="A"), te.placeholder((1,), "int32", "where")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((1,), lambda i: B[where[0]], name="C")
    values, out = floats(8), empty(1)
    run(tw.lower(te.create_schedule(C.op), [A, where, C])["main"], values, np.array([5], "int32"), out)
    assert out[0] == values[5] + 1


@settings(max_examples=40, deadline=None)
@given(PICK([2, 3, 4]), PICK([3, 5, 6]), PICK([2, 5, 7, 11]), PICK([1, 2, 4]), PICK([0, 3]))
def test_with_guarded_reads_loops_that_run_too_far_need_no_more_than_their_tile(
    tall: int, wide: int, threads: int, lanes: int, shift: int
) -> None:
    """Tiles of whole rows, whose elements are dealt out to threads: guards cut off what is beyond the tile."""
    rows = 3 * tall
    A = te.placeholder((rows + shift, wide), name="A")
    B = te.compute((rows + shift, wide), lambda i, j: A[i, j] * 2.0, "B")
    C = te.compute((rows, wide), lambda i, j: B[i + shift, j] + 1.0, "C")
    s = te.create_schedule(C.op)
    outer, inner = s[C].split(C.op.axis[0], factor=tall)
    flat, _ = s[C].split(s[C].fuse(inner, C.op.axis[1]), factor=lanes)
    s[C].split(flat, factor=threads)
    s[B].compute_at(s[C], outer)
    s[C].pragma(outer, "guarded_reads", 1)
    (low, extent), (left, width) = region(s, B)[0]
    for tile in range(3):
        env = {outer.var: tile}
        assert (evaluate(low, env), evaluate(extent, env)) == (tile * tall + shift, tall)
    assert (evaluate(left, {}), evaluate(width, {})) == (0, wide)
    a = floats(rows + shift, wide)
    made = empty(rows, wide)
    run(tw.lower(s, [A, C])["main"], a, made)
    np.testing.assert_array_equal(made, a[shift:] * 2 + 1)


@settings(max_examples=40, deadline=None)
@given(PICK([2, 3]), PICK([5, 9, 10]), PICK([2, 4, 8]), PICK([1, 2]), st.booleans())
def test_with_guarded_reads_tiles_that_leave_their_group_need_one_group(
    groups: int, own: int, tile: int, lanes: int, cached: bool
) -> None:
    """Groups of rows of their own, in tiles that need not divide them: a tile reads rows of one group, never all."""
    whole = -(-own // tile) * tile
    A = te.placeholder((groups, whole), name="A")
    B = te.compute((groups, whole), lambda g, i: A[g, i] * 2.0, "B")
    C = te.compute((groups * own,), lambda f: B[f // own, f % own] + 1.0, "C")
    s = te.create_schedule(C.op)

    def tiled(stage: Any) -> Any:
        group, row = s[stage].split(s[stage].op.axis[0], factor=own)
        outer, inner = s[stage].split(row, factor=tile)
        s[stage].pragma(group, "guarded_reads", 1)
        return outer, inner

    outer, inner = tiled(C)
    if cached:
        held = s.cache_write(C, "local")
        outer, inner = tiled(C)
        s[held].compute_at(s[C], outer)
        assert [int(extent) for _, extent in region(s, held)[0]] == [1, 1, min(tile, own)]
    s[C].split(inner, factor=lanes)
    s[B].compute_at(s[C], outer)
    (_, one), (low, extent) = region(s, B)[0]
    assert (int(one), int(extent)) == (1, min(tile, own))
    assert [evaluate(low, {outer.var: place}) for place in range(2)] == [0, tile] or own <= tile
    a, made = floats(groups, whole), empty(groups * own)
    run(tw.lower(s, [A, C])["main"], a, made)
    np.testing.assert_array_equal(made, (a[:, :own] * 2 + 1).reshape(-1))
