"""Random small kernels, as a person might write them by hand: shared memory, loops, guards, names, barriers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from tests.loops.programs import alloc, buf, function, launch, load, loop, ramp, store
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Expr, Load, Var
from tilewright.expr.operators import all_of, floordiv, floormod, less
from tilewright.loops.nodes import Barrier, Buffer, Function, If, Let, Stmt, seq

SIZE = 24
Draw = Callable[..., Any]


@st.composite
def kernels(draw: Draw) -> Function:
    """A kernel of a few threads and a few statements on two shared buffers."""
    return _Kernel(draw).function()


class _Kernel:
    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.tx, self.ty, self.bx = Var("tx"), Var("ty"), Var("bx")
        self.extents = draw(st.sampled_from([(4, 1), (4, 2), (3, 2), (8, 1)]))
        self.shared = [buf("S", SIZE, scope="shared"), buf("T", SIZE, scope="shared")]
        self.A, self.B = buf("A", SIZE), buf("B", SIZE)
        self.count = 0

    def pick(self, *choices: Any) -> Any:
        return self.draw(st.sampled_from(choices))

    def function(self) -> Function:
        body = self.sequence([], 0)
        for buffer in self.shared:
            body = alloc(buffer, body)
        threads = {"bx": (self.bx, 2), "tx": (self.tx, self.extents[0]), "ty": (self.ty, self.extents[1])}
        return function((self.A, self.B), launch(body, **threads))

    def sequence(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        return seq(*(self.statement(loops, depth) for _ in range(self.pick(1, 2, 3, 4))))

    def statement(self, loops: list[tuple[Var, int]], depth: int) -> Stmt:
        kind = self.pick("store", "store", "store", "loop", "guard", "let", "barrier")
        if depth < 3 and kind == "loop":
            self.count += 1
            var, extent = Var(f"i{self.count}"), self.pick(2, 3, 4)
            return loop(var, extent, self.sequence([*loops, (var, extent)], depth + 1))
        if depth < 3 and kind == "guard":
            orelse = self.store(loops) if self.pick(False, False, True) else None
            if self.pick(False, False, True):
                return If(self.condition(loops), self.sequence(loops, depth + 1), orelse)
            return If(self.condition(loops), self.store(loops), orelse)
        if depth < 3 and kind == "let":
            self.count += 1
            var = Var(f"v{self.count}")
            return Let(var, self.index(loops), self.store([*loops, (var, SIZE)]))
        if kind == "barrier" and self.pick(True, False):
            return Barrier(MemoryScope.SHARED)
        return self.store(loops)

    def condition(self, loops: list[tuple[Var, int]]) -> Expr:
        some = less(self.pick(self.tx, self.ty, *(var for var, _ in loops)), self.pick(1, 2, 3))
        return self.pick(some, some, all_of(some, less(self.tx, self.pick(1, 2))), less(self.index(loops), SIZE // 2))

    def index(self, loops: list[tuple[Var, int]]) -> Expr:
        """An index within bounds."""
        wide, high = self.extents
        tx, ty = self.tx, self.ty
        inner = self.pick(0, *(var for var, _ in loops))
        outer = self.pick(0, *(var for var, _ in loops))
        fused = tx * high + ty
        base = self.pick(
            fused,
            ty * wide + tx,
            tx,
            wide - 1 - tx,
            fused * 2 + floormod(inner, 2),
            floormod(inner, 3) * 8 + floormod(fused, 8),
            floormod(inner + self.pick(1, 2), 3) * 8 + floormod(fused, 8),
            floormod(inner + 1, 2) * 8 + tx,
            floormod(inner, 2) * 8 + 7 - floormod(fused, 8),
            floordiv(fused, 2) * 3 + floormod(fused, 2),
            fused + outer,
            tx + 1,
            inner,
            self.pick(0, 1, 7, 16),
            self.bx * 8 + tx,
        )
        return floormod(base + self.pick(0, 0, 0, 8, 1), SIZE)

    def store(self, loops: list[tuple[Var, int]]) -> Stmt:
        buffer: Buffer = self.pick(*self.shared, *self.shared, self.B)
        value: Expr = load(self.A, 0)
        for _ in range(self.pick(0, 1, 1, 2)):
            value = value + load(self.pick(*self.shared), self.index(loops))
        index = self.index(loops)
        if self.pick(False, False, False, True) and buffer.scope is MemoryScope.SHARED:
            base = floormod(self.index(loops), SIZE // 4) * 4
            vector = Load(self.A, (ramp(0, 4),))
            return store(buffer, ramp(base, 4), vector)
        return store(buffer, index, value)
