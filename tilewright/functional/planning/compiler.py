"""Our kernel for a problem: the strategies that compute it, the default kernel, and its machine code.

The default kernel comes from a tuned record of the workload if there is one. Otherwise it comes from a suitable record
of the nearest workload, or is the default configuration of the best strategy. `kernel_choice.py` compares it with other
kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.errors import UserError, keeping_remarks
from ...core.target import Target
from ...driver import build
from ...topi import templates
from ...topi.templates import Convolution, Epilogue, PackagedTemplate
from ...topi.templates.epilogue import BackwardStep
from ...tune.space.choices import SplitChoice
from ..arguments.problem import AVG_POOL, BACKWARD, CONV, MAX_POOL, TRANSPOSES, WEIGHT_GRADIENT, Problem
from ..arguments.signature import GRADIENT
from ..programs.executable import Executable, executable
from . import shipped
from .decision import Activation, Decision, Side

if TYPE_CHECKING:
    from ...tune.space.choices import Choice
    from ...tune.space.config import Config

SUITS = 1.3
"""A similar layer's configuration is used if its expected cycles are at most this multiple of the default's. On an
H200, 17 of 53 layers exceeded it: their recorded configurations ran at 0.78 times the default's speed. The others ran
at 1.04 times the default's speed.
"""
_LARGE_WINDOW = 25
"""The least taps of a transposed depthwise layer in NCHW that CPUs compute faster as a convolution."""


@dataclass(frozen=True)
class Selection:
    """A template with a configuration for a workload, and the origin of the configuration.

    With `measured`, the configuration was the fastest for this layer itself.
    """

    template: PackagedTemplate[Any]
    workload: Convolution
    config: Config
    why: str
    measured: bool = False


@dataclass
class KernelNotes:
    """The compiler's report on a kernel: spilled bytes per thread, and remarks on the schedule."""

    spilled: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The notes as one line for users."""
        spills = [f"a thread spills {self.spilled} bytes to memory"] if self.spilled else []
        return "; ".join([*(each.splitlines()[0] for each in self.remarks), *spills])


def decision_of(found: Selection) -> Decision:
    """Return the decision for a selection; `selection_of` is the inverse."""
    index, weights = found.config.index, getattr(found.workload, "weights", "")
    return Decision(
        Side.OURS, found.template.name, in_words(found.config), found.why, config_index=index, weights=weights
    )


def in_words(config: Config) -> str:
    """Return a configuration in the form of `explain_call`: each knob with its choice, and the index in the space."""
    knobs = ", ".join(f"{name} {_choice_in_words(choice)}" for name, choice in config.items())
    return knobs if config.index is None else f"{knobs} (index {config.index})"


def _choice_in_words(choice: Choice) -> str:
    """Return a choice in words; a split as the extents of its loops, outermost first, without the inferred extent."""
    if isinstance(choice, SplitChoice):
        return "×".join(str(size) for size in choice.sizes if size > 0) or "whole"
    data = choice.data
    if isinstance(data, bool):
        return "on" if data else "off"
    return "/".join(map(str, data)) if isinstance(data, list) else str(data)


def compiled(found: Selection, target: Target, epilogue: Epilogue, notes: KernelNotes | None = None) -> Executable:
    """Return the machine code of a selection.

    Compiler warnings are added to `notes` instead of shown: the schedule is not the user's.
    """
    with keeping_remarks() as remarks:
        schedule, args = found.template.program(found.config, found.workload, target, epilogue)
        program = build(schedule, args, target, name=found.workload.name).program
    if notes is not None:
        notes.remarks = tuple(remarks)
        notes.spilled = max((used.spill_store_bytes for used in program.resources.values()), default=0)
    return executable(program)


def epilogue_of(problem: Problem, activation: Activation | None) -> Epilogue:
    """Return the epilogue of a problem: the operations after its sums."""
    if problem.op in (BACKWARD, WEIGHT_GRADIENT):  # the bias is a result, and BACKWARD has the activation's slope
        return Epilogue()
    named: Any = problem.activation or None
    if named is not None and named.startswith("custom:"):
        if activation is None:
            raise UserError(
                "the activation is a function of another process",
                fix="call the operator with this function first",
            )
        named = BackwardStep(activation) if named.endswith(GRADIENT) else activation
    return Epilogue(problem.bias, problem.residual, named)


def workload_of(problem: Problem, target: Target | None = None) -> Convolution:
    """Return the workload that computes a problem on a target, by default on a GPU."""
    window: dict[str, Any] = {
        "kernel": problem.kernel,
        "stride": problem.stride,
        "padding": problem.padding,
        "dilation": problem.dilation,
        "dtype": problem.dtype,
        "layout": problem.layout,
    }
    if problem.op == CONV and problem.depthwise:
        multiplier = problem.filters // problem.shape[1]
        return templates.Depthwise.of(problem.shape, multiplier=multiplier, **window)
    if problem.op == CONV:
        options = {"filters": problem.filters, "groups": problem.groups, **window}
        if problem.weights != "OIHW":
            options["weights"] = problem.weights
        return templates.Conv2dLayer.of(problem.shape, **options)
    if problem.op == WEIGHT_GRADIENT:
        window |= {"groups": problem.groups, "bias": problem.bias, "wide": problem.wide}
        return templates.WeightGradient.of(problem.shape, problem.filters, **window)
    if problem.op == BACKWARD:
        del window["stride"]
        return templates.Backward.of(problem.shape, bias=problem.bias, activation=problem.activation, **window)
    if problem.op in TRANSPOSES:
        options = {
            "filters": problem.filters,
            "groups": problem.groups,
            "output_padding": problem.output_padding,
            **window,
        }
        transposed = templates.Transposed.of(problem.shape, **options)
        convolution = transposed.as_convolution
        return convolution if convolution is not None and _is_faster(convolution, target) else transposed
    how = {MAX_POOL: "max", AVG_POOL: "average" if problem.count_border else "average inside"}[problem.op]
    window |= {"beyond": problem.beyond, "divisor": problem.divisor}
    return templates.Pooling.of(problem.shape, how=how, **window)


def _is_faster(of: templates.Conv2dLayer | templates.Depthwise, target: Target | None) -> bool:
    """Return whether a transposed convolution is faster as a convolution than by its own strategies. On CPUs, some
    layers in NCHW are not."""
    if target is None or target.is_gpu or of.layout == "NHWC":
        return True
    large = isinstance(of, templates.Depthwise) and of.terms >= _LARGE_WINDOW
    return large or templates.named(f"topi/{of.name}.direct").covers(of, target)


def strategies_of(problem: Problem, target: Target) -> tuple[list[PackagedTemplate[Any]], Convolution]:
    """Return the strategies that compute a problem in its precision, the most general one first, and the workload."""
    workload = workload_of(problem, target)
    strategies = templates.named(f"topi/{workload.name}").of_precision(problem.precision)
    return [t for t in strategies if t.covers(workload, target)], workload


def weight_orders(problem: Problem, target: Target) -> tuple[Problem, ...]:
    """Return a problem with each order of weights that means the same memory. The default kernel uses the last one."""
    if problem.kernel == (1, 1) and target.kind == "cuda":
        return tuple(dict.fromkeys((problem.with_filters_last, problem)))
    return (problem,)


def selection_of(problem: Problem, target: Target, choice: Decision) -> Selection | None:
    """Return the template, workload and configuration of a decision; None if this version has none."""
    if choice.config_index is None:
        return None
    strategies, workload = strategies_of(problem._replace(weights=choice.weights or problem.weights), target)
    for template in strategies:
        space = template.strategy(target).space(workload)
        if template.name == choice.template and space.is_index_valid(choice.config_index):
            return Selection(template, workload, space.get(choice.config_index), choice.why)
    return None


def default_selection(problem: Problem, target: Target) -> Selection:
    """Return the kernel for a problem without measurements: by a shipped record, else the default configuration."""
    for each in weight_orders(problem, target):
        able, workload = strategies_of(each, target)
        found = recorded_selection(able, workload, target, bool(problem.bias or problem.residual or problem.activation))
        if found is not None:
            return found
    able, workload = strategies_of(weight_orders(problem, target)[-1], target)
    template = templates.default_strategy(able, workload, target)
    config = template.default_config(workload, target)
    return Selection(template, workload, config, "default configuration (no tuned record for a similar layer)")


def recorded_selection(
    able: Sequence[PackagedTemplate[Any]], workload: Convolution, target: Target, fused: bool = False
) -> Selection | None:
    """Return the recorded fastest kernel of the nearest layer; None if no record suits.

    The configuration of a similar layer is not used if its tiles divide this layer badly. A record of another
    architecture is used only if the model of this architecture agrees. With `fused`, records of kernels with an
    epilogue take precedence.
    """
    known = [(template, shipped.record_of(template, workload, target, fused=True)) for template in able if fused]
    if not any(found for _, found in known):
        known = [(template, shipped.configuration(template, workload, target)) for template in reversed(able)]
    there = [(template, found) for template, found in known if found is not None]
    if not there:
        return None
    template, found = min(there, key=lambda pair: (pair[1].away, pair[1].seconds))
    here = found.arch == target.arch
    if (found.away or not here) and not _suits(template, workload, found.config, target, here):
        return None
    return Selection(template, workload, found.config, found.why, measured=here and not found.away)


def _suits(
    template: PackagedTemplate[Any], workload: Convolution, config: Config, target: Target, otherwise: bool
) -> bool:
    """Return whether a strategy's model expects a configuration to be about as fast as the default one.

    Without a model, return `otherwise`.
    """
    strategy = template.strategy(target)
    if strategy.own_model is None:
        return otherwise
    default = template.default_config(workload, target)
    return strategy.expected(workload, config).cycles <= SUITS * strategy.expected(workload, default).cycles
