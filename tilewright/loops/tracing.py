"""Tracing: a function that is called with the values of expressions while a program computes them."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError
from ..expr.nodes import Expr
from ..expr.operators import as_expr
from .calls import call_intrin

DEFAULT_ACTION = "tvm.default_trace_action"
"""The name of the registered function that prints its arguments."""
TRACED = "tilewright.traced"
"""The builder of the caller of the traced function; the result may be none."""


def trace(args: Any, trace_action: str = DEFAULT_ACTION) -> Expr:
    """Call a registered function with the values of expressions, and continue with its result.

    Parameters
    ----------
    args
        A list of values, expressions or numbers; the last one has the type of the result.
    trace_action
        The name under which `register_func` knows the function. It is called for each element that is computed, on the
        host. By default the values are printed, and the last one is the result.

    Returns
    -------
    Expr
        The result of the function; the last value if it returns None.

    Raises
    ------
    UserError
        For arguments that are not a list, or an empty one, and for a name that is not text.
    """
    if not isinstance(args, (list, tuple)) or not args:
        raise UserError(
            f"the values are {args!r}", primitive="trace", fix='give a list: tir.trace([A[i]], "my.function")'
        )
    if not isinstance(trace_action, str):
        raise UserError(
            f"the function is given as {trace_action!r}",
            primitive="trace",
            fix='give its name: @tvm.register_func("my.function") makes it known',
        )
    values = [as_expr(arg) for arg in args]
    return call_intrin(str(values[-1].dtype), "tir.tvm_call_packed", TRACED, trace_action, *values)
