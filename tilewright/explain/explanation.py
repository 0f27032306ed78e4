"""Explain a schedule: everything that is known of its kernels before one of them runs, as values."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ..codegen.abi import Resources
from ..codegen.kernel import Kernel
from ..codegen.nvrtc import version
from ..codegen.program import compile_program, generate
from ..core.boards import BOARDS, Board, board_of
from ..core.errors import UserError
from ..core.hardware import THREAD_TAGS, MemoryScope
from ..core.occupancy import occupancy
from ..core.recursion import deep
from ..core.target import Target
from ..driver import finished, lower_for, refined_bounds
from ..expr.evaluate import evaluate
from ..expr.nodes import Expr, Var
from ..expr.traverse import variables
from ..loops.nodes import Buffer, For, Function, Launch, Stmt
from ..runtime.compile import resolve_target
from ..schedule.culprits import naming_steps
from ..schedule.handle import ScheduleHandle
from ..schedule.schedule import Schedule
from ..tensor.scan import ScanOp
from ..tensor.tensor import Tensor
from ..topi.templates.processor import processor_of
from .counting import Counter, Counts
from .explanation_data import BufferUse, ExplanationData, KernelExplanation
from .loop_tree import loop_tree
from .points import Points
from .processor import processor_use
from .reasons import reasons
from .show import show

_TOGETHER = 32
"""Threads that count as a warp on targets without warps."""


class Explanation(ExplanationData):
    """The result of `s.explain(target)`; its text is the whole explanation."""

    def __str__(self) -> str:
        return show(self)

    __repr__ = __str__


@deep
def explain(
    handle: ScheduleHandle,
    target: Any = None,
    args: Sequence[Any] | None = None,
    sizes: Mapping[Any, int] | None = None,
) -> Explanation:
    """Explain the program of a schedule on a target; see `Schedule.explain`."""
    return Explanation(**vars(explanation_data(handle, chosen_target(target), args, sizes, compiled=True)))


def chosen_target(target: Any) -> Target:
    """Return the given target, else the current one, else CUDA."""
    return resolve_target(Target.parse(target) if target is not None else Target.current() or Target("cuda"))


def explanation_data(
    handle: ScheduleHandle, target: Target, args: Sequence[Any] | None, sizes: Mapping[Any, int] | None, compiled: bool
) -> ExplanationData:
    """Return the explanation of a schedule; if `compiled`, with the registers that NVIDIA's compiler allocates."""
    schedule = handle.value
    if args is not None and not isinstance(args, (list, tuple)):
        raise UserError(f"args are {args!r}", primitive="explain", fix="give a list of tensors and variables")
    given = tuple(args) if args is not None else _arguments(schedule)
    with naming_steps(handle.steps):
        function = finished(lower_for(target, handle, given).parts[0].function, target)
        resources = _resources(function, target) if compiled else {}
    known = _sizes(function, {} if sizes is None else sizes)
    bounds = refined_bounds(schedule, target)
    if target.is_gpu:
        with naming_steps(handle.steps):
            _, found = generate((function,), target)
        around = dict(_host_loops(function.body, ()))
        kernels = [
            _kernel(kernel, target, known, resources.get(kernel.name), around[kernel.launch]) for kernel in found
        ]
    else:
        kernels = [_on_processor(function, target, known)]
    name, board = _board(target)
    tree, chosen = (
        tuple(loop_tree(schedule, bounds)),
        tuple(collections.Counter(s.reason for s in handle.steps if s.reason).items()),
    )
    return ExplanationData(target, tree, reasons(schedule, bounds), tuple(kernels), board, name, chosen)


def _arguments(schedule: Schedule) -> tuple[Any, ...]:
    """Return the parameters of a schedule: its inputs, then its outputs."""
    states = {t.op for stage in schedule.in_order() if isinstance(stage.op, ScanOp) for t in stage.op.state}
    inputs = [stage.op for stage in schedule.in_order() if stage.is_placeholder and stage.op not in states]
    outputs = [schedule.stages[i].op for i in schedule.outputs]
    tensors: list[Tensor] = [tensor for op in (*inputs, *outputs) for tensor in op.outputs]
    return tuple(tensors)


def _sizes(function: Function, sizes: Mapping[Any, int]) -> dict[Var, int]:
    """The values of the sizes that a function is called with."""
    free: dict[Var, None] = {}
    for param in function.params:
        free.update(dict.fromkeys((param,) if isinstance(param, Var) else variables(*param.shape)))
    if not isinstance(sizes, Mapping):
        raise UserError(
            f"sizes are {sizes!r}, which is not a mapping",
            primitive="explain",
            fix='give the value of each size by its name: s.explain(target, sizes={"n": 1024})',
        )
    by_name = {key: value for key, value in sizes.items() if isinstance(key, str)}
    by_var = {key: value for key, value in sizes.items() if isinstance(key, Var)}
    given = {var: by_var.get(var, by_name.get(var.name)) for var in free}
    missing = dict.fromkeys(var.name for var, value in given.items() if value is None)
    if missing:
        wanted = ", ".join(f'"{name}": 1024' for name in missing)
        raise UserError(
            f"the value of {', '.join(missing)} is known only when the function is called",
            primitive="explain",
            fix=f"give one to count with: s.explain(target, sizes={{{wanted}}})",
        )
    wrong = [f"{var.name}={value!r}" for var, value in given.items() if not _is_size(value)]
    if wrong:
        raise UserError(
            f"sizes are positive integers, got {', '.join(wrong)}", primitive="explain", fix="give numbers such as 1024"
        )
    return {var: int(value) for var, value in given.items() if value is not None}


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and int(value) > 0


def _resources(function: Function, target: Target) -> Mapping[str, Resources]:
    """Return the resources of each kernel by NVIDIA's compiler; nothing if it is not installed, or for another
    target.
    """
    if target.kind != "cuda":
        return {}
    try:
        version()
    except UserError:
        return {}
    return compile_program((function,), target).resources


def _board(target: Target) -> tuple[str, Board | None]:
    """Return the board of a target: the one that `-model` names, else a known one of its architecture."""
    if target.kind != "cuda":
        return "", None
    model = dict(target.labels).get("model", "")
    found = BOARDS.get(model) or board_of(target.hardware.name)
    return next((name for name, board in BOARDS.items() if board is found), ""), found


def _value(e: Expr, sizes: Mapping[Var, int]) -> int:
    return int(evaluate(e, {var: np.int64(value) for var, value in sizes.items()}))


def _host_loops(stmt: Stmt, loops: tuple[For, ...]) -> Iterator[tuple[Launch, tuple[For, ...]]]:
    """Each launch of a function, and the loops of the host around it."""
    if isinstance(stmt, Launch):
        yield stmt, loops
        return
    inside = (*loops, stmt) if isinstance(stmt, For) else loops
    for child in stmt.children():
        if isinstance(child, Stmt):
            yield from _host_loops(child, inside)


def _kernel(
    kernel: Kernel,
    target: Target,
    sizes: Mapping[Var, int],
    resources: Resources | None,
    around: tuple[For, ...],
) -> KernelExplanation:
    extents = {tag: _value(extent, sizes) for tag, _, extent in kernel.launch.threads}
    grid = {tag: extent for tag, extent in extents.items() if tag.is_block}
    block = {tag: extents[tag] for tag in THREAD_TAGS if tag in extents}
    hardware, threads = target.hardware, prod(block.values())
    lanes = hardware.warp if target.has_warps else _TOGETHER
    points = Points(lanes if threads > 1 else 1, sizes)
    warps = -(-threads // lanes)
    number = points.spread(np.full(len(points.weights), warps))[:, None] * lanes + np.arange(points.lanes)[None, :]
    points.active = number < threads
    launches = 1.0
    for loop in around:
        before = points.weights
        points.loop(loop.var, loop.min, loop.extent)
        launches *= float((points.weights / before).mean())
        points.weights = before
    index = dict(zip(THREAD_TAGS, _digits(number, [block.get(tag, 1) for tag in THREAD_TAGS]), strict=True))
    for tag, var, _ in kernel.launch.threads:
        each = np.full(len(points.weights), extents[tag])
        points.define(var, points.spread(each)[:, None] if tag.is_block else index[tag])
    counts = _counted(points, kernel.launch.body, target)
    buffers = _buffers(kernel.params, sizes) + _buffers((*kernel.shared, *kernel.local), sizes)
    shared = sum(-(-b.bytes // 16) * 16 for b in buffers if b.scope is MemoryScope.SHARED)
    if resources is not None:
        shared = resources.shared_bytes
    registers = resources.registers if resources is not None else 0
    filled = occupancy(hardware, threads, registers, shared) if target.has_warps else None
    return KernelExplanation(
        kernel.name,
        grid,
        block,
        buffers,
        counts,
        shared,
        resources,
        filled,
        hardware.registers_at(threads),
        lanes,
        launches=round(launches),
    )


def _on_processor(function: Function, target: Target, sizes: Mapping[Var, int]) -> KernelExplanation:
    points = Points(1, sizes)
    counts = _counted(points, function.body, target)
    use = processor_use(function, processor_of(target), sizes)
    return KernelExplanation(function.name, {}, {}, _buffers(function.params, sizes), counts, 0, None, None, 0, 1, use)


def _counted(points: Points, body: Stmt, target: Target) -> Counts:
    counter = Counter(points, target)
    with np.errstate(all="ignore"):
        counter.walk(body)
    return counter.counts


def _digits(number: np.ndarray, extents: Sequence[int]) -> list[np.ndarray]:
    """Return a thread's number as its indices, x first."""
    found = []
    for extent in extents:
        found.append(number % extent)
        number = number // extent
    return found


def _buffers(given: Sequence[Buffer | Var], sizes: Mapping[Var, int]) -> tuple[BufferUse, ...]:
    made: list[BufferUse] = []
    for buffer in given:
        if isinstance(buffer, Buffer) and buffer.alias_of is None:
            shape = tuple(_value(extent, sizes) for extent in buffer.shape)
            size = prod(shape) * buffer.dtype.bytes
            made.append(BufferUse(buffer.note or buffer.name, buffer.scope, str(buffer.dtype), shape, size))
    return tuple(made)
