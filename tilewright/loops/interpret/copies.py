"""Copies on their way: issued, committed to a group, and arrived only when a thread awaits that group.

The destination of a copy holds no value in the meantime, so that a read without a sufficient wait is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.hardware import MemoryScope
from ...expr.numerics import Value
from .grid import Grid
from .memory import Address, Report, active_lanes, bits_of


class Flight:
    """One copy of the threads of the blocks that run: its destination, its data, and the threads that have not awaited
    it."""

    __slots__ = ("epochs", "groups", "lanes", "place", "report", "value")

    def __init__(self, grid: Grid, place: Address, value: Value, lanes: Value, report: Report | None) -> None:
        self.epochs = grid.epochs[MemoryScope.SHARED].copy()
        self.place = place
        self.value = value
        self.lanes = lanes
        self.report = report
        self.groups = np.zeros(lanes.shape[-1], np.int64)
        """The groups committed since the issue, per block; the first of them is the copy's own group."""


class Flights:
    """The copies of the blocks that run."""

    def __init__(self) -> None:
        self.under_way: list[Flight] = []

    def issue(self, grid: Grid, place: Address, value: Value, mask: Value, report: Report | None) -> None:
        """Start a copy; its destination holds no value from now on."""
        storage = place.storage
        dtype = storage.dtype
        poison: Any = 1 if dtype.is_bool else dtype.max_value - 2 if dtype.is_int else np.nan
        _store(grid, place, np.full((), poison, storage.flat.dtype)[()], mask, report)
        if storage.written is not None:
            (cells,) = active_lanes(mask, place.cells)
            storage.written.reshape(-1)[cells] = False
        lanes = np.broadcast_to(True if mask is None else mask, grid.shape).copy()
        self.under_way.append(Flight(grid, place, np.array(value), lanes, report))

    def commit(self, grid: Grid, mask: Value) -> None:
        """The copies of the active blocks since their last commit form a group."""
        active = _blocks(grid, mask)
        for flight in self.under_way:
            flight.groups += active

    def await_groups(self, grid: Grid, pending: int, mask: Value) -> None:
        """In the active blocks, all but the `pending` latest groups arrive."""
        active = _blocks(grid, mask)
        left = []
        for flight in self.under_way:
            done = flight.lanes & (active & (flight.groups > pending))
            if done.any():
                # If no barrier was passed meanwhile, its races were already checked at the start.
                early = done & (flight.epochs == grid.epochs[MemoryScope.SHARED])
                if early.any():
                    _arrive(flight, early)
                if (late := done & ~early).any():
                    _store(grid, flight.place, flight.value, late, flight.report)
                flight.lanes &= ~done
            if flight.lanes.any():
                left.append(flight)
        self.under_way = left


def _blocks(grid: Grid, mask: Value) -> Value:
    """The blocks with an active thread."""
    if mask is None:
        return np.ones(grid.shape[-1], np.bool_)
    return np.broadcast_to(mask, grid.shape).any(axis=(0, 1, 2))


def _arrive(flight: Flight, mask: Value) -> None:
    """The copied data have arrived; several threads may have copied the same."""
    storage, place = flight.place.storage, flight.place
    storage.store(place, flight.value, mask)
    if flight.report is None or storage.shadow is None:
        return
    cells, values = active_lanes(mask, place.cells, flight.value)
    lost = bits_of(storage.flat.take(cells)) != bits_of(np.ascontiguousarray(values, storage.flat.dtype))
    if lost.any():
        flight.report("race: several threads copy different values to one element", (mask, None))


def _store(grid: Grid, place: Address, value: Value, mask: Value, report: Report | None) -> None:
    if place.storage.shadow is None or report is None:
        place.storage.store(place, value, mask)
    else:
        place.storage.store_checked(place, value, mask, grid.actors(MemoryScope.SHARED), report)
