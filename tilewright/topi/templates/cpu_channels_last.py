"""Convolutions of images whose channels are neighbours, on a CPU: vectors of channels, sums in registers.

The weights are turned first, so that those of neighbouring filters are neighbours: a vector of them is one load.
"""

from __future__ import annotations

from math import prod
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .declarations import sums_of
from .images import Images
from .template import ScheduleStrategy
from .tensors import Tensors

_LANES = (4, 8, 16, 32)
_COLUMNS = (1, 2, 4, 7, 8)
_WIDEST = 16
"""Lanes of a vector whose filters are of one group."""
_FEW = 32
"""Channels of a sum up to which its border is told apart at each read: to write out the padded input costs more."""
_MANY = 1 << 16
"""Weights from which on all processors turn them: to wake the others takes some microseconds."""


def space(of: Images) -> Space:
    """The knobs: channels in a vector, columns whose sums are computed together, and how far loops are written out."""
    fit = {n for n in (*_LANES, _of_one_group(of)) if n <= of.filters} or {of.filters}
    lanes = [[-1, n] for n in sorted(fit)]
    columns = [[-1, n] for n in _COLUMNS if n <= of.places[1]]
    return Space(
        [
            split_knob("tile_c", of.filters, "candidate", candidate=lanes),
            split_knob("tile_x", of.places[1], "candidate", candidate=columns),
            value_knob("unroll_kernel", [0, 1]),
            value_knob("store_padding", [True, False]),
        ]
    )


def declare(of: Images, data: Tensor, weights: Tensor, config: Config) -> Tensor:
    """Declare the sums over the padded input as it is, and turned weights."""
    return sums_of(of, data, weights, turned=True)


def schedule(of: Images, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """A tile of columns and channels in registers; rows on all processors."""
    if config["store_padding"].val:
        n, y, _, _ = t.padded.op.axis
        s[t.padded].parallel(s[t.padded].fuse(n, y))
    else:
        s[t.padded].compute_inline()
    turned = t.sums.op.input_tensors[1]
    *terms, f = turned.op.axis
    if prod(of.weights_shape) > _MANY:
        s[turned].parallel(s[turned].fuse(*terms))
    s[turned].vectorize(s[turned].split(f, factor=config["tile_c"].size[-1])[1])
    out, sums = t.out, t.in_registers(s)
    n, y, x, c = out.op.axis
    xo, xi = config["tile_x"].apply(s, out, x)
    co, ci = config["tile_c"].apply(s, out, c)
    s[out].reorder(n, y, xo, co, xi, ci)
    s[out].vectorize(ci)
    s[out].parallel(s[out].fuse(n, y))
    s[sums].compute_at(s[out], co)
    *channels, ry, rx = sums.op.reduce_axis
    s[sums].reorder(*channels, ry, rx, *sums.op.axis)
    s[sums].unroll(sums.op.axis[2])
    if config["unroll_kernel"].val:
        s[sums].unroll(rx)
    s[sums].vectorize(sums.op.axis[3])


def _of_one_group(of: Images) -> int:
    """Return the lanes of vectors whose filters see the same channels, which is then one value for all of them."""
    own = of.filters // of.groups
    if of.groups == 1 or own == 1:  # a vector of channels is one load, too
        return _WIDEST
    return next((n for n in range(min(own, _WIDEST), 1, -1) if own % n == 0), _WIDEST)


def usual(of: Images) -> dict[str, Any]:
    """Vectors of 16 channels or of those of one group; seven columns together, or as many as leave few over."""
    columns = of.places[1]
    own = min((7, 8, 4), key=lambda n: (-(-columns // n) * n, -n))
    stored = of.shape[1] // of.groups > _FEW
    return {"tile_c": [_of_one_group(of)], "tile_x": [own], "unroll_kernel": 1, "store_padding": stored}


def covers(of: Images) -> bool:
    """Channels last."""
    return of.layout == "NHWC"


ON_CPU: ScheduleStrategy[Any] = ScheduleStrategy(space, schedule, usual, declare, covers)
