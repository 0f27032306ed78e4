"""Schedules of reductions: many threads share each sum, and blocks share it too if there are few sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from ...core.divisors import power_of_two
from ...core.errors import InternalError
from ...core.target import Target
from ...expr.traverse import loads, variables
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor
from ...tune.model.machine import Machine
from .blocked import stride_of
from .stages import (
    LANES,
    PARALLEL_FROM,
    bytes_of,
    count,
    reads_rows,
    threads_of,
    vectors_of_sums,
)

_FEW_TERMS = 32
"""Below, a thread computes a sum alone."""
_ENOUGH_BLOCKS = 8
"""Blocks that keep a multiprocessor busy."""
_TERMS_PER_BLOCK = 4096
"""Terms below which sums are not worth another block."""
_TOGETHER = (8, 4, 6, 5, 7, 3, 2)
"""Candidate numbers of partial sums, one vector each, the best first: an addition waits only for the last addition to
its own sum."""
_POWERS = (1, 2, 4, 8)
_THREADS = (32, 64, 128, 256, 512, 1024)
_PARTS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Candidates of a tile's fields."""
PLAIN_THREADS = 32
"""Threads that share a sum if there are no warps."""


@dataclass(frozen=True)
class ReductionTile:
    """How sums are shared out; 0: chosen by the extents.

    Attributes
    ----------
    together : int
        Sums that a block of threads, or a processor, computes at once.
    across : int
        Threads that share the terms of a sum on a GPU; on a processor, vectors of a sum's terms, or of sums.
    parts : int
        Blocks that share each sum on a GPU.
    """

    together: int = 0
    across: int = 0
    parts: int = 0


BY_EXTENTS = ReductionTile()


def reduce_to(
    s: ScheduleHandle, op: ComputeOp, out: Operation, target: Target, tile: ReductionTile = BY_EXTENTS
) -> None:
    """Schedule the reduction `op`; its results are stored by `out`, which is `op` itself or reads it element by
    element."""
    if not target.is_gpu:
        _on_processors(s, op, out, tile)
        return
    sums, terms, rows = count(op.axis), count(op.reduce_axis), reads_rows(op)
    if op.attrs.get("thread_per_sum") or (terms is not None and terms < _FEW_TERMS):
        _thread_per_sum(s, op, out, target)
        return
    parts = tile.parts or _parts(sums, terms, rows, Machine.for_models(target))
    if parts > 1:
        part, _ = s[op].split(_terms(s, op), nparts=parts)
        first = s.rfactor(op.output(0), part)
        partial = (first[0] if isinstance(first, list) else first).op
        _threads_per_sum(s, partial, partial, target, rows, tile)
        op = reduction_of(s, op)
        _threads_per_sum(s, op, s[out].op, target, rows=sums == 1 or rows)
        return
    _threads_per_sum(s, op, out, target, rows, tile)


def choices_of(op: ComputeOp, out: Operation, target: Target) -> dict[str, Sequence[int]]:
    """Return the values that fields of a tile may have, if they change the schedule of a reduction."""
    terms = count(op.reduce_axis)
    if not target.is_gpu:
        along = _vectors_along(op, out)
        return {} if not along else {"across": (1, 2, 4)} | ({"together": _POWERS} if along == "terms" else {})
    if op.attrs.get("thread_per_sum") or not target.has_warps or terms is None or terms < _FEW_TERMS:
        return {}
    threads = [n for n in _THREADS if n <= target.max_threads_per_block]
    return {"together": _POWERS, "across": threads, "parts": [n for n in _PARTS if n * _FEW_TERMS <= terms]}


def _terms(s: ScheduleHandle, op: ComputeOp) -> IterVar:
    """The one loop over all terms."""
    return s[op].fuse(*op.reduce_axis)


def reduction_of(s: ScheduleHandle, op: ComputeOp) -> ComputeOp:
    """The operation that the stage of `op` has now, which `rfactor` replaces."""
    found = s[op].op
    if not isinstance(found, ComputeOp):
        raise InternalError(f"the stage of {op} has the operation {found}")
    return found


def _parts(sums: int | None, terms: int | None, rows: bool, machine: Machine) -> int:
    """How many blocks share each sum."""
    if sums is None or terms is None:
        return 1
    together = 1 if rows else machine.hardware.warp  # sums that a block computes
    blocks = max(1, sums // together)
    return power_of_two(min(_ENOUGH_BLOCKS * machine.multiprocessors // blocks, terms * together // _TERMS_PER_BLOCK))


def _thread_per_sum(s: ScheduleHandle, op: ComputeOp, out: Operation, target: Target) -> None:
    block, thread = s[out].split(s[out].fuse(*out.axis), factor=threads_of(target, 128))
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(thread, thread_axis("threadIdx.x"))
    if out is not op:
        s[op].compute_at(s[out], thread)


def _threads_per_sum(
    s: ScheduleHandle, op: ComputeOp, out: Operation, target: Target, rows: bool, tile: ReductionTile = BY_EXTENTS
) -> None:
    """A block computes one sum or several: along x the terms of each if they are neighbours, else the sums."""
    if not target.has_warps:
        if rows:
            _by_one_barrier(s, op, out)
        else:
            _thread_per_sum(s, op, out, target)
        return
    together, across = _shape_of_block(count(op.reduce_axis), target, rows, tile)
    tags = ("threadIdx.y", "threadIdx.x") if rows else ("threadIdx.x", "threadIdx.y")
    place = s[out].fuse(*out.axis)
    if together > 1 and count(op.axis) != 1:
        block, place = s[out].split(place, factor=together)
        s[out].bind(block, thread_axis("blockIdx.x"))
        s[out].bind(place, thread_axis(tags[0]))
    else:
        s[out].bind(place, thread_axis("blockIdx.x"))
    if out is not op:
        s[op].compute_at(s[out], place)
    thread = thread_axis(tags[1])
    width = _vector_width(op, across) if rows else 1
    if width > 1:
        _share_vectors(s, op, across, width, thread)
    else:
        _, term = s[op].split(_terms(s, op), factor=across)
        s[op].bind(term, thread)
    if out is not op:
        s[out].set_store_predicate(thread.var.equal(0))


def _shape_of_block(terms: int | None, target: Target, rows: bool, tile: ReductionTile) -> tuple[int, int]:
    """Return the sums of a block and the threads per sum; extents choose both if they are 0 in the tile."""
    threads = threads_of(target)
    if rows:
        across = threads if terms is None else min(threads, max(target.warp_size, power_of_two(terms / 4)))
        together = threads // across
    else:
        together, across = target.warp_size, threads // target.warp_size
    return tile.together or together, tile.across or across


def fits_block(op: ComputeOp, target: Target, tile: ReductionTile) -> bool:
    """Return whether the threads of a tile fit a block of a GPU."""
    if not target.is_gpu:
        return True
    sums, terms, rows = count(op.axis), count(op.reduce_axis), reads_rows(op)
    parts = tile.parts or _parts(sums, terms, rows, Machine.for_models(target))
    own = None if terms is None else -(-terms // parts)
    return prod(_shape_of_block(own, target, rows, tile)) <= target.max_threads_per_block


def _by_one_barrier(s: ScheduleHandle, op: ComputeOp, out: Operation) -> None:
    """Partial sums of some threads in shared memory, which each of them then adds up.

    If threads of a block are loops, as on a CPU, a tree of barriers costs more than it saves.
    """
    partial = partial_sums(s, op, PLAIN_THREADS)
    last = reduction_of(s, op)
    out = last if out is op else out
    place = s[out].fuse(*out.axis)
    s[out].bind(place, thread_axis("blockIdx.x"))
    if out is not last:
        s[last].compute_at(s[out], place)
    s[partial].compute_at(s[out], place)
    s[partial].set_scope("shared")
    s[partial].bind(s[partial].op.axis[0], thread_axis("threadIdx.x"))


def partial_sums(s: ScheduleHandle, op: ComputeOp, parts: int) -> Operation:
    """Split the terms of a reduction into interleaved parts; returns the stage of the partial sums."""
    _, part = s[op].split(_terms(s, op), factor=parts)
    made = s.rfactor(op.output(0), part)
    first: Tensor = made[0] if isinstance(made, list) else made
    return first.op


def _vector_width(op: ComputeOp, across: int) -> int:
    """How many neighbouring terms a thread loads at once: the width of an access, if rows are whole vectors."""
    terms = count(op.reduce_axis)
    source = _only_input(op)
    if source is None or terms is None or len(op.reduce_axis) > 1:
        return 1
    width = 16 // bytes_of([source])
    row = count([source.op.axis[-1]]) if source.op.axis else _constant_row(source)
    return width if row is not None and row % width == 0 and terms % (across * width) == 0 and width > 1 else 1


def _constant_row(source: Tensor) -> int | None:
    value = getattr(source.shape[-1], "value", None)
    return value if isinstance(value, int) else None


def _only_input(op: ComputeOp) -> Tensor | None:
    """The one input that a reduction reads directly."""
    read = op.input_tensors
    return read[0] if len(read) == 1 and isinstance(read[0].op, PlaceholderOp) else None


def _share_vectors(s: ScheduleHandle, op: ComputeOp, across: int, width: int, thread: Any) -> None:
    """Threads load neighbouring vectors of terms into registers, and add them."""
    source = op.input_tensors[0]
    step, rest = s[op].split(_terms(s, op), factor=across * width)
    term, lane = s[op].split(rest, factor=width)
    s[op].bind(term, thread)
    s[op].reorder(term, step, lane)
    vector = s.cache_read(source, "local", [op.output(0)])
    s[vector].compute_at(s[op], step)
    s[vector].vectorize(vector.op.axis[-1])
    s[op].unroll(lane)


def _on_processors(s: ScheduleHandle, op: ComputeOp, out: Operation, tile: ReductionTile) -> None:
    """Sums to processors; the terms of a row, or neighbouring sums, to vectors."""
    sums, terms, rows = count(op.axis), count(op.reduce_axis), reads_rows(op)
    work = None if sums is None or terms is None else sums * terms
    divides = (work is None or work >= PARALLEL_FROM) and sums != 1
    along = _vectors_along(op, out)
    if along == "terms":
        _vectors_of_terms(s, op, out, divides, tile)
        return
    if along == "sums":
        vectors = tile.across or (4 if (count(out.axis[-1:]) or 0) >= 8 * LANES else 1)
        vectors_of_sums(s, op, out, vectors * LANES, divides)
        return
    if not out.axis or not (rows or len(out.axis) == 1):
        return
    place = s[out].fuse(*out.axis)
    if out is not op:
        s[op].compute_at(s[out], place)
    if divides:
        s[out].parallel(place)


def _vectors_along(op: ComputeOp, out: Operation) -> str:
    """The neighbours that vectors of a processor hold: "terms", "sums", or none."""
    row, terms, rows = count(op.reduce_axis[-1:]), count(op.reduce_axis), reads_rows(op)
    if len(op.outputs) > 1:
        return ""
    if rows and row is not None and row >= LANES and (terms or row) >= 4 * LANES:
        return "terms"
    wide = out.axis and (count(out.axis[-1:]) or 0) >= LANES
    return "sums" if wide and (not rows or reads_rows_of_sums(op)) else ""


def reads_rows_of_sums(op: ComputeOp) -> bool:
    """Whether neighbouring sums read neighbours in memory, as in a window that slides along a row."""
    last = op.axis[-1].var
    read = [load.indices for load in loads(*op.body[0].children()) if last in variables(*load.indices)]
    return bool(read) and all(last not in variables(*i[:-1]) and stride_of(i[-1], last) == 1 for i in read)


def _vectors_of_terms(s: ScheduleHandle, op: ComputeOp, out: Operation, divides: bool, tile: ReductionTile) -> None:
    """Add vectors of neighbouring terms for several sums at once, because each sum is a separate chain of additions."""
    neighbours, row = count(out.axis[-1:]) if out.axis else 1, count(op.reduce_axis[-1:]) or 0
    height = tile.together or next((n for n in _TOGETHER if neighbours is not None and neighbours % n == 0), 1)
    fitting = max(n for n in (1, 2, 4) if n == 1 or (n * height <= _TOGETHER[0] and row >= 4 * n * LANES))
    vectors = tile.across or fitting
    _, lane = s[op].split(op.reduce_axis[-1], factor=vectors * LANES)
    made = s.rfactor(op.output(0), lane, factor_axis=len(op.axis))
    assert isinstance(made, Tensor)
    partial, final = made.op, reduction_of(s, op)
    last = final if out is op else out
    *data, lanes = s[partial].op.axis
    if last.axis:
        *outer, near = s[last].op.axis
        block, own = s[last].split(near, factor=height)
        place = s[last].fuse(*outer, block)
        if divides:
            s[last].parallel(place)
        if last is not final:
            s[final].compute_at(s[last], place)
        s[partial].compute_at(s[last], place)
        s[partial].set_scope("local")
        s[partial].unroll(data[-1])
        s[final].unroll(own if last is final else s[final].op.axis[-1])
    s[partial].reorder(*data[:-1], *s[partial].op.reduce_axis, *data[-1:], lanes)
    s[partial].vectorize(lanes)
