"""A strategy: one row of the table, as tuners, calls and messages use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any, Generic

from ...core.errors import UserError
from ...core.precision import PRECISIONS, as_precise_as
from ...core.target import Target
from ...schedule.handle import create_schedule
from ...tensor.tensor import Tensor
from ...tune.model.machine import Machine
from ...tune.model.ranking import rank_quickly
from ...tune.space.config import Config
from ...tune.space.nearest import nearest_index
from ...tune.task import Declared, Expected, Program, RankedDefault, Task, freeze, lookup
from .epilogue import NO_EPILOGUE, Epilogue, Expression, finish
from .processor import VectorRegisters
from .strategy import ScheduleStrategy, SharedModel, W, always
from .tensors import Tensors, is_added_last, without_bias_knob

GENERAL = "general"
"""The name of an operator's first strategy."""


@dataclass(frozen=True)
class PackagedTemplate(Generic[W]):
    """A strategy for the workloads of an operator: a template for tuning, and a row of `table.py`."""

    kind: type[W]
    """The operator: a class of workloads."""
    strategy_name: str = GENERAL
    """The name among the strategies of the operator."""
    gpu: ScheduleStrategy[W] | None = None
    cpu: ScheduleStrategy[W] | None = None
    """The schedule for each kind of hardware."""
    summary: str = ""
    """A few words for the command line's help."""
    precision: str = PRECISIONS[0]
    """The precision of float32 products, one of `PRECISIONS`. Calls that require more precision do not use the
    strategy."""
    legacy: tuple[str, ...] = ()
    """Legacy tasks and operators that use this strategy only."""
    default_on: Callable[[Target | None], bool] = always
    """Returns whether calls without records use the strategy on a target. Elsewhere only tuners do."""

    @property
    def name(self) -> str:
        """The name in logs."""
        return f"topi/{self.kind.name}" + ("" if self.strategy_name == GENERAL else f".{self.strategy_name}")

    def __reduce__(self) -> Any:
        """Pickle the name; another host looks up the template of that name."""
        return named, (self.name,)

    @property
    def strategies(self) -> tuple[PackagedTemplate[W], ...]:
        """This strategy; for a general strategy, all strategies of its operator that do not round float32."""
        return (self,) if self.strategy_name != GENERAL else tuple(self.of_precision("fp32"))

    def of_precision(self, precision: str) -> list[PackagedTemplate[W]]:
        """Return all strategies of the operator with at least this precision of float32."""
        return [t for t in ALL if t.kind is self.kind and t.precision in as_precise_as(precision)]

    def workload(self, args: tuple[Any, ...]) -> W:
        """Return the workload of a task's arguments; raise UserError if they describe none."""
        return self.kind.of(*args)

    def _schedule_for(self, target: Target | None) -> ScheduleStrategy[W] | None:
        """Return the schedule for a target, by default for the default GPU; None if there is none."""
        if target is None:
            return self.gpu
        if target.is_gpu:
            return None if self.gpu is None else replace(self.gpu, machine=Machine.for_models(target))
        return None if self.cpu is None else replace(self.cpu, machine=VectorRegisters.of(target))

    def strategy(self, target: Target | None) -> ScheduleStrategy[W]:
        """Return the schedule for a target, by default for the default GPU."""
        found = self._schedule_for(target)
        if found is None:
            raise UserError(
                f"the strategy {self.name!r} has no schedule for {target}",
                primitive=self.kind.name,
                fix=f"give a target that it has: {'llvm' if self.gpu is None else 'cuda'}",
            )
        return found

    def covers(self, workload: W, target: Target | None) -> bool:
        """Return whether this strategy computes the workload on the target."""
        found = self._schedule_for(target)
        return found is not None and found.needs.run_on(target) and found.covers(workload)

    def refusal(self, workload: W, target: Target | None) -> str:
        """Return the end of a message: "does not cover ..."."""
        on = f" on {target.kind}" if target is not None else ""
        return f"does not cover {workload.title}{on}{f': it is for {self.scope}' if self.scope else ''}"

    @property
    def scope(self) -> str:
        """The workloads and the hardware that this strategy is for, in words."""
        needs = [schedule.needs for schedule in (self.gpu, self.cpu) if schedule is not None]
        if self.cpu is not None:
            return "; ".join(dict.fromkeys(filter(None, map(str, needs))))
        warpgroups = any(name.startswith("wgmma") for name in needs[0].atoms.values())
        units = f" with matrix instructions{' of warpgroups (sm_90)' * warpgroups}" * bool(needs[0].atoms)
        return f"{needs[0]} on GPUs{units}".lstrip()

    def choose(self, workload: W, target: Target | None) -> tuple[PackagedTemplate[W], Config]:
        """Return the default strategy, among `strategies`, and its default configuration."""
        template = self.able(workload, target)[0]
        return template, template.default_config(workload, target)

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
        """Return the knobs, and the operations of one run: a product and a sum per term, without padding.

        NumPy's matrix products compute the reference, much faster than an evaluation of the declaration.
        """
        workload = self.workload(args)
        self._check(workload, target)
        strategy = self.strategy(target)
        space, expected, ranked_default = strategy.space(workload), None, None
        if strategy.own_model is not None and target is not None:
            expected = Expected(partial(strategy.expected, workload), partial(strategy.ranked, workload, space))
        if isinstance(strategy.model, SharedModel) and strategy.model.lead is not None and _is_modelled(target):
            ranked_default = RankedDefault(
                lambda: nearest_index(space, strategy.default_choices(workload)), strategy.model.lead
            )
        default = partial(self.default_config, workload, target)
        return Declared(without_bias_knob(space), workload.flop, workload.sample, expected, ranked_default, default)

    def _check(self, workload: W, target: Target | None) -> None:
        if not self.covers(workload, target):
            others = [t.name for t in ALL if t.kind is self.kind and t.covers(workload, target)]
            raise UserError(
                f"the template {self.name!r} {self.refusal(workload, target)}",
                primitive=workload.name,
                fix=f"use {' or '.join(others) or 'topi.nn, and a schedule of topi.generic'}",
            )

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        """Return the schedule of a configuration, and its tensors: data, weights, result."""
        workload = self.workload(args)
        self._check(workload, target)
        return self.program(config, workload, target)

    def program(self, config: Config, workload: W, target: Target | None, epilogue: Epilogue = NO_EPILOGUE) -> Program:
        """Return the schedule of a configuration and the arguments of its kernel.

        Parameters
        ----------
        config : Config
            A configuration of this strategy's space for the workload.
        workload : Convolution
            A computation that this strategy covers.
        target : Target, optional
            The target of the schedule; by default a GPU.
        epilogue : Epilogue
            Operations on every sum before it is stored, in the same kernel.

        Returns
        -------
        schedule : ScheduleHandle
        args : list of Tensor
            Data, weights if there are any, bias and residual if the epilogue adds them, then the result.
        """
        data, given = workload.placeholders()
        weights = workload.kernels_in(given)
        extras = epilogue.placeholders(workload.out_shape, workload.channels, workload.result)
        strategy = self.strategy(target)
        starts = epilogue.bias and strategy.starts_at_bias and not is_added_last(config)
        start = extras[0] if starts else None
        left, read = (epilogue, extras) if start is None else (replace(epilogue, bias=False), extras[1:])
        expression = workload.expression
        if left != NO_EPILOGUE:
            if expression is not None or data is weights:
                raise UserError(
                    f"{workload.name} has no epilogue",
                    primitive=workload.name,
                    fix="call it without bias and activation",
                )
            expression = left.expression(read, workload.channel_axis, workload.result)
        tensors = self.tensors(config, workload, target, (data, weights, *extras), expression, start)
        s = create_schedule(tensors.out.op)
        if weights is not given:
            s[weights].compute_inline()
        strategy.schedule(workload, config, s, tensors)
        return s, [given if tensor is weights else tensor for tensor in tensors.args]

    def tensors(
        self,
        config: Config,
        workload: W,
        target: Target | None,
        inputs: tuple[Tensor, ...],
        expression: Expression | None = None,
        start: Tensor | None = None,
    ) -> Tensors:
        """Declare the convolution of `inputs` (data, weights, tensors that `expression` reads) for the strategy.

        The sums start at the bias `start` if the strategy `starts_at_bias`.
        """
        data, weights, *extras = inputs
        strategy = self.strategy(target)
        starting = () if start is None else (start,)
        sums, finished = strategy.sums(workload, data, weights, config, *starting), None
        reads_sums_only = len(extras) == len(starting)
        if expression is not None and reads_sums_only and strategy.finishes_tiles(workload, config):
            finished, expression = finish(sums, str(sums.dtype), expression, name="finished"), None
        stored = sums if finished is None else finished
        out = finish(stored, workload.result, expression, workload.out_shape)
        return Tensors(data, weights, tuple(extras), sums, out, finished if out is not finished else None, target)

    def default_config(self, workload: W, target: Target | None) -> Config:
        """Return the default configuration, ranked by the shared model of the machine if the strategy asks for it."""
        strategy = self.strategy(target)
        if isinstance(strategy.model, SharedModel) and target is not None and _is_modelled(target):
            found = rank_quickly(self.task(workload, target))
            if found is not None:
                return strategy.space(workload).get(found)
        return strategy.default_config(workload)

    def task(self, workload: W, target: Target) -> Task:
        """Return the task of tuning a workload for a target."""
        return Task(self.name, freeze(workload.args), target)


def _is_modelled(target: Target | None) -> bool:
    return target is not None and target.is_gpu and target.has_warps


def default_strategy(able: Sequence[PackagedTemplate[W]], workload: W, target: Target | None) -> PackagedTemplate[W]:
    """Return the default among strategies: the one of least cost, or the last one if no cost is known."""
    able = [template for template in able if template.default_on(target)] or able
    costs = [template.strategy(target).cost(workload) for template in able]
    known = [(cost, -place) for place, cost in enumerate(costs) if isfinite(cost)]
    return able[-min(known)[1]] if known else able[-1]


def default_first(able: Sequence[PackagedTemplate[W]], workload: W, target: Target | None) -> list[PackagedTemplate[W]]:
    """Return strategies in their order, except that the default comes first."""
    default = default_strategy(able, workload, target)
    return [default, *(template for template in able if template is not default)]


def named(name: str) -> Any:
    """Return the strategy of a name in logs, or the template of a legacy task."""
    return lookup(name)


def strategies_by_name(template: PackagedTemplate[Any]) -> dict[str, PackagedTemplate[Any]]:
    """Return all strategies of a template's operator by their names."""
    return {each.strategy_name: each for each in ALL if each.kind is template.kind}


def strategy_named(template: PackagedTemplate[Any], strategy: str) -> PackagedTemplate[Any]:
    """Return a strategy of a template's operator; UserError, which lists all, if none has the name."""
    found = strategies_by_name(template)
    if not isinstance(strategy, str) or strategy not in found:
        known = ", ".join(map(repr, found))
        raise UserError(
            f"{strategy!r} is not a strategy of {template.kind.name}",
            primitive=template.kind.name,
            fix=f"give one of {known}" if len(found) > 1 else "leave it out: there is only one",
        )
    return found[strategy]


ALL: list[PackagedTemplate[Any]] = []
"""All strategies, in the order of the table; `table.py` fills it."""
