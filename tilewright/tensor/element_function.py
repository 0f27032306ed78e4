"""The function passed to `te.compute`: the names of axes from its parameters, and the values that it may return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import UserError
from ..core.text import quantity
from ..expr.nodes import Expr
from ..expr.traverse import post_order
from .reduction import Reduce


def axis_names(fcompute: Any, count: int, name: str, varargs_names: Sequence[str] | None) -> list[str]:
    """Return the names of the axes of an operation of `count` dimensions: the names of the function's parameters."""
    if not callable(fcompute):
        raise UserError(
            f"the value of {name!r} is given as {fcompute!r}, which is not a function",
            primitive="compute",
            fix=f"give a function of the axes: te.compute(shape, lambda i: ..., name={name!r})",
        )
    code = getattr(fcompute, "__code__", None)
    if code is None:
        return [f"i{i}" for i in range(count)]
    named = list(code.co_varnames[: code.co_argcount])
    if hasattr(fcompute, "__self__"):
        named = named[1:]
    preset = len(
        fcompute.__defaults__ or ()
    )  # `lambda i, f=f: ...`: such a parameter is not an axis unless one is left
    named = named[: max(count, len(named) - preset)]
    takes_more = bool(code.co_flags & 0x04)
    if len(named) > count or (len(named) < count and not takes_more):
        raise UserError(
            f"the shape of {name!r} has {quantity(count, 'dimension')}, but the function takes "
            f"{len(named)} axes {named}",
            primitive="compute",
            fix="give the function one parameter per dimension",
        )
    more = count - len(named)
    if varargs_names is not None and not isinstance(varargs_names, (list, tuple)):
        raise UserError(
            f"varargs_names={varargs_names!r} of {name!r} is not a list of names",
            primitive="compute",
            fix='give ["i", "j"]',
        )
    rest = [f"i{i}" for i in range(more)] if varargs_names is None else list(varargs_names)
    if len(rest) != more:
        raise UserError(
            f"{name!r} has {quantity(more, 'dimension')} beyond {named}, but varargs_names gives {len(rest)}: {rest}",
            primitive="compute",
            fix=f"give {quantity(more, 'name')}",
        )
    return named + rest


def check_values(body: tuple[Expr, ...], name: str) -> None:
    """Raise UserError for values that no operation computes: reductions inside expressions, or beside plain values."""
    reductions = [e for e in body if isinstance(e, Reduce)]
    if reductions and len(reductions) == len(body) and any(r.source is not reductions[0].source for r in reductions):
        raise UserError(
            f"the {len(body)} outputs of {name!r} are reductions of their own",
            primitive="compute",
            fix="give each a te.compute of its own. One pass reduces both by one reducer: `pair = te.comm_reducer("
            "lambda x, y: (x[0] + y[0], x[1] + y[1]), lambda a, b: (te.const(0, a), te.const(0, b)))`, then "
            "`pair((first, second), axis=k)`",
        )
    if reductions and len(reductions) != len(body):
        raise UserError(
            f"the outputs of {name!r} mix reductions and plain values", primitive="compute",
            fix="make each a compute of its own, or one reduction of a tuple",
        )  # fmt: skip
    for e in body:
        inner = [e] if not isinstance(e, Reduce) else [*e.source, e.condition, *e.init]
        nested = next((x for x in post_order(*inner) if isinstance(x, Reduce)), None)
        if nested is not None:
            raise UserError(
                f"{name!r} uses the reduction over {[a.name for a in nested.axes]} inside a larger expression",
                primitive="compute",
                fix="a reduction must be the whole value: give it a te.compute of its own and read that",
            )
