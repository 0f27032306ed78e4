"""The schedule steps that an error comes from: errors of later floors name the line that has to change.

Users' errors, refusals of candidates and lines of the log name them alike, as a `StepMark` prints itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ..core.errors import Suspect, UserError
from ..core.text import one_line
from ..tensor.axis import IterVar
from ..tensor.tensor import Tensor
from .schedule import Stage
from .steps import Step, flattened
from .tensor_intrin import TensorIntrin

_MOST_STEPS = 3
"""Steps that an error names."""
_ON_SCHEDULE = ("cache_read", "rfactor", "cache_write")
"""Primitives that are methods of the schedule."""


class StepMark(NamedTuple):
    """A schedule step as errors name it: names instead of objects, so that another process can read it.

    `on` identifies the axis or the stage that a later step of the same primitive replaces. `stages` are the names of
    the stages that the step made, or of the stage that it was called on.
    """

    primitive: str
    text: str
    where: str
    on: str
    stages: tuple[str, ...]
    axes: tuple[str, ...]
    tags: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.text} at {self.where}" if self.where else self.text

    def matches(self, suspect: Suspect) -> bool:
        """Return whether a suspect may be this step."""
        return (
            self.primitive in suspect.primitives
            and (not suspect.axis or suspect.axis in self.axes)
            and (not suspect.tag or suspect.tag in self.tags)
            and (not suspect.stages or not set(self.stages).isdisjoint(suspect.stages))
        )


def marks_of(steps: Iterable[Step | StepMark]) -> tuple[StepMark, ...]:
    """Return the marks of the steps of a schedule; marks among them stay unchanged."""
    return tuple(step if isinstance(step, StepMark) else _mark(step) for step in steps)


def _mark(step: Step) -> StepMark:
    axes = [value for value in flattened(step.given) if isinstance(value, IterVar)]
    threads = tuple(str(axis.thread_tag) for axis in axes if axis.thread is not None)
    made = {tensor.op.name: None for tensor in flattened((step.made,)) if isinstance(tensor, Tensor)}
    stages = tuple(made) or tuple(stage.name for stage in step.given[:1] if isinstance(stage, Stage))
    loops = (
        given
        for value, given in zip(step.given, step.args, strict=True)
        if isinstance(value, IterVar) and value.thread is None
    )
    on = str(step.args[0] if step.primitive == "compute_at" else next(loops, ""))
    names = tuple(axis.name for axis in axes)
    return StepMark(step.primitive, one_line(describe(step)), step.where, on, stages, names, threads)


@contextmanager
def naming_steps(steps: Sequence[Step | StepMark]) -> Iterator[None]:
    """Let the errors of the block name the steps that they come from."""
    try:
        yield
    except UserError as error:
        if not error.steps:
            error.naming(map(str, _at_fault(error, marks_of(steps))))
        raise


def _at_fault(error: UserError, marks: Sequence[StepMark]) -> Sequence[StepMark]:
    """The suspects of an error; without any, the only step of its primitive."""
    if error.suspects:
        return culprits(marks, error.suspects)
    same = [mark for mark in marks if mark.primitive == error.primitive]
    return same if len(same) == 1 else ()


def step_at_fault(error: UserError, scheduled: bool) -> str:
    """Return the step that logs name for an error: the first that it names, or the primitive that raised it.

    The line of the primitive is added, unless the error came after the schedule was complete (`scheduled`).
    """
    if error.steps or scheduled or not error.where:
        return error.steps[0] if error.steps else error.primitive
    return f"{error.primitive} at {error.where}" if error.primitive else ""


def culprits(steps: Iterable[Step | StepMark], suspects: Iterable[Suspect]) -> list[StepMark]:
    """Return the suspected steps in their order: the last one of each primitive on each axis or stage."""
    marks, found = marks_of(steps), dict[int, StepMark]()
    for suspect in suspects:
        last = {(mark.primitive, mark.on): at for at, mark in enumerate(marks) if mark.matches(suspect)}
        found.update((at, marks[at]) for at in last.values())
    return [mark for _, mark in sorted(found.items())][:_MOST_STEPS]


def describe(step: Step) -> str:
    """A step in the form of a program: `s[B].bind(i, threadIdx.x)`."""
    if step.primitive in _ON_SCHEDULE or not (step.given and isinstance(step.given[0], Stage)):
        return f"s.{step.primitive}({', '.join(_shown(value) for value in step.given)})"
    return f"s[{step.given[0].name}].{step.primitive}({', '.join(_shown(v) for v in step.given[1:] if v is not None)})"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, IterVar):
        return value.name if value.thread is None else str(value.thread_tag)
    if isinstance(value, (Stage, Tensor, TensorIntrin)):
        return value.name
    return f'"{value}"' if isinstance(value, str) else str(value)
