"""Making a plan: which template computes a problem, with which configuration, and the kernel that follows.

A tuned record of the workload comes first, then a suitable record of its nearest neighbour, then the configuration that
suits most sizes. If a library's own kernel was measured to be faster, the plan is to run that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ..codegen.llvm.binding import PARALLEL_FOR
from ..core.errors import UserError, keeping_remarks
from ..core.target import Target
from ..driver import build
from ..runtime.program import resolve_target
from ..topi import templates
from ..topi.templates import Convolution, Epilogue, PackagedTemplate
from ..tune.space.choices import SplitChoice
from . import rivals, shipped
from .executable import Executable, executable
from .plans import OURS, THEIRS, Decision
from .problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSES, WEIGHT_GRADIENT, Problem

if TYPE_CHECKING:
    from ..runtime.device import Device
    from ..tune.space.choices import Choice
    from ..tune.space.config import Config

_TARGETS = {"cuda": "cuda", "cpu": "llvm"}
_ALTERNATIVES = 6
"""Selections that are tried in place of one whose threads spill."""
_SUITS = 1.3
"""How many times as long as its own choice a strategy's model may expect the configuration of a near layer to take. It
expected more of 17 of 53 layers on an H200, which ran at 0.78 of the speed of that choice; others at 1.04.
"""
_LARGE_WINDOW = 25
"""Taps from which on CPUs compute a transposed depthwise layer in NCHW faster as a convolution."""
Activation = Callable[[Any], Any]


@dataclass(frozen=True)
class Selection:
    """A template with a configuration for a workload, and the origin of the configuration.

    `measured` says that it was the fastest for this very layer.
    """

    template: PackagedTemplate[Any]
    workload: Convolution
    config: Config
    why: str
    measured: bool = False


@dataclass
class KernelNotes:
    """The compiler's report on a kernel: bytes that a thread spills to memory, and remarks on its schedule."""

    spilled: int = 0
    remarks: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The notes as one line for users."""
        spills = [f"a thread spills {self.spilled} bytes to memory"] if self.spilled else []
        return "; ".join([*(each.splitlines()[0] for each in self.remarks), *spills])


def make(
    problem: Problem,
    on: Device,
    rival: str,
    activation: Activation | None,
    budget: float,
    earlier: Decision | None = None,
) -> tuple[Decision, Executable | None]:
    """Choose and compile; `budget` is how many seconds may be spent on measuring configurations.

    `earlier` is the choice of an earlier search, which Ctrl-C ended.
    """
    target = resolve_target(Target(_TARGETS[on.kind]), on)
    epilogue = epilogue_of(problem, activation)
    if budget:
        tuning = import_module(f"{__package__}.tuning")  # which tunes what this module makes
        found: tuple[Decision, Executable | None] = tuning.tuned(problem, on, target, epilogue, rival, earlier, budget)
        return found
    close = bool(rival) and activation is None and rivals.is_close(problem, on)
    if rival and activation is None and not close:
        faster = rivals.is_faster(problem, on)
        if faster:
            return Decision(THEIRS, why=faster), None
    usual = candidate(problem, target)
    try:
        made = without_spills(usual, lambda: _others(problem, usual, target), target, epilogue)
        if close:
            tuning = import_module(f"{__package__}.tuning")
            made = tuning.compared(problem, on, *made)
        return made
    except UserError as refused:  # of an activation of the user's own; or of a limit, as of the grid's
        if activation is not None:
            raise
        return _otherwise(problem, usual, target, epilogue, rival, refused)


def without_spills(
    first: Selection, others: Callable[[], Iterable[Selection]], target: Target, epilogue: Epilogue
) -> tuple[Decision, Executable]:
    """Compile the first selection whose threads spill nothing; `first` if that was measured, or if all spill."""
    made: list[tuple[Decision, Executable]] = []
    for found in chain((first,), islice(_lazily(others), _ALTERNATIVES)):
        notes = KernelNotes()
        try:
            program = compiled(found, target, epilogue, notes)
        except UserError:
            if not made:
                raise
            continue
        made.append((described(found)._replace(remark=notes.text), program))
        if first.measured or not notes.spilled:
            return made[-1]
    return made[0]


def _lazily(others: Callable[[], Iterable[Selection]]) -> Iterator[Selection]:
    yield from others()


def _others(problem: Problem, first: Selection, target: Target) -> Iterator[Selection]:
    """Selections beside `first` that models expect to be nearly as fast, by its own strategy, then by others."""
    why = "the choice of the model whose threads keep all in registers"
    strategy, workload = first.template.strategy(target), first.workload
    space = strategy.space(workload)
    near = [space.get(index) for index in strategy.likely(workload, space, _ALTERNATIVES)]
    usual = first.template.first(workload.args, target)
    if strategy.own_model is not None:
        most = _SUITS * strategy.expected(workload, usual).cycles
        near = [each for each in near if strategy.expected(workload, each).cycles <= most]
    for config in [usual, *near]:
        if config.index != first.config.index:
            yield Selection(first.template, workload, config, why)
    able, workload = strategies_of(problem, target)
    most_cycles = _SUITS * strategy.cost(workload)
    for template in reversed(able):
        if template is not first.template and template.strategy(target).cost(workload) <= most_cycles:
            yield Selection(template, workload, template.first(workload.args, target), why)


def _otherwise(
    problem: Problem, usual: Selection, target: Target, epilogue: Epilogue, rival: str, refused: UserError
) -> tuple[Decision, Executable | None]:
    """Choose for a problem after its default candidate was `refused` by the compiler: the rival, or another
    strategy."""
    why = f"our default kernel ({usual.template.name}) does not compile: {' '.join(refused.message.split())}"
    if rival:
        return Decision(THEIRS, why=why), None
    able, workload = strategies_of(problem, target)
    for template in able:
        if template is not usual.template:
            found = Selection(template, workload, template.first(workload.args, target), why)
            with suppress(UserError):
                return described(found), compiled(found, target, epilogue)
    raise UserError(
        f"no kernel of ours computes {problem} on {target}; {why}",
        fix="compute it in parts (fewer images at a time, or rows that overlap by the window), or by the "
        "library that its arrays come from",
    ) from refused


def described(found: Selection) -> Decision:
    """The choice of our kernel."""
    return Decision(OURS, found.template.name, in_words(found.config), found.why, config_index=found.config.index)


def in_words(config: Config) -> str:
    """Return a configuration as `explain_call` prints it: each knob with its choice, and the index in the space."""
    knobs = ", ".join(f"{name} {_choice_in_words(choice)}" for name, choice in config.items())
    return knobs if config.index is None else f"{knobs} (index {config.index})"


def _choice_in_words(choice: Choice) -> str:
    """A split by the extents of its loops, outermost first, without the inferred one."""
    if isinstance(choice, SplitChoice):
        return "×".join(str(size) for size in choice.sizes if size > 0) or "whole"
    data = choice.data
    if isinstance(data, bool):
        return "on" if data else "off"
    return "/".join(map(str, data)) if isinstance(data, list) else str(data)


def compiled(found: Selection, target: Target, epilogue: Epilogue, notes: KernelNotes | None = None) -> Executable:
    """The kernel of a candidate. Compiler warnings go into `notes`, because the schedule is not the user's."""
    with keeping_remarks() as remarks:
        schedule, args = found.template.program(found.config, found.workload, target, epilogue)
        program = build(schedule, args, target, name=found.workload.name).program
    if notes is not None:
        notes.remarks = tuple(remarks)
        notes.spilled = max((used.spill_store_bytes for used in program.resources.values()), default=0)
    return executable(program, parallel=PARALLEL_FOR in program.source)


def epilogue_of(problem: Problem, activation: Activation | None) -> Epilogue:
    """Return the epilogue of a problem: the operations after its sums."""
    named: Any = problem.activation or None
    if named is not None and named.startswith("custom:"):
        if activation is None:
            raise UserError("the function of this activation is not known here", fix="call the operator with it")
        named = activation
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
        return templates.Conv2d.of(problem.shape, **options)
    if problem.op == WEIGHT_GRADIENT:
        return templates.WeightGradient.of(problem.shape, problem.filters, groups=problem.groups, **window)
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


def _is_faster(of: templates.Conv2d | templates.Depthwise, target: Target | None) -> bool:
    """Whether strategies of convolutions compute a transposed one faster than its own: on CPUs, some in NCHW do not."""
    if target is None or target.is_gpu or of.layout == "NHWC":
        return True
    large = isinstance(of, templates.Depthwise) and of.terms >= _LARGE_WINDOW
    return large or templates.named(f"topi/{of.name}.direct").covers(of, target)


def strategies_of(problem: Problem, target: Target) -> tuple[list[PackagedTemplate[Any]], Convolution]:
    """The strategies that compute a problem in its precision, from the most general one on; and the workload."""
    workload = workload_of(problem, target)
    strategies = templates.named(f"topi/{workload.name}").of_precision(problem.precision)
    return [t for t in strategies if t.covers(workload, target)], workload


def candidate(problem: Problem, target: Target) -> Selection:
    """The template and configuration to use without measuring."""
    same = [problem]
    if problem.kernel == (1, 1) and target.kind == "cuda":  # with one tap, both orders of weights are the same
        same = list(dict.fromkeys((problem.with_filters_last, problem)))
    for each in same:
        able, workload = strategies_of(each, target)
        found = recorded(able, workload, target, bool(problem.bias or problem.residual or problem.activation))
        if found is not None:
            return found
    template = templates.cheapest(able, workload, target)
    config = template.first(workload.args, target)
    return Selection(template, workload, config, "default configuration (no tuned record for a similar layer)")


def recorded(
    able: Sequence[PackagedTemplate[Any]], workload: Convolution, target: Target, fused: bool = False
) -> Selection | None:
    """Return the strategy that was fastest for the nearest layer in the records.

    The configuration of a near layer is not used if its tiles divide this one badly. With `fused`, those of kernels
    with an epilogue come first.
    """
    known = [(template, shipped.recorded(template, workload, target, fused=True)) for template in able if fused]
    if not any(found for _, found in known):
        known = [(template, shipped.configuration(template, workload, target)) for template in reversed(able)]
    there = [(template, found) for template, found in known if found is not None]
    if not there:
        return None
    template, found = min(there, key=lambda pair: (pair[1].away, pair[1].seconds))
    if found.away and not _suits(template, workload, found.config, target):
        return None
    return Selection(template, workload, found.config, found.why, measured=not found.away)


def _suits(template: PackagedTemplate[Any], workload: Convolution, config: Config, target: Target) -> bool:
    """Whether the model of a strategy expects a configuration to be about as fast as its own choice."""
    strategy = template.strategy(target)
    if strategy.own_model is None:
        return True
    usual = template.first(workload.args, target)
    return strategy.expected(workload, config).cycles <= _SUITS * strategy.expected(workload, usual).cycles
