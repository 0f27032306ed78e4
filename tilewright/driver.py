"""The whole story, from a schedule to something that runs. Read this first.

te.compute ──► Schedule ──► Bounds ──► loop nest ──► passes ──► source ──► Module
 tensor/       schedule/    bounds/     loops/       passes/    codegen/   runtime/
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from .bounds.infer import infer_bounds
from .core.errors import UserError
from .core.target import KINDS, Target
from .loops.build import build_function
from .loops.nodes import Function, Program
from .loops.printer import show_program
from .passes.context import PassContext
from .passes.explain import LINES, explain
from .passes.pipeline import PassRecord, run
from .runtime.module import Module
from .runtime.program import compile_functions
from .schedule.handle import ScheduleHandle
from .schedule.value import Schedule


class LoweredModule(Program):
    """Lowered functions; as text, the program that the legacy API's `lower(..., simple_mode=True)` shows."""

    __slots__ = ("_origins", "_passes")

    def __init__(
        self,
        functions: tuple[Function, ...],
        passes: tuple[tuple[PassRecord, ...], ...] = (),
        origins: tuple[Function, ...] = (),
    ) -> None:
        """`passes` and `origins`: for each function the passes that made it, and the loop nest that they met."""
        super().__init__(functions)
        self._passes = passes
        self._origins = origins

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """The passes that ran, those of the first function first."""
        return tuple(record for own in self._passes for record in own)

    def script(self) -> str:
        """The program as text."""
        return show_program(self)

    def explain(self, target: Any = None, lines: int = LINES) -> str:
        """What each pass changed, and its time; for a `target`, the passes on the way to its code as well.

        At most `lines` changed lines a pass are shown.
        """
        options = PassContext.current().options
        parts = []
        for origin, records, function in zip(self._origins, self._passes, self.functions, strict=True):
            found = list(records)
            if target is not None:
                run(options.finishing(Target.parse(target).kind == "llvm"), function, found)
            parts.append(explain(origin, found, lines))
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return show_program(self)

    __repr__ = __str__


def lower(
    inputs: ScheduleHandle | Schedule,
    args: Sequence[Any],
    name: str = "main",
    binds: Any = None,
    simple_mode: bool = False,
    explain: bool = False,
) -> LoweredModule:
    """The loop program of a schedule, as a readable module.

    `args`: tensors and size variables in the order of the entry point's parameters. `binds` maps tensors to buffers
    declared by `tir.decl_buffer`, for arrays that are not simply row-major. `simple_mode` is accepted for old
    scripts: the program prints the same either way. `explain` prints what each pass changed. Raises UserError for
    a schedule that cannot be built, naming the primitive and the fix.
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
    options = PassContext.current().options
    lowered = LoweredModule((run(options.lowering(), function, records),), (tuple(records),), (function,))
    if explain or options.explain:
        _tell(f"lowering {name}", lowered.explain())
    return lowered


Source = ScheduleHandle | Schedule | LoweredModule


def build(
    inputs: Source | Sequence[LoweredModule] | Mapping[Any, Any],
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "main",
    binds: Any = None,
) -> Module:
    """A callable module for `target` ("cuda", "opencl", "llvm") from a schedule and its arguments, or a lowered module.

    Several functions make one module: give a list of lowered modules, or {name: (schedule, arguments)}. Without a
    target: the current one (`with Target(...)`), else the CPU. Raises UserError for a schedule that cannot be
    built or that breaks a limit of the target.
    """
    if isinstance(inputs, Mapping) and inputs and all(map(_names_target, inputs)):
        inputs, target = _only_target(inputs, target)
    chosen = Target.parse(target) if target is not None else Target.current(allow_none=True) or Target("llvm")
    functions = _functions(inputs, args, name, binds)
    return compile_functions(tuple(_finished(function, chosen) for function in functions), chosen)


def _finished(function: Function, target: Target) -> Function:
    """A lowered function, as it is compiled."""
    options = PassContext.current().options
    records: list[PassRecord] = []
    made = run(options.finishing(for_cpu=target.kind == "llvm"), function, records)
    if options.explain:
        _tell(f"finishing {function.name} for {target}", explain(function, records))
    return made


def _tell(what: str, text: str) -> None:
    print(f"══ {what}\n\n{text}\n", file=sys.stderr)


def _functions(inputs: Any, args: Sequence[Any] | None, name: str, binds: Any) -> tuple[Function, ...]:
    """The lowered functions of whatever `build` was given."""
    if isinstance(inputs, Program):
        return inputs.functions
    if isinstance(inputs, Mapping):
        return _together([_named(key, value) for key, value in inputs.items()])
    if isinstance(inputs, (list, tuple)):
        return _together([_functions(each, None, name, None) for each in inputs])
    if args is None:
        raise UserError(
            "no arguments are given", primitive="build", fix="pass the tensors: build(s, [A, W, B], target)"
        )
    return lower(inputs, args, name, binds).functions


def _named(name: Any, value: Any) -> tuple[Function, ...]:
    """The function called `name`, from a lowered one or from (schedule, arguments)."""
    if isinstance(value, (tuple, list)) and len(value) == 2:
        return lower(value[0], value[1], name).functions
    if isinstance(value, Program) and len(value.functions) == 1:
        (function,) = value.functions
        return (Function(name, function.params, function.body),)
    raise UserError(
        f"{name!r} maps to {type(value).__name__}",
        primitive="build",
        fix="give {name: (schedule, [A, B])}, or {name: lowered module of one function}",
    )


def _together(parts: Sequence[tuple[Function, ...]]) -> tuple[Function, ...]:
    functions = tuple(function for part in parts for function in part)
    names = [function.name for function in functions]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None or not functions:
        raise UserError(
            f"several functions are called {twice!r}" if functions else "there is no function to build",
            primitive="build",
            fix='name each one: lower(s, args, name="...")',
        )
    return functions


def _names_target(key: Any) -> bool:
    return isinstance(key, Target) or (isinstance(key, str) and key.split(" ")[0] in KINDS)


def _only_target(inputs: Mapping[Any, Any], target: Any) -> tuple[Any, Any]:
    """The program and target of {target: program}, as the legacy API takes it; there can be one."""
    if len(inputs) > 1 or target is not None:
        raise UserError(
            f"a module is for one target, but these are given: {', '.join(map(str, inputs))}",
            primitive="build",
            fix="build a module for each",
        )
    ((key, value),) = inputs.items()
    return value, key
