"""Passes as objects under the legacy API's names: `tir.transform.UnrollLoop()(module)`.

Each name runs the pass of ours that does its work. Passes take and return programs. `build` runs the passes that it
needs by itself. Scripts apply one of these to look at its effect, or inside a pass of their own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..core.errors import UserError, warn_caller
from ..core.hardware import LoopKind, ThreadTag
from ..core.recursion import deep
from ..core.refusals import not_made
from ..core.target import Target
from ..expr.traverse import post_order
from ..loops.analysis import verify_gpu_code, verify_memory, verify_ssa
from ..loops.assertions import without_assertions
from ..loops.calls import has_effect
from ..loops.function_attributes import PrimFunction, with_attr
from ..loops.nodes import NOTHING, Allocate, Evaluate, For, Function, If, Launch, Let, Program, Stmt, map_statements
from ..loops.walk import statements, substatements
from .asynchronous_copies import asynchronous_copies
from .context import PassContext
from .drop_unread_stores import drop_unread_stores
from .expand_virtual_threads import expand_virtual_threads
from .flatten_storage import flatten_storage
from .guard_selects import guard_selects
from .instrument_bound_checkers import instrument_bound_checkers
from .launch_on_host import launch_on_host
from .loop_nests import with_serial
from .lower_divisions import lower_divisions
from .lower_intrinsics import lower_intrinsics
from .lower_thread_reduce import lower_thread_reduce
from .narrow_indices import narrow_indices
from .partition_loops import partition_loops
from .pass_list import Pass
from .pipeline_loops import pipeline_loops
from .place_barriers import place_barriers
from .share_storage import share_storage
from .simplify_program import simplify_program
from .split_host_device import split_host_device
from .unroll_loops import unroll_loops
from .vectorize_loops import vectorize_loops

OnProgram = Callable[[Program], Program]


class PassInfo(NamedTuple):
    """The description of a pass."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()


class NamedPass:
    """A pass that is called with a program, or one function, and returns another."""

    def __init__(self, info: PassInfo, run: OnProgram) -> None:
        if not isinstance(info, PassInfo) or not callable(run):
            raise not_made("Pass", "take one of tir.transform, or make one with transform.module_pass")
        self.info = info
        self._run = run

    @deep
    def __call__(self, mod: Any) -> Any:
        if isinstance(mod, Function):
            return self._run(Program((mod,))).functions[0]
        if not isinstance(mod, Program):
            raise UserError(
                f"{mod!r} is not a program",
                primitive=self.info.name,
                fix="give the result of tw.lower or tvm.IRModule, or one function of it",
            )
        return self._run(mod)

    def __repr__(self) -> str:
        return f"<pass {self.info.name}>"


def target_of(function: Function) -> Target:
    """The target of a function: its attribute "target", else the current target, else a guess from its loops."""
    named = getattr(function, "attrs", {}).get("target") or Target.current()
    if named is not None:
        return Target.parse(named)
    grid = (s for s in statements(function.body) if isinstance(s, (For, Launch)))
    threads = any((s.threads if isinstance(s, Launch) else s.kind is LoopKind.THREAD) for s in grid)
    return Target("cuda" if threads else "llvm")


def on_functions(name: str, step: Callable[[Function], Function]) -> NamedPass:
    """A pass that rewrites each function separately, and keeps attributes."""

    def run(program: Program) -> Program:
        made = []
        for function in program.functions:
            done = step(function)
            attrs = getattr(function, "attrs", None)
            made.append(PrimFunction.of(done, attrs=attrs) if attrs and not isinstance(done, PrimFunction) else done)
        return Program(tuple(made))

    return NamedPass(PassInfo(name), run)


def _ours(*steps: Pass) -> Callable[[Function], Function]:
    def run(function: Function) -> Function:
        target, options = target_of(function), PassContext.current().options
        for step in steps:
            function = step(function, target, options)
        return function

    return run


def _serial(function: Function) -> Function:
    return function.with_body(with_serial(LoopKind.PARALLEL, function.body))


def _split(function: Function) -> Function:
    return _ours(split_host_device if target_of(function).is_gpu else launch_on_host)(function)


def _without_effects(function: Function) -> Function:
    """Dead-code elimination: remove unused values, and statements that become empty."""

    def visit(stmt: Stmt) -> Stmt:
        done = map_statements(stmt, visit)
        if isinstance(done, Evaluate):
            return done if any(has_effect(e) for e in post_order(done.value)) else NOTHING
        bodies = substatements(done)
        idle = isinstance(done, (For, If, Let, Allocate)) and all(body is NOTHING for body in bodies)
        return NOTHING if idle else done

    done: Function = _ours(simplify_program)(function)
    return done.with_body(visit(done.body))


def _synchronised(function: Function) -> Function:
    loops = [s for s in statements(function.body) if isinstance(s, For) and s.kind is LoopKind.THREAD]
    if any(loop.thread is not ThreadTag.VTHREAD for loop in loops):
        warn_caller(
            "ThreadSync places barriers in kernels, and this function has thread loops that are not one yet: run "
            "tir.transform.SplitHostDevice before it",
            UserWarning,
        )
    return _ours(place_barriers)(function)


class Counterpart(NamedTuple):
    """The counterpart of a pass of the legacy API: its parameters there, and ours."""

    does: str
    """The names of our passes."""
    step: Callable[[Function], Function]
    accepts: tuple[str, ...] = ()
    """Parameters that are accepted, and have no meaning here."""


def _row(*steps: Pass, accepts: str = "") -> Counterpart:
    return Counterpart(", ".join(step.__name__ for step in steps), _ours(*steps), tuple(accepts.split()))


COUNTERPARTS: dict[str, Counterpart] = {
    "Simplify": _row(simplify_program),
    "RemoveNoOp": Counterpart("simplify_program, and unused computations are removed", _without_effects),
    "StorageFlatten": _row(flatten_storage, accepts="cache_line_size create_bound_attribute"),
    "FlattenBuffer": _row(flatten_storage),
    "RewriteUnsafeSelect": _row(guard_selects),
    "VectorizeLoop": _row(vectorize_loops, accepts="enable_vectorize"),
    "InjectVirtualThread": _row(expand_virtual_threads),
    "InjectSoftwarePipeline": _row(pipeline_loops),
    "InjectDoubleBuffer": _row(pipeline_loops),
    "UnrollLoop": _row(unroll_loops),
    "LoopPartition": _row(partition_loops),
    "SplitHostDevice": Counterpart("split_host_device, or launch_on_host on a CPU", _split),
    "LowerThreadAllreduce": _row(lower_thread_reduce),
    "StorageRewrite": _row(drop_unread_stores, share_storage),
    "MergeSharedMemoryAllocations": _row(share_storage),
    "MergeDynamicSharedMemoryAllocations": _row(share_storage),
    "InjectPTXAsyncCopy": _row(asynchronous_copies),
    "ThreadSync": Counterpart("place_barriers", _synchronised, ("storage_scope",)),
    "NarrowDataType": _row(narrow_indices, accepts="target_bits"),
    "ForceNarrowIndexToInt32": _row(narrow_indices),
    "LowerIntrin": _row(lower_intrinsics, lower_divisions),
    "InstrumentBoundCheckers": _row(instrument_bound_checkers),
    "SkipAssert": Counterpart("(an assertion becomes its body)", without_assertions),
    "ConvertForLoopsToSerial": Counterpart("(a loop of kind parallel becomes a serial one)", _serial),
}
"""The passes of the legacy API that have a counterpart, and their counterparts here."""


def maker_of(name: str) -> Callable[..., NamedPass]:
    """The function that makes the pass of that name."""
    row = COUNTERPARTS[name]

    def make(*args: Any, **named: Any) -> NamedPass:
        given = dict(zip(row.accepts, args, strict=False)) | named
        if len(args) > len(row.accepts) or set(given) - set(row.accepts):
            raise UserError(
                f"the arguments {list(args) + list(named)} are not known",
                primitive=name,
                fix=f"it takes {', '.join(row.accepts)}" if row.accepts else f"call {name}() without arguments",
            )
        if given.get("enable_vectorize") is False:
            return on_functions(name, _unvectorized)
        return on_functions(name, row.step)

    make.__name__ = name
    make.__doc__ = f"The pass {name}: {row.does}."
    return make


def _unvectorized(function: Function) -> Function:
    """The pass `VectorizeLoop(False)`: vector loops become serial ones."""
    return function.with_body(with_serial(LoopKind.VECTORIZED, function.body))


def apply(ftransform: Callable[[Function], Function]) -> NamedPass:
    """The pass that calls `ftransform` with each function, which returns another."""
    return on_functions("Apply", lambda function: _function(ftransform(function), "Apply"))


def filtered(fcond: Callable[[Function], bool]) -> NamedPass:
    """The pass that keeps the functions for which `fcond` holds."""
    return NamedPass(PassInfo("Filter"), lambda program: Program(tuple([f for f in program.functions if fcond(f)])))


def bind_target(target: Any) -> NamedPass:
    """The pass that gives each function the attribute "target"."""
    chosen = Target.parse(target)
    return on_functions("BindTarget", lambda function: with_attr(function, "target", chosen))


def _verifying(name: str, holds: Callable[[Function], bool], complaint: str, fix: str) -> NamedPass:
    def step(function: Function) -> Function:
        if not holds(function):
            raise UserError(f"{complaint} in {function.name!r}", primitive=name, fix=fix)
        return function

    return on_functions(name, step)


def verifying_memory() -> NamedPass:
    """The pass that raises if host code reads or writes the memory of a GPU."""
    return _verifying(
        "VerifyMemory",
        verify_memory,
        "memory of the device is accessed outside of any kernel",
        "bind a loop to threads",
    )


def verifying_gpu_code(constraints: Any = None) -> NamedPass:
    """The pass that raises if a kernel exceeds limits: see `tir.analysis.verify_gpu_code`."""
    if constraints is not None and not isinstance(constraints, Mapping):
        raise UserError(
            f"constraints are {constraints!r}", primitive="VerifyGPUCode", fix='give a dict: {"max_thread_x": 256}'
        )
    return _verifying(
        "VerifyGPUCode",
        lambda function: verify_gpu_code(function, dict(constraints or {})),
        f"a kernel exceeds {dict(constraints or {})}",
        "give a block fewer threads, or smaller tiles",
    )


def verifying_ssa() -> NamedPass:
    """The pass that raises if a variable is defined twice, or not at all."""
    return _verifying("VerifySSA", verify_ssa, "a variable is not defined just once", "give each loop its own variable")


def _method(made: Any, name: str) -> Any:
    found = getattr(made, name, None)
    if found is None:
        raise UserError(f"{type(made).__name__} has no method {name}", primitive="pass", fix=f"define {name} in it")
    return found


def _function(made: Any, name: str) -> Function:
    if not isinstance(made, Function):
        raise UserError(
            f"the pass {name} returns {made!r}", primitive=name, fix="a pass takes a loop function and returns one"
        )
    return made


class Sequential(NamedPass):
    """Passes one after the other."""

    def __init__(self, passes: Sequence[Any] = (), opt_level: int = 0, name: str = "sequential", **legacy: Any) -> None:
        if not isinstance(passes, (list, tuple)):
            raise UserError(f"{passes!r} is not a list of passes", primitive="Sequential", fix="give a list of passes")
        wrong = next((each for each in passes if not isinstance(each, NamedPass)), None)
        if wrong is not None:
            raise UserError(f"{wrong!r} is not a pass", primitive="Sequential", fix="give passes of tir.transform")
        self.passes = tuple(passes)

        def run(program: Program) -> Program:
            for each in self.passes:
                program = each(program)
            return program

        super().__init__(PassInfo(name, opt_level), run)


def _names(required: Any) -> tuple[str, ...]:
    """The names of the passes that a pass requires."""
    given = () if required is None else required
    if not isinstance(given, (list, tuple)) or not all(isinstance(each, str) for each in given):
        raise UserError(
            f"required={required!r} is not a list of names of passes",
            primitive="transform",
            fix='give ["tir.Simplify"]',
        )
    return tuple(given)


def prim_func_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Any = None, traceable: bool = False
) -> Any:
    """A pass of a function `(function, module, context) -> function`; without one, a decorator that makes it.

    A class with a method `transform_function` of these arguments becomes a class of passes.
    """

    def make(given: Any) -> Any:
        called = name or str(getattr(given, "__name__", "pass"))
        if inspect.isclass(given):
            return lambda *args, **named: make_of(_method(given(*args, **named), "transform_function"), called)
        return make_of(given, called)

    def make_of(function: Callable[..., Any], called: str) -> NamedPass:
        def run(program: Program) -> Program:
            context = PassContext.current()
            return Program(tuple([_function(function(f, program, context), called) for f in program.functions]))

        return NamedPass(PassInfo(called, opt_level, _names(required)), run)

    return make if pass_func is None else make(pass_func)


def module_pass(
    pass_func: Any = None, opt_level: int = 0, name: str | None = None, required: Any = None, traceable: bool = False
) -> Any:
    """A pass of a function `(module, context) -> module`; without one, a decorator that makes it."""

    def make(given: Any) -> Any:
        called = name or str(getattr(given, "__name__", "pass"))
        if inspect.isclass(given):
            return lambda *args, **named: make_of(_method(given(*args, **named), "transform_module"), called)
        return make_of(given, called)

    def make_of(function: Callable[..., Any], called: str) -> NamedPass:
        def run(program: Program) -> Program:
            made = function(program, PassContext.current())
            if not isinstance(made, Program):
                raise UserError(
                    f"the pass {called} returns {made!r}", primitive=called, fix="a pass takes a module and returns one"
                )
            return made

        return NamedPass(PassInfo(called, opt_level, _names(required)), run)

    return make if pass_func is None else make(pass_func)
