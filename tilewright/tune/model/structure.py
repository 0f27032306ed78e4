"""The structures of a space. A structure is the common schedule of all configurations that differ only in numbers.

It is traced once. It has a schedule and, for each split, a function from configurations to factors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ...core.errors import InternalError, UserError
from ...core.log import logger
from ...expr.nodes import Expr, IntImm, Load
from ...expr.traverse import loads
from ...schedule.handle import ScheduleHandle
from ...schedule.inlining import inlined_bodies
from ...schedule.relations import Split
from ...schedule.schedule import Schedule, Stage
from ...schedule.steps import Step
from ...tensor.axis import IterVar
from ..space.config import Config
from ..task import Task
from .traced import Columns, Number, Trace, TracedNumber, part_of, tables_of, traced_config

_MAKES_SPLITS = ("split", "tile")
T = TypeVar("T")


@dataclass(frozen=True)
class Structure:
    """One schedule for all configurations that `trace` admits; `words` has the choices of knobs without numbers.

    If the template rejects the configurations, the schedule is None, and there is a reason.
    """

    words: Mapping[int, int]
    trace: Trace
    schedule: Schedule | None
    bodies: Mapping[int, tuple[Expr, ...]]
    numbers: Mapping[tuple[int, str], Any]
    """The traced numbers of splits and pragmas, by the identity of the relation or the axis and the name of the
    number."""
    refusal: str = ""
    _known: dict[Hashable, Any] = field(default_factory=dict)

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return a result that does not depend on numbers; `make` runs once for all configurations."""
        if key not in self._known:
            self._known[key] = make()
        found: T = self._known[key]
        return found

    def loads(self, stage: int) -> list[Load]:
        """Return the loads in a stage's bodies."""
        return self.once(("loads", stage), lambda: list(loads(*self.bodies[stage])))

    def number(self, of: object, which: str, default: Expr | int | None, columns: Columns) -> Number | None:
        """Return a factor, a number of parts or a pragma's value per configuration; None if there is none."""
        traced = self.numbers.get((id(of), which))
        if traced is not None:
            return traced.make(columns)
        return default.value if isinstance(default, IntImm) else default if isinstance(default, int) else None


class Structures:
    """The structures of a task, traced on demand."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.space = task.config_space
        self.tables = tables_of(self.space)
        self._words = [k for k, table in enumerate(self.tables) if not table.shape[1]]
        self._known: dict[tuple[int, ...], list[Structure]] = {}

    def groups(self, points: np.ndarray) -> Iterator[tuple[np.ndarray, Structure, Columns]]:
        """Yield the rows of `points` that share a structure, the structure, and their numbers."""
        words = points[:, self._words]
        kinds, which = np.unique(words, axis=0, return_inverse=True)
        order = np.argsort(which.reshape(-1), kind="stable")
        ends = np.cumsum(np.bincount(which.reshape(-1), minlength=len(kinds)))
        for kind, rows in zip(kinds.tolist(), np.split(order, ends[:-1]), strict=True):
            known = self._known.setdefault(tuple(kind), [])
            at = 0
            while len(rows):
                if at == len(known):
                    known.append(self._traced(points[rows[0]].tolist()))
                structure = known[at]
                columns = Columns(self.tables, points[rows])
                fits = structure.trace.admits(columns)
                if fits.any():
                    yield rows[fits], structure, Columns(self.tables, points[rows[fits]])
                    rows = rows[~fits]
                at += 1

    @property
    def count(self) -> int:
        """The number of structures traced so far."""
        return sum(map(len, self._known.values()))

    def _traced(self, point: Sequence[int]) -> Structure:
        words = {k: point[k] for k in self._words}
        trace = Trace()
        try:
            handle = self.task.instantiate(traced_config(self.space, point, trace))[0]
        except Exception as error:  # user code of a template: a run on plain numbers shows whether it fails there, too
            logger.debug("%s on traced numbers: %s: %s", self.task.name, type(error).__name__, error)
            return self._plain(words, point)
        return _structure(words, trace, handle)

    def _plain(self, words: dict[int, int], point: Sequence[int]) -> Structure:
        """Return the structure of a single configuration."""
        trace = Trace()
        for k, table in enumerate(self.tables):
            trace.guards += [(part_of(k, p), int(value)) for p, value in enumerate(table[point[k]])]
        try:
            choices = {knob.name: knob.choices[place] for knob, place in zip(self.space.knobs, point, strict=True)}
            handle = self.task.instantiate(Config(choices, self.space.index(point)))[0]
        except InternalError:  # our own error, not the template's
            raise
        except (Exception, SystemExit) as error:
            why = error.message if isinstance(error, UserError) else str(error)
            return Structure(words, trace, None, {}, {}, f"{type(error).__name__}: {why}")
        return _structure(words, trace, handle)


def _structure(words: dict[int, int], trace: Trace, handle: ScheduleHandle) -> Structure:
    schedule = handle.value
    numbers: dict[tuple[int, str], Any] = {}
    for stage in schedule.in_order():
        relations = [r for r in stage.relations if isinstance(r, Split)]
        given = list(_split_numbers(handle.steps, stage.id))
        for relation, (factor, nparts) in zip(relations, given[-len(relations) :] if relations else [], strict=True):
            numbers.update(_noted(relation, factor=factor, nparts=nparts))
    for step in handle.steps:
        if step.primitive == "pragma" and isinstance(step.args[-1], TracedNumber):
            axis = _axis_of(schedule, step.args[1])
            if axis is not None:
                numbers.update(_noted(axis, **{step.args[2]: step.args[-1]}))
    return Structure(words, trace, schedule, inlined_bodies(schedule), numbers)


def _noted(of: object, **given: Any) -> Iterator[tuple[tuple[int, str], Any]]:
    return (((id(of), which), value) for which, value in given.items() if isinstance(value, TracedNumber))


def _split_numbers(steps: Sequence[Step], stage: int) -> Iterator[tuple[Any, Any]]:
    """Yield factor and number of parts of each split of a stage, in order."""
    for step in steps:
        if step.primitive in _MAKES_SPLITS and step.args[0] == {"stage": stage}:
            if step.primitive == "split":
                yield (*step.args[2:], None, None)[:2]
            else:
                yield step.args[3], None
                yield step.args[4], None


def _axis_of(schedule: Schedule, reference: Any) -> IterVar | None:
    if not isinstance(reference, dict) or not reference.get("axis"):
        return None
    stage: Stage = schedule.stages[reference["axis"][0]]
    place: int = reference["axis"][1]
    return stage.all_axes[place] if place < len(stage.all_axes) else None
