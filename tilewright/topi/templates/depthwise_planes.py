"""Depthwise convolutions of small images in NCHW: blocks copy whole planes, of one image after another.

Rows of a small image are shorter than the sectors and lines of memory. Threads that load windows and store tiles would
therefore use only half of the moved data. But planes are contiguous, so the planes of a block are one stretch of
memory. The block copies them to shared memory in vectors of 16 bytes, while it computes the planes copied before.
Results may be stored the same way.

On an H200, the only GPU that was timed, this is faster than the direct strategy for most batches of such images. On
GPUs of other vendors, and on GPUs without asynchronous copies, only tuners use it; calls without a record do not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, inf, prod
from typing import Any

from ...core.target import Target
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from . import depthwise_mma
from .convolutions import Depthwise
from .declarations import sums_of
from .direct import direct_beside
from .needs import Needs
from .plane_blocks import (
    NUMBERS,
    PlaneBlock,
    cost,
    cost_of_direct,
    default_block,
    is_compared,
    numbers,
    possible,
    rank_blocks,
)
from .schedule_helpers import bind_all, in_rounds, widest_vector
from .strategy import OwnModel, ScheduleStrategy
from .tensors import FIRST, HELD, Tensors, bias_knob, read_once, when
from .thread_tiles import BYTES
from .tile_model import TileModel

_MOST_PLANE_BYTES = 4096
_MOST_ROW_BYTES = 128
"""Planes are small up to these sizes."""
_THREAD = "threadIdx.x"


def space(of: Depthwise) -> Space:
    """The knobs.

    `planes`: channels per block. `images`: images that a block computes one after another. `copies`: images in shared
    memory at a time, so that the next ones arrive meanwhile. `rows`, `columns`: results of a thread. `store`: whether
    threads store their results "straight", or a block collects them in shared memory and stores them "together".
    `weights`: whether a thread reads its weights and bias from "memory" for each image, or keeps them in "registers".
    `bias`: when the bias is added, see `tensors.py`.
    """
    several = max(numbers(of)["images"]) > 1
    knobs = [value_knob(name, values) for name, values in numbers(of).items()]
    knobs.append(value_knob("store", ["straight", "together"]))
    knobs.append(value_knob("weights", ["memory", "registers"] if several else ["memory"]))
    knobs.append(bias_knob((FIRST, HELD)))

    def whole(choices: Mapping[str, Any]) -> bool:
        return PlaneBlock.of(choices).is_possible(of)

    def read_again(choices: Mapping[str, Any]) -> bool:
        return bool(choices["weights"].val == "memory" or choices["images"].val > 1)

    return (
        Space(knobs)
        .where(whole, (*NUMBERS, "store"), "a block that the hardware can hold, and at most as many copies as images")
        .where(read_again, ("images", "weights"), "weights that are needed for several images")
    )


def declare(of: Depthwise, data: Tensor, weights: Tensor, config: Config, bias: Tensor | None = None) -> Tensor:
    """Declare the sums over the input rows of a thread's results. They start at the bias if there is one."""
    block = PlaneBlock.of(config)
    return sums_of(of, data, weights, block.chunk(of), False, block.rows, (block.rows, block.columns), bias)


def schedule(of: Depthwise, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Copy planes to shared memory. Each thread computes a tile of a plane, row by row of the input."""
    block, out, padded = PlaneBlock.of(config), t.out, t.padded
    held = s.cache_read(t.data, "shared", [padded])
    made = s.cache_write(out, "shared") if block.together else out
    sums = s.cache_write(made, "local") if t.sums is out else t.sums
    for tensor in (sums, padded):
        s[tensor].set_scope("local")
    n, f, y, x = out.op.axis
    n, image = s[out].split(n, factor=block.images)
    f, plane = s[out].split(f, factor=block.planes * of.multiplier)
    s[out].reorder(n, f, image, plane, y, x)
    grid = s[out].fuse(n, f)
    bind_all(s, out, (grid,), ("blockIdx.x",))
    threads = block.threads(of)
    kept = config["weights"].val == "registers"
    if block.together:
        s[made].compute_at(s[out], image)
        s[out].pragma(grid, "guarded_reads", 1)  # copies have whole planes, though threads may be dealt more
        loops: Sequence[IterVar] = _deal_out(
            s, out, (plane, y, x), threads, gcd(widest_vector(of.dtype), block.results(of))
        )
        _, plane, y, x = made.op.axis
        thread = _tile(s, made, (plane, y, x), block)
        s[sums].compute_at(s[made], thread)
    else:
        thread = _tile(s, made, (plane, y, x), block)
        loops = (thread,)
        s[sums].compute_at(s[made], image if kept else thread)
    if kept:
        _keep_weights(s, t, (sums, made), image, loops)
    elif when(config) == HELD:
        read_once(s, t, (made,), (made, thread))
    ry, rx = sums.op.reduce_axis
    s[sums].reorder(ry, rx, *sums.op.axis)
    s[sums].unroll(ry)
    s[padded].compute_at(s[sums], ry)
    if block.chunk(of) > 1:
        s[padded].vectorize(padded.op.axis[-1])
    s[held].compute_at(s[out], image)
    _deal_out(s, held, held.op.axis, threads, gcd(widest_vector(of.dtype), block.held(of)))
    if block.copies > 1:
        s[held].storage_align(held.op.axis[0], block.apart(of), 0)
        s[held].pipeline(block.copies)


def _tile(s: ScheduleHandle, made: Tensor, axes: Sequence[IterVar], block: PlaneBlock) -> IterVar:
    """Give each thread a tile of a plane; returns the loop over threads."""
    plane, y, x = axes
    y, yi = s[made].split(y, factor=block.rows)
    x, xi = s[made].split(x, factor=block.columns)
    s[made].reorder(plane, y, x, yi, xi)
    thread = s[made].fuse(plane, y, x)
    bind_all(s, made, (thread,), (_THREAD,))
    return thread


def _keep_weights(
    s: ScheduleHandle, t: Tensors, made: tuple[Tensor, Tensor], image: IterVar, loops: Sequence[IterVar]
) -> None:
    """Have each thread load its weights and its bias before the first image. One of the stages `made` reads them.

    The first of `loops` runs over threads and becomes the outer loop of the loop over images; the others stay inside.
    """
    thread, *inner = loops
    s[t.out].reorder(thread, image, *inner)
    s[s.cache_read(t.weights, "local", [made[0]])].compute_at(s[t.out], thread)
    read_once(s, t, made, (t.out, thread))


def _deal_out(
    s: ScheduleHandle, tensor: Tensor, axes: Sequence[IterVar], threads: int, width: int
) -> tuple[IterVar, IterVar]:
    """Have neighbouring threads copy neighbouring vectors; returns the loops over threads and rounds."""
    flat, lanes = s[tensor].split(s[tensor].fuse(*axes), factor=width)
    if width > 1:
        s[tensor].vectorize(lanes)
    rounds, thread = in_rounds(s, tensor, flat, [(_THREAD, threads)])
    return thread, rounds


def default_choices(of: Depthwise, machine: Machine) -> dict[str, Any]:
    """Return the choices of the fastest ranked block."""
    return default_block(of, machine).wanted()


def computes(of: Depthwise, machine: Machine) -> bool:
    """Return whether planes are small and a block fits."""
    size = BYTES[of.dtype]
    small = prod(of.shape[2:]) * size <= _MOST_PLANE_BYTES and of.shape[3] * size < _MOST_ROW_BYTES
    return small and any(True for _ in possible(of))


def is_timed_on(target: Target | None) -> bool:
    """Return whether a target resembles the timed GPU: an NVIDIA GPU with asynchronous copies."""
    return target is None or (target.kind == "cuda" and bool(target.hardware.copy_bytes))


_MODEL: TileModel[Depthwise] = TileModel(rank_blocks, PlaneBlock.of)
ON_GPU: ScheduleStrategy[Depthwise] = ScheduleStrategy(
    space,
    schedule,
    default_choices,
    Needs(types=tuple(BYTES), layouts=("NCHW",), scope="small images"),
    None,
    computes,
    OwnModel(_MODEL.rank, _MODEL.expected, cost),
    starts_at_bias=True,
    declare_for=declare,
)


def _known(of: Depthwise, machine: Machine) -> float:
    """Return the fitted cost of the direct strategy for images that planes cover, unless only other strategies
    compete."""
    others = depthwise_mma.ON_GPU.covers(of) and not is_compared(of)
    return cost_of_direct(of, machine) if ON_GPU.covers(of) and not others else inf


DIRECT: ScheduleStrategy[Depthwise] = direct_beside(depthwise_mma.ON_GPU, _known)
"""The direct strategy for depthwise convolutions; its cost decides between all strategies."""
