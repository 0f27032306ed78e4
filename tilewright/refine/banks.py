"""Bank conflicts of matrix instructions: how many shared-memory accesses one load of fragments takes.

Lanes that access different words of one bank at the same time wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..bounds.stage_bounds import Bounds, StageBounds, StageContraction
from ..core.dtype import DType
from ..core.hardware import SWIZZLE_LINE, SWIZZLE_PIECE, MemoryScope, WarpMemory
from ..core.warp_access import word_wavefronts
from ..expr.evaluate import evaluate
from ..expr.nodes import IntImm, Load
from ..expr.traverse import variables
from ..schedule.schedule import Schedule
from ..tensor.axis import IterVar
from ..tensor.tensor import Tensor
from .contraction import extent, local_indices


def crowded_banks(schedule: Schedule, bounds: Bounds, memory: WarpMemory) -> list[str]:
    """Describe the operands with a `storage_align` that makes lanes wait for each other."""
    found: list[str] = []
    for each in bounds.values():
        matched = each.contraction
        if matched is None or matched.atom.by_thread or matched.atom.by_warpgroup:
            continue
        for operand, lines in ((matched.a, matched.rows), (matched.b, matched.columns)):
            assert isinstance(operand.source, Tensor)
            held = bounds.get(schedule.stage_of[operand.source.op])
            if held is None or held.scope is not MemoryScope.SHARED:
                continue
            asked = schedule.stages[held.stage.id].aligns
            ways = bank_ways(each, matched, operand, lines, held, memory) if asked or held.stage.swizzled else 1
            if ways > 1:
                shown = ", ".join(f"({axis.name}, {factor}, {offset})" for axis, (factor, offset) in asked.items())
                by = f"storage_align{shown}" if asked else "storage_swizzle"
                found.append(
                    f"{ways} lanes of {matched.atom.name} want one bank of shared memory at a time when stage "
                    f"{each.stage.name!r} reads {held.stage.name!r}, because of {by}. Without it, the compiler pads "
                    "the rows so that no lane waits"
                )
    return found


def bank_ways(
    found: StageBounds,
    matched: StageContraction,
    operand: Load,
    lines: Sequence[IterVar],
    held: StageBounds,
    memory: WarpMemory,
) -> int:
    """The accesses that the busiest load of an operand's fragments takes; 1 if no lane waits.

    The tile is the first one of its kind: other variables of the indices are 0.
    """
    atom, size = matched.atom, DType(operand.dtype).bytes
    before = replace(found, stage=matched.stage, ranges=matched.ranges)
    forms = [form.to_expr() for form in local_indices(operand, before, held)]
    strides = _strides(held)
    if strides is None:
        return 1
    row = max(SWIZZLE_LINE, size * (strides[-2] if len(strides) > 1 else 1))
    counts = [[extent(before, axis) for axis in axes] for axes in (lines, matched.depth)]

    def address(line: int, term: int) -> int:
        values = dict.fromkeys(variables(*forms), 0)
        for axes, sizes, number in ((lines, counts[0], line), (matched.depth, counts[1], term)):
            for axis, many in zip(reversed(axes), reversed(sizes), strict=True):
                values[axis.var], number = number % many, number // many
        at = size * sum(int(evaluate(form, values)) * s for form, s in zip(forms, strides, strict=True))
        return at ^ (at // row % (SWIZZLE_LINE // SWIZZLE_PIECE)) * SWIZZLE_PIECE if held.stage.swizzled else at

    neighbours = address(0, 1) - address(0, 0) == size, address(1, 0) - address(0, 0) == size
    if atom.word == 4 and neighbours[0]:
        rows = [address(line, 0) for line in range(8)]
    elif size == 2 and neighbours[1]:
        rows = [address(0, term) for term in range(8)]
    else:
        rows = []
    if rows and all(row % SWIZZLE_PIECE == 0 for row in rows):
        return _busiest([range(row, row + SWIZZLE_PIECE, memory.word) for row in rows], memory)
    words = [address(lane // 4, lane % 4 * atom.per_word) for lane in range(32)]
    together = memory.line // atom.word
    spans = [range(at, at + max(size, memory.word), memory.word) for at in words]
    return max(_busiest(spans[i : i + together], memory) for i in range(0, len(spans), together))


def _busiest(accesses: Iterable[Iterable[int]], memory: WarpMemory) -> int:
    """Return how many different words of the busiest bank are accessed at one time."""
    words = [at // memory.word for access in accesses for at in access]
    return int(word_wavefronts(np.array([words]), memory.banks)[0])


def _strides(held: StageBounds) -> list[int] | None:
    """The distances of neighbours along each dimension of a stored stage, in elements; None if not constant."""
    extents = [part.extent.value if isinstance(part.extent, IntImm) else None for part in held.region]
    found: list[int] = []
    stride = 1
    for axis, size in zip(reversed(held.stage.op.axis), reversed(extents), strict=True):
        if size is None:
            return None
        factor, offset = held.stage.aligns.get(axis, (1, 0))
        stride += (offset - stride) % factor
        found.append(stride)
        stride *= size
    return found[::-1]
