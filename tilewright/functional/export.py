"""The kernel of a call as a module that can be saved for C: `tilewright export`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.target import Target
from ..driver import build
from ..runtime.compile import target_on
from .arguments.problem import Problem
from .planning.compiler import Selection, default_selection, epilogue_of, selection_of
from .planning.decision import Activation
from .planning.plans import plan_for

if TYPE_CHECKING:
    from ..runtime.device import Device


def selection_on(problem: Problem, on: Device, rival: str, activation: Activation | None = None) -> Selection:
    """Return the kernel of ours that a call would use on a device of this machine: tuned, recorded or default."""
    target = target_on(on)
    choice = plan_for(problem, on, rival, activation).choice
    return selection_of(problem, target, choice) or default_selection(problem, target)


def module_of(problem: Problem, found: Selection, target: Target, name: str, activation: Activation | None) -> Any:
    """Build the kernel as a function `name`. Its arguments are input, weights, bias, residual and result."""
    epilogue = epilogue_of(problem, activation)
    schedule, args = found.template.program(found.config, found.workload, target, epilogue)
    return build(schedule, args, target, name=name)
