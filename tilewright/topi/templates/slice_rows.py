"""Rows of slices in shared memory: the bank conflicts of warps that read them, and the padding that avoids conflicts.

A slice that lies along the depth has one row per row or column of the result. The lanes of a warp read different rows
at the same step. If the distance of rows is a multiple of all banks, the lanes wait for each other.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np

from ...core.vectorized import Number, is_array, of_each
from ...core.warp_access import conflict_free, wavefronts
from .contraction import MatrixOperand
from .schedule_helpers import GPU


class SliceRows(NamedTuple):
    """The rows of a slice: elements from one row to the next, and cycles that bank conflicts add to a warp's load."""

    stride: Number
    conflict_cycles: Number


def slice_rows(
    operand: MatrixOperand, word: int, depth: Number, step: Number, lanes: tuple[Number, Number]
) -> SliceRows:
    """Return the rows of a slice with elements of `word` bytes: padded if a warp's loads then conflict less.

    A thread loads `step` elements at once. `lanes` is the number of rows that a warp reads, and the number of
    neighbouring lanes that read the same row. Slices that lie along rows or columns of the result have no conflicts.
    """
    if not operand.along_depth:
        return SliceRows(depth, 0)
    if not is_array(depth, step, *lanes):
        return _rows(operand.together, word, depth, step, *lanes)

    def field(name: str) -> Number:
        return of_each(lambda *each: getattr(_rows(operand.together, word, *each), name), depth, step, *lanes)

    return SliceRows(field("stride"), field("conflict_cycles"))


@lru_cache(maxsize=1 << 14)
def _rows(together: int, word: int, depth: int, step: int, many: int, neighbours: int) -> SliceRows:
    """Return the rows for numbers. A padded stride is an odd multiple of the widest access, which stays aligned."""

    def at(stride: int) -> SliceRows:
        return SliceRows(stride, conflict_cycles(many, neighbours, stride * word, step * word))

    plain = at(depth)
    if not plain.conflict_cycles:
        return plain
    vector = max(step, gcd(together, depth), -(-GPU.warp_memory.word // word))
    return min(plain, at(depth + (vector - depth) % (2 * vector)), key=lambda rows: rows.conflict_cycles)


@lru_cache(maxsize=1 << 12)
def conflict_cycles(many: int, neighbours: int, stride: int, width: int) -> int:
    """Return the cycles that bank conflicts add to a warp's load of `width` bytes per lane.

    Rows are `stride` bytes apart. Lanes in groups of `neighbours` read the same row, and groups read `many` rows.
    """
    first = (np.arange(GPU.warp) // neighbours % many * stride)[None]
    memory = GPU.warp_memory
    return max(0, int(wavefronts(first, width, memory)[0] - conflict_free(first, width, memory)[0]))
