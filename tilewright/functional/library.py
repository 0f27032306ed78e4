"""The kernel of a call as a module that can be saved for C: `tilewright export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.target import Target
from ..driver import build
from ..runtime.program import resolve_target
from .compiler import Selection, candidate, epilogue_of, strategies_of
from .plans import Activation, Decision, plan_for
from .problem import Problem

if TYPE_CHECKING:
    from ..runtime.device import Device

_TARGETS = {"cuda": "cuda", "cpu": "llvm"}


def selection_on(problem: Problem, on: Device, rival: str, activation: Activation | None = None) -> Selection:
    """Return our kernel for a problem on a device of this machine, as calls choose it: tuned, recorded or default."""
    target = resolve_target(Target(_TARGETS[on.kind]), on)
    choice = plan_for(problem, on, rival, activation).choice
    return _chosen(problem, target, choice) or candidate(problem, target)


def _chosen(problem: Problem, target: Target, choice: Decision) -> Selection | None:
    """Return the template and configuration of a decision; None if it names none of this version."""
    if choice.config_index is None:
        return None
    orders = dict.fromkeys((problem, problem.with_filters_last)) if problem.kernel == (1, 1) else (problem,)
    for each in orders:
        strategies, workload = strategies_of(each, target)
        for template in strategies:
            space = template.strategy(target).space(workload)
            if template.name == choice.template and space.is_index_valid(choice.config_index):
                return Selection(template, workload, space.get(choice.config_index), choice.why)
    return None


def module_of(problem: Problem, found: Selection, target: Target, name: str, activation: Activation | None) -> Any:
    """Build the kernel as a function of that name: of the input, the weights, a bias, a residual, and the result."""
    epilogue = epilogue_of(problem, activation)
    schedule, args = found.template.program(found.config, found.workload, target, epilogue)
    return build(schedule, args, target, name=name)
