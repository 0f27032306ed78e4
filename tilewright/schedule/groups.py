"""Groups of stages, which are placed together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from ..tensor.axis import IterVar
from ..tensor.scan import ScanOp
from .legality import without_effect
from .schedule import At, Inlined, Placement, Schedule


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
    @property
    def attach_stage(self) -> Any: ...


S = TypeVar("S", bound=Placed)


class StageGroup(Generic[S]):
    """Several stages that are placed together, as `s.create_group` returns them; `stages` has the producers first.

    `scan` is the id of the scan that they are steps of; None for a group of `s.create_group`.
    """

    __slots__ = ("scan", "stages")

    def __init__(self, stages: Sequence[S], scan: int | None = None) -> None:
        self.stages = list(stages)
        self.scan = scan

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StageGroup) or self.scan is None or self.scan != other.scan:
            return self is other
        return self.stages[0].schedule is other.stages[0].schedule

    def __hash__(self) -> int:
        return id(self) if self.scan is None else self.scan

    @property
    def group(self) -> StageGroup[S] | None:
        """The smallest enclosing group: of `s.create_group`, or the steps of a scan; None if there is no such group."""
        return smallest_around(self.stages[0].schedule, self) if self.stages else None

    @property
    def num_child_stages(self) -> int:
        """The number of groups and stages directly inside this group."""
        schedule = self.stages[0].schedule if self.stages else None
        parts = [*schedule.groups, *self.stages] if schedule else []
        return sum(1 for part in parts if smallest_around(schedule, part) == self)

    @property
    def attach_stage(self) -> Any:
        """The stage with the loop that the whole group is computed at; None if there is no such stage."""
        placed = {stage.placement for stage in self._outside()}
        return self._outside()[0].attach_stage if len(placed) == 1 else None

    def _outside(self) -> list[S]:
        """The stages that are not inlined, nor computed inside another stage of the group; readers first."""
        ids = {stage.id for stage in self.stages}
        return [
            stage
            for stage in reversed(self.stages)
            if not isinstance(p := stage.placement, Inlined) and not (isinstance(p, At) and p.stage in ids)
        ]

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Place all stages or none: if a stage is refused, the schedule does not change."""
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
        """Compute the stages at the root."""
        with self._whole():
            for stage in self._outside():
                stage.compute_root()
        return self

    def compute_inline(self) -> StageGroup[S]:
        """Compute each element of the stages in its readers."""
        with self._whole():
            for stage in self.stages:
                stage.compute_inline()
        return self

    def __repr__(self) -> str:
        return f"StageGroup({', '.join(map(repr, self.stages))})"


def smallest_around(schedule: Any, inner: Any) -> StageGroup[Any] | None:
    """The smallest group of a schedule's handle that has the stage or the group `inner`; None if there is none.

    The stages of a scan's step are a group. Of two groups of the same stages, the later one is around the earlier one.
    """
    is_group = isinstance(inner, StageGroup)
    own = {stage.id for stage in inner.stages} if is_group else {inner.id}
    after = schedule.groups.index(inner) + 1 if inner in schedule.groups else 0
    around = [
        group
        for i, group in enumerate(schedule.groups)
        if own < (ids := {stage.id for stage in group.stages}) or (own == ids and i >= after)
    ]
    if not around and not (is_group and inner.scan is not None):
        around = [group for group in _steps(schedule) if own <= {stage.id for stage in group.stages}]
    return min(around, key=lambda group: len(group.stages), default=None)


def _steps(schedule: Any) -> Iterator[StageGroup[Any]]:
    """A group per scan: the stages of its steps."""
    value: Schedule = schedule.value
    for stage in value.in_order():
        if isinstance(stage.op, ScanOp):
            ids = {value.stage_of[op] for op in stage.op.steps() if op in value.stage_of}
            yield StageGroup([schedule[value.stages[i].op] for i in value.order if i in ids], scan=stage.id)


def between(schedule: Schedule, inputs: set[int], outputs: set[int], include_inputs: bool) -> list[int]:
    """The ids of the stages on ways from `inputs` to `outputs`, producers first; inputs only if requested.

    Warns if there is none.
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
