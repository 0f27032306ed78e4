"""Contractions on a CPU: columns in vectors, a few rows of sums in registers, the right factor packed for a block.

The columns of a block are packed once, with the depth outermost, so that each step along the depth loads whole vectors.
The packed columns serve all rows. Blocks run on all processors.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.knobs import value_knob
from ...tune.space.space import Space
from .contraction import OfContraction, declare
from .contraction_schedule import contracted
from .processor import VectorRegisters
from .strategy import ScheduleStrategy
from .tensors import Tensors
from .workload import W

_LANES = (8, 16, 32)
_ROWS = (1, 2, 4, 6, 8)
_CHUNKS = (1, 4, 16)
"""Candidate choices of the knobs `lanes`, `rows` and `chunks`."""


class Packed(OfContraction[W]):
    """The strategy for workloads that are contractions."""

    def strategy(self) -> ScheduleStrategy[W]:
        """The strategy as templates take it."""
        return ScheduleStrategy(self.space, self.schedule, self.default_choices, declare=self.declare)

    def space(self, of: W) -> Space:
        """The knobs: columns per vector, rows of sums in registers, and parts of the rows that run in parallel."""
        made = self.contraction_of(of)
        rows = [n for n in _ROWS if n <= made.rows.extent]
        chunks = [n for n in _CHUNKS if n <= -(-made.rows.extent // rows[-1])]
        return Space([value_knob("lanes", [*_LANES]), value_knob("rows", rows), value_knob("chunks", chunks)])

    def default_choices(self, of: W, registers: VectorRegisters) -> dict[str, Any]:
        """Return vectors of 16, and four rows of sums."""
        return {"lanes": 16, "rows": min(4, self.contraction_of(of).rows.extent), "chunks": 1}

    def declare(self, of: W, data: Tensor, weights: Tensor) -> Tensor:
        """Declare the contraction, with neighbouring columns in the right factor."""
        made = self.contraction_of(of)
        packed = replace(made, columns=replace(made.columns, along_depth=False))
        return declare(packed, self.views_of(of, data, weights), made.sum_dtype)

    def schedule(self, of: W, config: Config, s: ScheduleHandle, t: Tensors) -> None:
        """Pack the columns of a block, and keep rows of sums in registers."""
        made = self.contraction_of(of)
        products = contracted(t.sums)
        left, right = products.op.input_tensors
        *_, own, across = products.op.axis
        s[products].round_up((own, config["rows"].val), (across, config["lanes"].val))
        s[left].compute_inline()
        s[right].compute_inline()
        packed = s.cache_read(right, "global", [products])
        s[products].set_scope("local")
        axes = list(t.out.op.axis)
        outer, i, j = [axes[d] for d in made.batch_axes], axes[made.row_axes[0]], axes[made.column_axes[0]]
        block, lane = s[t.out].split(j, factor=config["lanes"].val)
        chunk, rest = s[t.out].split(i, nparts=config["chunks"].val)
        group, row = s[t.out].split(rest, factor=config["rows"].val)
        s[t.out].reorder(*outer, block, chunk, group, row, lane)
        whole = s[t.out].fuse(*outer, block, chunk)
        s[t.out].parallel(whole)
        s[packed].compute_at(s[t.out], whole)
        s[products].compute_at(s[t.out], group)
        *_, own, across = s[products].op.axis
        s[products].reorder(s[products].op.reduce_axis[0], own, across)
        s[products].unroll(own)
        s[products].vectorize(across)
        if made.columns.extent % config["lanes"].val == 0:
            s[t.out].vectorize(lane)
