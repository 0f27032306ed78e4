"""partition_loops: loop partitioning. The iterations in which a guard always holds run without it.

A split that does not divide its axis guards every iteration, though only the last ones can fail. A serial loop in a
kernel is cut at the iteration from which its guards matter: before, they are dropped; after, they stay.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..arith.facts import EMPTY, Facts
from ..arith.simplify import prove
from ..core.hardware import LoopKind
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Call, Expr, IntImm, Var
from ..expr.operators import add, const
from ..expr.traverse import substitute, variables
from ..loops.nodes import Allocate, Evaluate, For, Function, If, Launch, Stmt, Store, map_statements, seq
from ..loops.walk import map_kernels, statements
from .simplify_program import simplify_statement

MAX_STORES = 32
"""The most stores of a loop body for which a second copy of the body costs less than its guards."""


def partition_loops(function: Function, target: Target, options: Options) -> Function:
    """Cut serial loops of constant extent in kernels into a part without guards and a part with them."""
    return map_kernels(function, _in_kernel)


def _in_kernel(stmt: Launch) -> Launch:
    if not any(map(_is_guard, statements(stmt.body))):
        return stmt
    facts = EMPTY.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    return stmt.with_body(_visit(stmt.body, facts))


def _is_guard(node: object) -> bool:
    return isinstance(node, If) and isinstance(node.condition, Call) and node.condition.name == "likely"


def _condition_of(guard: Any) -> Expr:
    """The condition of a guard."""
    condition: Expr = guard.condition.args[0]
    return condition


def _visit(stmt: Stmt, facts: Facts) -> Stmt:
    inside = facts.bind(stmt.var, stmt.min, stmt.extent) if isinstance(stmt, For) else facts
    made = map_statements(stmt, lambda child: _visit(child, inside))
    if isinstance(made, For) and made.kind is LoopKind.SERIAL and isinstance(made.extent, IntImm):
        return _cut(made, made.extent.value, facts)
    return made


def _cut(loop: For, extent: int, facts: Facts) -> Stmt:
    nodes = list(statements(loop.body))
    guards = {
        node: _condition_of(node) for node in nodes if _is_guard(node) and loop.var in variables(_condition_of(node))
    }
    stores = sum(isinstance(node, (Store, Evaluate)) for node in nodes)
    if not guards or extent < 2 or stores > MAX_STORES or any(isinstance(node, Allocate) for node in nodes):
        return loop
    inner = {node.var: (node.min, node.extent) for node in nodes if isinstance(node, For)}
    whole = _always(loop, list(guards.values()), facts.bind_all(inner), extent)
    if whole == 0:
        return loop
    free = unguarded(loop.body, set(guards))
    first = For(loop.var, loop.min, const(whole, loop.var.dtype), loop.kind, None, loop.pragmas, free)
    rest = _rest(loop, whole, extent, facts)
    return seq(simplify_statement(first, facts), rest)


def _always(loop: For, conditions: list[Expr], facts: Facts, extent: int) -> int:
    """The number of leading iterations in which all conditions hold for certain."""

    def holds(count: int) -> bool:
        known = facts.bind(loop.var, loop.min, const(count, loop.var.dtype))
        return all(prove(condition, known) for condition in conditions)

    low, high = 0, extent - 1
    if holds(high):
        return high
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def unguarded(stmt: Stmt, guards: Collection[Any]) -> Stmt:
    """A statement in which the bodies of these guards always run."""
    if stmt in guards and isinstance(stmt, If):
        return unguarded(stmt.then, guards)
    return map_statements(stmt, lambda child: unguarded(child, guards))


def _rest(loop: For, whole: int, extent: int, facts: Facts) -> Stmt:
    """The iterations from `whole` on, with a new variable."""
    var = Var(loop.var.name, loop.var.dtype)
    start = add(loop.min, whole)
    body = substitute(loop.body, {loop.var: var})
    tail = For(var, start, const(extent - whole, var.dtype), loop.kind, None, loop.pragmas, body)
    return simplify_statement(tail, facts)
