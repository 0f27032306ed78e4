"""Depthwise convolutions along lines with channels last and long windows: blocks walk along a line.

A block computes one stretch of a line after another. Meanwhile, asynchronous copies fetch the next stretches into
shared memory, so memory and arithmetic overlap. The weights are read once. A thread computes several neighbours of two
channels from a window in registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

from ...expr.convert import cast
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .convolutions import Depthwise
from .declarations import padded_view, sum_of_products
from .needs import Needs
from .schedule_helpers import bind_all, bind_grid, fetch_together, hold, in_rounds, in_vectors, split_all, widest_vector
from .strategy import ScheduleStrategy
from .tensors import Tensors, inputs_named
from .thread_tiles import BYTES, STEPS
from .workload import sum_dtype

_THREAD = "threadIdx.x"
_POSITIONS_PER_THREAD = (8, 16, 32)
_STRETCHES_PER_BLOCK = (1, 2, 4, 8, 16)
_POSITION_THREADS = (1, 2, 4, 8)
_COPIES = (1, 2, 3, 4)
"""Candidate numbers of stretches in a block's shared memory."""
_CHANNEL_THREADS = (8, 16, 32, 64)
_LEAST_TAPS = 12
"""The least number of taps for which arithmetic takes as long as memory."""
_MOST_SHARED_BYTES = 98_304
"""The most bytes of shared memory for a block's stretches and weights."""
_LEAST_BLOCKS = 3
"""The least number of blocks per multiprocessor in the default configuration."""


def computes(of: Depthwise, machine: Any) -> bool:
    """Return whether images are lines with channels last, windows are long, and channels come in vectors."""
    line = of.shape[2] == of.kernel[0] == 1 and of.padding[0] == of.padding[2] == 0 and of.stride == (1, 1)
    long = _LEAST_TAPS <= of.kernel[1] <= STEPS // (2 * _POSITIONS_PER_THREAD[0])
    return line and long and of.multiplier == 1 and of.shape[1] % 8 == 0


def space(of: Depthwise) -> Space:
    """The knobs.

    `tile_c`: channels, over blocks, threads and a thread's own. `tile_x`: positions, over blocks, stretches of a block,
    threads and a thread's own. `copies`: the number of stretches in a block's shared memory.
    """
    channels = [[-1, t, 2] for t in (*_CHANNEL_THREADS, of.filters // 2) if t * 2 <= of.filters and t <= 64]
    places = [[-1, s, t, own] for s in _STRETCHES_PER_BLOCK for t in _POSITION_THREADS for own in _POSITIONS_PER_THREAD]
    places = [each for each in places if prod(each[2:]) < 2 * of.places[1] and prod(each[1:]) < 4 * of.places[1]]

    def fits(choices: Mapping[str, Any]) -> bool:
        own = choices["tile_x"].size[-1]
        return _shared_bytes(of, choices) <= _MOST_SHARED_BYTES and 2 * own * of.kernel[1] <= STEPS

    def block(choices: Mapping[str, Any]) -> bool:
        return 64 <= choices["tile_c"].size[-2] * choices["tile_x"].size[-2] <= 512 or of.places[1] < 64

    return (
        Space(
            [
                split_knob("tile_c", of.filters, "candidate", candidate=channels),
                split_knob(
                    "tile_x", of.places[1], "candidate", candidate=places or [[-1, 1, 1, _POSITIONS_PER_THREAD[0]]]
                ),
                value_knob("copies", _COPIES),
            ]
        )
        .where(fits, ("tile_c", "tile_x", "copies"), "stretches and weights in shared memory")
        .where(block, ("tile_c", "tile_x"), "64 to 512 threads per block")
    )


def _shared_bytes(of: Depthwise, choices: Mapping[str, Any]) -> int:
    stretch = of.seen_along(1, prod(choices["tile_x"].size[2:]))
    each = choices["copies"].val * stretch * BYTES[of.dtype] + of.kernel[1] * 4
    return int(prod(choices["tile_c"].size[1:]) * each)


def default_choices(of: Depthwise, machine: Machine) -> dict[str, Any]:
    """Choose blocks of 128 threads, 64 positions of 64 channels at a time, and as many stretches as leave enough
    blocks."""
    channels = min(32, of.filters // 2)
    own = 16 if of.places[1] >= 64 else 8
    across = max(1, min(4, -(-of.places[1] // own)))
    lines = of.shape[0] * -(-of.filters // (2 * channels))

    def is_enough(steps: int) -> bool:
        return lines * -(-of.places[1] // (steps * across * own)) >= _LEAST_BLOCKS * machine.multiprocessors * 7 // 8

    steps = next((s for s in reversed(_STRETCHES_PER_BLOCK) if is_enough(s)), 1)
    return {"tile_c": [channels, 2], "tile_x": [steps, across, own], "copies": min(3, steps)}


def declare(of: Depthwise, data: Tensor, weights: Tensor, config: Config, bias: Tensor | None = None) -> Tensor:
    """Declare the sums of whole stretches, over the padded line and weights with channels last."""
    stretches = prod(config["tile_x"].size[1:])
    length, kind, left = -(-of.places[1] // stretches) * stretches, sum_dtype(of.dtype), of.padding[1]
    wide = of.seen_along(1, length)
    bordered = padded_view(of, data, (0, left, 0, wide - left - of.shape[3]), of.dtype, name="bordered")
    around = (of.shape[0], 1, wide, of.shape[1])
    seen = compute(around, lambda n, y, x, c: cast(kind, bordered(n, c, y, x)), "seen")
    turned = compute((of.kernel[1], of.filters), lambda rx, c: cast(kind, weights(c, 0, 0, rx)), "turned")
    rx = reduce_axis((0, of.kernel[1]), name="rx")

    def term(n: Any, y: Any, x: Any, f: Any) -> Any:
        start = None if bias is None else bias(f)
        return sum_of_products(kind, seen(n, y, x + rx * of.dilation[1], f), turned(rx, f), [rx], start)

    made: Tensor = compute((of.shape[0], 1, length, of.filters), term, "sums")
    return made


def schedule(of: Depthwise, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Copy stretches ahead, and compute each from registers."""
    out, sums = t.out, t.in_registers(s)
    seen, turned = inputs_named(sums, "seen", "turned")
    (bordered,) = seen.op.input_tensors
    n, y, x, c = out.op.axis
    (cb, ct, ci), (xb, xs, xt, xi) = split_all(config, s, out, tile_c=c, tile_x=x)
    s[out].reorder(n, y, cb, xb, xs, xt, ct, xi, ci)
    lines = s[out].fuse(n, y, cb)
    bind_grid(s, out, (lines, xb), of.shape[0] * of.filters)
    thread = s[out].fuse(xt, ct)  # one index: the guards of a stretch's last copies use it
    bind_all(s, out, (thread,), (_THREAD,))
    s[out].vectorize(ci)
    s[sums].compute_at(s[out], thread)
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    threads = [(_THREAD, config["tile_x"].size[-2] * config["tile_c"].size[-2])]
    hold(s, turned, "shared", out, xb)
    fetch_together(s, turned, threads, order=(1, 0))
    mine = s.cache_read(turned, "local", [sums])
    s[mine].compute_at(s[sums], sums.op.reduce_axis[0])
    s[mine].vectorize(mine.op.axis[-1])
    hold(s, seen, "local", out, thread)
    s[seen].vectorize(seen.op.axis[-1])
    hold(s, bordered, "shared", out, xs)
    width = gcd(prod(config["tile_c"].size[1:]), of.shape[1], widest_vector(of.dtype))
    in_rounds(s, bordered, in_vectors(s, bordered, width), threads)
    if config["copies"].val > 1:
        s[bordered].pipeline(config["copies"].val)


ON_GPU: ScheduleStrategy[Depthwise] = ScheduleStrategy(
    space,
    schedule,
    default_choices,
    Needs(types=("float32", "float16", "bfloat16"), layouts=("NHWC",), scope="lines and long windows"),
    computes=computes,
    starts_at_bias=True,
    declare_for=declare,
)
