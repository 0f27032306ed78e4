"""Windows over channels-last images by matrix instructions: a tile of the image lies in shared memory once.

An implicit matrix product reads each element of the image once per tap of the window. Here a block fetches the part of
the padded image under the windows of a tile, and multiplies it by the weights of one tap after another, each time moved
by that tap. The weights of the block's filters stay in shared memory for all of its tiles, of which the next ones are
fetched meanwhile. So between two tiles there are neither copies nor barriers to wait for.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from ...core.atoms import ATOMS, Atom
from ...core.dtype import DType
from ...expr.convert import cast
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, reduce_axis, thread_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from ...tune.task import Expectation
from .contraction_schedule import bind_tiles, pad_rows, repack, store_vectors
from .convolutions import Conv2d
from .declarations import bordered
from .implicit_gemm import turned
from .needs import Needs
from .schedule_helpers import in_vectors
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .tile_model import TileModel
from .window_tiles import (
    WindowTile,
    column_tiles,
    compared,
    counts,
    cycles,
    depth_of,
    filter_tiles,
    is_possible,
    rank_tiles,
    row_tiles,
)
from .workload import sum_dtype

_UNROLLED = 3
"""Rows of a window up to which they are written out."""
NEEDS = Needs(
    atoms={name: name for name in ("float16", "bfloat16", "int8", "uint8")}, layouts=("NHWC",), scope="windows"
)
"""Weights of 32-bit elements take more shared memory than there is."""


def atom_of(of: Conv2d) -> Atom:
    """The instruction for a workload."""
    return ATOMS[NEEDS.atoms[of.element]]


def computes(of: Conv2d, machine: Machine) -> bool:
    """Return whether the channels fill whole instructions, and a GPU has room for the weights of some filters."""
    plain = of.groups == 1 and of.kernel != (1, 1)
    return plain and of.shape[1] % atom_of(of).k == 0 and bool(rank_tiles(of, atom_of(of), machine))


def space(of: Conv2d) -> Space:
    """The knobs.

    `rows`, `columns`, `filters`: of results, over blocks, warps, and the tile of one warp. `tiles`: tiles that a block
    computes one after another. `stages`: tiles of the image in flight. `store`: whether results go from
    fragments to memory, or through shared memory as whole vectors.
    """
    atom = atom_of(of)

    def possible(choices: Any) -> bool:
        return is_possible(WindowTile.of(choices), of, atom)

    names = ("rows", "columns", "filters", "tiles", "stages", "store")
    return Space(
        [
            split_knob("rows", of.places[0], "candidate", candidate=row_tiles(of)),
            split_knob("columns", of.places[1], "candidate", candidate=column_tiles(of)),
            split_knob("filters", of.filters, "candidate", candidate=filter_tiles(of)),
            value_knob("tiles", counts()),
            value_knob("stages", [1, 2, 3]),
            value_knob("store", ["fragments", "shared"]),
        ]
    ).where(possible, names, "a block that the hardware can hold")


def declare(of: Conv2d, data: Tensor, weights: Tensor) -> Tensor:
    """Declare the padded image, the weights with their channels last, and the convolution of both."""
    (kh, kw), (sy, sx), (dy, dx) = of.kernel, of.stride, of.dilation
    channels, kind = of.shape[1], of.dtype
    kept = weights if of.weights == "OHWI" else turned(of, weights)
    pixel = bordered(of, data, *of.padding[:2])
    image = compute((of.shape[0], *of.bordered, channels), lambda n, y, x, c: pixel(n, c, y, x), "image")
    taps = compute((of.filters, kh, kw, channels), lambda *at: kept(*at), "taps")
    ry, rx, rc = (reduce_axis((0, extent), name) for extent, name in ((kh, "ry"), (kw, "rx"), (channels, "rc")))
    total = sum_dtype(kind)
    products = compute(
        (of.shape[0], *of.places, of.filters),
        lambda n, y, x, f: reduce_sum(
            cast(total, image(n, y * sy + ry * dy, x * sx + rx * dx, rc)) * cast(total, taps(f, ry, rx, rc)),
            [ry, rx, rc],
        ),
        "products",
    )
    made: Tensor = compute(of.out_shape, lambda n, y, x, f: products(n, y, x, f), "sums", "contraction")
    return made


def schedule(of: Conv2d, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Apply a configuration."""
    tile, out = WindowTile.of(config), t.out
    products = t.sums if t.sums.op.reduce_axis else t.sums.op.input_tensors[0]
    image, taps = products.op.input_tensors
    s[products].round_up(*zip(products.op.axis[1:], tile.block, strict=True))
    repack(s, taps)
    s[products].set_scope("local")
    s[image].set_scope("shared")
    s[taps].set_scope("shared")
    holder = out
    if tile.staged:
        _over_tiles(tile, s, out)
        holder = s.cache_write(out, "shared")
    filters, block, each, inner = _over_tiles(tile, s, out)
    bind_tiles(s, out, [(block, -(-tile.count(of) // tile.tiles)), (filters, -(-of.filters // tile.block[2]))])
    if tile.staged:
        warps = tile.rows[0] * tile.columns[0], tile.filters[0]
        store_vectors(s, out, inner, warps, gcd(of.filters, tile.block[2]), prod(tile.block))
        s[holder].compute_at(s[out], each)
        pad_rows(s, holder)
        inner = list(s[holder].op.axis[-3:])
    s[products].compute_at(s[holder], _bind_warps(tile, s, holder, inner))
    n, y, x, f = s[products].op.axis
    ry, rx, rc = s[products].op.reduce_axis
    outer, rc = s[products].split(rc, factor=depth_of(of))
    s[products].reorder(ry, outer, n, y, x, f, rx, rc)
    if of.kernel[0] <= _UNROLLED:
        s[products].unroll(ry)
    s[image].compute_at(s[out], each)
    s[taps].compute_at(s[out], block)
    for operand in (image, taps):
        in_vectors(s, operand, gcd(of.shape[1], 16 // DType(of.element).bytes))
    if tile.stages > 1:
        s[image].pipeline(tile.stages)
    s[products].tensorize(y, atom_of(of))


def _over_tiles(tile: WindowTile, s: ScheduleHandle, out: Tensor) -> tuple[IterVar, IterVar, IterVar, list[IterVar]]:
    """Split the loops of a result; returns the loops over tiles of filters, blocks, the tiles of one, and within a
    tile."""
    n, *axes = out.op.axis
    (yo, y), (xo, x), (fo, f) = (s[out].split(a, factor=size) for a, size in zip(axes, tile.block, strict=True))
    s[out].reorder(fo, n, yo, xo, y, x, f)
    block, each = s[out].split(s[out].fuse(n, yo, xo), factor=tile.tiles)
    return fo, block, each, [y, x, f]


def _bind_warps(tile: WindowTile, s: ScheduleHandle, holder: Tensor, axes: list[IterVar]) -> IterVar:
    """Split a tile over warps; returns the innermost loop of the warps."""
    pairs = (tile.rows, tile.columns, tile.filters)
    (yw, y), (xw, x), (fw, f) = (s[holder].split(a, factor=pair[1]) for a, pair in zip(axes, pairs, strict=True))
    s[holder].reorder(yw, xw, fw, y, x, f)
    places = yw
    if tile.columns[0] > 1:
        places = s[holder].fuse(yw, xw) if tile.rows[0] > 1 else xw
    s[holder].bind(places, thread_axis("threadIdx.z"))
    s[holder].bind(fw, thread_axis("threadIdx.y"))
    return fw


def tiles(of: Conv2d, machine: Machine) -> tuple[WindowTile, ...]:
    """Return the tiles of a workload, the fastest first."""
    return rank_tiles(of, atom_of(of), machine)


def predict(of: Conv2d, tile: WindowTile, machine: Machine) -> Expectation:
    """Return the cycles, threads and blocks of a tile."""
    return Expectation(cycles(tile, of, atom_of(of), machine), tile.warps * machine.hardware.warp, tile.blocks(of))


_MODEL: TileModel[Conv2d] = TileModel(tiles, WindowTile.of, predict, compared)
ON_GPU: ScheduleStrategy[Conv2d] = ScheduleStrategy(
    space, schedule, _MODEL.default, NEEDS, declare, computes, _MODEL.model
)
