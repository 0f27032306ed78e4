"""lower_divisions: strength reduction of floor division and modulo to truncating ones if nothing is negative.

The same walk gives shifts a value for every amount (lower_shifts).
"""

from __future__ import annotations

from typing import Any

from ..arith.facts import EMPTY, Facts
from ..arith.interval import interval
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Div, Expr, FloorDiv, FloorMod, IntImm, Mod
from ..expr.operators import const
from ..expr.traverse import rewrite_from
from ..loops.nodes import For, Function, Launch, Stmt
from .lower_shifts import is_shift, total_shift


def lower_divisions(function: Function, target: Target, options: Options) -> Function:
    """`a // b` and `a % b` with a >= 0 and b > 0 become C's `/` and `%`: shifts for powers of two."""
    return function.with_body(_visit(function.body, EMPTY, {}))


Memos = dict[Facts, dict[Any, Any]]


def _visit(stmt: Stmt, facts: Facts, memos: Memos) -> Stmt:
    if isinstance(stmt, For):
        inside = facts.bind(stmt.var, stmt.min, stmt.extent)
    elif isinstance(stmt, Launch):
        inside = facts.bind_all({var: (const(0, var.dtype), extent) for _, var, extent in stmt.threads})
    else:
        inside = facts

    memo = memos.setdefault(inside, {})

    def child(node: Any) -> Any:
        return _visit(node, inside, memos) if isinstance(node, Stmt) else lower_expression(node, inside, memo)

    made: Stmt = stmt.map_children(child)
    return made


def lower_expression(root: Expr, facts: Facts, memo: dict[Any, Any] | None = None) -> Expr:
    """Lower an expression to truncating divisions; `memo` caches results under the same facts."""

    def rule(e: Any, made: Any) -> Any:
        if isinstance(e, (FloorDiv, FloorMod)) and e.dtype.is_int and e.dtype.lanes == 1:
            positive = isinstance(e.b, IntImm) and e.b.value > 0
            if (positive or interval(e.b, facts).lo > 0) and interval(e.a, facts).lo >= 0:
                return (Div if isinstance(e, FloorDiv) else Mod)(made.a, made.b)
        return total_shift(made, facts) if is_shift(made) else made

    made: Expr = rewrite_from(root, rule, memo)
    return made
