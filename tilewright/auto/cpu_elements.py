"""Independent elements on CPUs: maps, stencils and short windows, vectorized along the last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import is_reduction
from ..topi.schedules.stages import LANES, PARALLEL_FROM, in_vectors
from .dataflow import Dataflow, known, size, total, weight
from .kernels import FusedKernel

_MOST_FEW_TERMS = 64
_MOST_UNROLLED_INSTRUCTIONS = 1024
"""The most vector instructions in unrolled loops over terms."""
_LEAST_HEAVY_INSTRUCTIONS = 16
"""The least instructions per element for which one vector of elements keeps a processor busy."""


@dataclass(frozen=True)
class VectorTile:
    """The neighbours that a vector computes together."""

    lanes: int


def are_vectors(kernel: FusedKernel) -> bool:
    """Return whether elements of a kernel are independent, so that vectors of neighbours compute them."""
    out, short = kernel.out, all(prod(map(size, op.reduce_axis)) <= _MOST_FEW_TERMS for op in kernel.reductions)
    last = known(out.axis[-1]) if out.axis else None
    return kernel.one_each and short and last is not None and last >= LANES


def default_tile(flow: Dataflow, kernel: FusedKernel) -> VectorTile:
    """Return the default tile: four vectors at once, or one if its values need the registers.

    Half a vector is better than a whole one that exceeds the end of each row.
    """
    bits = max(t.dtype.bits for t in kernel.out.outputs)
    lanes = LANES * 32 // bits
    last = known(kernel.out.axis[-1]) or lanes
    heavy = any(weight(flow.bodies[op]) > _LEAST_HEAVY_INSTRUCTIONS for op in (kernel.out, *kernel.members))
    if not heavy and last >= 4 * lanes:
        return VectorTile(4 * lanes)
    return VectorTile(lanes // 2 if last % lanes and last % (lanes // 2) == 0 else lanes)


def schedule_vectors(s: ScheduleHandle, flow: Dataflow, kernel: FusedKernel, tile: VectorTile) -> None:
    """Schedule a kernel of independent elements."""
    out = kernel.out
    total_of = s.cache_write(out, "local") if is_reduction(out) and len(out.outputs) == 1 else None
    *outer, last = s[out].op.axis
    block, lanes = s[out].split(last, factor=tile.lanes)
    s[out].vectorize(lanes)
    members = [*kernel.members, *([total_of.op] if total_of is not None else [])]
    for op in members:
        in_vectors(s, op, out, block)
        s[op].set_scope("local")
        reduced = s[op].op.reduce_axis
        # Pairs of values are not vectorized: the code of each lane would be repeated for each term.
        if (
            len(s[op].op.outputs) == 1
            and prod(map(size, reduced)) * weight(s[op].op.values) <= _MOST_UNROLLED_INSTRUCTIONS
        ):
            for axis in reduced:
                s[op].unroll(axis)
    if total(out.axis) >= PARALLEL_FROM:
        s[out].parallel(s[out].fuse(*outer) if len(outer) > 1 else (outer or [block])[0])
