"""Contractions by matrix instructions: tiles per warp, and slices of both factors in shared memory, pipelined or not.

A block computes a tile of rows times columns, a warp a part of it, as fragments in its registers. The epilogue runs on
the fragments. If there are fewer tiles than multiprocessors, the depth is divided among blocks as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import gcd, prod
from operator import or_
from typing import Any, NamedTuple

from ...core.atoms import WARPGROUP, Atom, atom_named
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar, thread_axis
from ...tensor.tensor import Tensor
from ...tune.model.machine import Machine
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Expectation
from .contraction import Contraction, OfContraction, Views, declare, rounded, splits
from .contraction_schedule import (
    Begun,
    begin,
    bind_tiles,
    leave_group,
    pad_rows,
    result_axes,
    store_vectors,
    width,
)
from .mma_tiles import IN_PLACE, Forms, MmaTile, rank_tiles, tiles
from .needs import Needs
from .schedule_helpers import in_vectors
from .strategy import ScheduleStrategy, always
from .tensors import Tensors
from .tile_model import TileModel
from .workload import W

DEFAULT_ATOMS: Mapping[str, str] = {"float16": "float16", "bfloat16": "bfloat16", "float32": "3xtf32",
                             "int8": "int8", "uint8": "uint8"}  # fmt: skip
"""The atom for elements of a type, as exact as products and sums in float32."""
ROUNDED: Mapping[str, str] = {"float32": "tf32"}
"""The atom for each element type that permits rounding of operands to 11 bits."""


class PreparedForm(NamedTuple):
    """A way to compute a workload as a contraction over a copy of its data, which a separate kernel writes first."""

    contraction_of: Callable[[Any], Contraction]
    views_of: Callable[[Any, Tensor, Tensor], Views]
    covers: Callable[[Any], bool]


@dataclass(frozen=True, eq=False)
class Mma(OfContraction[W]):
    """The strategy for workloads that are contractions, by matrix instructions.

    `atoms` maps element types to instructions. `prepared` maps choices of the knob `data` to the forms that need a
    kernel before the product.
    """

    atoms: Mapping[str, str] = field(default_factory=lambda: DEFAULT_ATOMS)
    prepared: Mapping[str, PreparedForm] = field(default_factory=dict)
    tile: type[MmaTile] = MmaTile

    def strategy(self, computes: Callable[[W, Machine], bool] = always, scope: str = "") -> ScheduleStrategy[W]:
        """Return the strategy for workloads that meet `computes`."""

        def able(of: W, machine: Machine) -> bool:
            return computes(of, machine) and self.tile.covers(self.contraction_of(of), self.atom(of))

        model: TileModel[W] = TileModel(self.tiles, self.tile.of, self.predict)
        needs = Needs(atoms=self.atoms, scope=scope)
        return ScheduleStrategy(
            self.space, self.schedule, model.default, needs, None, able, model.model, declare_for=self.declare
        )

    def forms(self, of: W) -> Forms:
        """The contractions that compute a workload, by the choices of the knob `data`."""
        found = [(name, form.contraction_of(of)) for name, form in self.prepared.items() if form.covers(of)]
        return ((IN_PLACE, self.contraction_of(of)), *found)

    def form(self, of: W, tile: MmaTile) -> Contraction:
        """The contraction that a tile belongs to."""
        return dict(self.forms(of))[tile.data]

    def atom(self, of: W) -> Atom:
        """The instruction for a workload."""
        found = atom_named(self.atoms[of.element])
        assert found is not None
        return found

    def space(self, of: W) -> Space:
        """The knobs.

        `rows`, `columns`: over blocks, warps, and the tile of one warp. `depth`: steps in shared memory at a time.
        `split`: blocks that share the depth of one tile. `stages`: slices in flight. `store`: the path of results to
        memory: straight from fragments, through shared memory as whole vectors, or as vectors from fragments. The last
        needs an order of columns in which a lane holds neighbours. `tiles`: the number of row tiles that a block
        computes one after another, while the columns' factor stays in shared memory. `data`, if there is a choice:
        whether the product reads the data in place, or a copy that another kernel writes first.
        """
        made, atom, forms = self.contraction_of(of), self.atom(of), dict(self.forms(of))

        def possible(tile: MmaTile) -> Any:
            return reduce(or_, ((tile.data == name) & tile.is_possible(each, atom) for name, each in forms.items()))

        ways = self.tile.choices(made, atom)
        choices = {name: ways[name] for name in ("rows", "columns", "depth")}
        choices |= {"split": splits(made), "stages": ways["stages"], "store": ["fragments", "shared", "vectors"]}
        choices |= {"tiles": tiles(made), **({"data": list(forms)} if len(forms) > 1 else {})}
        extents = {"rows": made.rows.extent, "columns": made.columns.extent}
        return self.tile.space(choices, extents, possible, many=True)

    def tiles(self, of: W, machine: Machine) -> Sequence[MmaTile]:
        """Return the tiles of a workload, the fastest first."""
        return rank_tiles(self.forms(of), self.atom(of), machine, self.tile)  # type: ignore[arg-type]

    def predict(self, of: W, tile: MmaTile, machine: Machine) -> Expectation:
        """Return the cycles, threads and blocks of a tile."""
        made = self.form(of, tile)
        cycles = tile.cycles(made, self.atom(of), machine)
        return Expectation(cycles, tile.warps * machine.hardware.warp, tile.blocks(made))

    def declare(self, of: W, data: Tensor, weights: Tensor, config: Config) -> Tensor:
        """Declare the contraction over unconverted elements."""
        tile = self.tile.of(config)
        made = self.form(of, tile)
        views_of = self.views_of if tile.data == IN_PLACE else self.prepared[tile.data].views_of
        return declare(made, views_of(of, data, weights), of.element)

    def schedule(self, of: W, config: Config, s: ScheduleHandle, t: Tensors) -> None:
        """Apply a configuration."""
        tile = self.tile.of(config)
        made = self.form(of, tile)
        run, size, several = tile.run(made), (prod(tile.rows), prod(tile.columns)), tile.tiles > 1
        sliced = tile.depth if tile.warpgroups and several else 0
        begun = begin(made, s, t, (size[0] * tile.tiles, size[1], tile.depth), tile.split, run, sliced, tile.line)
        axes, holder, warp = _bound(made, tile, s, begun)
        sums = begun.sums
        shared = [s.cache_read(view, "shared", [sums]) for view in begun.views]
        s[sums].compute_at(s[holder], warp)
        slices, inner = s[sums].split(s[sums].op.reduce_axis[0], factor=tile.depth)
        data = s[sums].op.axis
        s[sums].reorder(slices, *data, inner)
        whole = rounded(made.depth, tile.depth * tile.split)
        for operand, each in zip((made.rows, made.columns), shared, strict=True):
            stays = several and operand is made.columns
            if stays:
                s[each].compute_at(s[begun.out], axes.block)
            elif several and (sliced or tile.depth >= whole):
                s[each].compute_at(s[begun.out], axes.tile)
            else:
                s[each].compute_at(s[sums], slices)
            together = width(made, operand, size, tile.depth, whole)
            in_vectors(s, each, together)
            if tile.stages > 1 and not stays:
                s[each].pipeline(tile.stages)
        s[sums].tensorize(data[-5 if run else -3 if tile.line else -2], self.atom(of))


class _Loops(NamedTuple):
    """Two loops of the stage that stores results: the innermost loop over blocks, and the loop over the tiles of a
    block. If a block computes one tile, they are the same loop.
    """

    block: IterVar
    tile: IterVar


def _bound(of: Contraction, tile: MmaTile, s: ScheduleHandle, begun: Begun) -> tuple[_Loops, Tensor, IterVar]:
    """Bind blocks and warps; returns the loops of the result, the stage that reads the sums, and its warps' loop.

    The stage that stores results reads the sums, or a copy of them in shared memory does. From that copy, a block
    stores whole vectors of neighbours.
    """
    holder = out = begun.out
    axes = begun.outer, begun.rows, begun.columns
    if tile.staged:
        _over_tiles(of, tile, s, out, *axes)
        holder = s.cache_write(out, "shared")
        axes = result_axes(of, s, out)
    loops, i, j = _over_tiles(of, tile, s, out, *axes, bind=True)
    if tile.staged:
        warps = (tile.rows[0] // WARPGROUP, WARPGROUP) if tile.warpgroups else (tile.rows[0], tile.columns[0])
        rows, columns = prod(tile.rows), prod(tile.columns)
        store_vectors(s, out, (i, j), warps, gcd(of.run, columns), rows * columns)
        s[holder].compute_at(s[out], loops.tile)
        pad_rows(s, holder)
        *_, i, j = s[holder].op.axis
    if tile.warpgroups:  # the four warps of a warpgroup are neighbours along threadIdx.y
        group, i = s[holder].split(i, factor=WARPGROUP * tile.rows[1])
        iw, ii = s[holder].split(i, factor=tile.rows[1])
        lanes = s[holder].split(j, factor=tile.line) if tile.line else _over_lanes(s, holder, j, tile.run(of))
        s[holder].reorder(group, iw, ii, *lanes)
        s[holder].bind(group, thread_axis("threadIdx.z"))
        s[holder].bind(iw, thread_axis("threadIdx.y"))
        return loops, holder, iw
    (iw, ii), (jw, ji) = (s[holder].split(x, factor=pair[1]) for x, pair in ((i, tile.rows), (j, tile.columns)))
    s[holder].reorder(iw, jw, ii, *_over_lanes(s, holder, ji, tile.run(of)))
    s[holder].bind(iw, thread_axis("threadIdx.z"))
    s[holder].bind(jw, thread_axis("threadIdx.y"))
    return loops, holder, jw


def _over_lanes(s: ScheduleHandle, out: Tensor, columns: IterVar, run: int) -> list[IterVar]:
    """Split the columns of a warp over its lanes; each lane stores `run` neighbours as a vector."""
    if not run:
        return [columns]
    group, lane = s[out].split(columns, factor=4 * run)
    lane, piece = s[out].split(lane, factor=run)
    return [group, lane, *s[out].split(piece, factor=2)]


def _over_tiles(
    of: Contraction,
    tile: MmaTile,
    s: ScheduleHandle,
    out: Tensor,
    outer: list[IterVar],
    rows: IterVar,
    columns: IterVar,
    bind: bool = False,
) -> tuple[_Loops, IterVar, IterVar]:
    """Split the loops of a result over blocks and tiles; also returns the loops within one tile."""
    size = prod(tile.rows), prod(tile.columns)
    ib, i = s[out].split(rows, factor=size[0])
    jb, j = s[out].split(columns, factor=size[1])
    loops = _Loops(jb, jb)
    if tile.tiles > 1:
        ib, each = s[out].split(ib, factor=tile.tiles)
        loops = _Loops(jb, each)
        s[out].reorder(*outer, ib, jb, each, i, j)
    else:
        s[out].reorder(*outer, ib, jb, i, j)
    if leave_group(of, size):
        s[out].pragma(ib, "guarded_reads", 1)  # rows and columns belong to one group if guards hold
    if bind:
        blocks = [(ib, -(-of.rows.extent // (size[0] * tile.tiles))), (jb, -(-of.columns.extent // size[1]))]
        if outer:
            whole = s[out].fuse(*outer) if len(outer) > 1 else outer[0]
            blocks.insert(0, (whole, of.batch * tile.split))
        bind_tiles(s, out, blocks)
    return loops, i, j
