"""Calls of functions that the program does not define: Python functions replace them, with a call per thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...expr import nodes as n
from ...expr.effects import ATOMICS, PACKED, PREFETCH
from ...expr.numerics import INTRINSICS, Value
from ..calls import ARRAY, FOREIGN, called_function
from ..storage import AddressOf
from .memory import Address, InterpretError

Get = Callable[[Value], Value]
OUTSIDE = frozenset((*FOREIGN, *ATOMICS, PACKED, PREFETCH))
"""The calls that this file makes."""

_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "atomic_add": lambda old, new: old + new,
    "atomic_sub": lambda old, new: old - new,
    "atomic_min": np.minimum,
    "atomic_max": np.maximum,
    "atomic_and": lambda old, new: old & new,
    "atomic_or": lambda old, new: old | new,
    "atomic_xor": lambda old, new: old ^ new,
    "atomic_exchange": lambda old, new: new,
}


def call(expressions: Any, e: n.Call) -> Get:
    """The function that returns a call's value, given the activity mask."""
    if e.name == PREFETCH:
        return lambda mask: 0
    named = e.name not in _UPDATES
    compute = _function(expressions.machine.functions, e) if named else _UPDATES[e.name]
    args = e.args[1:] if named else e.args
    make = [_argument(expressions, arg) for arg in args]
    machine, kind = expressions.machine, e.dtype.numpy.type

    def one(givens: list[Any]) -> Any:
        if e.name in ATOMICS:
            pointer, value = givens
            old = pointer[0]
            pointer[0] = compute(old, value)
            return old
        value = compute(*givens)
        return kind(0 if value is None else value)

    def run(mask: Value) -> Value:
        parts = [get(mask) for get in make]
        if machine.grid is None:
            return one([pick(()) for pick in parts])
        shape = machine.grid.shape
        on = np.broadcast_to(True if mask is None else mask, shape)
        found = np.zeros(shape, e.dtype.numpy)
        for lane in zip(*np.nonzero(on), strict=True):
            found[lane] = one([pick(lane) for pick in parts])
        return found

    return run


def _function(known: Any, e: n.Call) -> Callable[..., Any]:
    """The implementation of a function: the caller's, or the mathematical function of the C library."""
    name = called_function(e)
    for wish in (name, name.removesuffix("f")):
        found = known.get(name) or (INTRINSICS.get(wish) if e.name in FOREIGN else None)
        if found is not None:
            made: Callable[..., Any] = found
            return made
    raise InterpretError(f"the interpreter has no definition of the function {name}: functions={{{name!r}: ...}}")


Pick = Callable[[tuple[Any, ...]], Any]  # the argument of one thread


def _argument(expressions: Any, arg: n.Expr) -> Callable[[Value], Pick]:
    if isinstance(arg, n.StringImm):
        text = arg.value
        return lambda mask: lambda lane: text
    if isinstance(arg, AddressOf):
        return _pointer(expressions, arg)
    if isinstance(arg, n.Call) and arg.name == ARRAY:
        return _array(expressions, arg)
    value = expressions.get(arg)

    def get(mask: Value) -> Pick:
        found = value(mask)
        return lambda lane: _of_lane(found, lane)

    return get


def _of_lane(value: Value, lane: tuple[Any, ...]) -> Any:
    """The value of one lane; axes of the array may be missing or have length 1."""
    if not isinstance(value, np.ndarray):
        return value
    own = lane[len(lane) - value.ndim :]
    return value[tuple(i if extent != 1 else 0 for i, extent in zip(own, value.shape, strict=True))]


def _pointer(expressions: Any, arg: AddressOf) -> Callable[[Value], Pick]:
    """The memory from an element on, as an array of the elements that follow."""
    place = arg.place
    assert isinstance(place, n.Load)
    locate, size = expressions.place(arg.buffer, place.indices), expressions.get(arg.extent)

    def get(mask: Value) -> Pick:
        at: Address = locate(mask)
        cells, extent, storage = at.cells, size(mask), at.storage

        def pick(lane: tuple[Any, ...]) -> Any:
            first = int(_of_lane(cells, lane))
            step = 1 if storage.copy is None else storage.count
            if arg.writes and storage.written is not None:
                last = first + int(_of_lane(extent, lane)) * step
                storage.written.reshape(-1)[first:last:step] = True
            return storage.flat[first::step]

        return pick

    return get


def _array(expressions: Any, arg: n.Call) -> Callable[[Value], Pick]:
    """A buffer as an array of the same shape and memory."""
    address, count, *rest = arg.args
    assert isinstance(address, AddressOf)
    assert isinstance(count, n.IntImm)
    pointer, numbers = _pointer(expressions, address), [expressions.get(e) for e in rest]

    def get(mask: Value) -> Pick:
        pick, sizes = pointer(mask), [int(number(mask)) for number in numbers]
        shape, strides = sizes[: count.value], sizes[count.value :]

        def made(lane: tuple[Any, ...]) -> Any:
            flat = pick(lane)
            if not strides:
                return flat[: int(np.prod(shape, dtype=np.intp))].reshape(shape)
            steps = [step * flat.strides[0] for step in strides]
            return np.lib.stride_tricks.as_strided(flat, shape, steps)

        return made

    return get
