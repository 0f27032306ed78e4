"""What the primitives that change one stage's loops do to them, as printed programs."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tilewright as tw
from tests.schedule.programs import Chain, Line, Plain, expect, loops, names
from tilewright import te
from tilewright.schedule.schedule import At

# split, tile.


def test_split_by_a_factor() -> None:
    e = Line()
    outer, inner = e.stage.split(e.i, factor=4)
    assert (outer.name, inner.name) == ("i.outer", "i.inner")
    e.expect("""
        for i_outer, i_inner in T.grid(2, 4):
            B[i_outer * 4 + i_inner] = A[i_outer * 4 + i_inner] + T.float32(1)
    """)


def test_split_by_parts() -> None:
    e = Line()
    e.stage.split(e.i, nparts=4)
    e.expect("""
        for i_outer, i_inner in T.grid(4, 2):
            B[i_outer * 2 + i_inner] = A[i_outer * 2 + i_inner] + T.float32(1)
    """)


def test_split_that_leaves_a_rest_is_guarded() -> None:
    e = Line(10)
    e.stage.split(e.i, factor=4)
    e.expect("""
        for i_outer, i_inner in T.grid(3, 4):
            if T.likely(i_outer * 4 + i_inner < 10):
                B[i_outer * 4 + i_inner] = A[i_outer * 4 + i_inner] + T.float32(1)
    """)


def test_split_by_parts_that_leaves_a_rest_is_guarded() -> None:
    e = Line(10)
    e.stage.split(e.i, nparts=4)
    e.expect("""
        for i_outer, i_inner in T.grid(4, 3):
            if T.likely(i_outer * 3 + i_inner < 10):
                B[i_outer * 3 + i_inner] = A[i_outer * 3 + i_inner] + T.float32(1)
    """)


def test_split_by_more_than_there_is_is_no_longer_than_the_loop() -> None:
    e = Line(3)
    e.stage.split(e.i, factor=8)
    e.expect("""
        for i_inner in range(3):
            B[i_inner] = A[i_inner] + T.float32(1)
    """)


def test_split_of_a_split() -> None:
    e = Line(24)
    _, inner = e.stage.split(e.i, factor=12)
    e.stage.split(inner, nparts=3)
    assert names(e.stage.leaf_iter_vars) == ["i.outer", "i.inner.outer", "i.inner.inner"]
    e.expect("""
        for i_outer, i_inner_outer, i_inner_inner in T.grid(2, 3, 4):
            B[i_outer * 12 + i_inner_outer * 4 + i_inner_inner] = \
A[i_outer * 12 + i_inner_outer * 4 + i_inner_inner] + T.float32(1)
    """)


def test_split_moves_what_is_computed_at_the_loop_to_the_inner_one() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.j)
    _, inner = e.s[e.C].split(e.j, factor=4)
    assert e.s[e.B].placement == At(e.s[e.C].id, inner)


def test_tile() -> None:
    e = Plain()
    assert names(e.stage.tile(e.i, e.j, 4, 3)) == ["i.outer", "j.outer", "i.inner", "j.inner"]
    e.expect("""
        for i_outer, j_outer, i_inner, j_inner in T.grid(2, 2, 4, 3):
            B_1[i_outer * 24 + i_inner * 6 + j_outer * 3 + j_inner] = \
A_1[i_outer * 24 + i_inner * 6 + j_outer * 3 + j_inner] + T.float32(1)
    """)


# fuse.


def test_fuse() -> None:
    e = Plain()
    fused = e.stage.fuse(e.i, e.j)
    assert fused.name == "i.j.fused"
    e.expect("""
        for i_j_fused in range(48):
            B_1[i_j_fused] = A_1[i_j_fused] + T.float32(1)
    """)


def test_fuse_takes_neighbours_in_either_order() -> None:
    e = Plain()
    assert e.stage.fuse(e.j, e.i).name == "i.j.fused"


def test_fuse_of_many() -> None:
    A = te.placeholder((2, 3, 4, 5), name="A")
    B = te.compute((2, 3, 4, 5), lambda a, b, c, d: A[a, b, c, d] * 2.0, "B")
    s = te.create_schedule(B.op)
    a, b, c, d = B.op.axis
    fused = s[B].fuse(a, b, c)
    assert fused.name == "a.b.fused.c.fused"
    assert names(s[B].leaf_iter_vars) == ["a.b.fused.c.fused", "d"]
    assert names([s[B].fuse(fused, d)]) == ["a.b.fused.c.fused.d.fused"]
    expect(s, [A, B], """
        for a_b_fused_c_fused_d_fused in range(120):
            B_1 = T.Buffer((120,), data=B.data)
            A_1 = T.Buffer((120,), data=A.data)
            B_1[a_b_fused_c_fused_d_fused] = A_1[a_b_fused_c_fused_d_fused] * T.float32(2)
    """)  # fmt: skip


def test_fuse_of_a_list() -> None:
    e = Plain()
    assert e.stage.fuse([e.i, e.j]).name == "i.j.fused"  # type: ignore[arg-type]  # a list, as old scripts do


@pytest.mark.parametrize("rows", [5, 8])
@pytest.mark.parametrize("steps", ["whole", "split", "part", "inside"])
def test_fuse_of_data_and_reduction(rows: int, steps: str) -> None:
    A = te.placeholder((rows, 6, 7), name="A")
    k = te.reduce_axis((0, 7), name="k")
    B = te.compute((rows, 6), lambda i, j: te.max(A[i, j, k], axis=k), name="B")
    C = te.compute((rows, 6), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    (i, j), x = B.op.axis, s[C].op.axis[0]
    if steps == "whole":
        s[B].fuse(i, j, k)
    elif steps == "split":
        s[B].split(s[B].fuse(j, k), factor=4)
    elif steps == "part":
        outer, inner = s[B].split(k, factor=3)
        s[B].reorder(outer, i, inner, j)
        s[B].fuse(outer, i)
    else:
        s[B].compute_at(s[C], s[C].split(x, factor=2)[0])
        s[B].unroll(s[B].split(s[B].fuse(i, j, k), factor=5)[1])
    given = np.random.default_rng(0).integers(-9, 9, (rows, 6, 7)).astype("float32")
    found = tw.nd.array(np.full((rows, 6), np.nan, "float32"))
    tw.build(s, [A, C], "llvm")(tw.nd.array(given), found)
    np.testing.assert_array_equal(found.numpy(), given.max(axis=2) * 2)


def test_fuse_of_one_gives_it_back() -> None:
    e = Plain()
    assert e.stage.fuse(e.i) is e.i
    assert e.stage.relations == []


def test_fuse_of_none_is_a_loop_of_one() -> None:
    """So that a stage without axes has something to bind."""
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() * 2.0, "B")
    s = te.create_schedule(B.op)
    one = s[B].fuse()
    assert names(s[B].leaf_iter_vars) == [one.name]
    s[B].bind(one, te.thread_axis("threadIdx.x"))
    expect(s, [A, B], """
        threadIdx_x = T.launch_thread("threadIdx.x", 1)
        B_1 = T.Buffer((1,), data=B.data)
        A_1 = T.Buffer((1,), data=A.data)
        B_1[0] = A_1[0] * T.float32(2)
    """)  # fmt: skip


def test_fuse_then_split_unevenly() -> None:
    e = Plain(7, 13)
    e.stage.split(e.stage.fuse(e.i, e.j), factor=10)
    e.expect("""
        for i_j_fused_outer, i_j_fused_inner in T.grid(10, 10):
            if T.likely(i_j_fused_outer * 10 + i_j_fused_inner < 91):
                B_1[i_j_fused_outer * 10 + i_j_fused_inner] = A_1[i_j_fused_outer * 10 + i_j_fused_inner] + T.float32(1)
    """)


def test_fuse_moves_what_is_computed_at_the_inner_loop() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.j)
    fused = e.s[e.C].fuse(e.i, e.j)
    assert e.s[e.B].placement == At(e.s[e.C].id, fused)


# reorder.


def test_reorder_permutes_only_the_slots_of_its_arguments() -> None:
    A = te.placeholder((2, 3, 4, 5), name="A")
    B = te.compute((2, 3, 4, 5), lambda a, b, c, d: A[a, b, c, d], "B")
    s = te.create_schedule(B.op)
    a, b, c, d = B.op.axis
    s[B].reorder(d, b)
    assert names(s[B].leaf_iter_vars) == ["a", "d", "c", "b"]
    s[B].reorder(c, a, d)
    assert names(s[B].leaf_iter_vars) == ["c", "a", "d", "b"]
    s[B].reorder(a)
    s[B].reorder()
    assert names(s[B].leaf_iter_vars) == ["c", "a", "d", "b"]


def test_reorder_of_a_reduction_outwards_moves_the_initial_loop() -> None:
    A, k = te.placeholder((4, 8), name="A"), te.reduce_axis((0, 8), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), "B")
    s = te.create_schedule(B.op)
    s[B].reorder(k, B.op.axis[0])
    expect(s, [A, B], """
        for i_init in range(4):
            B[i_init] = T.float32(0)
        for k, i in T.grid(8, 4):
            A_1 = T.Buffer((32,), data=A.data)
            B[i] = B[i] + A_1[i * 8 + k]
    """)  # fmt: skip


# bind.


def test_bind() -> None:
    e = Plain()
    e.stage.bind(e.i, te.thread_axis("blockIdx.x"))
    e.stage.bind(e.j, te.thread_axis("threadIdx.x"))
    e.expect("""
        blockIdx_x = T.launch_thread("blockIdx.x", 8)
        threadIdx_x = T.launch_thread("threadIdx.x", 6)
        B_1[blockIdx_x * 6 + threadIdx_x] = A_1[blockIdx_x * 6 + threadIdx_x] + T.float32(1)
    """)


def test_binding_again_replaces_the_binding_with_a_warning() -> None:
    e = Plain()
    e.stage.bind(e.i, te.thread_axis("blockIdx.x"))
    with pytest.warns(
        UserWarning, match=r"axis 'i' of stage 'B' was bound to blockIdx.x; it is now bound to blockIdx.y"
    ) as w:
        e.stage.bind(e.i, te.thread_axis("blockIdx.y"))
    assert w[0].filename == __file__
    assert 'launch_thread("blockIdx.y", 8)' in loops(e.s, e.args)
    assert "blockIdx_x" not in loops(e.s, e.args)


def test_binding_to_the_same_thread_axis_again_is_no_change() -> None:
    e, bx = Plain(), te.thread_axis("blockIdx.x")
    e.stage.bind(e.i, bx)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        e.stage.bind(e.i, bx)


def test_splitting_a_bound_axis_drops_its_binding() -> None:
    e = Plain()
    e.stage.bind(e.i, te.thread_axis("blockIdx.x"))
    outer, inner = e.stage.split(e.i, factor=4)
    e.expect("""
        for i_outer, i_inner, j in T.grid(2, 4, 6):
            B_1[i_outer * 24 + i_inner * 6 + j] = A_1[i_outer * 24 + i_inner * 6 + j] + T.float32(1)
    """)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        e.stage.bind(outer, te.thread_axis("blockIdx.x"))
        e.stage.bind(inner, te.thread_axis("threadIdx.x"))


def test_a_thread_axis_with_an_extent_fixes_it() -> None:
    e = Line(3)
    _, inner = e.stage.split(e.i, factor=8)
    e.stage.bind(inner, te.thread_axis((0, 8), "threadIdx.x"))
    e.expect("""
        threadIdx_x = T.launch_thread("threadIdx.x", 8)
        if T.likely(threadIdx_x < 3):
            B[threadIdx_x] = A[threadIdx_x] + T.float32(1)
    """)


# unroll, vectorize, parallel, pragma.


def test_unroll() -> None:
    e = Line(3)
    e.stage.unroll(e.i)
    e.expect("""
        B[0] = A[0] + T.float32(1)
        B[1] = A[1] + T.float32(1)
        B[2] = A[2] + T.float32(1)
    """)


def test_vectorize() -> None:
    e = Line(8)
    e.stage.vectorize(e.stage.split(e.i, factor=4)[1])
    e.expect("""
        for i_outer in range(2):
            B[i_outer * 4:i_outer * 4 + 4] = A[i_outer * 4:i_outer * 4 + 4] + T.Broadcast(T.float32(1), 4)
    """)


def test_parallel() -> None:
    e = Plain()
    e.stage.parallel(e.i)
    e.expect("""
        for i in T.parallel(8):
            for j in range(6):
                B_1[i * 6 + j] = A_1[i * 6 + j] + T.float32(1)
    """)


def test_a_later_mark_replaces_an_earlier_one() -> None:
    e = Line(3)
    e.stage.vectorize(e.i)
    e.stage.unroll(e.i)
    assert "B[2] = A[2]" in loops(e.s, [e.A, e.B])


def test_a_pragma_that_unrolls() -> None:
    e = Plain(4, 2)
    e.stage.pragma(e.i, "auto_unroll_max_step", 2)
    e.expect("""
        for i in range(4):
            B_1[i * 2] = A_1[i * 2] + T.float32(1)
            B_1[i * 2 + 1] = A_1[i * 2 + 1] + T.float32(1)
    """)
    e.stage.pragma(e.i, "unroll_explicit", False)
    e.expect("""
        for i in range(4):
            for j in T.unroll(2):
                B_1[i * 2 + j] = A_1[i * 2 + j] + T.float32(1)
    """)
