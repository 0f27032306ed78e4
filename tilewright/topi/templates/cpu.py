"""The convolutions on a CPU: blocks of results on all processors, rows of them in vectors, sums in registers.

All processors write out the padded input first, unless a configuration pads it in its readers.
"""

from __future__ import annotations

from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import SplitKnob, split_knob, value_knob
from ...tune.space.space import Space
from .convolutions import Conv1dVector, Conv2dLayer, Depthwise
from .declarations import sums_of
from .needs import Needs
from .processor import VectorRegisters
from .schedule_helpers import split_all, tile_knob, unroll_window
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .workload import sum_dtype

_LANES = (4, 8, 16, 32, 64)
_BLOCK_RESULTS = (64, 256, 1024, 4096)
_MOST_UNPADDED_TAPS = 9
"""The most taps of a window with a column stride or dilation for which the input is read unpadded."""
_LEAST_LONG_TAPS = 24
"""The least taps of a window for which a single row is computed in several vectors at a time."""
_MOST_SMALL_TAPS = 25
"""The most taps of a small window."""
_MOST_UNROLLED_TAPS = 64
"""The most taps of an unrolled window that is not small; its rows are one vector each."""
_MOST_WHOLE_ROW_COLUMNS = 32
"""The most columns for which a whole row is always one vector."""


def _vectors(name: str, extent: int) -> SplitKnob:
    """Ways to cut a row into vectors; the last vector may be incomplete."""
    fit = {lanes for lanes in _LANES if lanes <= extent} | {extent for _ in range(extent <= _LANES[-1])}
    return split_knob(name, extent, "candidate", candidate=[[-1, lanes] for lanes in sorted(fit)])


def _store_padding(s: ScheduleHandle, padded: Tensor, stored: bool) -> None:
    """Store the padded input first, or compute it in its readers."""
    if not stored:
        s[padded].compute_inline()
        return
    *outer, row = padded.op.axis
    if not outer:
        row_outer, row = s[padded].split(row, factor=1024)
        outer = [row_outer]
    s[padded].parallel(s[padded].fuse(*outer))


def line_space(of: Conv1dVector) -> Space:
    """The knobs of the 1-D convolution."""
    (count,) = of.out_shape
    blocks = [[-1, b // lanes, lanes] for b in _BLOCK_RESULTS for lanes in _LANES if b <= count] or [[-1, 1, count]]
    return Space(
        [
            split_knob("tile", count, "candidate", candidate=blocks),
            value_knob("unroll", [1, 2, 4, 8]),
            value_knob("store_padding", [True, False]),
        ]
    )


def line_schedule(of: Conv1dVector, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Compute a block of vectors at a time; each vector sums all its terms."""
    out = t.out
    _store_padding(s, t.padded, config["store_padding"].val)
    sums = t.in_registers(s)
    block, row, lanes = config["tile"].apply(s, out, out.op.axis[0])
    s[out].vectorize(lanes)
    s[out].parallel(block)
    s[sums].compute_at(s[out], row)
    _, terms = s[sums].split(sums.op.reduce_axis[0], factor=config["unroll"].val)
    s[sums].reorder(*s[sums].leaf_iter_vars[1:], sums.op.axis[0])
    s[sums].unroll(terms)
    s[sums].vectorize(sums.op.axis[0])


def line_default_choices(of: Conv1dVector, machine: VectorRegisters) -> dict[str, Any]:
    """Blocks of 1,024 results in vectors of 16."""
    return {"tile": [64, 16], "unroll": 4}


def images_space(of: Conv2dLayer | Depthwise) -> Space:
    """The knobs of the 2-D convolutions: channels, rows and columns of results that are computed together."""
    depthwise = isinstance(of, Depthwise)
    together = [[-1, 1]] if depthwise else [[-1, f] for f in (1, 2, 4, 8, 16) if f <= of.out_shape[1]]
    rows = [[-1, r] for r in (1, 2, 4) if r <= of.out_shape[2]]
    return Space(
        [
            split_knob("tile_c", of.out_shape[1], "candidate", candidate=together),
            split_knob("tile_y", of.out_shape[2], "candidate", candidate=rows),
            _vectors("tile_x", of.out_shape[3]),
            tile_knob("tile_rc", 1 if depthwise else of.terms // (of.kernel[0] * of.kernel[1]), 2),
            value_knob("unroll_kernel", [0, 1, 2]),
            value_knob("store_padding", [True, False]),
        ]
    )


def images_schedule(of: Conv2dLayer | Depthwise, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Compute a tile of results in registers, with loops over channels and rows unrolled and columns in a vector."""
    out = t.out
    _store_padding(s, t.padded, config["store_padding"].val)
    sums = t.in_registers(s)
    n, c, y, x = out.op.axis
    (co, ci), (yo, yi), (xo, xi) = split_all(config, s, out, tile_c=c, tile_y=y, tile_x=x)
    s[out].reorder(n, co, yo, xo, ci, yi, xi)
    s[out].vectorize(xi)
    s[out].parallel(s[out].fuse(n, co, yo))
    s[sums].compute_at(s[out], xo)
    *channels, ry, rx = sums.op.reduce_axis
    if channels:
        channels = config["tile_rc"].apply(s, sums, channels[0])
    _, c, y, x = sums.op.axis
    s[sums].reorder(*channels, ry, rx, c, y, x)
    unroll_window(s, sums, [ry, rx][2 - config["unroll_kernel"].val :], [c, y])
    s[sums].vectorize(x)


def images_default_choices(of: Conv2dLayer | Depthwise, registers: VectorRegisters) -> dict[str, Any]:
    """Choose four rows or channels together, in vectors of 16; for planes by themselves, vectors that leave few columns
    over.

    Whole rows are computed, as many together as registers can hold. If columns lie apart, there are fewer rows: each
    vector is picked from several loaded ones. A row of up to 64 columns that vectors of eight do not fill is one
    vector: rows of 45 columns take half as long.

    Small windows are unrolled. Their input is padded in its readers, unless a row is one vector, which the border would
    split. Columns that lie apart are fetched one by one at the border, so their input is padded before: windows of 5×5
    take half as long. 16-bit types are converted while they are padded: 3×3 windows take 0.6 of the time.
    """
    if not isinstance(of, Depthwise):
        return {"tile_c": [4], "tile_rc": [4], "tile_x": [16], "unroll_kernel": 1}
    columns, taps, apart = of.out_shape[3], of.kernel[0] * of.kernel[1], of.stride[1] > 1
    small, is_unrolled = taps <= _MOST_SMALL_TAPS, taps <= _MOST_UNROLLED_TAPS
    uneven = columns % _LANES[1] > 0 and of.kernel[1] > 1
    whole = columns <= (_LANES[-1] if uneven or (is_unrolled and not small) else _MOST_WHOLE_ROW_COLUMNS)
    if whole:
        most = max(1, registers.room(of.dtype) // columns)
        lanes, several = columns, 2 if is_unrolled else 1
        rows = min(
            most, 4 if columns <= (_MOST_WHOLE_ROW_COLUMNS // 2 if apart else _MOST_WHOLE_ROW_COLUMNS) else several
        )
    elif of.out_shape[2] == 1 and taps >= _LEAST_LONG_TAPS:
        lanes, rows = 16 if apart else min(_LANES[-1], registers.room(of.dtype)), 1
    else:
        lanes, rows = min((16, 8), key=lambda n: -(-columns // n) * n), 4
    unrolled = 2 if small or (is_unrolled and whole) else 1
    if apart and not whole and rows == 1:  # taps share no loads, and copies of the lane selection take LLVM a minute
        unrolled = 0
    read = (
        taps <= _MOST_UNPADDED_TAPS and columns <= _MOST_WHOLE_ROW_COLUMNS and not _passes_the_end(of)
        if apart
        else small and not whole
    )
    stored = (any(of.padding) and not read) or sum_dtype(of.dtype) != of.dtype
    return {"tile_y": [rows], "tile_x": [lanes], "unroll_kernel": unrolled, "store_padding": stored}


def _passes_the_end(of: Depthwise) -> bool:
    """Whether the last column of results sees zeros behind the input."""
    return of.seen_along(1, of.out_shape[3]) > of.padding[1] + of.shape[3]


LINE: ScheduleStrategy[Conv1dVector] = ScheduleStrategy(line_space, line_schedule, line_default_choices)


def images_declare(of: Conv2dLayer | Depthwise, data: Tensor, weights: Tensor) -> Tensor:
    """Declare the sums as the workload does; of 16-bit types, over an input that is converted as it is padded."""
    if sum_dtype(of.dtype) == of.dtype:
        return of.sums(data, weights)
    return sums_of(of, data, weights, widened=True)


IMAGES: ScheduleStrategy[Any] = ScheduleStrategy(
    images_space, images_schedule, images_default_choices, Needs(layouts=("NCHW",)), images_declare
)
