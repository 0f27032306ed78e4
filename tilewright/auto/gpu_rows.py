"""Rows on GPUs: a block computes all stages of one or several rows, so that rows are read once.

If a row is contiguous in memory, the threads along x share it. If neighbouring rows are neighbours in memory, each
thread along x has its own row, which the threads along y share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ..core.divisors import power_of_two
from ..core.hardware import MemoryScope
from ..core.target import Target
from ..expr.nodes import IntImm
from ..expr.traverse import loads, variables
from ..schedule.handle import ScheduleHandle
from ..schedule.schedule import Inlined
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import Operation, Tensor, is_reduction
from ..topi.schedules.stages import vector_bytes
from ..tune.model.machine import Machine
from .dataflow import Dataflow, Read, extent_of, known, known_total, total
from .kernels import FusedKernel

_MOST_HELD_REGISTERS = 64
"""The most registers of a thread for elements of rows."""
_ROW_THREADS = 256
"""Threads per row, unless its elements need more registers, or there are fewer rows than multiprocessors."""
_MOST_SHARED_BYTES = 64 << 10
"""The most bytes of shared memory for the rows of a block, so that three blocks share a multiprocessor."""
_PARTIAL_SHARED_BYTES = 1 << 10
"""Bytes of shared memory for the partial results of a block."""


@dataclass(frozen=True)
class RowTile:
    """The distribution of rows: threads per row, rows per block, and neighbours per access of a thread.

    `keep` is the memory of rows that several stages read: "shared", "local" (registers), or none.
    """

    across: int
    rows: int
    vector: int = 1
    keep: str = ""


def runs_along_rows(flow: Dataflow, kernel: FusedKernel) -> bool:
    """Return whether rows are contiguous in memory, by the loads of the kernel's reductions."""
    along = across = 0
    for op in kernel.reductions:
        reduced = {axis.var for axis in op.reduce_axis}
        for load in flow.reads[op]:
            last = set(variables(load.indices[-1])) if load.indices else set()
            weight = total(a for a in op.loop_axes if a.var in set(variables(*load.indices)))
            along += weight * bool(last & reduced)
            across += weight * (bool(last) and not last & reduced)
    return along >= across


def default_tile(flow: Dataflow, kernel: FusedKernel, target: Target) -> RowTile:
    """The tile that rules choose without a model."""
    most, warp = target.max_threads_per_block, target.warp_size
    length = max([total(inner_axes(kernel)), *(total(op.reduce_axis) for op in kernel.reductions)])
    if not runs_along_rows(flow, kernel):
        return RowTile(max(1, min(8, most // warp, power_of_two(length / 4))), warp)
    vector = _vector(flow, kernel, target)
    many = kernel.row_count >= Machine.for_models(target).multiprocessors
    across = min(most, 1024, max(warp, power_of_two(length / (4 * vector if many else vector))))
    if many:
        few = min(across, _ROW_THREADS)
        while few < across and length > few * _MOST_HELD_REGISTERS:
            few *= 2
        across = few
    tile = RowTile(across, max(1, 128 // across) if many else 1, vector)
    if not _shares_evenly(kernel, tile):
        tile = replace(tile, rows=1)
    return replace(tile, keep=memories(flow, kernel, target, tile)[0])


def memories(flow: Dataflow, kernel: FusedKernel, target: Target, tile: RowTile) -> list[str]:
    """Return the memories with room for rows that several stages read, the nearest first; the last one is none."""
    inputs = row_inputs(flow, kernel)
    rows = [prod(map(extent_of, tensor.shape)) // max(kernel.row_count, 1) * tensor.dtype.bytes for tensor in inputs]
    known_sizes = all(isinstance(e, IntImm) for tensor in inputs for e in tensor.shape)
    found = ["local"] if 0 < _held(kernel, inputs, tile) <= _MOST_HELD_REGISTERS else []
    room = min(_MOST_SHARED_BYTES, target.hardware.memory(MemoryScope.SHARED).most - _PARTIAL_SHARED_BYTES)
    if inputs and known_sizes and sum(rows) * tile.rows <= room:
        found.append("shared")
    return [*found, ""]


def _held(kernel: FusedKernel, inputs: Sequence[Tensor], tile: RowTile) -> int:
    """Return the registers of a thread for its elements of rows; 0 if threads do not share rows evenly."""
    count = 0
    for tensor in inputs:
        row = known(kernel.reductions[0].reduce_axis[-1]) or 0
        single = tensor.ndim == len(kernel.rows) + 1 and extent_of(tensor.shape[-1]) == row
        if not single or row % (tile.across * tile.vector):
            return 0
        count += row // tile.across * -(-tensor.dtype.bytes // 4)
    return count if all(len(op.reduce_axis) == 1 for op in kernel.reductions) else 0


def is_possible(flow: Dataflow, kernel: FusedKernel, target: Target, tile: RowTile) -> bool:
    """Return whether a tile fits a block, and its memory has room for the rows that it keeps."""
    has_threads = tile.across * tile.rows <= target.max_threads_per_block
    return has_threads and _shares_evenly(kernel, tile) and tile.keep in memories(flow, kernel, target, tile)


def _shares_evenly(kernel: FusedKernel, tile: RowTile) -> bool:
    """Return whether a block has one row, or rows begin with a thread.

    If rows are parts of an axis and the threads do not divide them, a thread's elements may be in two rows.
    """
    if tile.rows == 1 or all(divisor == 1 for _, divisor in kernel.rows):
        return True
    whole = known_total(kernel.out.axis)
    return whole is not None and whole // max(kernel.row_count, 1) % (tile.across * tile.vector) == 0


def inner_axes(kernel: FusedKernel) -> list[IterVar]:
    """Return the axes of the result within a row."""
    rows = {axis for axis, divisor in kernel.rows if divisor == 1}
    return [axis for axis in kernel.out.axis if axis not in rows]


def _vector(flow: Dataflow, kernel: FusedKernel, target: Target) -> int:
    """Return the number of neighbours of a row per access."""
    inner = inner_axes(kernel)
    if not inner and row_inputs(flow, kernel):
        bits = max(tensor.dtype.bits for tensor in row_inputs(flow, kernel))
        length, width = known(kernel.reductions[0].reduce_axis[-1]), target.hardware.vector_bytes * 8 // bits
        while width > 1 and (length is None or length % (width * target.warp_size)):
            width //= 2
        return max(width, 1)
    if not inner or inner[-1] is not kernel.out.axis[-1]:
        return 1
    divisors = dict(kernel.rows)
    last = divisors.get(inner[-1]) or known(inner[-1])
    bits = max(t.dtype.bits for t in kernel.out.outputs)
    width = vector_bytes(target) * 8 // bits
    while width > 1 and (last is None or last % width or (known_total(inner) or 1) % width):
        width //= 2
    return max(width, 1)


def schedule_rows(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, target: Target, tile: RowTile) -> None:
    """Schedule a kernel of rows."""
    if runs_along_rows(flow, kernel):
        _along(s, flow, kernel, tile)
    else:
        _across(s, flow, kernel, tile)


def row_loops(s: ScheduleHandle, kernel: FusedKernel) -> tuple[IterVar, IterVar | None]:
    """Return the loop over all rows, and the loop over the elements of a row."""
    out, rows, inner = kernel.out, [], []
    divisors = dict(kernel.rows)
    for axis in out.axis:
        divisor = divisors.get(axis)
        if divisor is None:
            inner.append(axis)
        elif divisor == 1:
            rows.append(axis)
        else:
            outer, rest = s[out].split(axis, factor=divisor)
            rows.append(outer)
            inner.append(rest)
    s[out].reorder(*rows, *inner)
    return s[out].fuse(*rows), s[out].fuse(*inner) if inner else None


def _along(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, tile: RowTile) -> None:
    out = kernel.out
    thread = thread_axis("threadIdx.x")
    own = is_reduction(out)
    row, place = row_loops(s, kernel)
    block = row
    if tile.rows > 1:
        block, row = s[out].split(row, factor=tile.rows)
        s[out].bind(row, thread_axis("threadIdx.y"))
    s[out].bind(block, thread_axis("blockIdx.x"))
    if own:
        _share_reduction(s, out, tile, thread)
    elif place is not None:
        _share(s, out, place, tile.across, tile.vector, thread)
    if tile.keep:
        _keep(s, flow, kernel, tile, (block, row), thread)
    for op in kernel.members:
        s[op].compute_at(s[out], row)
        free = free_axes(kernel, op)
        if not is_reduction(op) and not free:
            continue  # every thread computes it anew
        if not is_reduction(op) or (free and total(free) >= tile.across):
            s[op].compute_at(s[out], block)
            s[op].set_scope("shared")
            if tile.rows > 1:
                _bind_rows(s, op, kernel, tile.rows)
            _share(s, op, s[op].fuse(*free), tile.across, 1, thread)
        else:
            _share_reduction(s, op, tile, thread)


def row_inputs(flow: Dataflow, kernel: FusedKernel) -> list[Tensor]:
    """Return the tensors in memory that several stages of a kernel read row by row."""
    inside, readers = {kernel.out, *kernel.members}, dict[Tensor, set[Operation]]()
    for op in (kernel.out, *kernel.members):
        for read in flow.reads[op]:
            if read.source.op not in inside and len(read.indices) > len(kernel.rows) and _is_plain(read, op):
                readers.setdefault(read.source, set()).add(op)
    return [tensor for tensor, found in readers.items() if len(found) > 1]


def _is_plain(read: Read, op: Operation) -> bool:
    """Return whether an operation reads whole rows, in its own loops."""
    last, own = read.indices[-1], {axis.var for axis in op.loop_axes}
    return not loads(*read.indices) and bool(own & set(variables(last)))


def _keep(
    s: ScheduleHandle,
    flow: Dataflow,
    kernel: FusedKernel,
    tile: RowTile,
    loops: tuple[IterVar, IterVar],
    thread: IterVar,
) -> None:
    """Read rows once, into shared memory or into the registers of the threads that use them."""
    out = kernel.out
    for tensor in row_inputs(flow, kernel):
        readers = [
            op for op in (out, *kernel.members) if any(r.source is tensor and _is_plain(r, op) for r in flow.reads[op])
        ]
        kept = s.cache_read(tensor, tile.keep, direct_readers(s, tensor, readers))
        if tile.keep == "local":
            vector, across = tile.vector, tile.across
            *_, x, _, lanes = s[kept].transform_layout(
                lambda *i, v=vector, t=across: [*i[:-1], i[-1] // v % t, i[-1] // (v * t), i[-1] % v]
            )
            s[kept].compute_at(s[out], loops[1])
            s[kept].bind(x, thread)
            if vector > 1:
                s[kept].vectorize(lanes)
            continue
        s[kept].compute_at(s[out], loops[0])
        flat = s[kept].fuse(*kept.op.axis)
        if tile.vector > 1:
            flat, lanes = s[kept].split(flat, factor=tile.vector)
            s[kept].vectorize(lanes)
        flat, x = s[kept].split(flat, factor=tile.across)
        s[kept].bind(x, thread)
        if tile.rows > 1:
            _, y = s[kept].split(flat, factor=tile.rows)
            s[kept].bind(y, thread_axis("threadIdx.y"))


def direct_readers(s: ScheduleHandle, tensor: Tensor, readers: list[Operation]) -> list[Operation]:
    """Return the stages that load a tensor: readers, and inlined stages between the tensor and its readers."""
    wanted = {s.stage_id(op) for op in readers}
    found: list[Operation] = []
    for stage in reversed(s.value.in_order()):
        if stage.id not in wanted:
            continue
        for source in stage.op.input_tensors:
            below = s.value.producer(source)
            if s.value.same(source, tensor):
                found.append(stage.op)
            elif isinstance(below.placement, Inlined):
                wanted.add(below.id)
    return list(dict.fromkeys(found))


def free_axes(kernel: FusedKernel, op: Operation) -> list[IterVar]:
    """Return the axes of a member within a row."""
    rows = {axis for axis, _ in kernel.rows}
    return [axis for axis, place in zip(op.axis, kernel.places[op], strict=True) if not (place and place[0] in rows)]


def _bind_rows(s: ScheduleHandle, op: Operation, kernel: FusedKernel, rows: int) -> None:
    """Distribute the rows of a member over the threads along y."""
    free = free_axes(kernel, op)
    mine = [axis for axis in op.axis if axis not in free]
    s[op].reorder(*mine, *free)
    flat = s[op].fuse(*mine)
    _, row = s[op].split(flat, factor=rows)
    s[op].bind(row, thread_axis("threadIdx.y"))


def _share(s: ScheduleHandle, op: Operation, loop: IterVar, across: int, vector: int, thread: IterVar) -> None:
    """Distribute the elements of a row over threads, a vector at a time."""
    lanes = None
    if vector > 1:
        loop, lanes = s[op].split(loop, factor=vector)
    _, x = s[op].split(loop, factor=across)
    s[op].bind(x, thread)
    if lanes is not None:
        s[op].vectorize(lanes)


def _share_reduction(s: ScheduleHandle, op: Operation, tile: RowTile, thread: IterVar) -> None:
    """Distribute the terms of a reduction over threads."""
    reduced = list(s[op].op.reduce_axis)
    flat = s[op].fuse(*reduced) if len(reduced) > 1 else reduced[0]
    lanes = None
    if tile.keep == "local" and tile.vector > 1:
        flat, lanes = s[op].split(flat, factor=tile.vector)
    rounds, x = s[op].split(flat, factor=tile.across)
    s[op].bind(x, thread)
    if lanes is not None:
        s[op].reorder(x, rounds, lanes)
        s[op].unroll(lanes)


def _across(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, tile: RowTile) -> None:
    """Use one thread along x per row; the threads along y share the terms."""
    out = kernel.out
    x, y = thread_axis("threadIdx.x"), thread_axis("threadIdx.y")
    row, place = row_loops(s, kernel)
    block, row = s[out].split(row, factor=tile.rows)
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(row, x)
    divided = RowTile(tile.across, tile.rows)
    if is_reduction(out):
        _share_reduction(s, out, divided, y)
    elif place is not None:
        _share(s, out, place, tile.across, 1, y)
    for op in kernel.members:
        s[op].compute_at(s[out], row)
        if is_reduction(op) and not free_axes(kernel, op):
            _share_reduction(s, op, divided, y)
