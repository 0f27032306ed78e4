"""Rewrite rules as data, one file for each family of operators; see `pattern` for their language.

Sums, quotients, remainders and comparisons of indices are algorithms on linear forms, not rules.
"""

from __future__ import annotations

from typing import Any

from ...expr.nodes import Expr
from . import choices, conversions, floats, lanes, logic, wrapping
from .pattern import compile_rules

RULES = [*choices.RULES, *conversions.RULES, *floats.RULES, *lanes.RULES, *logic.RULES, *wrapping.RULES]
_COMPILED = compile_rules(RULES)


def rewrite(e: Any) -> Expr | None:
    """The result of the first rule that applies to the node, or None."""
    apply = _COMPILED.get(type(e))
    return None if apply is None else apply(e)
