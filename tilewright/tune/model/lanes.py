"""The cost of one access of a warp: the addresses of its lanes, the touched sectors, and bank conflicts.

Lanes are numbered as in hardware: threadIdx.x is the fastest. All loops other than thread indices are at their first
iteration.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...bounds.visibility import shares
from ...core import warp_access
from ...core.hardware import THREAD_TAGS, ThreadTag, WarpMemory
from ...core.warp_access import distinct
from ...expr.arrays import evaluated
from ...expr.nodes import Var
from ...schedule.relations import Fuse, Split
from ...tensor.axis import IterVar
from .extents import StageExtents, constant
from .structure import Structure
from .traced import Columns, Number


class WarpLanes:
    """The thread indices of the lanes of a block's first warp, one row per configuration."""

    def __init__(self, count: int, block: Sequence[Number], warp: int) -> None:
        self.count = count
        self.warp = warp
        number = np.arange(warp, dtype=np.int64)[None, :]
        threads = column(np.asarray(block[0] * block[1] * block[2]), count)
        number = np.where(number < threads, number, 0)  # absent lanes repeat the first lane
        self.number = number
        self.index: dict[ThreadTag, np.ndarray] = {}
        for tag, extent in zip(THREAD_TAGS, block, strict=True):
            wide = column(np.asarray(extent), count)
            self.index[tag] = number % wide
            number = number // wide

    def axes(self, structure: Structure, columns: Columns, found: StageExtents) -> dict[Var, np.ndarray]:
        """Return the values of an operation's axes in each lane."""
        values: dict[IterVar, np.ndarray | int] = {}
        for loop in found.path:
            if loop.stage == found.stage.id:
                values[loop.axis] = self.index.get(loop.tag, 0) if loop.tag is not None else 0
        for relation in reversed(found.stage.relations):
            if isinstance(relation, Split):
                step = structure.number(relation, "factor", relation.factor, columns)
                step = found.extents[relation.inner] if step is None else step
                values[relation.parent] = values[relation.outer] * as_column(step) + values[relation.inner]
            elif isinstance(relation, Fuse):
                width = as_column(found.extents[relation.inner])
                values[relation.outer] = values[relation.fused] // width
                values[relation.inner] = values[relation.fused] % width
        begins = self._begins(structure, columns, found)
        made: dict[Var, np.ndarray] = {}
        for axis in found.stage.roots:
            made[axis.var] = (
                np.asarray(values[axis]) + begins.get(axis, 0) + np.zeros((self.count, self.warp), np.int64)
            )
        return made

    def _begins(self, structure: Structure, columns: Columns, found: StageExtents) -> dict[IterVar, np.ndarray]:
        """Return the offset of each lane's region from the first lane's region, if lanes have regions of their own."""
        by_thread = any(loop.tag in self.index for loop in found.outer) and not shares(found.scope, ThreadTag.THREAD_X)
        if found.read_by is None or not by_thread:
            return {}
        reader, load = found.read_by
        op, axes = found.stage.op, self.axes(structure, columns, reader)
        made: dict[IterVar, np.ndarray] = {}
        for axis, index, size, extent in zip(op.axis, load.indices, found.region, op.shape, strict=True):
            value = np.zeros((self.count, self.warp), np.int64) + evaluated(index, axes, unknown=0)
            made[axis] = (value - value[:, :1]) * (as_column(size) < constant(extent))
        return made


def column(value: np.ndarray, count: int) -> np.ndarray:
    """Return an array of one number per configuration as a column."""
    return np.broadcast_to(value, (count,))[:, None]


def as_column(value: Number) -> Number:
    """Return numbers per configuration as a column, and a number common to all configurations unchanged."""
    return value[:, None] if isinstance(value, np.ndarray) and value.ndim == 1 else value


def address(indices: Sequence[np.ndarray], shape: Sequence[Number]) -> np.ndarray:
    """Return the row-major offset of an element: an array over configurations and lanes, each possibly of extent 1."""
    place: np.ndarray | int = 0
    for index, extent in zip(indices, shape, strict=True):
        place = place * as_column(extent) + index
    return np.atleast_2d(place)


def unravelled(element: np.ndarray, shape: Sequence[Number]) -> list[np.ndarray]:
    """Return the index of an element in each dimension."""
    indices: list[np.ndarray] = []
    for extent in reversed(shape):
        wide = as_column(extent)
        indices.append(element % wide)
        element = element // wide
    return indices[::-1]


def sectors(places: np.ndarray, element_bytes: int, memory: WarpMemory, lanes: Number = 1) -> np.ndarray:
    """Return the number of sectors of global memory that a warp's access touches; each lane accesses `lanes`
    neighbours."""
    found = distinct(places * element_bytes // memory.sector).astype(np.float64)
    width = np.asarray(lanes) * element_bytes
    made: np.ndarray = np.maximum(found, distinct(places) * width / memory.sector)
    return made


def wavefronts(places: np.ndarray, element_bytes: int, memory: WarpMemory, lanes: Number = 1) -> np.ndarray:
    """Return the cycles of a warp's access to shared memory; each lane accesses `lanes` neighbours."""
    first = places * element_bytes
    count = max(len(first), np.size(lanes))
    first = np.broadcast_to(first, (count, first.shape[1]))
    wide = np.broadcast_to(np.asarray(lanes) * element_bytes, count)
    width = np.maximum(wide, memory.word).astype(np.int64)
    made = np.empty(len(first))
    for each in np.unique(width).tolist():
        rows = width == each
        made[rows] = warp_access.wavefronts(first[rows], each, memory)
    return made
