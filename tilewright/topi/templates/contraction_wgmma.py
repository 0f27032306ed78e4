"""Contractions by the matrix instructions of warpgroups: a tile of 64 rows for each four warps.

Both factors lie in shared memory, swizzled, in slices of 128 bytes of terms, which are neighbours in memory. The
hardware reads them there, so that warps load no fragments; the rest is as in `contraction_mma`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from ...tune.model.machine import Machine
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from .contraction import splits
from .contraction_mma import Mma
from .mma_tiles import MmaTile, tiles
from .wgmma_tiles import LEAST_COLUMNS, WgmmaTile, column_tiles, depth_of, rank_tiles, row_tiles, stages
from .workload import Convolution

W = TypeVar("W", bound=Convolution)
USUAL: Mapping[str, str] = {name: f"wgmma_{name}" for name in ("float16", "bfloat16", "int8", "uint8")}
"""The atom for elements of a type, as exact as products and sums in float32."""
ROUNDED: Mapping[str, str] = {"float32": "wgmma_tf32"}
"""The atom for elements of a type whose operands may lose bits beyond 11."""


class Wgmma(Mma[W]):
    """The strategy for workloads that are contractions of factors whose terms are neighbours."""

    warpgroups = True
    tile: type[MmaTile] = WgmmaTile

    def _fits(self, of: W) -> bool:
        made, atom = self.contraction_of(of), self.atom(of)
        deep = made.rows.along_depth and made.columns.along_depth
        columns = made.columns.extent  # fewer than the smallest tile has are one tile, of whole instructions
        return deep and made.rows.extent > 32 and (columns >= LEAST_COLUMNS or columns % atom.n == 0)

    def space(self, of: W) -> Space:
        """The knobs of `Mma`, for one to four warpgroups per block, and slices of 128 bytes."""
        made, atom = self.contraction_of(of), self.atom(of)

        def possible(choices: Any) -> Any:
            return WgmmaTile.of(choices).is_possible(made, atom)

        names = ("rows", "columns", "depth", "split", "stages", "store", "tiles")
        return Space(
            [
                split_knob("rows", made.rows.extent, "candidate", candidate=row_tiles(made.rows)),
                split_knob("columns", made.columns.extent, "candidate", candidate=column_tiles(made.columns, atom)),
                value_knob("depth", [depth_of(atom)]),
                value_knob("split", splits(made)),
                value_knob("stages", stages()),
                value_knob("store", ["fragments", "shared", "vectors"]),
                value_knob("tiles", tiles(made)),
            ]
        ).where(possible, names, "a block that the hardware can hold", many=True)

    def tiles(self, of: W, machine: Machine) -> Sequence[MmaTile]:
        return rank_tiles(self.contraction_of(of), self.atom(of), machine)
