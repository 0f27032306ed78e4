"""The lines of a stage with exchanged pieces (`storage_swizzle`)."""

from __future__ import annotations

from ..bounds.stage_bounds import StageBounds
from ..core.errors import UserError
from ..core.hardware import SWIZZLE_LINE, SWIZZLE_PIECE, MemoryScope
from ..expr.nodes import IntImm


def swizzled_line(found: StageBounds, number: int) -> int:
    """The bytes of a line of a stage's `number`-th result; 0 if it is not swizzled.

    Raises UserError if it is not kept in shared memory, or its rows are not of a power of two bytes.
    """
    stage = found.stage
    if not stage.swizzled:
        return 0
    if found.scope is not MemoryScope.SHARED:
        raise UserError(
            f"stage {stage.name!r} is kept in {found.scope.value} memory, which has no banks",
            primitive="storage_swizzle",
            fix=f"leave storage_swizzle out, or keep {stage.name!r} in shared memory",
        )
    size = stage.op.outputs[number].dtype.bytes
    last = found.region[-1].extent if found.region else None
    row = last.value * size if isinstance(last, IntImm) else 0
    if row < SWIZZLE_PIECE or row & (row - 1):
        raise UserError(
            f"rows of stage {stage.name!r} in shared memory have {row or 'a number of'} bytes ({last} times {size} "
            "bytes), but storage_swizzle needs a power of two, of at least 16",
            primitive="storage_swizzle",
            fix="cache tiles with a power of two as their last dimension, or pad the rows: storage_align",
        )
    return max(row, SWIZZLE_LINE)
