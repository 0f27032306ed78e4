"""The program that converts one or two rows of numbers into one row of another type."""

from __future__ import annotations

from typing import Any

from ..core.casts import Casts
from ..core.target import Target
from ..expr.convert import cast, const
from ..expr.operators import if_then_else
from ..expr.variables import size_var
from ..schedule.handle import ScheduleHandle, create_schedule
from ..tensor.tensor import Tensor, compute, placeholder
from .schedules.injective import one_element_each


def scheduled(of: Casts, target: Target) -> tuple[ScheduleHandle, list[Any], dict[Tensor, Any]]:
    """The schedule, its arguments, and their buffers."""
    first, second, begin = (size_var(name) for name in ("first", "second", "begin"))
    rows = [placeholder((n,), of.given, name) for n, name in ((first, "a"), (second, "b"))][: of.rows]

    def element(i: Any) -> Any:
        if of.rows == 1:
            return cast(of.made, rows[0](i))
        behind = if_then_else(i >= begin, rows[1](i - begin), const(0.0, of.given))
        return cast(of.made, if_then_else(i < first, rows[0](i), behind))

    made = compute((first if of.rows == 1 else begin + second,), element, "made")
    s = create_schedule(made.op)
    one_element_each(s, made.op, target)
    return s, [*rows, made, *([begin] if of.rows == 2 else [])], {}
