"""What passes take calls for: any access to the buffers that they are given, as often as the program says."""

from __future__ import annotations

from typing import Any

from tilewright import te, tir
from tilewright.arith.facts import EMPTY
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import IntImm
from tilewright.loops import uses
from tilewright.loops.dataflow import accesses
from tilewright.loops.nodes import Buffer, Evaluate, Stmt
from tilewright.loops.uniformity import varying_memory
from tilewright.passes.vectorize_loops import on_vectors

SHARED = (MemoryScope.SHARED,)
N = 16


def buffer(name: str, scope: MemoryScope = MemoryScope.SHARED, dtype: str = "int32") -> Buffer:
    return Buffer(name, dtype, (IntImm(N, te.const(0, "int32").dtype),), scope)


def called(*args: Any) -> Stmt:
    return Evaluate(tir.call_extern("int32", "f", *args))


def test_a_function_reads_and_writes_any_element_of_what_it_is_given() -> None:
    A, B = buffer("A"), buffer("B")
    stmt = called(A.access_ptr("r", offset=4), B.access_ptr("w"), 3)
    assert uses.read(stmt) == {A, B}
    assert uses.written(stmt) == {B}
    found = {(a.buffer, a.writes): a.region for a in accesses(stmt, SHARED)}
    assert found == {(A, False): None, (B, False): None, (B, True): None}


def test_an_index_of_an_address_is_read() -> None:
    A, B = buffer("A"), buffer("B")
    stmt = called(tir.address_of(A.vload(B.vload(3))))
    assert any(a.buffer is B and a.region is not None and not a.writes for a in accesses(stmt, SHARED))


def test_atomic_updates_meet_each_other_without_a_barrier() -> None:
    A, B = buffer("A"), buffer("B")
    stmt = Evaluate(tir.call_intrin("int32", "tir.atomic_add", tir.address_of(A.vload(B.vload(0))), 1))
    found = list(accesses(stmt, SHARED))
    assert [(a.buffer, a.writes, a.atomic) for a in found if a.buffer is A] == [(A, True, True)]
    assert [(a.buffer, a.writes, a.atomic) for a in found if a.buffer is B] == [(B, False, False)]


def test_calls_with_effects_do_not_become_vectors() -> None:
    A = buffer("A")
    i = te.var("i")
    ramp = tir.Ramp(tir.const(0, "int32"), tir.const(1, "int32"), 4)
    for value in (tir.call_extern("int32", "f"), tir.call_pure_extern("int32", "f", i)):
        assert on_vectors(A.vstore(i, value), ramp, i, EMPTY) is None
    assert on_vectors(called(), ramp, i, EMPTY) is None


def test_local_memory_that_all_threads_fill_alike_does_not_vary() -> None:
    tx = te.thread_axis("threadIdx.x")
    ib = tir.ir_builder.create()
    same, own, then = (ib.allocate("int32", (1,), name, scope="local") for name in ("same", "own", "then"))
    shared = ib.allocate("int32", (N,), "shared", scope="shared")
    same[0] = 3
    own[0] = tx.var
    with ib.while_loop(same[0] > 0):
        same[0] = same[0] - 1
        with ib.if_scope(own[0] > 2):
            then[0] = 1
    varying = varying_memory(ib.get(), frozenset((tx.var,)))
    assert varying & {b.buffer for b in (same, own, then, shared)} == {own.buffer, then.buffer}
    with_shared = tir.ir_builder.create()
    part = with_shared.allocate("int32", (N,), "part", scope="shared")
    copy = with_shared.allocate("int32", (1,), "copy", scope="local")
    copy[0] = part[0]
    assert varying_memory(with_shared.get(), frozenset((tx.var,))) == {part.buffer, copy.buffer}
