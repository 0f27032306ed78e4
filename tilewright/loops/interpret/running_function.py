"""The state of a running function: variables, parameters, memory, and the report of faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from ...core.hardware import MemoryScope
from ...core.node import Node
from ...expr import nodes as n
from ...expr.numerics import Value
from ..describe import describe
from ..nodes import Buffer, Function
from .copies import Flights
from .grid import Grid
from .memory import Address, BufferStorage, InterpretError, Report, View
from .races import Shadow
from .values import Expressions


class RunningFunction:
    """A running function: variables, memory, and the grid while a kernel runs."""

    def __init__(
        self,
        check: bool,
        races: bool,
        lanes: int,
        functions: Mapping[str, Callable[..., Any]] = MappingProxyType({}),
        unwritten: bool = True,
    ) -> None:
        self.functions = functions
        self.check = check
        self.races = races
        self.tracks = check and unwritten
        self.lanes = lanes
        self.env: dict[n.Var, Value] = {}
        self.storages: dict[Buffer, BufferStorage] = {}
        self.views: dict[Buffer, View] = {}
        self.at: Node | None = None
        self.grid: Grid | None = None
        self.axes = 0
        self.flights = Flights()
        self.expression = Expressions(self)
        self.indices: dict[n.Var, Value] = {}

    def define(self, var: n.Var, value: Value) -> None:
        """Give a variable its value, and forget results that depended on another."""
        self.env[var] = value
        for slot in self.expression.slots.get(var, ()):
            slot[0] = None

    def forget(self, var: n.Var) -> None:
        """The end of a variable's scope."""
        if self.env.pop(var, None) is not None:
            for slot in self.expression.slots.get(var, ()):
                slot[0] = None

    def define_index(self, var: n.Var, value: Value) -> None:
        """`define` for a hardware index, which mostly has the same value as before."""
        if self.indices.get(var) is not value:
            self.define(var, value)
            self.indices[var] = value
        self.env[var] = value

    # Parameters and memory.

    def bind(
        self, function: Function, args: Sequence[Any], unwritten: frozenset[Buffer]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Give the parameters their values; returns the arrays that must be copied back at the end."""
        if len(args) != len(function.params):
            raise InterpretError(f"{function.name} takes {len(function.params)} arguments, not {len(args)}")
        for param, arg in zip(function.params, args, strict=True):
            if isinstance(param, n.Var):
                self.env[param] = param.dtype.numpy.type(arg)
        back = []
        for param, arg in zip(function.params, args, strict=True):
            if isinstance(param, Buffer):
                flat = self._bind_array(param, arg, param in unwritten)
                if not np.shares_memory(flat, arg):
                    back.append((arg, flat))
        return back

    def _bind_array(self, buffer: Buffer, array: np.ndarray, unwritten: bool) -> np.ndarray:
        for size, given in zip(buffer.shape, array.shape, strict=False):
            if isinstance(size, n.Var) and size not in self.env:
                self.env[size] = size.dtype.numpy.type(given)
        extents = self.extents(buffer)
        if array.dtype != buffer.dtype.numpy or array.size != int(np.prod(extents, dtype=np.intp)):
            raise InterpretError(
                f"{buffer.name} is {buffer.dtype}{list(extents)}, but the argument is {array.dtype}{list(array.shape)}"
            )
        flat = np.ascontiguousarray(array).reshape(-1)
        data = flat if flat.size else np.zeros(1, flat.dtype)
        written = np.zeros(data.shape, np.bool_) if unwritten and self.tracks else None
        self.storages[buffer] = BufferStorage(data, buffer.dtype, written)
        return flat

    def extents(self, buffer: Buffer) -> tuple[int, ...]:
        """The buffer's shape in numbers. A row may be longer in some blocks: the longest has room for all."""
        if len(buffer.shape) == 1:
            return (int(np.max(self.expression(buffer.shape[0])(None))),)
        return tuple(int(self.scalar(size, f"the shape of {buffer.name}")) for size in buffer.shape)

    def scalar(self, e: n.Expr, what: str) -> Value:
        """The value of an expression that is the same for all lanes."""
        value = self.expression(e)(None)
        if isinstance(value, np.ndarray):
            if not (value == value.flat[0]).all():
                raise InterpretError(f"{what}, `{e}`, differs between threads")
            value = value.flat[0]
        return value

    def view(self, buffer: Buffer) -> View:
        """The buffer's shape over its storage."""
        found = self.views.get(buffer)
        if found is None:
            base = buffer.memory
            storage = self.storages.get(base)
            if storage is None:
                raise InterpretError(f"buffer {buffer.name} is used without allocated storage")
            if buffer.dtype != storage.dtype and buffer.byte_offset is None:
                raise InterpretError(f"{buffer.name} views {base.name} as {buffer.dtype}, but that is {storage.dtype}")
            found = self.views[buffer] = View(buffer, self.extents(buffer), storage)
        return found

    def _allocate(self, buffer: Buffer) -> BufferStorage:
        if buffer.dtype.lanes != 1:
            raise InterpretError(f"{buffer.name}: storage of vectors ({buffer.dtype}) is not interpreted")
        size = max(1, int(np.prod(self.extents(buffer), dtype=np.intp)))
        grid = self.grid
        copies: tuple[int, ...] = ()
        if grid is not None and buffer.scope is MemoryScope.SHARED:
            copies = grid.shape[3:]
            kept = grid.kept.get(buffer)
            if kept is not None and len(kept.data) == size:  # a device uses the same memory again
                if kept.written is not None:
                    kept.written[...] = False
                return kept
        elif grid is not None and buffer.scope is MemoryScope.LOCAL:
            copies = grid.shape
        storage = BufferStorage.fresh(buffer.dtype, size, copies, self.tracks)
        if grid is not None and self.races and buffer.scope is not MemoryScope.LOCAL:
            storage.shadow = Shadow(storage.flat.size)
            grid.kept[buffer] = storage
        return storage

    # Faults.

    def report_for(self, buffer: Buffer) -> Report | None:
        """How faults of accesses to `buffer` are raised; None if nothing is checked."""

        def report(text: str, lanes: Value) -> NoReturn:
            where, indices = lanes
            self.fail(f"{buffer.name}: {text}", where, indices)

        return report if self.check else None

    def fail(self, text: str, lanes: Value, indices: list[Value] | None = None) -> NoReturn:
        """Raise InterpretError for the first of `lanes`, with its coordinates and the statement."""
        shape = self.grid.shape if self.grid is not None else ()
        on = np.asarray(lanes)
        on = np.broadcast_to(on, np.broadcast_shapes(on.shape, shape))
        first = np.unravel_index(int(np.argmax(on)), on.shape) if on.ndim else ()

        def pick(value: Value) -> int:
            full = np.broadcast_to(value, np.broadcast_shapes(on.shape, np.shape(value)))
            return int(full[(0,) * (full.ndim - len(first)) + first])

        lines = [text]
        if indices is not None:
            lines.append(f"  index:     [{', '.join(str(pick(i)) for i in indices)}]")
        if self.grid is not None:
            lines.append(f"  thread:    {self.grid.coordinates(first[-4:])}")
        scalars = {v.name: v for v in self.env if not isinstance(self.env[v], np.ndarray)}
        if scalars:
            lines.append("  variables: " + ", ".join(f"{name} = {self.env[v]}" for name, v in scalars.items()))
        if self.at is not None:
            lines.append(f"  statement: {describe(self.at)}")
        raise InterpretError("\n".join(lines))

    def together(self, mask: Value, what: str = "values are exchanged") -> tuple[int, ...]:
        """The axes of the grid, for operations of all threads of a block together; a fault if some do not take part."""
        if self.grid is None:
            raise InterpretError(f"{what} outside any kernel")
        shape = self.grid.shape
        if mask is not None and self.check:
            on = np.broadcast_to(mask, shape)
            uneven = on.any(axis=(0, 1, 2)) & ~on.all(axis=(0, 1, 2))
            if uneven.any():
                self.fail(f"{what} that not all threads of the block reach; missing", ~on & uneven)
        return shape

    def check_read(self, place: Address, mask: Value, report: Report | None) -> None:
        """Report a race of this read."""
        if self.grid is not None and report is not None:
            place.storage.check_read(place, mask, self.grid.actors(place.view.buffer.scope), report)
