"""The legacy module of tasks: their creation, and the number of operations that they compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....core.errors import UserError
from ....core.refusals import old_name as _old_name
from ....schedule.handle import ScheduleHandle
from ....tune.flops import count_flop
from ....tune.task import Task as Task
from ....tune.task import create as create
from .templates import args_to_workload as args_to_workload
from .templates import deserialize_args as deserialize_args
from .templates import get_config as get_config
from .templates import serialize_args as serialize_args
from .templates import template as template


def compute_flop(sch: ScheduleHandle) -> int:
    """Count the arithmetic operations of a schedule's outputs and of all that they depend on.

    Parameters
    ----------
    sch : Schedule
        The result of `te.create_schedule`.

    Returns
    -------
    int
        The number of additions, products, comparisons and the like; casts, copies and indices count nothing.

    Raises
    ------
    UserError
        If there is no arithmetic, or its number is not known before the call.
    """
    if not isinstance(sch, ScheduleHandle):
        raise UserError(f"{sch!r} is not a schedule", primitive="compute_flop", fix="give te.create_schedule(C.op)")
    return count_flop(sch.value)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
