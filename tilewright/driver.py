"""The whole story, from a schedule to something that runs. Read this first.

te.compute ──► Schedule ──► Bounds ──► loop nest ──► passes ──► source ──► Module
 tensor/       schedule/    bounds/     loops/       passes/    codegen/   runtime/
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .bounds.infer import infer_bounds
from .core.errors import UserError
from .core.target import Target
from .loops.build import build_function
from .loops.nodes import Function, Program
from .loops.printer import show_program
from .passes.pipeline import FINISH, FINISH_FOR_CPU, LOWER, PassRecord, run
from .runtime.module import Module
from .runtime.program import compile_function
from .schedule.handle import ScheduleHandle
from .schedule.value import Schedule


class LoweredModule(Program):
    """Lowered functions; as text, the program that the legacy API's `lower(..., simple_mode=True)` shows."""

    __slots__ = ("records",)

    def __init__(self, functions: tuple[Function, ...], records: tuple[PassRecord, ...] = ()) -> None:
        super().__init__(functions)
        self.records = records

    def script(self) -> str:
        """The program as text."""
        return show_program(self)

    def __str__(self) -> str:
        return show_program(self)

    __repr__ = __str__


def lower(
    inputs: ScheduleHandle | Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Any = None,
    simple_mode: bool = False,
) -> LoweredModule:
    """The loop program of a schedule, as a readable module.

    `args`: tensors and size variables in the order of the entry point's parameters. `binds` maps tensors to buffers
    declared by `tir.decl_buffer`, for arrays that are not simply row-major. `simple_mode` is accepted
    for old scripts: the program prints the same either way. Raises UserError for a schedule that cannot be
    built, naming the primitive and the fix.
    """
    schedule = inputs.value if isinstance(inputs, ScheduleHandle) else inputs
    if not isinstance(schedule, Schedule):
        raise UserError(
            f"cannot lower {type(inputs).__name__}",
            primitive="lower",
            fix="give the schedule that te.create_schedule made",
        )
    bounds = infer_bounds(schedule)
    function = build_function(schedule, bounds, list(args), name, binds)
    records: list[PassRecord] = []
    return LoweredModule((run(LOWER, function, records),), tuple(records))


def build(
    inputs: ScheduleHandle | Schedule | LoweredModule,
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "main",
    binds: Any = None,
) -> Module:
    """A callable module for `target` ("cuda", "opencl", "llvm") from a schedule and its arguments, or a lowered module.

    Without a target: the current one (`with Target(...)`), else the CPU.
    Raises UserError for a schedule that cannot be built or that breaks a limit of the target.
    """
    chosen = Target.parse(target) if target is not None else Target.current(allow_none=True) or Target("llvm")
    if isinstance(inputs, LoweredModule):
        module = inputs
    elif args is None:
        raise UserError(
            "no arguments are given", primitive="build", fix="pass the tensors: build(s, [A, W, B], target)"
        )
    else:
        module = lower(inputs, args, name, binds)
    (function,) = module.functions
    finish = FINISH_FOR_CPU if chosen.kind == "llvm" else FINISH
    return compile_function(run(finish, function), chosen)
