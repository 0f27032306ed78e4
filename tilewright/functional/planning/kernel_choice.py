"""Choose the kernel for a problem, and compile it: ours or the rival's, measured here or not.

A library's own kernel is the choice if it was measured to be faster. Ours is the configuration that a search finds, or
the one of `compiler.py::default_selection`, or a similar one if that spills or does not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import TYPE_CHECKING

from ...core.errors import UserError
from ...core.target import Target
from ...runtime.program import target_on
from ...topi.templates import Epilogue
from ...tune.model.machine import Machine
from ..arguments.problem import Problem
from ..programs.executable import Executable
from . import rivals
from .compiler import SUITS, KernelNotes, Selection, compiled, default_selection, described, epilogue_of, strategies_of
from .decision import THEIRS, Activation, Decision

if TYPE_CHECKING:
    from ...runtime.device import Device

_ALTERNATIVES = 6
"""The most selections that are tried in place of one with spills to memory."""


def choose(
    problem: Problem,
    on: Device,
    rival: str,
    activation: Activation | None,
    budget: float,
    earlier: Decision | None = None,
) -> tuple[Decision, Executable | None]:
    """Choose and compile a kernel; `budget` is the number of seconds for measuring configurations.

    `earlier` is the choice of an earlier search, which Ctrl-C ended.
    """
    target = target_on(on)
    target = Machine.present(target, on.name) if on.exist else target
    epilogue = epilogue_of(problem, activation)
    has_rival = bool(rival) and activation is None
    undecided = has_rival and not budget and rivals.is_undecided(problem, on)
    if has_rival and not budget and not undecided and (why := rivals.reason_for_rival(problem, on)):
        return Decision(THEIRS, why=why), None
    if not strategies_of(problem, target)[0]:
        if not has_rival:
            raise UserError(
                f"no kernel of ours computes {problem} on {target}", fix="compute it by the library of its arrays"
            )
        return Decision(THEIRS, why=f"no strategy of ours computes it on {target.kind}"), None
    if budget:
        from . import tuning  # loads the measuring session, which other calls do not need

        return tuning.tuned(problem, on, target, epilogue, rival, earlier, budget)
    default = default_selection(problem, target)
    try:
        made = without_spills(default, lambda: _others(problem, default, target), target, epilogue)
        if undecided:
            from . import tuning

            made = tuning.compared(problem, on, *made)
        return made
    except UserError as refused:  # of an activation of the user's own; or of a limit, as of the grid's
        if activation is not None:
            raise
        return _otherwise(problem, default, target, epilogue, rival, refused)


def without_spills(
    first: Selection, others: Callable[[], Iterable[Selection]], target: Target, epilogue: Epilogue
) -> tuple[Decision, Executable]:
    """Return the first selection that compiles without spills to memory; `first` if it was measured, or if all
    spill."""
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
    """Yield selections that models expect to be nearly as fast as `first`: of its strategy, then of others."""
    why = "the choice of the model whose threads keep all in registers"
    strategy, workload = first.template.strategy(target), first.workload
    space = strategy.space(workload)
    near = [space.get(index) for index in strategy.ranked(workload, space, _ALTERNATIVES)]
    default = first.template.default_config(workload, target)
    if strategy.own_model is not None:
        most = SUITS * strategy.expected(workload, default).cycles
        near = [each for each in near if strategy.expected(workload, each).cycles <= most]
    for config in [default, *near]:
        if config.index != first.config.index:
            yield Selection(first.template, workload, config, why)
    able, workload = strategies_of(problem, target)
    most_cycles = SUITS * strategy.cost(workload)
    for template in reversed(able):
        if template is not first.template and template.strategy(target).cost(workload) <= most_cycles:
            yield Selection(template, workload, template.default_config(workload, target), why)


def _otherwise(
    problem: Problem, default: Selection, target: Target, epilogue: Epilogue, rival: str, refused: UserError
) -> tuple[Decision, Executable | None]:
    """Choose the rival or another strategy for a problem: the compiler has `refused` its default kernel."""
    why = f"our default kernel ({default.template.name}) does not compile: {' '.join(refused.message.split())}"
    if rival:
        return Decision(THEIRS, why=why), None
    able, workload = strategies_of(problem, target)
    for template in able:
        if template is not default.template:
            found = Selection(template, workload, template.default_config(workload, target), why)
            with suppress(UserError):
                return described(found), compiled(found, target, epilogue)
    raise UserError(
        f"no kernel of ours computes {problem} on {target}; {why}",
        fix="compute it in parts (fewer images at a time, or rows that overlap by the window), or by the "
        "library that its arrays come from",
    ) from refused
