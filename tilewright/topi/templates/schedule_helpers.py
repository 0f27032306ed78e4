"""Common helpers of packaged templates' schedules: splits of any extent, and loops bound to hardware indices."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

from ...core.dtype import DType
from ...core.hardware import MemoryScope
from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tune.space.config import Config
from ...tune.space.knobs import SplitKnob, split_knob
from .tensors import Tensors

_LARGEST_PRIME = 16
_LARGEST_SIZE = 256
_MOST_UNROLLED_ITERATIONS = 64
"""The most iterations of a loop that the compiler unrolls. Longer loops are left to LLVM, which unrolls them partly."""
GPU = Target("cuda").hardware
"""The GPU assumed by search spaces and default configurations."""
SHARED = GPU.memory(MemoryScope.SHARED)
"""The shared memory of that GPU."""
GRID_LIMIT = GPU.grid.extents[1]
"""The largest extent of blockIdx.y and blockIdx.z; blockIdx.x may have more blocks."""
THREAD_TAGS = ("threadIdx.z", "threadIdx.y", "threadIdx.x")
THREADS_Z = GPU.block.extents[2]
"""The largest extent of threadIdx.z."""


@cache
def widest_vector(dtype: str) -> int:
    """Return the number of elements in the widest access of a thread."""
    return GPU.vector_bytes // DType(dtype).bytes


def tile_knob(name: str, extent: int, parts: int) -> SplitKnob:
    """Return the knob of splits into an extent's divisors, or also into powers of two if it has too few divisors."""
    rest = extent
    for small in range(2, _LARGEST_PRIME + 1):
        while rest % small == 0:
            rest //= small
    if rest == 1:
        return split_knob(name, extent, num_outputs=parts)
    return split_knob(name, extent, "verbose", num_outputs=parts, max_factor=_LARGEST_SIZE)


def bind_all(s: ScheduleHandle, tensor: Any, axes: Sequence[IterVar], tags: Sequence[str]) -> None:
    """Bind loops to hardware indices."""
    for axis, tag in zip(axes, tags, strict=True):
        s[tensor].bind(axis, thread_axis(tag))


def bind_grid(s: ScheduleHandle, tensor: Any, axes: Sequence[IterVar], most: int) -> None:
    """Bind loops to the grid, the last one to blockIdx.x.

    The first loop has `most` iterations. If these exceed the limit of blockIdx.y and blockIdx.z, the loops are bound in
    the opposite order, the first loop to blockIdx.x.
    """
    letters = "zyx"[-len(axes) :]
    bind_all(s, tensor, axes, [f"blockIdx.{c}" for c in (letters if most <= GRID_LIMIT else letters[::-1])])


def split_all(config: Config, s: ScheduleHandle, tensor: Any, **axes: IterVar) -> list[list[IterVar]]:
    """Split loops by the knobs of the same names in a configuration; returns the parts of each loop."""
    return [config[name].apply(s, tensor, axis) for name, axis in axes.items()]


def hold(s: ScheduleHandle, tensor: Any, scope: str, reader: Any, axis: IterVar) -> None:
    """Compute a tensor in a memory scope, inside a reader's loop: the part that one iteration needs at a time."""
    s[tensor].set_scope(scope)
    s[tensor].compute_at(s[reader], axis)


def vectorize(s: ScheduleHandle, tensor: Any, axis: IterVar, width: int) -> None:
    """Compute `width` neighbours along a loop as a vector if `width` exceeds 1."""
    if width > 1:
        s[tensor].vectorize(s[tensor].split(axis, factor=width)[1])


def in_vectors(s: ScheduleHandle, tensor: Any, width: int, axes: Sequence[IterVar] = ()) -> IterVar:
    """Fuse loops, by default all, and copy `width` neighbours as a vector; returns the loop over vectors."""
    axes = axes or s[tensor].op.axis
    flat = s[tensor].fuse(*axes) if len(axes) > 1 else axes[0]
    if width > 1:
        flat, lanes = s[tensor].split(flat, factor=width)
        s[tensor].vectorize(lanes)
    return flat


def in_rounds(s: ScheduleHandle, tensor: Any, flat: IterVar, threads: Sequence[tuple[str, int]]) -> list[IterVar]:
    """Distribute iterations over the threads of a block in rounds; the last thread index is the fastest.

    Returns the loop over rounds, and the loops over threads.
    """
    rounds, rest = s[tensor].split(flat, factor=prod(count for _, count in threads))
    loops: list[IterVar] = []
    for _, count in threads[:0:-1]:
        rest, thread = s[tensor].split(rest, factor=count)
        loops.insert(0, thread)
    loops.insert(0, rest)
    bind_all(s, tensor, loops, [tag for tag, _ in threads])
    return [rounds, *loops]


def in_ordered_rounds(s: ScheduleHandle, tensor: Any, flat: IterVar, threads: Sequence[tuple[str, int]]) -> None:
    """Do the same, but keep the given order of the loops even if another order would work."""
    s[tensor].pragma(in_rounds(s, tensor, flat, threads)[0], "auto_unroll_max_step", 0)


def fetch_together(
    s: ScheduleHandle, tile: Any, threads: Sequence[tuple[str, int]], width: int = 1, order: Sequence[int] = ()
) -> None:
    """Let all threads of a block fetch a tile, `width` neighbours at a time.

    `threads` lists hardware indices with their extents; `order` lists dimensions in the order of the loops.
    """
    axes = [tile.op.axis[i] for i in order] or list(tile.op.axis)
    s[tile].reorder(*axes)
    rest = in_vectors(s, tile, width, axes)
    for tag, count in threads:
        thread, rest = s[tile].split(rest, nparts=count)
        s[tile].bind(thread, thread_axis(tag))


def add_parts(s: ScheduleHandle, t: Tensors, count: int, most: int, tag: str, thread: IterVar) -> None:
    """Have up to `most` neighbouring threads along `tag` add the `count` parts of a result; the first thread stores it.

    `thread` is the innermost loop over results.
    """
    together, beside = min(most, 1 << (count - 1).bit_length()), thread_axis(tag)
    if together > 1:
        parts = t.sums.op.reduce_axis
        rest, part = s[t.sums].split(s[t.sums].fuse(*parts) if len(parts) > 1 else parts[0], factor=together)
        s[t.sums].reorder(part, rest)
        s[t.sums].bind(part, beside)
        s[t.sums].pragma(rest, "auto_unroll_max_step", 8)
    if t.sums is not t.out:
        hold(s, t.sums, "local", t.out, thread)
        if together > 1:
            s[t.out].set_store_predicate(beside.var.equal(0))


def set_unrolling(s: ScheduleHandle, tensor: Any, axis: IterVar, steps: int, explicit: int) -> None:
    """Set the number of unrolled steps below an axis, by Tilewright (`explicit`) or by the back end's compiler."""
    s[tensor].pragma(axis, "auto_unroll_max_step", steps)
    s[tensor].pragma(axis, "unroll_explicit", explicit)


def unroll_window(s: ScheduleHandle, tensor: Any, window: Sequence[IterVar], tile: Sequence[IterVar]) -> None:
    """Unroll loops over a window, outermost first, and the tile of sums inside them, on a CPU.

    A window of thousands of taps would take a compiler minutes, so the program keeps a loop over its innermost axis.
    """
    extents = [int(axis.dom.extent) for axis in window if axis.dom is not None]
    in_parts = bool(window) and extents[-1] > _MOST_UNROLLED_ITERATIONS
    for axis in tile:
        s[tensor].unroll(axis)
        if in_parts:
            s[tensor].pragma(axis, "unroll_explicit", 1)
    for axis in window if prod(extents) <= _MOST_UNROLLED_ITERATIONS else window[-1:]:
        s[tensor].unroll(axis)
    if in_parts:
        s[tensor].pragma(window[-1], "unroll_explicit", 0)
