"""widen_indices: if 32 bits may not be enough to count elements, all indices are computed in 64 bits.

This is the case if an array or a loop has more than 2³⁰ elements, or if a size is declared with 64 bits. The limit is
not 2³¹, since the last tile of a loop may reach beyond its end. Sizes declared with 32 bits keep 32-bit indices, and
the call refuses arrays that they cannot count. `narrow_indices` later narrows the others again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..core.dtype import INT32, INT64
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import (
    Add,
    Broadcast,
    Call,
    Cast,
    Compare,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IfThenElse,
    IntImm,
    Load,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
)
from ..expr.operators import cast
from ..expr.traverse import post_order
from ..loops.nodes import Allocate, Buffer, For, Function, Launch, Let, Stmt, Store
from ..loops.walk import substatements

NARROW = 2**30
_OPERATORS = (Add, Sub, Mul, FloorDiv, FloorMod, Div, Mod, Min, Max)


def widen_indices(function: Function, target: Target, options: Options) -> Function:
    """Widen every loop, index and extent of the function to 64 bits, if one of them may need it."""
    if not any(map(_is_large, function.buffers)) and not _needs(function.body):
        return function
    return _Widener().function(function)


def _needs(stmt: Stmt) -> bool:
    if isinstance(stmt, For) and _large_extent(stmt.extent):
        return True
    if isinstance(stmt, Allocate) and _is_large(stmt.buffer):
        return True
    return any([_needs(child) for child in substatements(stmt)])


def _large_extent(extent: Expr) -> bool:
    return extent.dtype.bits > 32 or (isinstance(extent, IntImm) and extent.value > NARROW)


def _is_large(buffer: Buffer) -> bool:
    known = buffer.dtype.lanes
    for extent in buffer.shape:
        if _large_extent(extent):
            return True
        if isinstance(extent, IntImm):
            known *= max(1, extent.value)
    return known > NARROW or any(step.dtype.bits > 32 for step in buffer.layout.given or ())


class _Widener:
    def __init__(self) -> None:
        self.variables: dict[Var, Var] = {}
        self.buffers: dict[Any, Buffer] = {}
        self.memo: dict[Expr, Expr] = {}
        self.wides: dict[Expr, Expr] = {}

    def function(self, function: Function) -> Function:
        params = tuple(self.buffer(p) if isinstance(p, Buffer) else p for p in function.params)
        return Function(
            function.name, params, self.statement(function.body), function.reads, function.checks, function.imports
        )

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with extents of 64 bits."""
        made = self.buffers.get(buffer)
        if made is None:
            shape = tuple(map(self.wide, buffer.shape))
            layout = buffer.layout
            if layout.given is not None:
                layout = replace(layout, given=tuple(map(self.wide, layout.given)), start=self.wide(layout.start))
            base = None if buffer.alias_of is None else self.buffer(buffer.alias_of)
            made = self.buffers[buffer] = buffer.changed(shape=shape, alias_of=base, layout=layout)
        return made

    # Statements

    def statement(self, stmt: Stmt) -> Stmt:
        """The statement, its loops counting in 64 bits."""
        if isinstance(stmt, For):
            var = self._counter(stmt.var)
            low, extent = self.wide(stmt.min), self.wide(stmt.extent)
            return For(var, low, extent, stmt.kind, stmt.thread, stmt.pragmas, self.statement(stmt.body))
        if isinstance(stmt, Launch):
            threads = tuple((tag, self._counter(var), self.wide(extent)) for tag, var, extent in stmt.threads)
            return stmt.with_body(self.statement(stmt.body), threads)
        if isinstance(stmt, Store):
            return Store(self.buffer(stmt.buffer), tuple([self.wide(i) for i in stmt.indices]), self.value(stmt.value))
        if isinstance(stmt, Allocate):
            return Allocate(self.buffer(stmt.buffer), self.statement(stmt.body))
        if isinstance(stmt, Let):
            return Let(stmt.var, self.value(stmt.value), self.statement(stmt.body))
        made: Stmt = stmt.map_children(
            lambda child: self.statement(child) if isinstance(child, Stmt) else self.value(child)
        )
        return made

    def _counter(self, var: Var) -> Var:
        if var.dtype != INT32:
            return var
        found = self.variables.get(var)
        if found is None:
            found = self.variables[var] = Var(var.name, INT64)
        return found

    # Expressions

    def value(self, e: Expr) -> Expr:
        """An expression of the type it has, over the new variables and buffers."""
        done = self.memo.get(e)
        if done is None:
            done = self.memo[e] = self._value(e)
        return done

    def _value(self, e: Expr) -> Expr:
        if isinstance(e, Var):
            return cast(e.dtype, self.variables[e]) if e in self.variables else e
        if isinstance(e, Load):
            source: Any = e.source
            return Load(self.buffer(source), tuple([self.wide(i) for i in e.indices]))
        if isinstance(e, Compare) and e.a.dtype in (INT32, INT64) and self._counts(e):
            return type(e)(self.wide(e.a), self.wide(e.b))  # type: ignore[call-arg]  # every comparison takes (a, b)
        if isinstance(e, Cast) and e.dtype == INT64 and e.value.dtype == INT32 and self._counts(e.value):
            return self.wide(e.value)
        made: Expr = e.map_children(self.value)
        return made

    def _counts(self, e: Expr) -> bool:
        """Return whether an expression is an index: over loop variables only, without data."""
        parts = list(post_order(e))
        return any(p in self.variables for p in parts) and not any(isinstance(p, (Load, Call)) for p in parts)

    def wide(self, e: Expr) -> Expr:
        """An integer expression in 64 bits, computed so throughout."""
        done = self.wides.get(e)
        if done is None:
            done = self.wides[e] = self._wide(e)
        return done

    def _wide(self, e: Expr) -> Expr:
        wanted = INT64.with_lanes(e.dtype.lanes)
        if isinstance(e, Var) and e in self.variables:
            return self.variables[e]
        if isinstance(e, IntImm):
            return IntImm(e.value, INT64)
        if e.dtype.kind == "int" and e.dtype.bits >= 32:
            if isinstance(e, _OPERATORS):
                return type(e)(self.wide(e.a), self.wide(e.b))
            if isinstance(e, (Select, IfThenElse)):
                return type(e)(self.value(e.condition), self.wide(e.true_value), self.wide(e.false_value))
            if isinstance(e, Ramp):
                return Ramp(self.wide(e.base), self.wide(e.stride), e.lanes)
            if isinstance(e, Broadcast):
                return Broadcast(self.wide(e.value), e.lanes)
            if isinstance(e, Cast) and e.value.dtype.kind == "int" and e.value.dtype.bits == 32:
                return self.wide(e.value)
        made = self.value(e)
        return made if made.dtype == wanted else Cast(wanted, made)
