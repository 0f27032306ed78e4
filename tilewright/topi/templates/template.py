"""A packaged template: a convolution, and one way to schedule it for each kind of hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from math import log2
from typing import Any, Generic, TypeVar

from ...core.target import Target
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Declared, Program, Task, freeze
from .workload import Convolution

W = TypeVar("W", bound=Convolution)


@dataclass(frozen=True)
class ScheduleStrategy(Generic[W]):
    """A way to schedule a convolution: its knobs, the schedule of their choices, and choices that do for a start.

    `usual` names the wanted sizes of each knob's choice; the nearest that the space admits is taken.
    """

    space: Callable[[W], Space]
    schedule: Callable[[W, Config], Program]
    usual: Callable[[W], dict[str, Any]]

    def first(self, workload: W) -> Config:
        """The configuration to use where nothing was measured."""
        space, wanted = self.space(workload), self.usual(workload)
        knobs = [_ranked(knob, wanted.get(knob.name)) for knob in space.knobs]
        return space.get(next(index for index in map(space.index, _by_distance(knobs)) if space.is_index_valid(index)))


Ranked = list[tuple[float, int]]
"""How far each choice of a knob is from what is wanted, and its place; the nearest first."""


def _ranked(knob: Any, wanted: Any) -> Ranked:
    if isinstance(wanted, list):
        away = [sum(abs(_log(s) - _log(w)) for s, w in zip(c.sizes[1:], wanted, strict=True)) for c in knob.choices]
    else:
        away = [float(wanted is not None and choice.data != wanted) for choice in knob.choices]
    return sorted((distance, place) for place, distance in enumerate(away))


def _by_distance(knobs: list[Ranked]) -> Iterator[list[int]]:
    """The places of choices, one of each knob, in order of their distances' sum: a predicate may rule out the first."""
    frontier, seen = [(0.0, (0,) * len(knobs))], set()
    while frontier:
        _, ranks = heappop(frontier)
        yield [knob[rank][1] for knob, rank in zip(knobs, ranks, strict=True)]
        for i, knob in enumerate(knobs):
            further = (*ranks[:i], ranks[i] + 1, *ranks[i + 1 :])
            if further[i] < len(knob) and further not in seen:
                seen.add(further)
                heappush(frontier, (sum(k[r][0] for k, r in zip(knobs, further, strict=True)), further))


def _log(size: int) -> float:
    """Twice as much is as far as half as much."""
    return log2(max(size, 1))


@dataclass(frozen=True)
class PackagedTemplate(Generic[W]):
    """A template for tuning, of the workloads that `of` makes; `gpu` and `cpu` schedule them.

    Its arguments, in a log too, are the fields of the workload.
    """

    name: str
    kind: type[W]
    gpu: ScheduleStrategy[W]
    cpu: ScheduleStrategy[W]

    def workload(self, args: tuple[Any, ...]) -> W:
        """The workload of a task's arguments; UserError where they are none."""
        return self.kind.of(*args)

    def strategy(self, target: Target | None) -> ScheduleStrategy[W]:
        """How the target's hardware is scheduled for (without a target: a GPU)."""
        return self.gpu if target is None or target.is_gpu else self.cpu

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """The knobs, and the operations of one run: a product and a sum a term, and nothing for padding.

        NumPy's matrix products compute what is right in a fraction of the time that the declaration takes.
        """
        workload = self.workload(args)
        return Declared(self.strategy(target).space(workload), workload.flop, workload.sample)

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """The schedule of a configuration, and its tensors: data, weights, result."""
        return self.strategy(target).schedule(self.workload(args), config)

    def first(self, args: tuple[Any, ...], target: Target | None) -> Config:
        """The configuration to use where nothing was measured."""
        return self.strategy(target).first(self.workload(args))

    def task(self, workload: W, target: Target) -> Task:
        """What is to be tuned: the workload on a target."""
        return Task(self.name, freeze(workload.args), target)
