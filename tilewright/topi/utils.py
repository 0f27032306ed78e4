"""Shapes as Python numbers, under the names of the legacy `topi.utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.refusals import missing_from_module as _missing
from ..expr.nodes import Expr, IntImm
from ..expr.operators import as_expr


def get_const_int(expr: Any) -> int:
    """The value of a constant integer expression; UserError where it is none."""
    found = simplify(as_expr(expr))
    if not isinstance(found, IntImm):
        raise UserError(
            f"`{found}` is not a constant integer",
            primitive="get_const_int",
            fix="give a number, or the extent of a dimension whose size is known",
        )
    return found.value


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int | Expr, ...]:
    """A shape with its constants as Python integers; sizes that are known only at the call stay as they are."""
    found = [simplify(as_expr(e)) for e in in_tuple]
    return tuple(e.value if isinstance(e, IntImm) else e for e in found)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
