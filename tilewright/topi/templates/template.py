"""A packaged template: a convolution, and one way to schedule it for each kind of hardware."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log2
from typing import Any, Generic, TypeVar

from ...core.target import Target
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Declared, Program, Task, freeze
from .workload import Convolution

W = TypeVar("W", bound=Convolution)


@dataclass(frozen=True)
class Way(Generic[W]):
    """A way to schedule a convolution: its knobs, the schedule of their choices, and choices that do for a start.

    `usual` names the wanted sizes of each knob's choice; the nearest that the space offers is taken.
    """

    space: Callable[[W], Space]
    schedule: Callable[[W, Config], Program]
    usual: Callable[[W], dict[str, Any]]

    def first(self, workload: W) -> Config:
        """The configuration to use where nothing was measured."""
        space, wanted = self.space(workload), self.usual(workload)
        places = [_nearest(knob, wanted.get(knob.name)) for knob in space.knobs]
        return space.get(space.index(places))


def _nearest(knob: Any, wanted: Any) -> int:
    """The place of the choice that is nearest to what is wanted: equal, or of the sizes closest to it."""
    if wanted is None:
        return 0
    if isinstance(wanted, list):
        away = [sum(abs(_log(s) - _log(w)) for s, w in zip(c.sizes[1:], wanted, strict=True)) for c in knob.choices]
        return min(range(len(away)), key=lambda i: (away[i], i))
    return next(i for i, choice in enumerate(knob.choices) if choice.data == wanted)


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
    gpu: Way[W]
    cpu: Way[W]

    def workload(self, args: tuple[Any, ...]) -> W:
        """The workload of a task's arguments; UserError where they are none."""
        return self.kind.of(*args)

    def way(self, target: Target | None) -> Way[W]:
        """How the target's hardware is scheduled for (without a target: a GPU)."""
        return self.gpu if target is None or target.is_gpu else self.cpu

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """The knobs, and the operations of one run: a product and a sum a term, and nothing for padding."""
        workload = self.workload(args)
        return Declared(self.way(target).space(workload), workload.flop)

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """The schedule of a configuration, and its tensors: data, weights, result."""
        return self.way(target).schedule(self.workload(args), config)

    def first(self, args: tuple[Any, ...], target: Target | None) -> Config:
        """The configuration to use where nothing was measured."""
        return self.way(target).first(self.workload(args))

    def task(self, workload: W, target: Target) -> Task:
        """What is to be tuned: the workload on a target."""
        return Task(self.name, freeze(workload.args), target)
