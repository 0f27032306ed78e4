"""Which buffers statements and expressions read and write."""

from __future__ import annotations

import pytest

from tilewright.core.hardware import LoopKind, MemoryScope
from tilewright.core.node import Node
from tilewright.expr.nodes import Load, Var
from tilewright.expr.operators import add, const, less
from tilewright.loops import uses
from tilewright.loops.nodes import Buffer, For, If, Stmt, Store, seq

N, VAR = const(8, "int32"), Var("i", "int32")
A, B, C = (Buffer(name, "float32", (N,), MemoryScope.GLOBAL) for name in "ABC")
INDEX = Buffer("index", "int32", (N,), MemoryScope.GLOBAL)


def loop() -> Stmt:
    copy = Store(B, (Load(INDEX, (VAR,)),), add(Load(A, (VAR,)), 1.0))
    again = If(less(Load(C, (VAR,)), 0.0), Store(B, (VAR,), Load(B, (VAR,))), None)
    return For(VAR, const(0, "int32"), N, LoopKind.SERIAL, None, (), seq(copy, again))


def test_reads_and_writes_anywhere_below() -> None:
    stmt = loop()
    assert uses.read(stmt) == {A, B, C, INDEX}
    assert uses.written(stmt) == {B}
    copy, again = stmt.body.stmts  # type: ignore[attr-defined]  # a For over a Seq
    assert uses.read(copy) == {A, INDEX}
    assert uses.read(again.condition) == {C}
    assert uses.written(again.condition) == uses.NO_SOURCES == uses.read(VAR)


def test_a_node_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stmt = loop()
    first = uses.read(stmt), uses.written(stmt)

    def children(self: Node) -> tuple[Node, ...]:
        raise AssertionError("looked at again")

    for kind in (For, If, Store, Load):
        monkeypatch.setattr(kind, "children", children)
    assert (uses.read(loop()), uses.written(loop())) == first, "an equal statement is the same one"
