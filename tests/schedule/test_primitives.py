"""What each primitive does to the loops, as printed programs; and what a schedule tells of itself."""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path
from typing import Any

import pytest

import tilewright
from tests.lowering.same_program import differences
from tilewright import te
from tilewright.schedule.relations import Fuse, Singleton, Split
from tilewright.schedule.value import At, AtRoot, Inlined

LEGACY = Path(__file__).parent / "legacy"


def loops(s: Any, args: list[Any]) -> str:
    """The statements of the lowered program."""
    lines = str(tilewright.lower(s, args)).splitlines()
    start = next(i for i, line in enumerate(lines) if "func_attr" in line)
    return textwrap.dedent("\n".join(lines[start + 1 :])).strip()


def expect(s: Any, args: list[Any], text: str) -> None:
    assert loops(s, args) == textwrap.dedent(text).strip()


class Plain:
    """B = A + 1 over n by m elements."""

    def __init__(self, n: int = 8, m: int = 6) -> None:
        self.A = te.placeholder((n, m), name="A")
        self.B = te.compute((n, m), lambda i, j: self.A[i, j] + 1.0, "B")
        self.s = te.create_schedule(self.B.op)
        self.i, self.j = self.B.op.axis
        self.stage = self.s[self.B]
        self.args = [self.A, self.B]

    def expect(self, text: str) -> None:
        views = "B_1 = T.Buffer({0}, data=B.data)\nA_1 = T.Buffer({0}, data=A.data)\n"
        body = loops(self.s, self.args)
        size = int(self.A.shape[0]) * int(self.A.shape[1])
        for view in views.format(f"({size},)").splitlines():
            body = "\n".join(line for line in body.splitlines() if line.strip() != view)
        assert body == textwrap.dedent(text).strip()


class Line:
    """B = A + 1 over n elements."""

    def __init__(self, n: int = 8) -> None:
        self.A = te.placeholder((n,), name="A")
        self.B = te.compute((n,), lambda i: self.A[i] + 1.0, "B")
        self.s = te.create_schedule(self.B.op)
        self.i = self.B.op.axis[0]
        self.stage = self.s[self.B]

    def expect(self, text: str) -> None:
        expect(self.s, [self.A, self.B], text)


def names(axes: Any) -> list[str]:
    return [axis.name for axis in axes]


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
    assert e.stage.fuse([e.i, e.j]).name == "i.j.fused"  # type: ignore[arg-type]


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


# compute_at, compute_inline, compute_root.


class Chain:
    """C = B * 2 after B = A + 1, over 8 by 6 elements."""

    def __init__(self) -> None:
        self.A = te.placeholder((8, 6), name="A")
        self.B = te.compute((8, 6), lambda p, q: self.A[p, q] + 1.0, "B")
        self.C = te.compute((8, 6), lambda i, j: self.B[i, j] * 2.0, "C")
        self.s = te.create_schedule(self.C.op)
        self.i, self.j = self.C.op.axis

    def expect(self, text: str) -> None:
        body = [line for line in loops(self.s, [self.A, self.C]).splitlines() if " = T.Buffer(" not in line]
        assert "\n".join(body) == textwrap.dedent(text).strip()


def test_by_default_a_stage_is_computed_first_and_whole() -> None:
    Chain().expect("""
        B = T.allocate([48], "float32", "global")
        for p, q in T.grid(8, 6):
            B_1[p * 6 + q] = A_1[p * 6 + q] + T.float32(1)
        for i, j in T.grid(8, 6):
            C_1[i * 6 + j] = B_1[i * 6 + j] * T.float32(2)
    """)


def test_compute_at_an_outer_loop() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.i)
    e.expect("""
        B = T.allocate([6], "float32", "global")
        for i in range(8):
            for q in range(6):
                B_1[q] = A_1[i * 6 + q] + T.float32(1)
            for j in range(6):
                C_1[i * 6 + j] = B_1[j] * T.float32(2)
    """)


def test_compute_at_the_innermost_loop() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.j)
    e.expect("""
        B = T.allocate([1], "float32", "global")
        for i, j in T.grid(8, 6):
            B_1[0] = A_1[i * 6 + j] + T.float32(1)
            C_1[i * 6 + j] = B_1[0] * T.float32(2)
    """)


def test_compute_at_a_tensor_or_an_operation() -> None:
    for reader in (lambda e: e.C, lambda e: e.C.op, lambda e: e.s[e.C]):
        e = Chain()
        e.s[e.B].compute_at(reader(e), e.i)
        assert e.s[e.B].placement == At(e.s[e.C].id, e.i)


def test_compute_at_computes_what_the_neighbours_need_too() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((10,), lambda p: A[p] + 1.0, "B")
    C = te.compute((8,), lambda i: B[i] + B[i + 2], "C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], outer)
    expect(s, [A, C], """
        B = T.allocate([6], "float32", "global")
        for i_outer in range(2):
            B_1 = T.Buffer((6,), data=B, align=16)
            for p in range(6):
                B_1[p] = A[i_outer * 4 + p] + T.float32(1)
            for i_inner in range(4):
                C[i_outer * 4 + i_inner] = B_1[i_inner] + B_1[i_inner + 2]
    """)  # fmt: skip


def test_a_chain_of_compute_at() -> None:
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, "B")
    C = te.compute((8, 6), lambda i, j: B[i, j] * 2.0, "C")
    D = te.compute((8, 6), lambda i, j: C[i, j] - 3.0, "D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[C], C.op.axis[1])
    text = loops(s, [A, D])
    body = "\n".join(line for line in text.splitlines() if " = T.Buffer(" not in line)
    assert body == textwrap.dedent("""\
        C = T.allocate([6], "float32", "global")
        B = T.allocate([1], "float32", "global")
        for i in range(8):
            for j in range(6):
                B_1[0] = A_1[i * 6 + j] + T.float32(1)
                C_1[j] = B_1[0] * T.float32(2)
            for j in range(6):
                D_1[i * 6 + j] = C_1[j] - T.float32(3)""")


def test_two_stages_at_one_loop_come_in_the_order_of_their_dependence() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, "B")
    C = te.compute((8,), lambda i: B[i] * 2.0, "C")
    D = te.compute((8,), lambda i: C[i] - B[i], "D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    s[B].compute_at(s[D], D.op.axis[0])
    text = loops(s, [A, D])
    assert [line.split("[")[0].strip() for line in text.splitlines()[-3:] if "Buffer" not in line] == ["C_1", "D"]
    assert text.index("B_1[0] =") < text.index("C_1[0] =") < text.index("D[i] =")


def test_the_default_memory_is_what_the_threads_around_share() -> None:
    for bound, scope in (((), "global"), (("blockIdx.x",), "shared"), (("blockIdx.x", "threadIdx.x"), "local")):
        e = Chain()
        for axis, tag in zip((e.i, e.j), bound, strict=False):
            e.s[e.C].bind(axis, te.thread_axis(tag))
        e.s[e.B].compute_at(e.s[e.C], (e.i, e.i, e.j)[len(bound)])
        assert f'"float32", "{scope}")' in loops(e.s, [e.A, e.C])


def test_compute_inline() -> None:
    e = Chain()
    e.s[e.B].compute_inline()
    assert e.s[e.B].placement == Inlined()
    e.expect("""
        for i, j in T.grid(8, 6):
            C_1[i * 6 + j] = (A_1[i * 6 + j] + T.float32(1)) * T.float32(2)
    """)


def test_compute_inline_of_a_chain() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[7 - i] + 1.0, "B")
    C = te.compute((8,), lambda i: B[i] * B[i], "C")
    D = te.compute((4,), lambda i: C[i * 2] - A[i], "D")
    s = te.create_schedule(D.op)
    s[C].compute_inline()
    s[B].compute_inline()
    expect(s, [A, D], """
        for i in range(4):
            D[i] = (A[7 - i * 2] + T.float32(1)) * (A[7 - i * 2] + T.float32(1)) - A[i]
    """)  # fmt: skip


def test_compute_root_undoes_a_placement() -> None:
    e = Chain()
    before = loops(e.s, [e.A, e.C])
    e.s[e.B].compute_at(e.s[e.C], e.i)
    e.s[e.B].compute_root()
    assert e.s[e.B].placement == AtRoot()
    assert loops(e.s, [e.A, e.C]) == before


def test_set_scope() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.i)
    e.s[e.B].set_scope("local")
    assert e.s[e.B].scope == "local"
    assert 'T.allocate([6], "float32", "local")' in loops(e.s, [e.A, e.C])


# cache_read, cache_write.


def test_cache_read() -> None:
    e = Plain()
    AS = e.s.cache_read(e.A, "shared", [e.B])
    assert (AS.name, AS.op.name) == ("A.shared", "A.shared")
    assert names(AS.op.axis) == ["ax0", "ax1"]
    assert names(s.op for s in e.s.stages) == ["A", "A.shared", "B"]
    e.stage.bind(e.i, te.thread_axis("blockIdx.x"))
    e.s[AS].compute_at(e.stage, e.i)
    body = "\n".join(line for line in loops(e.s, e.args).splitlines() if " = T.Buffer(" not in line)
    assert body == textwrap.dedent("""\
        blockIdx_x = T.launch_thread("blockIdx.x", 8)
        A_shared = T.allocate([6], "float32", "shared")
        for ax1 in range(6):
            A_shared_1[ax1] = A_1[blockIdx_x * 6 + ax1]
        for j in range(6):
            B_1[blockIdx_x * 6 + j] = A_shared_1[j] + T.float32(1)""")


def test_cache_read_is_for_the_readers_given() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, "B")
    C = te.compute((8,), lambda i: A[i] - B[i], "C")
    s = te.create_schedule(C.op)
    AL = s.cache_read(A, "local", [C])
    assert s[C].op.input_tensors == (AL, B)
    assert s[B].op.input_tensors == (A,)


def test_cache_read_of_a_cache() -> None:
    e = Plain()
    AS = e.s.cache_read(e.A, "shared", [e.B])
    AL = e.s.cache_read(AS, "local", [e.B])
    assert AL.name == "A.shared.local"
    assert e.stage.op.input_tensors == (AL,)
    assert names(s.op for s in e.s.stages) == ["A", "A.shared", "A.shared.local", "B"]


class Product:
    """B = A @ A over 64 by 64 elements."""

    def __init__(self) -> None:
        self.A, self.k = te.placeholder((64, 64), name="A"), te.reduce_axis((0, 64), "k")
        A, k = self.A, self.k
        self.B = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), "B")
        self.s = te.create_schedule(self.B.op)


def test_cache_write() -> None:
    e = Product()
    BL = e.s.cache_write(e.B, "local")
    i, j = e.B.op.axis
    assert BL.name == "B.local"
    assert names(BL.op.axis) == ["i.c", "j.c"]
    assert BL.op.reduce_axis == (e.k,)
    assert e.s[e.B].op.axis == (i, j)
    assert e.s[e.B].op.reduce_axis == ()
    assert e.s[e.B].leaf_iter_vars == [i, j]
    assert e.s[BL].leaf_iter_vars == [*BL.op.axis, e.k]
    e.s[BL].compute_at(e.s[e.B], j)
    body = "\n".join(line for line in loops(e.s, [e.A, e.B]).splitlines() if " = T.Buffer(" not in line)
    assert body == textwrap.dedent("""\
        B_local = T.allocate([1], "float32", "local")
        for i, j in T.grid(64, 64):
            B_local_1[0] = T.float32(0)
            for k in range(64):
                B_local_1[0] = B_local_1[0] + A_1[i * 64 + k] * A_1[k * 64 + j]
            B_1[i * 64 + j] = B_local_1[0]""")


def test_cache_write_after_splits_lays_the_cache_out_as_the_loops() -> None:
    """The stage starts over; the cache has an axis for each of its former loops, as the legacy compiler does it."""
    e = Product()
    i, j = e.B.op.axis
    io, ii = e.s[e.B].split(i, factor=8)
    jo, ji = e.s[e.B].split(j, factor=16)
    e.s[e.B].reorder(io, jo, ii, ji)
    BL = e.s.cache_write(e.B, "local")
    assert names(BL.op.axis) == ["i.outer.c", "j.outer.c", "i.inner.c", "j.inner.c"]
    assert [str(extent) for extent in BL.shape] == ["8", "4", "8", "16"]
    assert e.s[e.B].leaf_iter_vars == [i, j]
    assert e.s[e.B].relations == []
    e.s[BL].compute_at(e.s[e.B], i)
    legacy = (LEGACY / "cache_write_after_split.txt").read_text(encoding="utf-8")
    assert differences(str(tilewright.lower(e.s, [e.A, e.B])), legacy) == []


def test_cache_read_before_cache_write_ends_up_at_the_cache() -> None:
    e = Product()
    AS = e.s.cache_read(e.A, "shared", [e.B])
    BL = e.s.cache_write(e.B, "local")
    assert e.s[BL].op.input_tensors == (AS,)
    assert e.s[e.B].op.input_tensors == (BL,)
    assert names(s.op for s in e.s.stages) == ["A", "A.shared", "B.local", "B"]


def test_what_was_computed_inside_moves_with_cache_write() -> None:
    e = Product()
    AS = e.s.cache_read(e.A, "shared", [e.B])
    e.s[AS].compute_at(e.s[e.B], e.k)
    BL = e.s.cache_write(e.B, "local")
    assert e.s[AS].placement == At(e.s[BL].id, e.k)


def test_cache_write_of_pairs() -> None:
    A = te.placeholder((8,), name="A")
    low, high = te.compute((8,), lambda i: (A[i] - 1.0, A[i] + 1.0), "both")
    s = te.create_schedule(low.op)
    caches = s.cache_write([low, high], "local")
    assert [c.name for c in caches] == ["both.local.v0", "both.local.v1"]
    assert s[low].op.input_tensors == tuple(caches)


# What a schedule tells of itself.


def test_the_stage_of_a_tensor_or_an_operation() -> None:
    e = Chain()
    assert e.s[e.B].id == e.s[e.B.op].id == e.s[e.s[e.B]].id
    assert repr(e.s[e.B]) == "Stage(B: p, q)"
    assert names(s.op for s in e.s.stages) == ["A", "B", "C"]
    assert e.s.outputs == [e.C.op]
    assert [s.is_output for s in e.s.stages] == [False, False, True]


def test_an_operation_that_a_stage_had_still_names_it() -> None:
    e = Chain()
    first = e.C.op
    e.s.cache_read(e.B, "shared", [e.C])
    second = e.s[e.C].op
    e.s.cache_write(e.C, "local")
    third = e.s[e.C].op
    assert len({first, second, third}) == 3
    assert e.s[first].id == e.s[second].id == e.s[third].id
    assert e.s[first].op is third
    assert e.s[first].origin_op is first
    assert e.s.outputs == [third]


def test_axes_and_relations() -> None:
    e = Plain()
    io, ii = e.stage.split(e.i, factor=4)
    f = e.stage.fuse(ii, e.j)
    assert e.stage.leaf_iter_vars == [io, f]
    assert e.stage.all_iter_vars == [e.i, e.j, io, ii, f]
    first, second = e.stage.relations
    assert isinstance(first, Split)
    assert (first.parent, first.outer, first.inner, str(first.factor), first.nparts) == (e.i, io, ii, "4", None)
    assert isinstance(second, Fuse)
    assert (second.outer, second.inner, second.fused) == (ii, e.j, f)
    e.stage.fuse()
    assert isinstance(e.stage.relations[2], Singleton)


def test_handles_follow_the_schedule() -> None:
    """A handle that was taken before a change shows what is after it."""
    e = Plain()
    before = e.s[e.B]
    e.s[e.B].split(e.i, factor=4)
    assert names(before.leaf_iter_vars) == ["i.outer", "i.inner", "j"]


def test_a_schedule_value_never_changes() -> None:
    e = Plain()
    value = e.s.value
    stage = value.stages[e.stage.id]
    e.stage.split(e.i, factor=4)
    assert value.stages[e.stage.id] is stage
    assert e.s.value is not value


def test_methods_chain() -> None:
    e = Plain()
    assert e.stage.reorder(e.j, e.i).unroll(e.i) is e.stage
    assert e.s.normalize() is e.s


def test_several_outputs() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, "B")
    C = te.compute((4,), lambda i: B[i] * 2.0, "C")
    s = te.create_schedule([C.op, B.op])
    assert s.outputs == [C.op, B.op]
    expect(s, [A, B, C], """
        for i in range(4):
            B[i] = A[i] + T.float32(1)
        for i in range(4):
            C[i] = B[i] * T.float32(2)
    """)  # fmt: skip
    assert te.create_schedule([B, C, B]).outputs == [B.op, C.op]
