"""Schedules under the legacy API's module name, and the ranges of their loops."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from ..bounds.infer import infer_bounds
from ..core.errors import UserError
from ..core.refusals import missing_from_module as _missing
from ..schedule.handle import ScheduleHandle as Schedule
from ..schedule.handle import StageHandle as Stage
from ..schedule.handle import create_schedule
from ..tensor.axis import IterVar, Range


def InferBound(sch: Schedule) -> dict[IterVar, Range]:
    """The range of every axis of the stages that are computed and stored, and of the threads that axes are bound to.

    Raises UserError where the schedule cannot be lowered for what its stages need of each other.
    """
    if not isinstance(sch, Schedule):
        raise UserError(
            f"{sch!r} is not a schedule", primitive="InferBound", fix="give the schedule that te.create_schedule made"
        )
    found: dict[IterVar, Range] = {}
    for bounds in infer_bounds(sch.value).values():
        found.update(bounds.ranges)
        threads = ((bounds.stage.note(axis).thread, axis) for axis in bounds.stage.leaves)
        found.update({thread: bounds.ranges[axis] for thread, axis in threads if thread is not None})
    return found


__all__ = ["InferBound", "IterVar", "Range", "Schedule", "Stage", "create_schedule"]

if not _TYPE_CHECKING:  # type checkers see what is there

    def __getattr__(name: str) -> object:
        raise _missing(__name__, name, __all__)
