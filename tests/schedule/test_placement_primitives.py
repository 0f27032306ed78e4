"""What the primitives that place stages, and make them, do to the loops, as printed programs."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tests.loops.running import run
from tests.lowering.same_program import differences
from tests.schedule.programs import Chain, Plain, expect, loops, names
from tilewright import te
from tilewright.schedule.schedule import At, AtRoot, Inlined

LEGACY = Path(__file__).parent / "legacy"


# compute_at, compute_inline, compute_root.


def test_by_default_a_stage_is_computed_first_and_whole() -> None:
    Chain().expect("""
        B = T.allocate([48], "float32", "global")
        for p, q in T.grid(8, 6):
            B_1[p * 6 + q] = A_1[p * 6 + q] + T.float32(1)
        for i, j in T.grid(8, 6):
            C_1[i * 6 + j] = B_1[i * 6 + j] * T.float32(2)
    """)


def test_a_stage_at_a_loop_that_is_fused_moves_and_can_be_placed_again() -> None:
    e = Chain()
    e.s[e.B].compute_at(e.s[e.C], e.i)
    with pytest.warns(UserWarning, match="'B' was computed at 'i', now a part of 'i.j.fused'"):
        fused = e.s[e.C].fuse(e.i, e.j)
    e.expect("""
        B = T.allocate([1], "float32", "global")
        for i_j_fused in range(48):
            B_1[0] = A_1[i_j_fused] + T.float32(1)
            C_1[i_j_fused] = B_1[0] * T.float32(2)
    """)
    e.s[e.B].compute_at(e.s[e.C], e.s[e.C].split(fused, 6)[0])
    e.expect("""
        B = T.allocate([6], "float32", "global")
        for i_j_fused_outer in range(8):
            for q in range(6):
                B_1[q] = A_1[i_j_fused_outer * 6 + q] + T.float32(1)
            for i_j_fused_inner in range(6):
                C_1[i_j_fused_outer * 6 + i_j_fused_inner] = B_1[i_j_fused_inner] * T.float32(2)
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


def test_an_inlined_stage_may_be_placed_after_all() -> None:
    e, plain = Chain(), Chain()
    for chain in (e, plain):
        if chain is e:
            chain.s[chain.B].compute_inline()
        chain.s[chain.B].compute_at(chain.s[chain.C], chain.i)
    assert loops(e.s, [e.A, e.C]) == loops(plain.s, [plain.A, plain.C])


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


def test_cache_write_of_a_stage_is_that_of_its_tensor() -> None:
    e = Product()
    assert e.s.cache_write(e.s[e.B], "local").op is not e.B.op


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


@pytest.mark.parametrize("factor", [None, 4])
def test_cache_write_of_sums_of_growing_length(factor: int | None) -> None:
    """The range of the reduction depends on the element: that of the cache depends on the cache's axes."""
    A = te.placeholder((10,), name="A")

    def total(i: te.PrimExpr) -> te.PrimExpr:
        k = te.reduce_axis((0, i + 1), name="k")
        return te.sum(A[k], axis=k)

    B = te.compute((10,), total, name="B")
    values = np.random.default_rng(0).uniform(-1, 1, 10).astype("float32")

    def right(s: te.Schedule) -> None:
        out = np.full(10, 77, "float32")
        run(tilewright.lower(s, [A, B])["main"], values, out)
        np.testing.assert_allclose(out, np.cumsum(values), rtol=1e-5)

    s = te.create_schedule(B.op)
    if factor is not None:
        s[B].split(B.op.axis[0], factor=factor)
        right(s)
    cache = s.cache_write(B, "local")
    assert s[cache].op.reduce_axis[0] in s[cache].leaf_iter_vars
    right(s)
    s[cache].compute_at(s[B], B.op.axis[0])
    right(s)
    s[cache].split(s[cache].op.reduce_axis[0], factor=3)
    right(s)
    with refused("reorder", "the range of 'k.outer' of stage 'B.local' depends on", fix="inside of"):
        s = te.create_schedule(B.op)
        cache = s.cache_write(B, "local")
        s[cache].reorder(s[cache].split(s[cache].op.reduce_axis[0], factor=3)[0], s[cache].op.axis[0])
        tilewright.lower(s, [A, B])
    for primitive in ("fuse", "rfactor"):
        s = te.create_schedule(B.op)
        with refused(
            primitive, "the range of the reduction axis 'k' of stage 'B' depends on a data axis", fix="where="
        ):
            s[B].fuse(*B.op.axis, *B.op.reduce_axis) if primitive == "fuse" else s.rfactor(B, B.op.reduce_axis[0])
