"""A packaged template: a convolution, and one way to schedule it for each kind of hardware."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heappop, heappush
from math import inf, isfinite, log2
from typing import Any, Generic, TypeVar

from ...core.errors import UserError
from ...core.target import Target
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.tensor import Tensor
from ...tune.model.ranking import rank_quickly
from ...tune.space.choices import Choice, SplitChoice
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Declared, Expectation, Expected, Program, Task, Usual, freeze
from .bias import searched
from .epilogue import NO_EPILOGUE, Epilogue, Expression, finish
from .tensors import Tensors
from .workload import Convolution

W = TypeVar("W", bound=Convolution)
GENERAL = "general"
"""The strategy name of a template that has no other."""
LEAD = 0.2
"""The part by which the model of the machine errs among good configurations of one layer."""


def plain(of: Any, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums as the workload does, whatever the configuration."""
    made: Tensor = of.sums(data, weights)
    return made


def always(of: Any) -> bool:
    """Accept every workload."""
    return True


def never(of: Any) -> bool:
    """Accept no workload."""
    return False


def no_configuration(of: Any, config: Config) -> bool:
    """Hold of no configuration."""
    return False


def unordered(of: Any) -> Sequence[dict[str, Any]]:
    """Rank nothing."""
    return []


def unknown(of: Any) -> float:
    """Expect nothing."""
    return inf


@dataclass(frozen=True)
class ScheduleStrategy(Generic[W]):
    """A way to schedule a convolution for one kind of hardware.

    Attributes
    ----------
    space : callable
        Returns the knobs for a workload.
    schedule : callable
        Applies a configuration to a schedule of the tensors.
    usual : callable
        Returns the wanted sizes of each knob's choice where nothing was measured; the nearest that the space admits
        is taken.
    declare : callable
        Returns the sums of a workload over data and weights, in the form that the schedule needs.
    covers : callable
        Says whether it can schedule a workload.
    order : callable
        Returns wanted choices as `usual` does, by what a model expects of them, the best first; an empty list where
        there is no model.
    cost : callable
        Returns the cycles that the first configuration is expected to take; infinity where there is no model.
    ranked : bool
        Whether the model of the machine chooses where nothing was measured, on targets that it covers.
    lead : float, optional
        The part by which it must expect another configuration to be faster than that of `usual`, with which the ranking
        then begins; by default the ranking knows nothing of `usual`.
    expected : callable, optional
        Returns what its own model expects of choices, by the names of their knobs; that ranks the space.
    tailored : callable, optional
        Returns the strategy for a target: what it expects may depend on the hardware, its space does not.
    starts_at_bias : bool
        Whether `declare` takes a bias as well, at which the sums start: adding it then costs no instruction.
    adds_bias_last : callable
        Says of a configuration whether a bias is added to complete sums all the same.
    finishes_tiles : callable
        Says of a configuration whether an activation is computed for all sums of a thread before it stores any result.
    timed : bool
        Whether its kernels have been timed on hardware. Before that only tuners take it: it is the choice of no call
        without records.
    """

    space: Callable[[W], Space]
    schedule: Callable[[W, Config, ScheduleHandle, Tensors], None]
    usual: Callable[[W], dict[str, Any]]
    declare: Callable[..., Tensor] = plain
    covers: Callable[[W], bool] = always
    order: Callable[[W], Sequence[dict[str, Any]]] = unordered
    cost: Callable[[W], float] = unknown
    ranked: bool = False
    lead: float | None = None
    expected: Callable[[W, Mapping[str, Any]], Expectation] | None = None
    tailored: Callable[[Target], ScheduleStrategy[W]] | None = None
    starts_at_bias: bool = False
    adds_bias_last: Callable[[W, Config], bool] = no_configuration
    finishes_tiles: Callable[[W, Config], bool] = no_configuration
    timed: bool = True

    def first(self, workload: W) -> Config:
        """The configuration to use where nothing was measured."""
        return self.nearest(workload, self.usual(workload))

    def nearest(self, workload: W, wanted: Mapping[str, Any]) -> Config:
        """The configuration nearest to the wanted sizes and choices, by knob, such as those of another workload."""
        space = self.space(workload)
        return space.get(_nearest(space, wanted))

    def likely(self, workload: W, space: Space, count: int) -> list[int]:
        """The indices of the configurations that are expected to be fastest, so many at most, the best first."""
        return list(dict.fromkeys(_nearest(space, wanted) for wanted in self.order(workload)[:count]))


def _nearest(space: Space, wanted: Mapping[str, Any]) -> int:
    """The index of the configuration that is as wanted, or nearest to it."""
    exact = [_place_of(knob, wanted.get(knob.name)) for knob in space.knobs]
    places = [place for place in exact if place is not None]
    if len(places) == len(exact) and space.is_index_valid(space.index(places)):
        return space.index(places)
    knobs = [_ranked(knob, wanted.get(knob.name)) for knob in space.knobs]
    return next(index for index in map(space.index, _by_distance(knobs)) if space.is_index_valid(index))


def _place_of(knob: Any, wanted: Any) -> int | None:
    """The place of a choice that is exactly as wanted, the first where nothing is; None where there is none."""
    if wanted is None:
        return 0
    return next((place for place, choice in enumerate(knob.choices) if choice.wanted == wanted), None)


Ranked = list[tuple[float, int]]
"""How far each choice of a knob is from what is wanted, and its place; the nearest first."""


def _ranked(knob: Any, wanted: Any) -> Ranked:
    away = [_distance(choice, wanted) for choice in knob.choices]
    return sorted((distance, place) for place, distance in enumerate(away))


def _distance(choice: Choice, wanted: Any) -> float:
    """How far a choice is from what is wanted: doublings of a split's inner sizes; of others, 1 where it is another."""
    if wanted is None:
        return 0.0
    if isinstance(choice, SplitChoice):
        return sum(abs(_log(s) - _log(w)) for s, w in zip(choice.sizes[1:], wanted, strict=True))
    return float(choice.data != wanted)


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
    """A template for tuning, of the workloads that `kind` makes; `gpu` and `cpu` schedule them.

    Its arguments, in a log too, are the fields of the workload. `others` are further strategies for the same
    workloads; each is a template of its own, so that its name in a log says which strategy was measured. `runs_on` says
    which targets have the instructions that it needs (asked with None: a GPU of the usual kind).
    """

    name: str
    kind: type[W]
    gpu: ScheduleStrategy[W]
    cpu: ScheduleStrategy[W]
    others: tuple[PackagedTemplate[W], ...] = ()
    runs_on: Callable[[Target | None], bool] = always
    scope: str = ""

    @property
    def strategy_name(self) -> str:
        """What tells this strategy from the others of its operator."""
        return self.name.partition(".")[2] or GENERAL

    @property
    def strategies(self) -> tuple[PackagedTemplate[W], ...]:
        """All strategies, this one first."""
        return (self, *self.others)

    def workload(self, args: tuple[Any, ...]) -> W:
        """The workload of a task's arguments; UserError where they are none."""
        return self.kind.of(*args)

    def strategy(self, target: Target | None) -> ScheduleStrategy[W]:
        """How the target's hardware is scheduled for (without a target: a GPU)."""
        strategy = self.cpu if target is not None and not target.is_gpu else self.gpu
        return strategy if target is None or strategy.tailored is None else strategy.tailored(target)

    def covers(self, workload: W, target: Target | None) -> bool:
        """Whether this strategy can schedule the workload."""
        return self.runs_on(target) and self.strategy(target).covers(workload)

    def refusal(self, workload: W, target: Target | None) -> str:
        """Return the predicate that says that this strategy does not cover the workload, for messages."""
        on = f" on {target.kind}" if target is not None else ""
        return f"does not cover {workload.title}{on}{f': it is for {self.scope}' if self.scope else ''}"

    def choose(self, workload: W, target: Target | None) -> tuple[PackagedTemplate[W], Config]:
        """The strategy and the configuration to use where nothing was measured.

        Of the strategies that cover the workload, the one that a model expects to take the least time is taken; where
        none is modelled, the last one: strategies are listed from the most general one on.
        """
        template = self.able(workload, target)[0]
        return template, template.first(workload.args, target)

    def able(self, workload: W, target: Target | None) -> list[PackagedTemplate[W]]:
        """Return the strategies that cover a workload, the default one first; UserError if there are none."""
        able = [t for t in self.strategies if t.covers(workload, target)]
        if not able:
            raise UserError(
                f"no template covers {workload.title} on {target}",
                primitive=workload.name,
                fix="declare it with topi.nn, and schedule it with topi.generic",
            )
        return default_first(able, workload, target)

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        """The knobs, and the operations of one run: a product and a sum a term, and nothing for padding.

        NumPy's matrix products compute what is right in a fraction of the time that the declaration takes.
        """
        workload = self.workload(args)
        self._check(workload, target)
        strategy = self.strategy(target)
        space, expected = strategy.space(workload), None
        if strategy.expected is not None and target is not None and target.is_gpu:
            expected = Expected(partial(strategy.expected, workload), partial(strategy.likely, workload, space))
        usual = None
        if strategy.lead is not None and target is not None and target.is_gpu and target.has_warps:
            usual = Usual(lambda: _nearest(space, strategy.usual(workload)), strategy.lead)
        default = partial(self.first, args, target)
        return Declared(searched(space), workload.flop, workload.sample, expected, usual, default)

    def _check(self, workload: W, target: Target | None) -> None:
        if not self.covers(workload, target):
            others = [t.name for t in ALL if t.kind is self.kind and t.covers(workload, target)]
            raise UserError(
                f"the template {self.name!r} {self.refusal(workload, target)}",
                primitive=workload.name,
                fix=f"use {' or '.join(others) or 'topi.nn, and a schedule of topi.generic'}",
            )

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """The schedule of a configuration, and its tensors: data, weights, result."""
        return self.program(config, self.workload(args), target)

    def program(self, config: Config, workload: W, target: Target | None, epilogue: Epilogue = NO_EPILOGUE) -> Program:
        """Return the schedule of a configuration and the arguments of its kernel.

        Parameters
        ----------
        config : Config
            Of the space of this strategy for the workload.
        workload : Convolution
            What to compute.
        target : Target, optional
            What to schedule for; by default a GPU.
        epilogue : Epilogue
            What to do to every sum before it is stored, in the same kernel.

        Returns
        -------
        schedule : ScheduleHandle
        args : list of Tensor
            Data, weights, then bias and residual where the epilogue adds them, then the result.
        """
        self._check(workload, target)
        data, weights = workload.placeholders()
        extras = epilogue.placeholders(workload.out_shape, workload.channels, workload.result)
        strategy = self.strategy(target)
        starts = epilogue.bias and strategy.starts_at_bias and not strategy.adds_bias_last(workload, config)
        start = extras[0] if starts else None
        left, read = (epilogue, extras) if start is None else (replace(epilogue, bias=False), extras[1:])
        expression = None
        if left != NO_EPILOGUE:
            expression = left.expression(read, workload.channel_axis, workload.result)
        tensors = self.tensors(config, workload, target, (data, weights, *extras), expression, start)
        s = create_schedule(tensors.out.op)
        strategy.schedule(workload, config, s, tensors)
        return s, tensors.args

    def tensors(
        self,
        config: Config,
        workload: W,
        target: Target | None,
        inputs: tuple[Tensor, ...],
        expression: Expression | None = None,
        start: Tensor | None = None,
    ) -> Tensors:
        """Declare the convolution of `inputs` (data, weights, what `expression` reads) as the strategy needs it.

        Its sums start at the bias `start`, where the strategy has them do so.
        """
        data, weights, *extras = inputs
        strategy = self.strategy(target)
        starting = () if start is None else (start,)
        sums, finished = strategy.declare(workload, data, weights, config, *starting), None
        reads_sums_only = len(extras) == len(starting)
        if expression is not None and reads_sums_only and strategy.finishes_tiles(workload, config):
            finished, expression = finish(sums, str(sums.dtype), expression, name="finished"), None
        stored = sums if finished is None else finished
        out = finish(stored, workload.result, expression, None, workload.out_shape)
        return Tensors(data, weights, tuple(extras), sums, out, finished if out is not finished else None)

    def first(self, args: tuple[Any, ...], target: Target | None) -> Config:
        """The configuration to use where nothing was measured."""
        strategy = self.strategy(target)
        if strategy.ranked and target is not None and target.is_gpu and target.has_warps:
            found = rank_quickly(self.task(self.workload(args), target))
            if found is not None:
                return strategy.space(self.workload(args)).get(found)
        return strategy.first(self.workload(args))

    def task(self, workload: W, target: Target) -> Task:
        """What is to be tuned: the workload on a target."""
        return Task(self.name, freeze(workload.args), target)


def cheapest(able: Sequence[PackagedTemplate[W]], workload: W, target: Target | None) -> PackagedTemplate[W]:
    """Return the timed strategy that is expected to take the least time, or the last one where nothing is expected."""
    able = [template for template in able if template.strategy(target).timed] or able
    costs = [template.strategy(target).cost(workload) for template in able]
    known = [(cost, -place) for place, cost in enumerate(costs) if isfinite(cost)]
    return able[-min(known)[1]] if known else able[-1]


def default_first(able: Sequence[PackagedTemplate[W]], workload: W, target: Target | None) -> list[PackagedTemplate[W]]:
    """Return strategies in their order, but the one that a call without measurements takes first."""
    default = cheapest(able, workload, target)
    return [default, *(template for template in able if template is not default)]


ALL: list[PackagedTemplate[Any]] = []
"""Every packaged template, strategies of one operator from the most general one on."""
