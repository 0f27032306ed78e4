"""The statement that ends a function's call with a value."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError
from .effects import RETURN
from .nodes import Call, Expr
from .operators import as_expr


def ret(val: Any, span: Any = None) -> Expr:
    """End the call of a function; the call's value is `val`.

    Parameters
    ----------
    val
        A number, which may be read from memory.

    Raises
    ------
    UserError
        If it is not a number.
    """
    e = as_expr(val)
    if e.dtype == "handle" or e.dtype.lanes > 1:
        raise UserError(f"`{e}`, of type {e.dtype}, is returned", primitive="ret", fix="return one number")
    return Call(RETURN, (e,), e.dtype)
