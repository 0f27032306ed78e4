"""Direct convolutions with few channels per sum on a GPU, such as depthwise ones: inputs go from memory into registers.

A thread computes a tile of results from a window of the input in its registers, and loads each input once. Loads fetch
aligned chunks of up to 16 bytes. In NHWC, a chunk has neighbouring channels. In NCHW it has neighbouring columns, and
lies wholly in the image or wholly in its border. 16-bit floats are converted once, and summed in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from math import gcd, inf, isfinite, prod
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...schedule.primitives.annotate import RESIDENT_BLOCKS, WHOLE_WORDS
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.task import Expectation
from .declarations import sums_of
from .direct_tiles import candidates, default_choices, rank
from .direct_tiles import cycles as cycles_of
from .direct_tiles import expected as expected_of
from .images import Images
from .layouts import LAYOUTS
from .needs import Needs
from .schedule_helpers import (
    SHARED,
    THREAD_TAGS,
    bind_all,
    bind_grid,
    fetch_together,
    hold,
    in_ordered_rounds,
    in_vectors,
    split_all,
    vectorize,
    widest_vector,
)
from .strategy import OwnModel, ScheduleStrategy, unknown
from .tensors import FIRST, HELD, Tensors, as_stored, read_once, when
from .thread_tiles import (
    BYTES,
    STEPS,
    TILES,
    Tile,
    Weights,
    Window,
    by_rows,
    fits_shared,
    row_by_row,
    space,
    tile_of,
    weights_of,
    windows,
)
from .workload import DTYPES

_MOST_CHANNELS = 32
_LIVE_FRACTION = 0.6
"""The fraction of its inputs and sums that a thread needs in registers at a time. With fewer registers, it spills."""
_LIMITED_CYCLES_FACTOR = 1.01
"""The factor on the cycles of a configuration with a limit on registers: on a tie, the compiler's own choice wins."""


def declare(of: Images, data: Tensor, weights: Tensor, config: Config, bias: Tensor | None = None) -> Tensor:
    """Declare the sums over rows in chunks. They start at the bias if there is one."""
    tile = tile_of(config)
    transposed = _weights_of(of, config) is Weights.SHARED
    block = prod(config["tile_y"].size[1:]), prod(config["tile_x"].size[1:])
    sliding = tile.rows if tile.window.slides and not row_by_row(config) else 0
    return sums_of(of, data, weights, tile.chunk, transposed, sliding, block, bias)


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads, with windows and sums in registers."""
    padded, out, tile = t.padded, t.out, tile_of(config)
    weights = t.sums.op.input_tensors[1]
    planes = s.cache_read(t.data, "shared", [padded]) if config["planes"].val == "shared" else None
    sums = t.in_registers(s)
    block, thread, row, vector = _tile(of, config, s, out)
    if row_by_row(config):
        s[sums].compute_at(s[out], row)
        at, term = _order_terms_of_row(s, sums, tile)
    else:
        s[sums].compute_at(s[out], thread)
        at, term = _order_terms(of, tile, s, sums, by_rows(config))
    _read_bias_once(of, config, s, t, sums, thread)
    if t.finished is not None:
        hold(s, t.finished, "local", out, row if row_by_row(config) else thread)
    if tile.window is Window.NONE:
        s[padded].compute_inline()
    else:
        hold(s, padded, "local", *((out, thread) if at is None else (sums, at)))
    if tile.chunk > 1:
        together = padded.op.axis[-1]
        if of.layout == "NHWC":
            together = s[padded].split(together, factor=tile.chunk)[1]
        s[padded].vectorize(together)
    if planes is not None:
        s[planes].compute_at(s[out], block)
        counts = [config[name].size[-2] for name in TILES]
        fetch_together(s, planes, list(zip(THREAD_TAGS, counts, strict=True)), _together(of, config))
    held = _weights_of(of, config)
    if held is Weights.SHARED:
        whole = fits_shared(of, _transposed_weight_count(of, config)) or (
            of.layout == "NCHW" and of.groups < of.shape[1]
        )
        _share_weights(
            of, config, s, (t.weights, weights, sums), (out, block) if whole else (sums, sums.op.reduce_axis[-2]), term
        )
    elif held is Weights.REGISTERS:
        stored, reader = as_stored(weights, sums)
        mine = s.cache_read(stored, "local", [reader])
        s[mine].compute_at(s[out], thread)
        at_once = gcd(tile.channels * prod(of.kernel), widest_vector(of.dtype))
        if at_once > 1:
            in_vectors(s, mine, at_once)
    for knob, pragma in (("resident", RESIDENT_BLOCKS), ("whole_words", WHOLE_WORDS)):
        if config[knob].val:
            s[out].pragma(thread, pragma, config[knob].val)
    width = _stored_together(of, config)
    vectorize(s, out, vector, width)


def _read_bias_once(of: Images, config: Config, s: ScheduleHandle, t: Tensors, sums: Tensor, thread: IterVar) -> None:
    """Let a thread read its biases first if it keeps them in registers, or if its sums start at several neighbours."""
    together = gcd(config["tile_c" if of.layout == "NHWC" else "tile_f"].size[-1], widest_vector(of.dtype))
    if when(config) == HELD:
        read_once(s, t, (t.out, t.finished or t.out), (t.out, thread), together)
    elif when(config) == FIRST and together > 1:
        read_once(s, t, (sums,), (t.out, thread), together)


def _order_terms(
    of: Images, tile: Tile, s: ScheduleHandle, sums: Tensor, by_rows: bool
) -> tuple[IterVar | None, IterVar]:
    """Order the loops over the terms of a thread's sums, inside or outside the loops over its rows of results.

    Returns two loops. Parts of the window are loaded in the first; it is None if the whole window is loaded before.
    Weights are read in the second, the innermost loop over terms.
    """
    *channels, ry, rx = sums.op.reduce_axis
    if tile.window.slides:
        n, y, x, f = sums.op.axis  # channels last
        s[sums].reorder(ry, n, y, rx, *channels, x, f)
        if tile.window is Window.SLIDING:
            s[sums].unroll(ry)
        return ry, (channels or [rx])[-1]
    if tile.shares_groups(of):
        s[sums].reorder(ry, rx, *channels, *sums.op.axis)
        return ry if tile.window is Window.ROW else None, channels[0]
    if by_rows:
        n, f, y, x = sums.op.axis
        s[sums].reorder(n, y, f, ry, rx, x)
        return None, rx
    s[sums].reorder(*channels, ry, rx, *sums.op.axis)
    if channels:  # several windows are under way at once
        channels = list(s[sums].split(channels[0], factor=_channels_at_once(of, tile)))
        s[sums].unroll(channels[1])
    if tile.window is Window.ROW:
        return ry, rx
    return channels[-1] if channels else None, rx


def _order_terms_of_row(s: ScheduleHandle, sums: Tensor, tile: Tile) -> tuple[IterVar | None, IterVar]:
    """Order the loops over the terms of one row of a thread's results; returns loops as `_order_terms` does."""
    ry, rx = sums.op.reduce_axis
    s[sums].reorder(ry, rx, *sums.op.axis)
    if tile.window is Window.ALL:
        return None, rx
    s[sums].unroll(ry)
    return ry, rx


def _weights_of(of: Images, config: Config) -> Weights:
    """Return the source of a thread's weights: global memory if they exceed the shared memory of a block."""
    held = weights_of(of, tile_of(config))
    whole = held is Weights.SHARED and of.layout == "NCHW"
    fits = fits_shared(of, _transposed_weight_count(of, config) * config["tile_f"].size[-1], SHARED.most)
    return held if fits or not whole else Weights.GLOBAL


def _transposed_weight_count(of: Images, config: Config) -> int:
    """Return the number of weights that a block transposes: in NHWC all, in NCHW the weights of one filter of each
    group."""
    block: int = prod(config["tile_c"].size[1:])
    return prod(of.kernel) * of.per_group * block


def _together(of: Images, config: Config) -> int:
    """Return the number of neighbours per load when a block fetches whole planes."""
    elements = prod(config["tile_c"].size[1:]) * prod(of.shape[2:])
    return gcd(elements, widest_vector(of.dtype)) if of.groups % prod(config["tile_c"].size[1:]) == 0 else 1


def _channels_at_once(of: Images, tile: Tile) -> int:
    """Return the number of channels of a sum over which loops are unrolled."""
    steps = tile.steps(of)
    return next(n for n in (4, 2, 1) if of.per_group % n == 0 and (n == 1 or n * steps <= STEPS // 3))


def _share_weights(
    of: Images,
    config: Config,
    s: ScheduleHandle,
    tensors: tuple[Tensor, Tensor, Tensor],
    place: tuple[Tensor, IterVar],
    at: IterVar,
) -> None:
    """Have a block transpose its weights in shared memory, so that a thread reads the weights of its filters in one
    load.

    They are transposed at `place`, all of them or a row of the window at a time.
    """
    weights, turned, sums = tensors
    mine = s.cache_read(turned, "local", [sums])
    hold(s, turned, "shared", *place)
    names = ("tile_y", "tile_x", "tile_c") if of.layout == "NHWC" else TILES
    threads = [config[n].size[-2] for n in names]
    tagged = list(zip(THREAD_TAGS, threads, strict=True))
    elements = _transposed_weight_count(of, config)
    alone, one = of.groups == of.shape[1], of.per_group * prod(of.kernel)
    together = gcd(gcd(elements, of.filters * one) if alone else one, widest_vector(of.dtype))
    lie_turned = getattr(of, "weights", "") == "HWIO"  # filters are neighbours in memory, too
    by_vectors = (
        of.layout == "NHWC" and place[0] is not sums and elements >= prod(threads) * together and not lie_turned
    )
    if by_vectors and alone:  # filters are a window apart in memory, so a block copies them as they are first
        stored, reader = as_stored(weights, turned)
        given = s.cache_read(stored, "shared", [reader])
        s[given].compute_at(s[place[0]], place[1])
        in_ordered_rounds(s, given, in_vectors(s, given, together), tagged)
    if by_vectors and not alone:
        *terms, f = turned.op.axis
        outer, lanes = s[turned].split(s[turned].fuse(*terms), factor=together)
        s[turned].reorder(outer, f, lanes)
        s[turned].vectorize(lanes)
        in_ordered_rounds(s, turned, s[turned].fuse(outer, f), tagged)
    else:
        fetch_together(s, turned, tagged, order=(1, 2, 0, 3) if lie_turned else (3, 0, 1, 2))
    s[mine].compute_at(s[sums], at)
    width = gcd(config["tile_c" if of.layout == "NHWC" else "tile_f"].size[-1], 4)
    vectorize(s, mine, mine.op.axis[3], width)


def _stored_together(of: Images, config: Config) -> int:
    """Return the number of neighbouring results that a thread stores at once."""
    extent, tile = (of.filters, "tile_c") if of.layout == "NHWC" else (of.places[1], "tile_x")
    return gcd(config[tile].size[-1], extent, widest_vector(of.dtype))


def finishes_tiles(of: Images, config: Config) -> bool:
    """Whether the activations of a tile are computed before its first store.

    If the end of a row is tested between two stores, an activation between them would prevent the compiler from merging
    the stores. Results of 16 bits are converted between the stores in any case.
    """
    _, threads, own = config["tile_x"].size
    parted = of.places[1] % (threads * own) > 0 and _stored_together(of, config) < own
    return of.layout == "NCHW" and BYTES[of.dtype] >= 4 and parted


def _tile(of: Images, config: Config, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar, IterVar, IterVar]:
    """Split and bind the loops over results.

    Returns the innermost loop over blocks, the innermost loop over threads, a thread's loop over its rows, and its
    innermost loop.
    """
    last = of.layout == "NHWC"
    n, y, x, f = out.op.axis if last else (out.op.axis[0], *out.op.axis[2:], out.op.axis[1])
    outer, own = [], []
    if not last and of.filters > of.groups:  # a group's filters see the same inputs: one thread computes several
        f, of_group = s[out].split(f, factor=of.shared_filters)
        fo, fi = config["tile_f"].apply(s, out, of_group)
        outer, own = [fo], [fi]
    split = split_all(config, s, out, tile_c=f, tile_y=y, tile_x=x)
    (c_block, c_thread, ci), (y_block, y_thread, yi), (x_block, x_thread, xi) = split
    threads = (y_thread, x_thread, c_thread) if last else (c_thread, y_thread, x_thread)
    rows = (yi, *own) if row_by_row(config) else (*own, yi)
    inside = (yi, xi, ci) if last else (ci, *rows, xi)
    s[out].reorder(n, c_block, *outer, y_block, x_block, *threads, *inside)
    planes, tiles = s[out].fuse(n, c_block, *outer), s[out].fuse(y_block, x_block)
    bind_grid(s, out, (planes, tiles), of.shape[0] * of.filters)
    bind_all(s, out, threads, THREAD_TAGS)
    if row_by_row(config) and tile_of(config).window is not Window.ALL:
        s[out].unroll(yi)
    return tiles, threads[-1], rows[-1], inside[-1]


def computes(of: Images, machine: Machine) -> bool:
    """Return whether channels are last, or few per sum. With many channels, tiles in shared memory are faster."""
    if getattr(of, "weights", "OIHW") == "OHWI":
        return False
    few = of.per_group <= _MOST_CHANNELS and (of.per_group == 1 or Window.NONE not in windows(of))
    return of.layout == "NHWC" or few


def expected(of: Images, choices: Mapping[str, Any], machine: Machine) -> Expectation:
    """Return the prediction of `direct_tiles` for a configuration."""
    channels, rows, columns = (int(choices[name].size[-2]) for name in TILES)
    tile = tile_of(choices)
    if row_by_row(choices):
        tile = replace(tile, window=Window.SLIDING)
    found = expected_of(of, tile, (channels, rows, columns), machine)
    resident = choices["resident"].val
    if not resident:
        return found
    warps = -(-found.threads // machine.hardware.warp)
    allowed = machine.hardware.multiprocessor.registers // (resident * warps * machine.hardware.warp)
    crowded = max(1.0, _LIVE_FRACTION * tile.registers(of) / allowed)
    return found._replace(cycles=found.cycles * crowded * _LIMITED_CYCLES_FACTOR)


ON_GPU: ScheduleStrategy[Any] = ScheduleStrategy(
    space,
    schedule,
    default_choices,
    Needs(types=DTYPES, layouts=LAYOUTS, scope="channels last, or groups of few channels"),
    None,
    computes,
    OwnModel(rank, expected),
    starts_at_bias=True,
    finishes_tiles=finishes_tiles,
    declare_for=declare,
)


def direct_beside(
    competitor: ScheduleStrategy[Any], known: Callable[[Any, Machine], float] = unknown
) -> ScheduleStrategy[Any]:
    """Return the direct strategy, with a cost for workloads that a competitor covers as well.

    The cost is `known` if it is finite, else the cycles by the model of the direct strategy.
    """

    @lru_cache(maxsize=64)
    def cycles(of: Any, machine: Machine) -> float:
        fitted = known(of, machine)
        if isfinite(fitted) or not competitor.covers(of):
            return fitted
        counted = (cycles_of(of, tile, block, machine) for tile, block in candidates(of))
        return min(counted, default=inf)  # windows of hundreds of columns fit no tile

    return replace(ON_GPU, model=OwnModel(rank, expected, cycles))
