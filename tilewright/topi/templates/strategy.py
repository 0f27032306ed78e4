"""A schedule for one kind of hardware, with its space, its default configuration and its ranking."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Generic

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.nearest import nearest_index
from ...tune.space.space import Space
from ...tune.task import Expectation
from .needs import ANYTHING, Needs
from .tensors import Tensors
from .workload import W as W

Choices = Mapping[str, Any]
"""Choices or wanted sizes, by the names of knobs."""


def plain(of: Any, data: Tensor, weights: Tensor, *bias: Tensor) -> Tensor:
    """Return the workload's own declaration of its sums."""
    made: Tensor = of.sums(data, weights, *bias)
    return made


def always(of: Any, machine: Any = None) -> bool:
    """Return True."""
    return True


def never(of: Any, config: Any = None) -> bool:
    """Return False."""
    return False


def unknown(of: Any, machine: Machine) -> float:
    """Return infinity, the cost of a strategy that selection does not compare."""
    return inf


@dataclass(frozen=True)
class SharedModel:
    """Rank configurations by `tune.model`, the machine model that covers ordinary loops."""

    lead: float | None = 0.2
    """The default configuration ranks first unless another should be faster by this fraction, which is the model's
    error among good configurations of one layer. None: the ranking ignores the default configuration."""


@dataclass(frozen=True)
class OwnModel(Generic[W]):
    """Rank configurations by the strategy's own model."""

    rank: Callable[[W, Machine], Sequence[dict[str, Any]]]
    """Returns the wanted choices that the model ranks, the fastest first."""
    expected: Callable[[W, Choices, Machine], Expectation]
    """Returns the cycles, threads and blocks of a configuration."""
    cost: Callable[[W, Machine], float] = unknown
    """Returns the cycles of the default configuration, which selection compares between strategies."""


@dataclass(frozen=True)
class ScheduleStrategy(Generic[W]):
    """A way to schedule a workload on one kind of hardware.

    Functions with a parameter `machine` get the `Machine` of a GPU, or the `VectorRegisters` of a CPU.
    """

    space: Callable[[W], Space]
    """Returns the knobs for a workload. They do not depend on the machine, so that a record is valid on every
    machine."""
    schedule: Callable[[W, Config, ScheduleHandle, Tensors], None]
    """Applies a configuration to a schedule of the tensors."""
    default: Callable[[W, Any], dict[str, Any]]
    """Returns the wanted choices of the default configuration, for a workload on a machine."""
    needs: Needs = ANYTHING
    """Requirements on workload and target."""
    declare: Callable[..., Tensor] | None = None
    """Returns the sums of a workload over data and weights, in the form that the schedule needs. If the strategy
    `starts_at_bias`, it also takes a bias. None: the workload's own declaration."""
    computes: Callable[[W, Any], bool] = always
    """Returns whether the schedule computes a workload that meets its needs on a machine."""
    model: SharedModel | OwnModel[W] | None = None
    """The ranking of configurations without measurements."""
    starts_at_bias: bool = False
    """Whether `declare` takes a bias at which the sums start: adding it then costs no instruction."""
    finishes_tiles: Callable[[W, Config], bool] = never
    """Returns whether a configuration computes an activation for all sums of a thread before it stores any result."""
    machine: Any = REFERENCE
    """The machine of the default configuration and of the model. `PackagedTemplate.strategy` sets it for a target."""
    declare_for: Callable[..., Tensor] | None = None
    """Returns the sums as `declare` does, if they depend on the configuration, which is the argument after the
    weights."""

    @property
    def own_model(self) -> OwnModel[W] | None:
        """The strategy's own model, if it has one."""
        return self.model if isinstance(self.model, OwnModel) else None

    def covers(self, workload: W) -> bool:
        """Return whether the schedule computes a workload on this machine."""
        return self.needs.admit(workload) and self.computes(workload, self.machine)

    def sums(self, workload: W, data: Tensor, weights: Tensor, config: Config, *bias: Tensor) -> Tensor:
        """Declare the sums in the form that the schedule of a configuration needs."""
        if self.declare_for is not None:
            return self.declare_for(workload, data, weights, config, *bias)
        return (self.declare or plain)(workload, data, weights, *bias)

    def default_choices(self, workload: W) -> dict[str, Any]:
        """Return the wanted choices of the default configuration."""
        return self.default(workload, self.machine)

    def default_config(self, workload: W) -> Config:
        """Return the default configuration."""
        return self.nearest(workload, self.default_choices(workload))

    def nearest(self, workload: W, wanted: Choices) -> Config:
        """Return the configuration nearest to wanted sizes and choices, for example of another workload."""
        space = self.space(workload)
        return space.get(nearest_index(space, wanted))

    def rank(self, workload: W) -> Sequence[dict[str, Any]]:
        """Return the wanted choices that the own model ranks, the fastest first; an empty list without one."""
        return self.own_model.rank(workload, self.machine) if self.own_model is not None else []

    def ranked(self, workload: W, space: Space, count: int) -> list[int]:
        """Return the indices of the `count` fastest configurations by the own model, the best first."""
        return list(dict.fromkeys(nearest_index(space, wanted) for wanted in self.rank(workload)[:count]))

    def cost(self, workload: W) -> float:
        """Return the predicted cycles of the default configuration; infinity without an own model."""
        return self.own_model.cost(workload, self.machine) if self.own_model is not None else inf

    def expected(self, workload: W, choices: Choices) -> Expectation:
        """Return the cycles, threads and blocks of a configuration by the own model, which must exist."""
        assert self.own_model is not None
        return self.own_model.expected(workload, choices, self.machine)
