"""Which step of a schedule an error comes from: errors of later floors name the line that has to change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.errors import Suspect, UserError
from ..tensor.axis import IterVar
from ..tensor.tensor import Tensor
from .steps import Step
from .value import Stage

_MOST = 3
"""Steps that an error names."""
_ON_SCHEDULE = ("cache_read", "rfactor", "cache_write")
"""Primitives that are methods of the schedule."""


@contextmanager
def naming_steps(steps: Sequence[Step]) -> Iterator[None]:
    """Let the errors of the block name the steps that they come from."""
    try:
        yield
    except UserError as error:
        if error.suspects and not error.steps:
            error.naming(f"{describe(step)} at {step.where}" for step in culprits(steps, error.suspects))
        raise


def culprits(steps: Sequence[Step], suspects: Iterable[Suspect]) -> list[Step]:
    """The suspected steps, in the order in which they were done: of each suspect the steps in effect at the end."""
    found: dict[int, Step] = {}
    for suspect in suspects:
        for number in _last_of_each(steps, suspect):
            found[number] = steps[number]
    return [step for _, step in sorted(found.items())][:_MOST]


def _last_of_each(steps: Sequence[Step], suspect: Suspect) -> list[int]:
    """The last matching step on each axis or stage: a later one replaces earlier ones."""
    found: dict[object, int] = {}
    for number, step in enumerate(steps):
        if matches(step, suspect):
            on = next((value for value in step.given if isinstance(value, IterVar) and value.thread is None), None)
            found[step.primitive, on if step.primitive != "compute_at" else step.given[0].id] = number
    return list(found.values())


def matches(step: Step, suspect: Suspect) -> bool:
    """Whether a suspect may be this step."""
    if step.primitive not in suspect.primitives:
        return False
    axes = [value for value in _flat(step.given) if isinstance(value, IterVar)]
    if suspect.axis and not any(axis.name == suspect.axis for axis in axes):
        return False
    if suspect.tag and not any(axis.thread is not None and axis.thread_tag == suspect.tag for axis in axes):
        return False
    return not suspect.stages or bool(_stages(step) & set(suspect.stages))


def _stages(step: Step) -> set[str]:
    """The names of the stages that a step made, else of the one that it was called on."""
    made = {tensor.op.name for tensor in _flat((step.made,)) if isinstance(tensor, Tensor)}
    return made or {stage.name for stage in step.given[:1] if isinstance(stage, Stage)}


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _flat(value)
        else:
            yield value


def describe(step: Step) -> str:
    """A step as it is written in a program: `s[B].bind(i, threadIdx.x)`."""
    if step.primitive in _ON_SCHEDULE or not (step.given and isinstance(step.given[0], Stage)):
        return f"s.{step.primitive}({', '.join(_shown(value) for value in step.given)})"
    return f"s[{step.given[0].name}].{step.primitive}({', '.join(_shown(v) for v in step.given[1:] if v is not None)})"


def _shown(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, IterVar):
        return value.name if value.thread is None else str(value.thread_tag)
    if isinstance(value, (Stage, Tensor)):
        return value.name
    return f'"{value}"' if isinstance(value, str) else str(value)
