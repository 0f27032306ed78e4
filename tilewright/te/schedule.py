"""Schedules under the legacy API's module name, and the ranges of their loops."""

from collections.abc import Callable as _Callable
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ..arith.facts import EMPTY, Facts
from ..bounds.infer import infer_bounds
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr.nodes import Load
from ..expr.operators import greater_equal
from ..expr.traverse import post_order, variables
from ..loops import legacy_fields as _legacy_fields
from ..loops.build import build_function
from ..loops.constructors import STATEMENTS as _STATEMENTS
from ..loops.nodes import Buffer, Function, Stmt
from ..loops.uses import read, written
from ..schedule.handle import ScheduleHandle as Schedule
from ..schedule.handle import StageHandle as Stage
from ..schedule.handle import create_schedule
from ..schedule.relations import Fuse, Singleton, Split
from ..schedule.schedule import AtRoot
from ..tensor.axis import IterVar, Range
from ..tensor.reduction import Reduce
from ..tensor.scan import ScanOp
from ..tensor.scan_axes import scan_fixed_points as ScanFixPointAnalysis
from ..tensor.tensor import ComputeOp, Operation, Tensor, topological


def InferBound(sch: Schedule) -> dict[IterVar, Range]:
    """The range of every axis of the stages that are computed and stored, and of the threads that axes are bound to.

    Sizes and factors of splits are taken to be at least 1, as they are if any loop runs. Raises UserError if the
    schedule cannot be lowered because of dependences between its stages.
    """
    _check(sch, "InferBound")
    found: dict[IterVar, Range] = {}
    for bounds in infer_bounds(sch.value, _positive_sizes(sch)).values():
        found.update(bounds.ranges)
        threads = ((bounds.stage.annotation(axis).thread, axis) for axis in bounds.stage.leaves)
        found.update({thread: bounds.ranges[axis] for thread, axis in threads if thread is not None})
    return found


def _positive_sizes(sch: Schedule) -> Facts:
    """The fact that variables in shapes and factors of splits are at least 1: otherwise no loop runs."""
    stages = sch.value.in_order()
    sizes = [e for stage in stages for e in stage.op.shape]
    splits = [relation for stage in stages for relation in stage.relations if isinstance(relation, Split)]
    sizes += [e for split in splits for e in (split.factor, split.nparts) if e is not None]
    known = EMPTY
    for var in variables(*sizes):
        known = known.assume(greater_equal(var, 1))
    return known


def ScheduleOps(sch: Schedule, bounds: _Any = None, debug_keep_trivial_loop: bool = False) -> Stmt:
    """The loops of a schedule before any pass: the input of `tvm.lower`.

    Parameters
    ----------
    sch
        The schedule.
    bounds
        The result of `InferBound`; the ranges are inferred anew.
    debug_keep_trivial_loop
        Accepted for old scripts: loops of one iteration are written as their bodies.

    Returns
    -------
    Stmt
        The loop nest, with tensors as multi-dimensional buffers.

    Raises
    ------
    UserError
        If the schedule cannot be lowered.
    """
    _check(sch, "ScheduleOps")
    value = sch.value
    rows = {state.op for stage in value.in_order() if isinstance(stage.op, ScanOp) for state in stage.op.state}
    inputs = [stage.op for stage in value.in_order() if stage.is_placeholder and stage.op not in rows]
    params = [tensor for op in (*inputs, *sch.outputs) for tensor in op.outputs]
    return build_function(value, infer_bounds(value), list(dict.fromkeys(params)), keep_outputs=False).body


def SchedulePostProcToPrimFunc(arg_list: _Any, body: Stmt, extern_buffer: _Any = None) -> Function:
    """A function of tensors, buffers and sizes, of the statement that `ScheduleOps` returned.

    Parameters
    ----------
    arg_list
        The parameters, tensors of the schedule among them.
    body
        The statement.
    extern_buffer
        Accepted for old scripts if it names no buffer.

    Returns
    -------
    Function
        For `tvm.IRModule.from_expr`, passes and `build`.

    Raises
    ------
    UserError
        If the statement has no buffer for a tensor, or the caller gives buffers.
    """
    primitive = "SchedulePostProcToPrimFunc"
    if extern_buffer or not isinstance(arg_list, (list, tuple)) or not isinstance(body, Stmt):
        raise UserError(
            f"the arguments are {arg_list!r}, a {type(body).__name__} and {extern_buffer!r}",
            primitive=primitive,
            fix="give a list of tensors and the result of ScheduleOps; tw.lower(s, args, binds=...) takes buffers",
        )
    there = [source for source in (read(body) | written(body)) if isinstance(source, Buffer)]
    params: list[_Any] = []
    for arg in arg_list:
        if not isinstance(arg, Tensor):
            params.append(arg)
            continue
        found = [b for b in there if (b.name, b.dtype, b.shape) == (arg.name, arg.dtype, arg.shape)]
        if len(found) > 1:
            raise UserError(
                f"the statement has {len(found)} buffers called {arg.name!r}",
                primitive=primitive,
                fix="give the tensors names of their own, or use tw.lower(s, args)",
            )
        params.append(found[0] if found else Buffer(arg.name, arg.dtype, arg.shape, note=arg.name))
    made: Function = _STATEMENTS["PrimFunc"](params, body)
    return made


def AutoInlineElemWise(sch: Schedule) -> None:
    """Inline every stage that reads its inputs at exactly its own axes, in order, and is not an output."""
    _inline(sch, "AutoInlineElemWise", _is_elementwise)


def AutoInlineBroadcast(sch: Schedule) -> None:
    """Inline every stage that reads its inputs at some of its own axes, in their order, and is not an output."""
    _inline(sch, "AutoInlineBroadcast", _is_broadcast)


def AutoInlineInjective(sch: Schedule) -> None:
    """Inline every stage that is not a reduction and not an output."""
    _inline(sch, "AutoInlineInjective", lambda op: True)


def CreateReadGraph(ops: _Any) -> dict[Operation, tuple[Tensor, ...]]:
    """The tensors that each operation reads, for the given operations and all their producers."""
    return {op: op.input_tensors for op in topological(_operations(ops, "CreateReadGraph"))}


def PostDFSOrder(roots: _Any, graph: _Any = None) -> list[Operation]:
    """The given operations and all their producers, producers first."""
    return list(topological(_operations(roots, "PostDFSOrder")))


def ScanGetBody(scan: ScanOp) -> list[Operation]:
    """The operations that are computed anew in each step of a scan, producers first."""
    if not isinstance(scan, ScanOp):
        raise UserError(f"{scan!r} is not a scan", primitive="ScanGetBody", fix="give res.op of res = te.scan(...)")
    steps = set(scan.steps())
    return [op for op in topological([scan]) if op in steps]


def _operations(given: _Any, primitive: str) -> list[Operation]:
    ops = list(given) if isinstance(given, (list, tuple)) else [given]
    if not all(isinstance(op, Operation) for op in ops):
        raise UserError(f"{given!r} are not operations", primitive=primitive, fix="give a list: [B.op]")
    return ops


def _inline(sch: Schedule, primitive: str, fits: _Callable[[ComputeOp], bool]) -> None:
    _check(sch, primitive)
    for handle in sch.stages:
        op = handle.op
        taken = handle.is_output or handle.value.annotations or handle.value.relations
        if taken or not isinstance(op, ComputeOp) or not isinstance(handle.placement, AtRoot):
            continue
        if not isinstance(op.body[0], Reduce) and fits(op):
            handle.compute_inline()


def _is_elementwise(op: ComputeOp) -> bool:
    own = tuple(axis.var for axis in op.axis)
    return all(load.indices == own for load in _loads(op))


def _is_broadcast(op: ComputeOp) -> bool:
    """Whether each read is at axes in their order, some left out, and at constants."""
    if op.tag.startswith(("broadcast", "elemwise")):
        return True
    place = {axis.var: at for at, axis in enumerate(op.axis)}
    found = [[place.get(index, -1) for index in load.indices if index in place] for load in _loads(op)]  # type: ignore[call-overload]
    whole = all(all(index in place for index in load.indices) for load in _loads(op))
    return whole and all(places == sorted(places) for places in found)


def _loads(op: ComputeOp) -> list[Load]:
    return [e for e in post_order(*op.body) if isinstance(e, Load)]


def _check(sch: _Any, primitive: str) -> None:
    if not isinstance(sch, Schedule):
        raise UserError(
            f"{sch!r} is not a schedule", primitive=primitive, fix="give the schedule that te.create_schedule made"
        )


__all__ = [
    "AutoInlineBroadcast",
    "AutoInlineElemWise",
    "AutoInlineInjective",
    "Buffer",
    "CreateReadGraph",
    "Fuse",
    "InferBound",
    "IterVar",
    "PostDFSOrder",
    "Range",
    "ScanFixPointAnalysis",
    "ScanGetBody",
    "Schedule",
    "ScheduleOps",
    "SchedulePostProcToPrimFunc",
    "Singleton",
    "Split",
    "Stage",
    "create_schedule",
]

if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, __all__)
