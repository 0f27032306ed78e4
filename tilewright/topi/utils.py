"""Shapes as Python numbers, under the names of the legacy `topi.utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.refusals import missing_from_module as _missing
from ..expr.nodes import Expr, IntImm
from ..expr.operators import as_expr
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Operation
from .tag import is_injective


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


def traverse_inline(s: ScheduleHandle, final_op: Operation, callback: Callable[[Operation], Any]) -> None:
    """Call `callback` with every operation that `final_op` is computed from, and compute its kind of elements inline.

    Parameters
    ----------
    s
        The schedule.
    final_op
        The output. What it reads, and only moves or computes elements, is computed inline.
    callback
        Called with each operation, readers first, once.

    Raises
    ------
    UserError
        For what is not an operation of the schedule.
    """
    if not isinstance(final_op, Operation):
        raise UserError(
            f"final_op is {final_op!r}, which is not an operation", primitive="traverse_inline", fix="give out.op"
        )
    seen: set[Operation] = set()
    waiting = [final_op]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if is_injective(op.tag) and op is not final_op and op not in s.outputs:
            s[op].compute_inline()
        waiting += [t.op for t in reversed(op.input_tensors)]
        callback(op)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, globals())
