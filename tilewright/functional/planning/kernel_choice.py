"""Choose the kernel for a problem, ours or the rival's, by measurement or estimate, and compile it.

A library's own kernel is chosen if it was measured to be faster. Otherwise our configuration is the result of a search,
or `compiler.py::default_selection`, or a similar configuration if that spills or does not compile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from ...core.errors import UserError
from ...core.target import Target
from ...runtime.compile import target_on
from ...topi.templates import Convolution, Epilogue, PackagedTemplate
from ...tune.model.machine import Machine
from ..arguments.problem import Problem
from ..programs.executable import Executable
from . import rivals
from .compiler import (
    SUITS,
    KernelNotes,
    Selection,
    compiled,
    decision_of,
    default_selection,
    epilogue_of,
    strategies_of,
)
from .decision import Activation, Decision, Side

if TYPE_CHECKING:
    from ...runtime.device import Device

_ALTERNATIVES = 6
"""The most alternatives to try for a selection that spills."""


def choose(
    problem: Problem,
    on: Device,
    rival: str,
    activation: Activation | None,
    budget: float,
    earlier: Decision | None = None,
) -> tuple[Decision, Executable | None]:
    """Choose and compile a kernel; `budget` is the number of seconds for measuring configurations.

    `earlier` is the choice of an earlier search that Ctrl-C ended.
    """
    target = target_on(on)
    target = Machine.present(target, on.name) if on.exist else target
    epilogue = epilogue_of(problem, activation)
    has_rival = bool(rival) and activation is None
    undecided = has_rival and not budget and rivals.is_undecided(problem, on)
    if has_rival and not budget and not undecided and (why := rivals.reason_for_rival(problem, on)):
        return Decision(Side.THEIRS, why=why), None
    if not strategies_of(problem, target)[0]:
        if not has_rival:
            raise UserError(
                f"no kernel of ours computes {problem} on {target}", fix="compute it by the library of its arrays"
            )
        return Decision(Side.THEIRS, why=f"no strategy of ours computes it on {target.kind}"), None
    if budget:
        from . import tuning  # imports the measuring session, which other calls do not need

        return tuning.tuned(problem, on, target, epilogue, rival, earlier, budget)
    default = default_selection(problem, target)
    try:
        made = without_spills(default, lambda: _nearly_as_fast(problem, default, target), target, epilogue)
        if undecided:
            from . import tuning

            made = tuning.compared(problem, on, *made)
        return made
    except UserError as refused:  # for a user's own activation, or a limit such as the grid's
        if activation is not None:
            raise
        return _otherwise(problem, default, target, epilogue, rival, refused)


def without_spills(
    first: Selection, others: Callable[[], Iterable[Selection]], target: Target, epilogue: Epilogue
) -> tuple[Decision, Executable]:
    """Return the first selection that compiles without spills; `first` if it was measured, or if all spill."""
    choice, program, spills = _compiled(first, target, epilogue)
    if spills and not first.measured:
        for other, code, still_spills in _compiled_in_turn(islice(others(), _ALTERNATIVES), target, epilogue):
            if not still_spills:
                return other, code
    return choice, program


def _compiled(found: Selection, target: Target, epilogue: Epilogue) -> tuple[Decision, Executable, bool]:
    """Compile a selection; also return whether its threads spill to memory."""
    notes = KernelNotes()
    program = compiled(found, target, epilogue, notes)
    return decision_of(found)._replace(remark=notes.text), program, notes.spilled > 0


def _compiled_in_turn(
    selections: Iterable[Selection], target: Target, epilogue: Epilogue
) -> Iterator[tuple[Decision, Executable, bool]]:
    """Compile one selection after another; skip selections that the compiler refuses."""
    for each in selections:
        with suppress(UserError):
            yield _compiled(each, target, epilogue)


def _nearly_as_fast(problem: Problem, first: Selection, target: Target) -> Iterator[Selection]:
    """Yield selections that models expect to be nearly as fast as `first`: of its strategy, then of other
    strategies."""
    why = "the fastest configuration by the model without spilled registers"
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
    fast = [template for template in reversed(able) if template.strategy(target).cost(workload) <= most_cycles]
    yield from _defaults(fast, workload, first, target, why)


def _defaults(
    able: Iterable[PackagedTemplate[Any]], workload: Convolution, first: Selection, target: Target, why: str
) -> Iterator[Selection]:
    """Yield the default configurations of strategies other than that of `first`."""
    for template in able:
        if template is not first.template:
            yield Selection(template, workload, template.default_config(workload, target), why)


def _otherwise(
    problem: Problem, default: Selection, target: Target, epilogue: Epilogue, rival: str, refused: UserError
) -> tuple[Decision, Executable | None]:
    """Choose the rival or another strategy for a problem: the compiler has `refused` its default kernel."""
    why = f"our default kernel ({default.template.name}) does not compile: {' '.join(refused.message.split())}"
    if rival:
        return Decision(Side.THEIRS, why=why), None
    others = _defaults(*strategies_of(problem, target), default, target, why)
    for choice, program, _ in _compiled_in_turn(others, target, epilogue):
        return choice, program
    raise UserError(
        f"no kernel of ours computes {problem} on {target}; {why}",
        fix="compute it in parts (fewer images at a time, or rows that overlap by the window), or by the "
        "library that its arrays come from",
    ) from refused
