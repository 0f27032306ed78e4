"""The whole story, from a schedule to something that runs. Read this first.

te.compute ──► Schedule ──► Bounds ──► refined ──► loop nest ──► passes ──► source ──► Module
 tensor/       schedule/    bounds/    refine/     loops/       passes/    codegen/   runtime/
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .bounds.infer import Bounds, infer_bounds
from .core.errors import UserError, remark
from .core.forking import not_while_forking
from .core.options import Options
from .core.recursion import deep
from .core.target import KINDS, Target
from .core.views import view
from .loops.build import build_function
from .loops.nodes import Function, Launch, Program
from .loops.printer import show_program
from .loops.walk import statements
from .passes.context import PassContext
from .passes.pass_report import LINES, explain
from .passes.runner import PassRecord, finishing, lowering, run, well_formed
from .refine.refine import Refined, refine
from .refine.register_use import register_remarks
from .runtime.compile import compile_functions
from .runtime.module import Module
from .schedule.culprits import naming_steps
from .schedule.handle import ScheduleHandle
from .schedule.schedule import Schedule
from .schedule.steps import Step
from .tensor.tensor import Tensor


@dataclass(frozen=True)
class LoweredFunction:
    """One lowered function: the passes that made it, and its source.

    `target` is the target it is refined for; without one, it has the loops of the schedule.
    """

    function: Function
    records: tuple[PassRecord, ...]
    recipe: _Recipe
    target: Target | None = None

    def compiled_for(self, target: Target) -> LoweredFunction:
        """This function as it is compiled for `target`: on a GPU, threads fetch tiles of shared memory together."""
        return self if self.target == target else self.recipe.lowered(target)

    def explain(self, target: Target | None, lines: int) -> str:
        """The changes and the time of each pass."""
        made = self if target is None else self.compiled_for(target)
        records = list(made.records)
        if target is not None:
            options = PassContext.current().options
            run(finishing(target, options), made.function, target, options, records)
        return explain(self.recipe.nest(self.recipe.bounds), records, lines)


@dataclass(frozen=True)
class _Recipe:
    """The source of a function."""

    schedule: Schedule
    bounds: Bounds
    args: tuple[Any, ...]
    name: str
    binds: Any
    options: Options
    steps: tuple[Step, ...] = ()

    def lowered(self, target: Target | None) -> LoweredFunction:
        """The function as it is built for `target`; without one, as it is scheduled."""
        with naming_steps(self.steps):
            return self._lowered(target)

    def _lowered(self, target: Target | None) -> LoweredFunction:
        records: list[PassRecord] = []
        start = time.perf_counter()
        scheduled = Refined(self.bounds)
        build_options = PassContext.current().options  # refinement reads the options of the build, not of `lower`
        refined = scheduled if target is None else refine(self.schedule, self.bounds, target, build_options)
        crowded = () if target is None else register_remarks(self.schedule, refined.bounds, target, self.steps)
        for each in (*refined.remarks, *crowded):
            remark(each)
        nest = self.nest(refined.bounds, target is not None)
        if refined.by:
            records.append(PassRecord(", ".join(refined.by), time.perf_counter() - start, nest))
        machine = target or Target("llvm")
        made = run(lowering(machine, self.options), nest, machine, self.options, records)
        return LoweredFunction(made, tuple(records), self, target)

    def nest(self, bounds: Bounds, keep_outputs: bool = False) -> Function:
        """The loop nest before any pass."""
        return build_function(self.schedule, bounds, self.args, self.name, self.binds, keep_outputs)


class LoweredModule(Program):
    """Lowered functions; as text, the program that the legacy API's `lower(..., simple_mode=True)` shows."""

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[LoweredFunction, ...]) -> None:
        super().__init__(tuple(part.function for part in parts))
        self.parts = parts

    @property
    def records(self) -> tuple[PassRecord, ...]:
        """The passes that ran, beginning with the first function's passes."""
        return tuple(record for part in self.parts for record in part.records)

    def script(self) -> str:
        """The program as text."""
        return show_program(self)

    def show(self) -> None:
        """Print the program."""
        print(show_program(self))

    @deep
    def explain(self, target: Any = None, lines: int = LINES) -> str:
        """The changes and the time of each pass; with a `target`, its finishing passes as well.

        At most `lines` changed lines per pass are shown.
        """
        chosen = None if target is None else Target.parse(target)
        if isinstance(lines, bool) or not isinstance(lines, int) or lines < 0:
            raise UserError(
                f"lines={lines!r} is not a number of lines", primitive="explain", fix="give an int: lines=40"
            )
        return "\n\n".join(part.explain(chosen, lines) for part in self.parts)

    def __str__(self) -> str:
        return show_program(self)

    __repr__ = __str__


def refined_bounds(schedule: Schedule, target: Target) -> Bounds:
    """Return the bounds under which a schedule is built for a target."""
    return refine(schedule, infer_bounds(schedule), target, PassContext.current().options).bounds


@not_while_forking
@deep
def lower(
    inputs: ScheduleHandle | Schedule | Function | Program,
    args: Sequence[Any] | None = None,
    name: str = "main",
    binds: Any = None,
    simple_mode: bool = False,
    explain: bool = False,
) -> Program:
    """The loop program of a schedule, as a readable module.

    `args`: tensors and size variables in the order of the entry point's parameters. Outputs that are not among them are
    allocated within the program, which is then one to look at. A function or a program of `tir` takes no arguments.
    `binds` maps tensors to buffers declared by `tir.decl_buffer`, for arrays that are not simply row-major.
    `simple_mode` is accepted for old scripts: the program prints the same either way. `explain` prints the changes of
    each pass. Raises UserError for a schedule that cannot be built, naming the primitive and the fix.
    """
    if isinstance(inputs, (Function, Program)):
        given = inputs if isinstance(inputs, Program) else Program((inputs,))
        return given if isinstance(given, LoweredModule) else _lowered_by_hand(given, Target("llvm"))
    lowered = LoweredModule((_recipe(inputs, args, name, binds).lowered(None),))
    if explain or PassContext.current().options.explain:
        _tell(f"lowering {name}", lowered.explain())
    return lowered


def schedule_to_module(
    sch: ScheduleHandle, args: Sequence[Any] | None = None, name: str = "main", binds: Any = None
) -> Program:
    """The loop nest of a schedule as a program, before any pass: the input of `lower`."""
    recipe = _recipe(sch, args, name, binds)
    return Program((recipe.nest(recipe.bounds),))


@not_while_forking
@deep
def lower_for(
    target: Target, inputs: ScheduleHandle | Schedule, args: Sequence[Any], name: str = "main", binds: Any = None
) -> LoweredModule:
    """The loop program of a schedule as it is compiled for `target`, which may run it differently than scheduled."""
    lowered = LoweredModule((_recipe(inputs, args, name, binds).lowered(target),))
    if PassContext.current().options.explain:
        _tell(f"lowering {name}", lowered.explain())
    return lowered


def _recipe(inputs: ScheduleHandle | Schedule, args: Sequence[Any] | None, name: str, binds: Any) -> _Recipe:
    schedule = inputs.value if isinstance(inputs, ScheduleHandle) else inputs
    if not isinstance(schedule, Schedule):
        raise UserError(
            f"cannot lower {type(inputs).__name__}",
            primitive="lower",
            fix="give the schedule that te.create_schedule made",
        )
    _check_arguments(args, name)
    options = PassContext.current().options
    steps = _steps_of(inputs)
    with naming_steps(steps):
        bounds = infer_bounds(schedule)
    return _Recipe(schedule, bounds, tuple(args or ()), name, binds, options, steps)


def _steps_of(inputs: Any) -> tuple[Step, ...]:
    """The steps of the schedules among the arguments of `build`."""
    if isinstance(inputs, ScheduleHandle):
        return tuple(inputs.steps)
    if isinstance(inputs, LoweredModule):
        return tuple(step for part in inputs.parts for step in part.recipe.steps)
    if isinstance(inputs, Mapping):
        return _steps_of(list(inputs.values()))
    if isinstance(inputs, (list, tuple)):
        return tuple(step for each in inputs for step in _steps_of(each))
    return ()


def _check_arguments(args: Any, name: Any) -> None:
    if isinstance(args, Tensor) or not isinstance(args, (list, tuple)):
        shown = f"tensor {args.name!r}" if isinstance(args, Tensor) else repr(args)
        raise UserError(
            f"the arguments are {shown}, which is not a list",
            primitive="lower",
            fix=f"a target goes by name: build(s, [A, W, B], target={args!r})"
            if isinstance(args, str)
            else "give the tensors in the order of the function's parameters: lower(s, [A, W, B])",
        )
    if not isinstance(name, str):
        raise UserError(
            f"the name of the function is {name!r}, which is not text",
            primitive="lower",
            fix='give some text: name="conv"',
        )


Source = ScheduleHandle | Schedule | Function | Program


@not_while_forking
@deep
def build(
    inputs: Source | Sequence[LoweredModule] | Mapping[Any, Any],
    args: Sequence[Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    name: str = "main",
    binds: Any = None,
) -> Module:
    """A callable module for `target` ("cuda", "opencl", "llvm") from a schedule and its arguments, tensors, or a
    lowered module.

    Bare tensors are scheduled by `auto_schedule`: their arguments are by default the inputs, then the tensors. Several
    functions make one module: give a list of lowered modules, or {name: (schedule, arguments)}. Without a target: the
    current one (`with Target(...)`), else the CPU. Raises UserError for a schedule that cannot be built or that breaks
    a limit of the target.
    """
    if isinstance(inputs, Mapping) and inputs and all(map(_names_target, inputs)):
        inputs, target = _only_target(inputs, target)
    chosen = Target.parse(target) if target is not None else Target.current(allow_none=True) or Target("llvm")
    if _are_tensors(inputs):
        if args is not None:
            _check_arguments(args, name or "")
        inputs, args = view("schedule", inputs, args, chosen)
    with naming_steps(_steps_of(inputs)):
        functions = _functions(inputs, chosen, args, name, binds)
        return compile_functions(tuple(finished(function, chosen) for function in functions), chosen)


@not_while_forking
@deep
def lower_nest(nest: Function, target: Target) -> Function:
    """A loop nest that was built for `target`, lowered."""
    options = PassContext.current().options
    return run(lowering(target, options), nest, target, options)


@not_while_forking
@deep
def compile_lowered(function: Function, target: Target) -> Module:
    """A module of a function that was lowered for `target`."""
    return compile_functions((finished(function, target),), target)


def finished(function: Function, target: Target) -> Function:
    """A function lowered for `target`, as it is compiled."""
    options = PassContext.current().options
    records: list[PassRecord] = []
    made = run(finishing(target, options), function, target, options, records)
    if options.explain:
        _tell(f"finishing {function.name} for {target}", explain(function, records))
    return made


def _tell(what: str, text: str) -> None:
    print(f"══ {what}\n\n{text}\n", file=sys.stderr)


def _functions(inputs: Any, target: Target, args: Sequence[Any] | None, name: str, binds: Any) -> tuple[Function, ...]:
    """The functions among the arguments of `build`, lowered for the target."""
    if isinstance(inputs, LoweredModule):
        return tuple(part.compiled_for(target).function for part in inputs.parts)
    if isinstance(inputs, Function):
        inputs = Program((inputs,))
    if isinstance(inputs, Program):
        return _lowered_by_hand(inputs, target).functions
    if isinstance(inputs, Mapping):
        return _together([_named(key, value, target) for key, value in inputs.items()])
    if isinstance(inputs, (list, tuple)):
        return _together([_functions(each, target, None, name, None) for each in inputs])
    if args is None:
        raise UserError(
            "no arguments are given", primitive="build", fix="pass the tensors: build(s, [A, W, B], target)"
        )
    return lower_for(target, inputs, args, name, binds).functions


def _lowered_by_hand(program: Program, target: Target) -> Program:
    """Lower a program that users made of statements; a lowered program stays as it is."""
    options = PassContext.current().options
    for f in program.functions:
        if not any(isinstance(stmt, Launch) for stmt in statements(f.body)):
            well_formed(f)
    return Program(tuple(run(lowering(target, options), f, target, options) for f in program.functions))


def _named(name: Any, value: Any, target: Target) -> tuple[Function, ...]:
    """The function called `name`, from a lowered one or from (schedule, arguments)."""
    if isinstance(value, (tuple, list)) and len(value) == 2 and isinstance(name, str):
        return lower_for(target, value[0], value[1], name).functions
    if isinstance(value, Program) and len(value.functions) == 1:
        (function,) = _functions(value, target, None, name, None)
        return (Function(name, function.params, function.body, function.reads, function.checks, function.imports),)
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


def _are_tensors(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return bool(given) and all(isinstance(each, Tensor) for each in given)
    return isinstance(given, Tensor)


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


__path__: list[str] = []  # the legacy API has modules below this one; `legacy.finder` finds their names here
