"""vectorize_loops: a loop of constant extent becomes one statement on vectors."""

from __future__ import annotations

from typing import Any

from ..arith.facts import EMPTY, Facts
from ..arith.simplify import simplify
from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, MemoryScope
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import (
    Add,
    Arithmetic,
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Expr,
    IfThenElse,
    IntImm,
    Load,
    Mul,
    Not,
    Ramp,
    Select,
    Sub,
    Var,
)
from ..expr.op_registry import is_declared
from ..expr.operators import add, const, multiply, subtract
from ..expr.traverse import Occurrences, substitute
from ..loops import uses
from ..loops.calls import FOREIGN, has_effect
from ..loops.nodes import Buffer, Evaluate, For, Function, If, Seq, Stmt, Store, map_statements, seq
from ..loops.walk import statements, stored_stages
from .loop_nests import with_serial


class _StaysScalarError(Exception):
    """The loop cannot run on vectors: a guard or a branch differs between its iterations."""


def vectorize_loops(function: Function, target: Target, options: Options) -> Function:
    """Replace every VECTORIZED loop by statements on vectors of its extent.

    A guard must be the same for all lanes. One that depends on the loop variable is first simplified under the facts
    there. If that does not free it of the variable, the loop runs as a serial one instead. Under
    `options.vectorize=False` all of them run serially. Raises UserError for an extent that is not constant.
    """
    wanted = any(isinstance(part, For) and part.kind is LoopKind.VECTORIZED for part in statements(function.body))
    if not wanted:
        return function
    if not options.vectorize:
        return function.with_body(with_serial(LoopKind.VECTORIZED, function.body))
    return function.with_body(_visit(function.body, EMPTY, target.hardware.most_lanes))


def _visit(stmt: Stmt, facts: Facts, most_lanes: int) -> Stmt:
    if isinstance(stmt, For):
        facts = facts.bind(stmt.var, stmt.min, stmt.extent)
    if isinstance(stmt, For) and stmt.kind is LoopKind.VECTORIZED:
        body = _visit(stmt.body, facts, most_lanes)
        if not isinstance(stmt.extent, IntImm):
            raise UserError(
                f"loop {stmt.var.name!r} has the extent `{stmt.extent}`, which is not constant",
                primitive="vectorize",
                fix="split the axis by a constant factor and vectorize the inner loop",
                suspects=(Suspect(("vectorize",), stored_stages(stmt.body)),),
            )
        lanes = stmt.extent.value
        if lanes > most_lanes:
            raise UserError(
                f"loop {stmt.var.name!r} would run on vectors of {lanes:,} elements; on this target they may have "
                f"{most_lanes:,}",
                primitive="vectorize",
                fix="split the axis by a small factor, such as 16, and vectorize the inner loop",
                suspects=(Suspect(("vectorize",), stored_stages(stmt.body), stmt.var.name),),
            )
        if lanes == 1:
            once: Stmt = substitute(body, {stmt.var: stmt.min})
            return once
        # A loop without iterations stays a loop, because vectors have at least one element.
        ramp = Ramp(stmt.min, const(1, stmt.var.dtype), lanes)
        made = on_vectors(body, ramp, stmt.var, facts) if lanes else None
        if made is not None:
            return made
        var = Var(f"{stmt.var.name}.s", stmt.var.dtype)
        return For(var, stmt.min, stmt.extent, LoopKind.SERIAL, None, (), substitute(body, {stmt.var: var}))
    return map_statements(stmt, lambda child: _visit(child, facts, most_lanes))


def on_vectors(body: Stmt, ramp: Ramp, var: Var, facts: Facts, masks: bool = False) -> Stmt | None:
    """Return a loop body for all values of `var` (the ramp) at once; None if it cannot run on vectors.

    With `masks`, guards and branches may differ between the lanes: their conditions become vectors.
    """
    try:
        return _Vectorizer(var, ramp, facts, masks).statement(body)
    except _StaysScalarError:
        return None


class _Vectorizer:
    """Rewrites a loop body so that `var` represents all its values at once."""

    def __init__(self, var: Var, ramp: Ramp, facts: Facts, masks: bool) -> None:
        self.facts = facts
        self.masks = masks
        self.lanes = ramp.lanes
        self.memo: dict[Any, Expr] = {var: ramp}
        self.varies = Occurrences(var)

    def statement(self, stmt: Stmt) -> Stmt:
        if isinstance(stmt, Store):
            indices = tuple([self.expr(i) for i in stmt.indices])
            value = self.expr(stmt.value)
            if max((e.dtype.lanes for e in (*indices, value)), default=1) == 1:
                return stmt
            if all(i.dtype.lanes == 1 for i in indices):
                raise _StaysScalarError
            return Store(stmt.buffer, indices, self.wide(value))
        if isinstance(stmt, Seq):
            return seq(*[self.statement(part) for part in stmt.stmts])
        if isinstance(stmt, If):
            return self.branch(stmt)
        if isinstance(stmt, For) and not (self.varies(stmt.min) or self.varies(stmt.extent)) and stmt.thread is None:
            return For(stmt.var, stmt.min, stmt.extent, stmt.kind, None, stmt.pragmas, self.statement(stmt.body))
        if isinstance(stmt, Evaluate) and not self.varies(stmt.value) and not has_effect(stmt.value):
            return stmt
        raise _StaysScalarError

    def branch(self, stmt: If) -> Stmt:
        """Both sides of a branch; if lanes differ, one after the other, each under its own mask."""
        condition = self.uniform(stmt.condition)
        then = self.statement(stmt.then)
        if stmt.orelse is None:
            return If(condition, then, None)
        orelse = self.statement(stmt.orelse)
        if condition.dtype.lanes == 1:
            return If(condition, then, orelse)
        if uses.read(condition) & uses.written(then):  # the second mask would see the stores of the first side
            raise _StaysScalarError
        return seq(If(condition, then, None), If(Not(condition), orelse, None))

    def uniform(self, condition: Expr) -> Expr:
        """A condition that is the same for all lanes, freed of the loop variable; a vector if vectors are allowed."""
        if not self.varies(condition):
            return condition
        known = simplify(condition, self.facts)
        if not self.varies(known):
            return known
        if not self.masks:
            raise _StaysScalarError
        return self.expr(condition)

    def wide(self, e: Expr) -> Expr:
        """`e` on all lanes."""
        return e if e.dtype.lanes > 1 else Broadcast(e, self.lanes)

    def expr(self, e: Expr) -> Expr:
        """`e` with vectors in place of values that depend on the loop variable."""
        done = self.memo.get(e)
        if done is None:
            children = before = e.children()
            if isinstance(e, IfThenElse):
                children = (self.uniform(e.condition), e.true_value, e.false_value)
            if isinstance(e, Load):
                children = tuple([self.index(e, child) for child in children])
            if has_effect(e):  # effects happen in every iteration
                raise _StaysScalarError
            parts = tuple([c if c.dtype.lanes > 1 else self.expr(c) for c in children])
            if any([part.dtype.lanes > 1 for part in parts]):
                done = self._build(e, parts)
            elif all([new is old for new, old in zip(parts, before, strict=True)]):
                done = e
            else:  # a condition has changed
                rest = iter(parts)
                done = e.map_children(lambda _: next(rest))
            self.memo[e] = done
        return done

    def index(self, load: Load, index: Expr) -> Expr:
        """The index of a load; in registers without divisions that cancel out, which no rule finds in vectors."""
        in_registers = isinstance(load.source, Buffer) and load.source.scope is MemoryScope.LOCAL
        return simplify(index, self.facts) if in_registers and self.varies(index) else index

    def _build(self, e: Expr, parts: tuple[Expr, ...]) -> Expr:
        """Rebuild `e` with children, some of them vectors."""
        if isinstance(e, Binary):
            return self._binary(e, parts[0], parts[1])
        if isinstance(e, Load):
            if len(parts) != 1 and sum(p.dtype.lanes > 1 for p in parts) != 1:
                raise _StaysScalarError
            return Load(e.source, parts)
        if isinstance(e, IfThenElse):
            return IfThenElse(parts[0], self.wide(parts[1]), self.wide(parts[2]))
        wide = tuple(self.wide(part) for part in parts)
        if isinstance(e, Select):
            return Select(*wide)
        if isinstance(e, Cast):
            return Cast(e.dtype.with_lanes(self.lanes), wide[0])
        if isinstance(e, Call) and (e.name in FOREIGN or is_declared(e.name)):  # functions of scalars
            raise _StaysScalarError
        if isinstance(e, Call) and (self.masks or e.name != "likely"):
            return Call(e.name, wide, e.dtype.with_lanes(self.lanes))
        if isinstance(e, Not):
            return Not(wide[0])
        raise _StaysScalarError

    def _binary(self, e: Binary, a: Expr, b: Expr) -> Expr:
        x, y = (a, b) if isinstance(a, Ramp) else (b, a)
        if isinstance(x, Ramp) and y.dtype.lanes == 1:
            if isinstance(e, Add):
                return Ramp(add(x.base, y), x.stride, x.lanes)
            if isinstance(e, Mul):
                return Ramp(multiply(x.base, y), multiply(x.stride, y), x.lanes)
            if isinstance(e, Sub) and x is a:
                return Ramp(subtract(x.base, y), x.stride, x.lanes)
        if not isinstance(e, Binary if self.masks else (Arithmetic, Compare)):
            raise _StaysScalarError
        return type(e)(self.wide(a), self.wide(b))  # type: ignore[call-arg]  # every binary node takes (a, b)
