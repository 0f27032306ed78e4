"""Nests of serial loops with nothing between them, as one loop over all of their iterations; loops made serial."""

from __future__ import annotations

from math import prod

from ..core.dtype import INT32
from ..core.hardware import LoopKind
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import add, const, floordiv, floormod
from ..expr.traverse import substitute
from ..loops.nodes import For, Stmt, map_statements


def serial_nest(stmt: Stmt) -> list[For]:
    """The serial loops of constant bounds from `stmt` inwards, each but the last holding nothing but the next."""
    loops: list[For] = []
    while isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL and is_constant(stmt.min, stmt.extent):
        loops.append(stmt)
        stmt = stmt.body
    return loops


def iterations(loops: list[For]) -> int:
    """Return how often the body of a nest runs."""
    return prod(int(loop.extent) for loop in loops)


def digits(loops: list[For], step: Expr) -> dict[Var, Expr]:
    """The values of nested loop variables in iteration `step` of all their iterations in order."""
    values: dict[Var, Expr] = {}
    for loop in reversed(loops[1:]):
        values[loop.var] = add(floormod(step, loop.extent), loop.min)
        step = floordiv(step, loop.extent)
    return {**values, loops[0].var: add(step, loops[0].min)}


def joint_variable(loops: list[For]) -> Var | None:
    """A variable that counts the iterations of a nest; None if their number does not fit its type."""
    fits = iterations(loops) <= INT32.max_value
    return Var(".".join(loop.var.name for loop in loops), "int32") if fits else None


def joined(loops: list[For]) -> For | None:
    """Join a nest of loops to one loop; None if it has too many iterations."""
    var = joint_variable(loops)
    if var is None:
        return None
    pragmas = tuple(pragma for loop in loops for pragma in loop.pragmas)
    body = substitute(loops[-1].body, digits(loops, var))
    start, extent = const(0, var.dtype), const(iterations(loops), var.dtype)
    return For(var, start, extent, LoopKind.SERIAL, None, pragmas, body)


def is_constant(*expressions: Expr) -> bool:
    """Whether all expressions are integer constants."""
    return all(isinstance(e, IntImm) for e in expressions)


def with_serial(kind: LoopKind, stmt: Stmt) -> Stmt:
    """Return `stmt` with serial loops instead of all loops of a kind."""
    made = map_statements(stmt, lambda child: with_serial(kind, child))
    if isinstance(made, For) and made.kind is kind:
        return For(made.var, made.min, made.extent, LoopKind.SERIAL, None, made.pragmas, made.body)
    return made
