"""Groups of stages, which are placed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from ..tensor.axis import IterVar
from .legality import without_effect
from .value import At, Inlined, Placement, Schedule


class Placed(Protocol):
    """The handle of a stage, as far as a group needs it."""

    @property
    def id(self) -> int: ...
    @property
    def placement(self) -> Placement: ...
    @property
    def schedule(self) -> Any: ...
    def compute_at(self, parent: Any, scope: IterVar) -> Any: ...
    def compute_inline(self) -> Any: ...
    def compute_root(self) -> Any: ...


S = TypeVar("S", bound=Placed)


class StageGroup(Generic[S]):
    """Several stages that are placed together, as `s.create_group` returns them; `stages` has the producers first."""

    __slots__ = ("stages",)

    def __init__(self, stages: Sequence[S]) -> None:
        self.stages = list(stages)

    def _outside(self) -> list[S]:
        """The stages that are not computed inside another one of the group, nor inlined; readers first."""
        ids = {stage.id for stage in self.stages}
        return [
            stage
            for stage in reversed(self.stages)
            if not isinstance(p := stage.placement, Inlined) and not (isinstance(p, At) and p.stage in ids)
        ]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Place all stages or none: where one is refused, the schedule is as it was before."""
        schedules = [stage.schedule for stage in self.stages[:1]]
        before = [(s, s.value, len(s.steps)) for s in schedules]
        try:
            yield
        except BaseException:
            for schedule, value, count in before:
                schedule.value = value
                del schedule.steps[count:]
            raise

    def compute_at(self, parent: Any, scope: IterVar) -> StageGroup[S]:
        """Compute the stages inside the loop `scope` of the stage `parent`."""
        with self._whole():
            for stage in self._outside():
                stage.compute_at(parent, scope)
        return self

    def compute_root(self) -> StageGroup[S]:
        """Compute the stages by themselves."""
        with self._whole():
            for stage in self._outside():
                stage.compute_root()
        return self

    def compute_inline(self) -> StageGroup[S]:
        """Compute each element of the stages wherever it is read."""
        with self._whole():
            for stage in self.stages:
                stage.compute_inline()
        return self

    def __repr__(self) -> str:
        return f"StageGroup({', '.join(map(repr, self.stages))})"


def between(schedule: Schedule, inputs: set[int], outputs: set[int], include_inputs: bool) -> list[int]:
    """The ids of the stages on ways from `inputs` to `outputs`, producers first; inputs only where asked for.

    Warns where there is none.
    """
    reached: set[int] = set()
    for i in schedule.order:
        sources = {schedule.stage_of[t.op] for t in schedule.stages[i].op.input_tensors}
        if i in inputs or sources & reached:
            reached.add(i)
    needed: set[int] = set()
    for i in reversed(schedule.order):
        if i in outputs or any(r.id in needed and r.id not in inputs for r in schedule.readers(i)):
            needed.add(i)
    wanted = reached & needed - (set() if include_inputs else inputs)
    found = [i for i in schedule.order if i in wanted and not schedule.stages[i].is_placeholder]
    if not found:
        ends, starts = ([schedule.stages[i].name for i in sorted(ids)] for ids in (outputs, inputs))
        without_effect("create_group", f"no stage lies between the inputs {starts} and the outputs {ends}")
    return found
