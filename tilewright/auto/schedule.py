"""`auto_schedule`: the schedule of a program, from its declaration alone.

inline cheap stages ──► kernels ──► a rule per kernel ──► tiles ──► steps of an ordinary schedule
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.errors import UserError
from ..core.precision import PRECISIONS
from ..core.target import Target
from ..measure.option import LocalRunner
from ..measure.own_runner_api import Runner
from ..schedule.handle import ScheduleHandle
from ..tensor.scan import ScanOp
from ..tensor.tensor import Operation, PlaceholderOp, Tensor, topological
from ..tune.session.durations import check_counts
from .program import AutomaticProgram
from .search import searched, unmeasured


def auto_schedule(
    tensors: Any,
    target: Any = None,
    *,
    trials: int = 0,
    budget: float | str | None = None,
    log: Any = None,
    runner: LocalRunner | Runner | None = None,
    precision: str = "fp32",
) -> ScheduleHandle:
    """Return a schedule of tensors for a target, made by rules and the machine model.

    Parameters
    ----------
    tensors : Tensor or list of Tensor
        The outputs. The list may contain inputs, as a list of arguments does; they are ignored.
    target : Target or str, optional
        The target; by default the current one.
    trials : int
        The number of candidates to measure; 0 measures nothing.
    budget : float or str, optional
        Seconds, or text such as "15m", after which no new candidate is measured.
    log : str or Path, optional
        The log to which measurements are added, and from which they resume. Without trials, the best record of the
        program in the log is used, else the best record in the package. If there is none, the schedule is ranked, not
        tuned, and `explain` says so. Records of programs with the same structure and other sizes are candidates of the
        first trials.
    runner : LocalRunner or RPCRunner, optional
        The runner of measurements. The default measures on this machine; `autotvm.RPCRunner` measures on a fleet.
    precision : "ieee", "fp32", "tf32" or "tf32_cut"
        The precision of float32 products. "ieee" uses no matrix instructions; "fp32" splits their operands into parts
        of 11 bits. "tf32" may round operands to 11 bits, and "tf32_cut" may cut them.

    Returns
    -------
    Schedule
        An ordinary schedule: its steps print, replay, and can be changed.

    Raises
    ------
    UserError
        For arguments that are not tensors, for an unknown precision, and if no target is given.
    """
    outputs = outputs_of(tensors)
    chosen = Target.parse(target) if target is not None else Target.current(allow_none=True)
    if chosen is None:
        raise UserError("no target is given", primitive="auto_schedule", fix='pass target="cuda", "opencl" or "llvm"')
    program = AutomaticProgram(outputs, chosen, precision_of(precision))
    check_counts("auto_schedule", least=0, trials=trials)
    if not trials:
        return unmeasured(program, arguments(tensors, outputs), log)
    return searched(program, arguments(tensors, outputs), trials, budget, log, runner)


def scheduled(tensors: Any, args: Sequence[Any] | None, target: Target) -> tuple[ScheduleHandle, list[Any]]:
    """Return the schedule of bare tensors and the arguments of their function, for `build`."""
    outputs = outputs_of(tensors)
    args = arguments(tensors, outputs) if args is None else args
    program = AutomaticProgram(outputs, target)
    return unmeasured(program, arguments(tensors, outputs)), list(args)


def arguments(tensors: Any, outputs: Sequence[Operation]) -> list[Tensor]:
    """Return the arguments of a program: inputs missing from `tensors`, then `tensors`."""
    given = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    ops = topological(outputs)
    states = {t for op in ops if isinstance(op, ScanOp) for t in op.state}
    inputs = [op.output(0) for op in ops if isinstance(op, PlaceholderOp) and op.output(0) not in states]
    return [*(t for t in inputs if t not in given), *given]


def precision_of(given: Any) -> str:
    """Return the argument if it is a precision of float32 products; raise UserError otherwise."""
    if not isinstance(given, str) or given not in PRECISIONS:
        raise UserError(
            f"precision is {given!r}, which is unknown",
            primitive="auto_schedule",
            fix=f"give one of {', '.join(map(repr, PRECISIONS))}",
        )
    return given


def outputs_of(tensors: Any) -> list[Operation]:
    """Return the operations to compute among tensors; raise UserError if there are none."""
    given = list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]
    for each in given:
        if not isinstance(each, Tensor):
            raise UserError(
                f"{each!r} is not a tensor",
                primitive="auto_schedule",
                fix="give the results of te.compute: tw.auto_schedule([B], target)",
            )
    found = list(dict.fromkeys(each.op for each in given if not isinstance(each.op, PlaceholderOp)))
    if not found:
        raise UserError(
            f"there is nothing to compute among {[each.name for each in given]}",
            primitive="auto_schedule",
            fix="give the results of te.compute: tw.auto_schedule([B], target)",
        )
    return found
