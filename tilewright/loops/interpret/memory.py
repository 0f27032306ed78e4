"""The memory of the interpreter: storage by scope, bounds, unwritten elements.

A lane is one thread of one block of the grid. Values have the axes (lanes of a vector,) Z, Y, X, blocks; each of them
may be missing or 1 if nothing depends on it. The first axis of storage is the element number. After it come one copy
for all lanes (global), one per block (shared), or one per lane (local).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from numpy import count_nonzero  # for few lanes, it takes a third of the time of any() and all()

from ...core.dtype import DType
from ...core.errors import InternalError
from ...expr.numerics import Value
from ..nodes import Buffer
from .races import NONE, Race, Shadow, race_at

Report = Callable[[str, Value], NoReturn]  # (the fault, its lanes)


class InterpretError(InternalError):
    """A program broke a rule of the loop grammar when it ran."""


class View:
    """A buffer's shape over its storage."""

    __slots__ = ("buffer", "extents", "storage", "strides")

    def __init__(self, buffer: Buffer, extents: tuple[int, ...], storage: BufferStorage) -> None:
        self.buffer = buffer
        self.extents = extents
        self.storage = storage
        strides = [1]
        for extent in reversed(extents[1:]):
            strides.append(strides[-1] * extent)
        self.strides = tuple(reversed(strides)) if extents else ()

    def place(self, indices: list[Value], mask: Value, report: Report | None) -> tuple[Address, bool]:
        """The place of `indices`, and whether it is valid for any mask; lanes that are off may be anywhere.

        Reports active lanes that are out of bounds.
        """
        total: Value = 0
        inside = True
        for at, (index, extent, stride) in enumerate(zip(indices, self.extents, self.strides, strict=True)):
            outside: Value = False
            if isinstance(index, np.ndarray):
                index = index.astype(np.intp)
                outside = index.view(np.uintp) >= extent
                if not count_nonzero(outside):
                    outside = False
            else:
                index = int(index)
                outside = not 0 <= index < extent
            if outside is not False:
                inside = False
                active = outside if mask is None else outside & mask
                if report is not None and np.any(active):
                    report(f"index {at} is out of bounds of {_declared(self)}", (active, indices))
                index = np.where(outside, 0, index)[()]
            total = total + (index if stride == 1 else index * stride)
        return Address(self, total), inside


class Address:
    """The place of an access: the element number `offset` in each lane's copy of the storage."""

    __slots__ = ("_actors", "_cells", "_rows", "offset", "storage", "view")

    def __init__(self, view: View, offset: Value) -> None:
        self.view = view
        self.storage = view.storage
        self.offset = offset
        self._cells: Value = None
        self._rows: list[Value] = []
        self._actors: Value = None

    @property
    def cells(self) -> Value:
        """The positions in the storage's `flat`, lane by lane."""
        if self._cells is None:
            copy = self.storage.copy
            self._cells = self.offset if copy is None else self.offset * self.storage.count + copy
        return self._cells

    def rows(self, mask: Value, actors: Value) -> list[Value]:
        """The cells and actors of all active lanes, each as one row."""
        if mask is not None:
            return active_lanes(mask, self.cells, actors)
        if self._actors is not actors:
            self._rows, self._actors = active_lanes(None, self.cells, actors), actors
        return self._rows


def _declared(view: View) -> str:
    shape = ", ".join(map(str, view.extents))
    return f"{view.buffer.name}[{shape}] ({view.buffer.scope.value})"


def bits_of(array: Value) -> Value:
    """The array's elements as unsigned integers, for exact comparison (-0.0 and NaN included)."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


class BufferStorage:
    """The elements of one root buffer, and their known writers and readers.

    After the element axis come () for global memory, (blocks,) for shared, (Z, Y, X, blocks) for local.
    `written` (None: all of it) marks elements that hold a value; `shadow` finds races.
    """

    __slots__ = ("copy", "count", "data", "dtype", "flat", "shadow", "written")

    def __init__(self, data: Value, dtype: DType, written: Value = None) -> None:
        self.data = data
        self.dtype = dtype
        self.flat = data.reshape(-1)
        copies = data.shape[1:]
        self.count = int(np.prod(copies, dtype=np.intp))
        self.copy = np.arange(self.count).reshape(copies) if copies else None
        self.written = written
        self.shadow: Shadow | None = None

    @classmethod
    def fresh(cls, dtype: DType, size: int, copies: tuple[int, ...], track: bool) -> BufferStorage:
        """Unwritten storage; its elements are NaN or a large odd number."""
        kind = dtype.numpy
        poison: Any = 1 if dtype.is_bool else dtype.max_value - 2 if dtype.is_int else np.nan
        data = np.full((size, *copies), poison, kind)
        return cls(data, dtype, np.zeros((size, *copies), np.bool_) if track else None)

    def _gather(self, array: Value, place: Address) -> Value:
        """`array` (with the shape of the data) at a place; a view if all lanes have the same offset."""
        offset = place.offset
        if not isinstance(offset, np.ndarray):
            return array[offset]
        if self.copy is None:
            return array.take(offset)
        if self.copy.ndim == 1 and offset.shape[-1] == 1:
            return array.take(offset[..., 0], axis=0)
        return array.reshape(-1).take(place.cells)

    def load(self, place: Address, mask: Value, report: Report | None) -> Value:
        """The values at a place; reports active lanes that read unwritten elements."""
        if self.written is not None and report is not None:
            there = self._gather(self.written, place)
            if count_nonzero(there) < there.size:
                unset = ~there if mask is None else ~there & mask
                if count_nonzero(unset):
                    report("reads memory that was never written", (unset, None))
        return self._gather(self.data, place)

    def store(self, place: Address, value: Value, mask: Value) -> None:
        """Write `value` at a place in the active lanes; of lanes that meet in one cell the last wins."""
        offset = place.offset
        if not isinstance(offset, np.ndarray) and self.copy is not None and self.copy.ndim == 4:
            row = self.data[offset]
            if value.ndim <= row.ndim:
                if mask is None:
                    row[...] = value
                else:
                    np.copyto(row, value, where=mask)
                if self.written is not None:
                    self.written[offset] |= True if mask is None else mask
                return
        if mask is None and self.copy is None and (value.ndim == 0 or value.shape == np.shape(offset)):
            self.flat[offset] = value
            if self.written is not None:
                self.written[offset] = True
            return
        cells, values = active_lanes(mask, place.cells, value)
        self.flat[cells] = values
        if self.written is not None:
            self.written.reshape(-1)[cells] = True

    def forget(self, mask: Value) -> None:
        """The elements in the copies of the active lanes count as unwritten."""
        if self.written is None:
            return
        if mask is None or self.copy is None:
            self.written[...] = False
            return
        lost = mask if self.copy.ndim == 4 else mask.any(axis=(0, 1, 2))
        self.written &= ~lost

    def store_checked(self, place: Address, value: Value, mask: Value, actors: Value, report: Report) -> None:
        """`store`, and report races with accesses of other threads."""
        shadow = self.shadow
        if shadow is None:
            return self.store(place, value, mask)
        where, who = place.rows(mask, actors)
        again: Value = None if self.written is None else ~self.written.reshape(-1).take(where)
        if (again is None or not count_nonzero(again)) and shadow.is_own(where, who):
            return self.store(place, value, mask)
        lanes = np.broadcast_shapes(np.shape(place.cells), actors.shape)
        values = active_lanes(mask, np.broadcast_to(value, np.broadcast_shapes(lanes, np.shape(mask))))[0]
        new = bits_of(np.ascontiguousarray(values, self.flat.dtype))
        changes = bits_of(self.flat.take(where)) != new
        if again is not None:
            # A device may reuse the memory of an allocation, so elements count as written only if their values change.
            changes |= again & (shadow.writer.take(where) == NONE)
            self.written.reshape(-1)[where] = True
        race = shadow.write(where, changes, who)
        self.flat[where] = values
        lost = bits_of(self.flat.take(where)) != new
        if race is None and count_nonzero(lost):
            race = race_at(lost, "several threads write different values in one statement", where, who)
        if race is not None:
            report(f"race: {race.text}", (_lanes_of(place, actors, mask, race), None))
        shadow.wrote(where, who)
        return None

    def check_read(self, place: Address, mask: Value, actors: Value, report: Report) -> None:
        """Report a race if another thread wrote the elements read, with no barrier in between."""
        if self.shadow is None:
            return
        where, who = place.rows(mask, actors)
        race = self.shadow.read(where, who)
        if race is not None:
            report(f"race: {race.text}", (_lanes_of(place, actors, mask, race), None))


def active_lanes(mask: Value, *values: Value) -> list[Value]:
    """The values of all lanes that are on, each as one row."""
    if mask is None:
        return [array.reshape(-1) for array in np.broadcast_arrays(*values)]
    on, *full = np.broadcast_arrays(mask, *values)
    return [array[on] for array in full]


def _lanes_of(place: Address, actors: Value, mask: Value, race: Race) -> Value:
    """The lanes that take part in a race, as a mask over the grid."""
    cells, actors = np.broadcast_arrays(place.cells, actors)
    found = (cells == race.cell) & (actors == race.actor)
    return found if mask is None else found & mask
