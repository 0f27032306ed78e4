"""Independent elements on GPUs: maps, stencils and short windows, with a tile of neighbours per thread.

Neighbours of a stencil read the same elements. A thread computes several rows of several columns and loads each element
once. Its loops are unrolled, so that the compiler finds the common loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..arith.simplify import simplify
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import substitute, variables
from ..schedule.handle import ScheduleHandle
from ..tensor.axis import IterVar, thread_axis
from ..tensor.tensor import Operation, Tensor, is_reduction
from ..topi.schedules.stages import vector_bytes
from ..tune.model.machine import Machine
from .dataflow import Dataflow, known, known_total, size, total, weight
from .kernels import FusedKernel

FEW_TERMS = 64
"""The most terms of a reduction that a single thread computes, unrolled."""
_ROWS_PER_THREAD = (4, 2)
"""Candidate rows of a thread's tile, the preferred number first."""
_VECTOR_ELEMENTS = 4
"""Elements per vector: reads at distances of a multiple of this number share no elements."""
_MOST_UNROLLED_INSTRUCTIONS = 3000
"""The most instructions in the unrolled loops of a thread."""
_LEAST_HEAVY_INSTRUCTIONS = 250
"""The least instructions per element for which a thread computes only one vector."""


@dataclass(frozen=True)
class ElementTile:
    """Columns and rows per thread, and threads along both dimensions."""

    vector: int
    rows: int
    across: int
    down: int


def are_elements(kernel: FusedKernel) -> bool:
    """Return whether elements of a kernel are independent, so that single threads compute them."""
    return kernel.one_each and all(prod(map(size, op.reduce_axis)) <= FEW_TERMS for op in kernel.reductions)


def default_tile(flow: Dataflow, kernel: FusedKernel, target: Target) -> ElementTile:
    """Return the default tile.

    Vectors of a stencil begin at any address, so wide vectors take several loads. A window of many instructions needs
    the registers for one or two results.
    """
    out, threads, work = kernel.out, min(256, target.max_threads_per_block), _work(flow, kernel)
    vector, across = widest(kernel, target), min(32, threads)
    if not out.axis or not (_overlaps(flow, kernel, -1) or (len(out.axis) > 1 and _overlaps(flow, kernel, -2))):
        resident = Machine.for_models(target).resident_threads
        if kernel.reductions and (total(out.axis) < vector * resident or _are_apart(flow, kernel)):
            return ElementTile(1, 1, min(128, threads), 1)
        return ElementTile(vector, 1, threads, 1)
    is_heavy = work > _LEAST_HEAVY_INSTRUCTIONS
    vector = min(vector, 1 if kernel.reductions and not is_heavy else 2)
    rows = 1
    if len(out.axis) > 1 and not is_heavy and _overlaps(flow, kernel, -2):
        extent = known(out.axis[-2]) or 0
        fitting = [n for n in _ROWS_PER_THREAD if extent >= 2 * n and n * vector * work <= _MOST_UNROLLED_INSTRUCTIONS]
        rows = next(iter(fitting), 1)
    return ElementTile(vector, rows, across, threads // across) if rows > 1 else ElementTile(vector, 1, threads, 1)


def has_few_sums(flow: Dataflow, kernel: FusedKernel, target: Target) -> bool:
    """Return whether a kernel has fewer sums than the GPU has resident threads, and warps had better share the
    terms."""
    if len(kernel.reductions) != 1 or not target.has_warps or not _are_apart(flow, kernel):
        return False
    resident = Machine.for_models(target).resident_threads
    return total(kernel.reductions[0].reduce_axis) >= target.warp_size and total(kernel.out.axis) < resident


def _are_apart(flow: Dataflow, kernel: FusedKernel) -> bool:
    """Return whether neighbouring sums read elements that are not contiguous, so that single threads would load
    singly."""
    for op in kernel.reductions:
        last = {a.var for a, p in zip(op.axis, kernel.places[op], strict=True) if p and p[0] is kernel.out.axis[-1]}
        reduced = {axis.var for axis in op.reduce_axis}
        for read in flow.reads[op]:
            used = set(variables(*read.indices))
            if used & reduced and used & last and not any(_step(read.indices[-1], var) == 1 for var in last):
                return True
    return False


def _step(index: Expr, var: Var) -> int | None:
    """Return the stride of an index along a variable; None if it is not constant."""
    step = simplify(substitute(index, {var: var + 1}) - index)
    return step.value if isinstance(step, IntImm) else None


def _work(flow: Dataflow, kernel: FusedKernel) -> float:
    """Return the instructions per element."""
    ops = (kernel.out, *kernel.members)
    return sum(prod(map(size, op.reduce_axis)) * max(weight(flow.bodies[op]), 1) for op in ops)


def is_possible(flow: Dataflow, kernel: FusedKernel, target: Target, tile: ElementTile) -> bool:
    """Return whether a tile fits a block and the result, and a thread's loops are short enough to unroll."""
    axes = kernel.out.axis
    extent = known(axes[-2]) if len(axes) > 1 else None
    fits = tile.down == 1 if tile.rows == 1 else extent is not None and extent >= 2 * tile.rows
    short = tile.rows * tile.vector * _work(flow, kernel) <= _MOST_UNROLLED_INSTRUCTIONS or tile.rows * tile.vector == 1
    return fits and short and tile.across * tile.down <= target.max_threads_per_block


def widest(kernel: FusedKernel, target: Target) -> int:
    """Return the number of neighbours per store: it divides a row, so that no guard splits a vector."""
    out = kernel.out
    last = known(out.axis[-1]) if out.axis else None
    if last is None or known_total(out.axis) is None:
        return 1
    width = vector_bytes(target) * 8 // max(t.dtype.bits for t in out.outputs)
    while width > 1 and last % width:
        width //= 2
    return max(width, 1)


def _overlaps(flow: Dataflow, kernel: FusedKernel, dimension: int) -> bool:
    """Return whether neighbours along a dimension of the result read common elements."""
    axis = kernel.out.axis[dimension]
    for op in (kernel.out, *kernel.members):
        places = kernel.places[op]
        mine = {a.var for a, place in zip(op.axis, places, strict=True) if place is not None and place[0] is axis}
        seen: dict[tuple[Tensor, tuple[int, ...]], set[tuple[Expr, ...]]] = {}
        reduced = {a.var for a in op.reduce_axis}
        for read in flow.reads[op]:
            if read.source.op in (*kernel.members, kernel.out):
                continue
            moved = [set(variables(index)) for index in read.indices]
            if any(_slides(op, index, mine, reduced) for index in read.indices):
                return True
            if along := tuple(place for place, used in enumerate(moved) if used & mine):
                # Reads that move along other dimensions, as of `A[i, j]` and `A[j, j]`, cross and do not overlap.
                seen.setdefault((read.source, along), set()).add(tuple(read.indices[place] for place in along))
        if any(_are_near(parts) for parts in seen.values()):
            return True
    return False


def _slides(op: Operation, index: Expr, mine: set[Var], reduced: set[Var]) -> bool:
    """Return whether the windows of neighbours overlap: their distance is less than the span of a window."""
    used = set(variables(index))
    if not (used & mine and used & reduced):
        return False
    steps = [_step(index, var) for var in used & mine]
    spans = [(_step(index, a.var), size(a)) for a in op.reduce_axis if a.var in used]
    if None in steps or any(step is None for step, _ in spans):
        return True
    return min(abs(step or 0) for step in steps) <= sum(abs(step or 0) * (extent - 1) for step, extent in spans)


def _are_near(parts: set[tuple[Expr, ...]]) -> bool:
    """Return whether some indices differ by no multiple of the elements of a vector."""
    first, *others = parts
    steps = [simplify(a - b) for other in others for a, b in zip(other, first, strict=True)]
    return any(not isinstance(step, IntImm) or step.value % _VECTOR_ELEMENTS for step in steps)


def schedule_elements(s: ScheduleHandle, kernel: FusedKernel, tile: ElementTile) -> None:
    """Schedule a kernel of independent elements."""
    out, members = kernel.out, list(kernel.members)
    if is_reduction(out):
        sums = s.cache_write(out.outputs if len(out.outputs) > 1 else out.output(0), "local")
        members.append((sums[0] if isinstance(sums, list) else sums).op)
        out = s[out].op
    inner: list[IterVar] = []
    if tile.rows > 1:
        *outer, y, x = out.axis
        y, own = s[out].split(y, factor=tile.rows)
        inner.append(own)
        y, down = s[out].split(y, factor=tile.down)
        x, lanes = _vector_of(s, out, x, tile.vector)
        x, across = s[out].split(x, factor=tile.across)
        inner += lanes
        s[out].reorder(*outer, y, x, down, across, *inner)
        block = s[out].fuse(*outer, y, x)
        s[out].bind(down, thread_axis("threadIdx.y"))
        s[out].unroll(own)
    else:
        flat, lanes = _vector_of(s, out, s[out].fuse(*out.axis), tile.vector)
        block, across = s[out].split(flat, factor=tile.across)
        inner += lanes
    s[out].bind(block, thread_axis("blockIdx.x"))
    s[out].bind(across, thread_axis("threadIdx.x"))
    for op in members:
        s[op].compute_at(s[out], across)
        s[op].reorder(*s[op].op.reduce_axis, *s[op].op.axis)
        for axis in (*s[op].op.reduce_axis, *s[op].op.axis):
            s[op].unroll(axis)


def _vector_of(s: ScheduleHandle, out: Operation, axis: IterVar, width: int) -> tuple[IterVar, list[IterVar]]:
    if width == 1:
        return axis, []
    rest, lanes = s[out].split(axis, factor=width)
    s[out].vectorize(lanes)
    return rest, [lanes]
