"""Contractions on a GPU's ordinary arithmetic: tiles of both factors in shared memory, tiles of results in registers.

A block computes a tile of rows times columns. Its threads fetch slices of both factors together, as many steps along
the depth at a time as the configuration says; each thread keeps some rows and columns of sums in registers. If there
are fewer tiles than multiprocessors, the depth is divided among blocks as well: they store partial sums, and a second
kernel adds them, in one order, and applies the epilogue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ...core.hardware import MemoryScope
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.tensor import Tensor
from ...tune.model.machine import REFERENCE, Machine
from ...tune.space.config import Config
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from ...tune.task import Expectation
from .contraction import Contraction, OfContraction, declare, rounded, splits
from .contraction_schedule import Begun, begin, bind_blocks, deal_out, leave_group, width
from .needs import Needs
from .schedule_helpers import bind_all
from .simt_tiles import SimtTile, depths, own_tiles, rank_tiles
from .strategy import ScheduleStrategy, always
from .tensors import Tensors
from .tile_model import TileModel
from .workload import W


class Simt(OfContraction[W]):
    """The strategy for workloads that are contractions, by ordinary arithmetic."""

    def strategy(self, computes: Callable[[W, Machine], bool] = always, scope: str = "") -> ScheduleStrategy[W]:
        """The strategy as templates take it."""
        model: TileModel[W] = TileModel(self.tiles, SimtTile.of, self.predict)
        return ScheduleStrategy(
            self.space, self.schedule, model.default, Needs(scope=scope), self.declare, computes, model.model
        )

    def space(self, of: W) -> Space:
        """The knobs.

        `rows`, `columns`: over blocks, virtual threads, threads and neighbours of one thread. `depth`: steps in shared
        memory at a time. `split`: blocks that share the depth of one tile. `stages`: slices in flight.
        """
        made = self.contraction_of(of)
        knobs = [
            split_knob("rows", made.rows.extent, "candidate", candidate=own_tiles(made.rows)),
            split_knob("columns", made.columns.extent, "candidate", candidate=own_tiles(made.columns)),
            value_knob("depth", depths(made)),
            value_knob("split", splits(made)),
            value_knob("stages", [1, 2, 3]),
        ]

        def block(choices: Any) -> Any:
            return SimtTile.of(choices).is_possible(made)

        names = ("rows", "columns", "depth", "split", "stages")
        return Space(knobs).where(block, names, "a block that the hardware can hold", many=True)

    def tiles(self, of: W, machine: Machine) -> Sequence[SimtTile]:
        """Return the tiles of a workload, the fastest first."""
        return rank_tiles(self.contraction_of(of), machine)

    def predict(self, of: W, tile: SimtTile, machine: Machine) -> Expectation:
        """Return the cycles, threads and blocks of a tile."""
        made = self.contraction_of(of)
        return Expectation(tile.cycles(made, machine), tile.block, tile.blocks(made))

    def declare(self, of: W, data: Tensor, weights: Tensor) -> Tensor:
        """Declare the contraction of factors that are converted once, on their way into shared memory."""
        made = self.contraction_of(of)
        return declare(made, self.views_of(of, data, weights), made.sum_dtype)

    def schedule(self, of: W, config: Config, s: ScheduleHandle, t: Tensors) -> None:
        """Apply a configuration."""
        schedule(self.contraction_of(of), config, s, t)


def schedule(of: Contraction, config: Config, s: ScheduleHandle, t: Tensors) -> None:
    """Tile the results over blocks and threads; factors in shared memory, sums in registers."""
    tile = SimtTile.of(config)
    size = prod(tile.rows), prod(tile.columns)
    begun = begin(of, s, t, (*size, tile.depth), tile.split)
    out, sums = begun.out, begun.sums
    shared = [s.cache_read(view, "shared", [sums]) for view in begun.views]
    held = [s.cache_read(each, "local", [sums]) for each in shared]
    thread, last = _tile(of, config, s, begun)
    hardware = REFERENCE.hardware if t.target is None else t.target.hardware
    if _overfills(of, tile, hardware.memory(MemoryScope.SHARED).most):
        s[out].pragma(last, "guarded_reads", 1)
    s[sums].compute_at(s[out], thread)
    slices, step, product = _loops(of, tile, s, sums)
    for operand, extent, each, mine in zip((of.rows, of.columns), size, shared, held, strict=True):
        s[each].compute_at(s[sums], slices)
        together = width(of, operand, size, tile.depth, rounded(of.depth, tile.depth * tile.split))
        deal_out(s, each, extent * tile.depth, tile.threads, together)
        if tile.stages > 1:
            s[each].pipeline(tile.stages)
        s[mine].compute_at(s[sums], step if operand.along_depth else product)
        s[mine].vectorize(mine.op.axis[-1])
    run = of.columns.extent if tile.split > 1 else of.run
    if tile.columns[2] > 1 and run % tile.columns[2] == 0:
        s[out].vectorize(last)


def _overfills(of: Contraction, tile: SimtTile, room: int) -> bool:
    """Whether slices of all groups that a tile may reach, which it is filled with unless guards count, do not fit.

    If they fit, kernels stay as they were timed.
    """
    size = prod(tile.rows), prod(tile.columns)
    if tile.split > 1 or of.grouped is None or not leave_group(of, size):
        return False
    dimension, own = of.grouped
    mine, other = size if dimension in of.row_axes else size[::-1]
    reached = 1 + (rounded(own, mine) - 1) // own
    needed: int = tile.shared_bytes(of) // sum(size) * (own + other) * reached
    return needed > room


def _tile(of: Contraction, config: Config, s: ScheduleHandle, begun: Begun) -> tuple[IterVar, IterVar]:
    """Split and bind the loops over results; returns the innermost loops of the threads, and over neighbours."""
    out, outer = begun.out, begun.outer
    (ib, iv, it, ii), (jb, jv, jt, ji) = (
        config[name].apply(s, out, axis) for name, axis in (("rows", begun.rows), ("columns", begun.columns))
    )
    s[out].reorder(*outer, ib, jb, iv, jv, it, jt, ii, ji)
    blocks = [(ib, -(-of.rows.extent // prod(config["rows"].size[1:])))]
    blocks += [(jb, -(-of.columns.extent // prod(config["columns"].size[1:])))]
    if outer:
        blocks.insert(0, (s[out].fuse(*outer) if len(outer) > 1 else outer[0], of.batch * config["split"].val))
    bind_blocks(s, out, blocks)
    bind_all(s, out, (iv, jv, it, jt), ("vthread", "vthread", "threadIdx.y", "threadIdx.x"))
    return jt, ji


def _loops(of: Contraction, tile: SimtTile, s: ScheduleHandle, sums: Tensor) -> tuple[IterVar, IterVar, IterVar]:
    """Split the depth: slices in shared memory, steps whose factors a thread loads at once, and single products."""
    (k,) = s[sums].op.reduce_axis
    slices, rest = s[sums].split(k, factor=tile.depth)
    step, product = s[sums].split(rest, factor=tile.step(of))
    s[sums].reorder(slices, step, product, *s[sums].op.axis)
    s[sums].unroll(product)
    return slices, step, product
