"""lower_intrinsics: intrinsics as the rules that users have registered for a target spell them."""

from __future__ import annotations

from typing import Any

from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr
from ..expr.op_registry import has_rules, lowered
from ..expr.traverse import rewrite
from ..loops.nodes import Function

_MOST_RULES = 32
"""The most rules that are applied in turn, each to the result of the one before."""


def lower_intrinsics(function: Function, target: Target, options: Options) -> Function:
    """Replace every call for which the target has a rule by the result of the rule; the rest stays as it is."""
    if not has_rules():
        return function

    def rule(node: Any) -> Any:
        return _rewritten(node, target.kind) if isinstance(node, Expr) else node

    return function.with_body(rewrite(function.body, rule))


def _rewritten(e: Expr, kind: str) -> Expr:
    for _ in range(_MOST_RULES):
        made = lowered(e, kind)
        if made is e:
            break
        e = made
    return e
