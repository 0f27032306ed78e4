"""guard_selects: a Select with a branch that may read out of bounds evaluates only the taken branch.

`Select` evaluates both branches, yet the oldest scripts use it for padding, with one branch that reads out of bounds.
Such a Select becomes an IfThenElse. A Select with safe reads stays, because it costs no branch and runs on vectors.
"""

from __future__ import annotations

from typing import Any

from ..arith.facts import EMPTY, Facts
from ..arith.interval import interval
from ..arith.simplify import simplify
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Div, Expr, FloorDiv, FloorMod, IfThenElse, IntImm, Load, Mod, Select
from ..expr.traverse import fold, post_order, rewrite
from ..loops.nodes import Buffer, For, Function, Stmt


def guard_selects(function: Function, target: Target, options: Options) -> Function:
    """Turn every Select with an unsafe branch into an IfThenElse. Works on flat storage."""
    if not any(isinstance(node, Select) for node in post_order(function.body)):
        return function
    return function.with_body(_visit(function.body, EMPTY))


def _visit(stmt: Stmt, facts: Facts) -> Stmt:
    inside = facts.bind(stmt.var, stmt.min, stmt.extent) if isinstance(stmt, For) else facts
    made: Stmt = stmt.map_children(lambda c: _visit(c, inside) if isinstance(c, Stmt) else _expr(c, inside))
    return made


def _expr(root: Expr, facts: Facts) -> Expr:
    clean: dict[Any, bool] = {}

    def rule(e: Any) -> Any:
        if isinstance(e, Select) and not _safe(e, facts, clean):
            return IfThenElse(e.condition, e.true_value, e.false_value)
        return e

    made: Expr = rewrite(root, rule)
    return made


def _safe(e: Select, facts: Facts, clean: dict[Any, bool]) -> bool:
    """Return whether evaluating both branches is safe: they read only elements that the condition reads, or in bounds.

    `clean` caches the expressions without harmful reads below them.
    """
    if _clean(e.true_value, facts, clean) and _clean(e.false_value, facts, clean):
        return True
    known = set(post_order(e.condition))
    return all(node in known or _harmless(node, facts) for node in post_order(e.true_value, e.false_value))


def _clean(root: Expr, facts: Facts, clean: dict[Any, bool]) -> bool:
    """Return whether everything below an expression is harmless; in a chain of choices, each level is asked once."""
    return fold(root, clean, lambda at, below: _harmless(at, facts) and all(below), lambda at: at.children())


def _harmless(node: Any, facts: Facts) -> bool:
    if isinstance(node, (Div, Mod, FloorDiv, FloorMod)) and node.dtype.is_int:
        return isinstance(node.b, IntImm) and node.b.value != 0
    if not isinstance(node, Load) or not isinstance(node.source, Buffer):
        return True
    size = node.source.shape[0] if node.source.shape else IntImm(1, node.indices[0].dtype)
    if len(node.indices) != 1 or not isinstance(size, IntImm):
        return False
    span = interval(simplify(node.indices[0], facts), facts)
    return span.lo >= 0 and span.hi < size.value
