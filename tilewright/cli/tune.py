"""`tilewright tune`: a workload from the options, a search with visible progress, and its results."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.padding import TEMPLATE_WORDS
from ..core.target import Target
from ..fleet.addresses import checked, joined
from ..fleet.security import check_installed
from ..runtime.compile import target_on
from ..runtime.device import Device
from ..topi import templates
from ..topi.templates import named
from ..topi.templates.template import PackagedTemplate, default_first
from ..topi.templates.workload import Convolution
from ..tune.records.curve import curves
from ..tune.records.history import applies
from ..tune.records.log import load_from_file
from ..tune.session.layer import LayerSearch
from ..tune.session.options import UNLIMITED_TRIALS
from ..tune.task import Task
from .commands import FAILED, FINE, INTERRUPTED
from .console import heading, print_lines
from .devices import choose_device
from .log import draw
from .search import run_table, search, strategy_name
from .tune_options import TuneOptions
from .verdict import verdict

OPERATORS: Mapping[str, PackagedTemplate[Any]] = {
    name: named(f"topi/{name}") for name in ("conv1d", "conv2d", "depthwise", "dense", "batch_matmul")
}
"""The general strategy of each operator that has a command."""
_MOST_ELEMENTS = 1 << 40


def tune(operator: str, sizes: Mapping[str, str | None], options: TuneOptions, strategy: str | None = None) -> int:
    """Run the command, for the named strategies if any are; returns its exit status."""
    chosen = named_strategies(operator, strategy)
    workload = workload_of(OPERATORS[operator], sizes)
    options.examined()
    target, on, line = place(options)
    strategies = searched_strategies(chosen, workload, target)
    tasks = [each.task(workload, target) for each in strategies]
    known = sum(_known(task, options.log, on) for task in tasks)
    print_lines([heading(workload.title), line, _extent(tasks, options), *_about_log(known, options), ""])
    try:
        return _conclude(strategies, workload, target, on, search(tasks, options), options)
    except KeyboardInterrupt:
        print_lines(["", f"interrupted; the measurements are in {options.log}"])
        return INTERRUPTED


def place(options: TuneOptions) -> tuple[Target, Device | None, str]:
    """The target, the device of this host that measures (None: a fleet does), and a line that describes both."""
    if options.workers is None:
        on, line = choose_device(options.target, ("cuda", "opencl", "llvm"))
        return target_on(on), on, line
    address = checked(joined(options.workers), options.insecure)
    check_installed()
    kind = options.target or "cuda"
    if kind not in ("cuda", "opencl", "llvm"):
        raise UserError(f"there is no target {kind!r}", fix="use cuda, opencl or llvm", where="")
    those = f" that have {options.key}" if options.key else ""
    return Target(kind), None, f"target {kind}, on the workers of {address}{those}"


def workload_of(template: PackagedTemplate[Any], sizes: Mapping[str, str | None]) -> Convolution:
    """The workload of the textual options; raises UserError, which names the option, if they are invalid."""
    if not sizes["shape"]:
        examples = {"conv1d": "16384", "dense": "64x1024", "batch_matmul": "12x197x64"}
        example = examples.get(template.kind.name, "1x64x56x56")
        raise UserError("--shape is missing", fix=f"give the input's: --shape {example}", where="")
    given = {name: _parsed(name, text) for name, text in sizes.items() if text is not None}
    try:
        made: Convolution = template.kind.of(**given)
    except UserError as error:  # the message begins with the option
        raise UserError(f"--{error.message}", fix=error.fix, where="") from None
    if prod(made.shape) > _MOST_ELEMENTS or any(_elements(t) > _MOST_ELEMENTS for t in made.declare()):
        raise UserError(
            f"--shape {sizes['shape']} makes more than {_MOST_ELEMENTS:,} elements, which no device here holds",
            fix="give the sizes of one layer: --shape 1x64x56x56",
            where="",
        )
    return made


def strategy_names(operator: str) -> list[str]:
    """The names of all strategies of an operator, as `--strategy` takes them."""
    return list(templates.strategies_by_name(OPERATORS[operator]))


def strategies_in_words(operator: str) -> str:
    """Return the summary and the name of each strategy of an operator: "windows in registers (direct), ..."."""
    found = templates.strategies_by_name(OPERATORS[operator])
    return ", ".join(f"{strategy.summary} ({name})" for name, strategy in found.items())


def named_strategies(operator: str, names: str | None) -> list[PackagedTemplate[Any]]:
    """The strategies of an operator that `--strategy` names; UserError, which lists all, for an unknown one."""
    found = dict.fromkeys(names.split(",")) if names is not None else ()
    try:
        return [templates.strategy_named(OPERATORS[operator], name) for name in found]
    except UserError as error:
        raise UserError(f"--strategy: {error.message}", fix=error.fix, where="") from None


def searched_strategies(
    chosen: Sequence[PackagedTemplate[Any]], workload: Convolution, target: Target
) -> list[PackagedTemplate[Any]]:
    """The strategies to search, the default one first: the chosen ones, else all that cover the workload.

    UserError if a chosen strategy does not cover it.
    """
    template = OPERATORS[workload.name]
    if not chosen:
        return template.able(workload, target)
    refused = next((each for each in chosen if not each.covers(workload, target)), None)
    if refused is None:
        return default_first(chosen, workload, target)
    known = [each.strategy_name for each in template.strategies if each.covers(workload, target)]
    raise UserError(
        f"--strategy {refused.strategy_name} {refused.refusal(workload, target)}",
        fix=f"give --strategy {' or '.join(known)}, or leave it out" if len(known) > 1 else "leave it out",
        where="",
    )


def _elements(tensor: Any) -> int:
    return prod(getattr(extent, "value", 1) for extent in tensor.shape)


def _parsed(name: str, text: str) -> Any:
    """An option's value: a word if words are allowed, else a number or several, joined by x."""
    if name in ("dtype", "layout") or (name == "padding" and text in TEMPLATE_WORDS):
        return text
    if re.fullmatch(r"\d{1,18}(x\d{1,18})*", text) is None:
        joined = "x".join(re.findall(r"\d+", text))
        words = f", or one of {', '.join(TEMPLATE_WORDS)}" if name == "padding" else ""
        raise UserError(
            f"--{name} {text!r} is not a list of numbers joined by x",
            fix=f"write --{name} {joined or '3x3'}{words}",
            where="",
        )
    parts = tuple(map(int, text.split("x")))
    return parts if len(parts) > 1 else parts[0]


# The heading


def _extent(tasks: Sequence[Task], options: TuneOptions) -> str:
    """The number of configurations, and the part of them that is searched."""
    early = f", fewer after {options.early_stopping} without a better one" if options.early_stopping else ""
    extent = f"{options.trials} trials" if options.trials < UNLIMITED_TRIALS else ""
    within = f"{options.budget:g} s" if options.budget is not None else ""
    much = " within ".join(filter(None, (extent, within)))
    names = ", ".join(strategy_name(task) for task in tasks)
    by = f" of {len(tasks)} strategies ({names})" if len(tasks) > 1 else ""
    size = sum(task.config_space.size for task in tasks)
    return f"{size:,} configurations{by}; {much} by {options.tuner}{early}"


def _known(task: Task, log: Path, on: Device | None) -> int:
    """The number of a task's trials in a log by this device and compiler; without a device, by any."""
    if not log.is_file():  # a pipe or a terminal tells nothing of earlier runs, and reading it would wait
        return 0
    kind = task.target.kind if task.target is not None else None
    own = (
        inp.config
        for inp, _ in load_from_file(log, [])
        if inp.task.workload == task.workload and not inp.notes.refused and inp.target.kind == kind
        if applies(inp.notes, on.kind if on is not None else "", lambda _: on.name if on is not None else "")
    )
    return len(set(own))


def _about_log(known: int, options: TuneOptions) -> list[str]:
    """Describe the effect of the log on this run."""
    if not known:
        return [f"log: {options.log}"]
    if not options.resume:
        return [f"log: {options.log}, which holds {known} trials of this workload; they may be measured again"]
    line = f"log: {options.log}, which holds {known} trials of this workload: they count, and are not measured again"
    if known < options.trials:
        return [line]
    return [line, f"nothing is left to measure: for more, give --trials above {known}, or --no-resume"]


# The results


def _conclude(
    strategies: Sequence[PackagedTemplate[Any]],
    workload: Convolution,
    target: Target,
    on: Device | None,
    layer: LayerSearch,
    options: TuneOptions,
) -> int:
    """Check and time the best, if this host measured it, and say how to use it; returns the exit status."""
    if options.plot is not None:
        own = {run.task.workload for run in layer.runs}
        pairs = [pair for pair in load_from_file(options.log, []) if pair[0].task.workload in own]
        if any(curve.best[-1:] != [None] for curve in curves(pairs)):
            print_lines(["", *draw(options.plot, [(options.log, pairs)])])
    best = layer.winner
    if best is None:
        if layer.interrupted:
            print_lines(["", "interrupted before a configuration was measured"])
            return INTERRUPTED
        print_lines(["", f"log: {options.log}; failures: tilewright log show {options.log}"])
        return FAILED
    if len(layer.runs) > 1:
        print_lines(["", *run_table(layer, "strategy", "default", strategy_name)])
    right = True
    if not layer.interrupted and on is not None:
        lines, right = verdict(strategies, workload, target, on, layer)
        print_lines(["", *lines])
    print_lines(["", f"log: {options.log}. To use the best:", *_usage(best.task.name, workload, target, options.log)])
    if layer.interrupted:
        print_lines(["", "interrupted; the same command goes on from here"])
        return INTERRUPTED
    return FINE if right else FAILED


def _usage(template: str, workload: Convolution, target: Target, log: Path) -> list[str]:
    """A program that builds the best, which is a configuration of `template`."""
    known = OPERATORS[workload.name].strategies
    by = "" if template in [each.name for each in known] else f".by({json.dumps(named(template).strategy_name)})"
    options = ", ".join(f"{name}={value!r}" for name, value in workload.shortest.items())
    return [
        "  import tilewright as tw",
        "  from tilewright import autotvm",
        f'  with autotvm.apply_history_best({json.dumps(str(log))}), tw.target.Target("{target.kind}"):',
        f"      s, args = autotvm.templates.{workload.name}{by}({options})",
        "      func = tw.build(s, args)",
    ]
