"""simplify_program: simplify every expression under the ranges of the loops around it; drop dead statements."""

from __future__ import annotations

from ..arith.facts import EMPTY, Facts
from ..arith.simplify import simplify
from ..core.hardware import LoopKind
from ..core.node import Node
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import FALSE, TRUE, Call, Expr, IntImm
from ..expr.operators import const
from ..expr.traverse import substitute
from ..loops.nodes import (
    NOTHING,
    Allocate,
    Evaluate,
    For,
    Function,
    If,
    Launch,
    Let,
    Seq,
    Stmt,
    Store,
    Tensorized,
    While,
    seq,
)


def simplify_program(function: Function, target: Target, options: Options) -> Function:
    """Simplify all indices, conditions, extents and values; drop loops that run once and guards that hold."""
    return function.with_body(simplify_statement(function.body, EMPTY))


def simplify_statement(stmt: Stmt, facts: Facts) -> Stmt:
    """Simplify a statement under `facts` about the loops around it."""
    if isinstance(stmt, Store):
        return stmt.with_parts(tuple([simplify(i, facts) for i in stmt.indices]), simplify(stmt.value, facts))
    if isinstance(stmt, Seq):
        return seq(*[simplify_statement(part, facts) for part in stmt.stmts])
    if isinstance(stmt, For):
        return _loop(stmt, facts)
    if isinstance(stmt, If):
        return _branch(stmt, facts)
    if isinstance(stmt, Allocate):
        return _kept(stmt.map_children(lambda child: simplify_statement(child, facts)), stmt)
    if isinstance(stmt, Let):
        return Let(stmt.var, simplify(stmt.value, facts), simplify_statement(stmt.body, facts))
    if isinstance(stmt, Tensorized):
        made: Stmt = stmt.map_children(lambda child: _part(child, facts))
        return made
    if isinstance(stmt, While):
        condition = simplify(stmt.condition, facts)
        return NOTHING if condition is FALSE else While(condition, simplify_statement(stmt.body, facts))
    if isinstance(stmt, Evaluate):
        return Evaluate(simplify(stmt.value, facts))
    if isinstance(stmt, Launch):
        threads = tuple((tag, var, simplify(extent, facts)) for tag, var, extent in stmt.threads)
        inside = facts.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in threads})
        return stmt.with_body(simplify_statement(stmt.body, inside), threads)
    return stmt


def _part(part: Node, facts: Facts) -> Node:
    if isinstance(part, Stmt):
        return simplify_statement(part, facts)
    assert isinstance(part, Expr)
    return simplify(part, facts)


def _loop(stmt: For, facts: Facts) -> Stmt:
    low, extent = simplify(stmt.min, facts), simplify(stmt.extent, facts)
    if isinstance(extent, IntImm) and stmt.kind is not LoopKind.THREAD:
        if extent.value <= 0:
            return NOTHING
        if extent.value == 1 and not stmt.pragmas:  # pragmas apply to the loops inside
            return simplify_statement(substitute(stmt.body, {stmt.var: low}), facts)
    body = simplify_statement(stmt.body, facts.bind(stmt.var, low, extent))
    return NOTHING if body is NOTHING else For(stmt.var, low, extent, stmt.kind, stmt.thread, stmt.pragmas, body)


def _branch(stmt: If, facts: Facts) -> Stmt:
    condition = simplify(stmt.condition, facts)
    decided = condition.args[0] if isinstance(condition, Call) and condition.name == "likely" else condition
    if decided is TRUE:
        return simplify_statement(stmt.then, facts)
    if decided is FALSE:
        return NOTHING if stmt.orelse is None else simplify_statement(stmt.orelse, facts)
    orelse = None if stmt.orelse is None else simplify_statement(stmt.orelse, facts)
    then = simplify_statement(stmt.then, facts)
    if then is NOTHING and (orelse is None or orelse is NOTHING):
        return NOTHING
    return If(condition, then, orelse)


def _kept(made: Stmt, stmt: Allocate) -> Stmt:
    return NOTHING if isinstance(made, Allocate) and made.body is NOTHING else made
