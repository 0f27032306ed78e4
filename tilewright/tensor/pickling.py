"""Pickling and deep copies of operations, which lead to all operations before them.

`pickle` and `copy.deepcopy` recurse from an operation to its operands, and Python's limit is near after a few dozen. So
chains are cut into spans of `SPAN` operations. An operation that reads one of an earlier span is a landing, and names
all landings below it, the deepest first. Each is then saved before anything recurses to it.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

SPAN = 8


class _Place(NamedTuple):
    """The depth of an operation: the longest chain that ends in it, and the nearest landings below it."""

    depth: int
    is_landing: bool
    nearest: tuple[Any, ...]


_PLACES: WeakKeyDictionary[Any, _Place] = WeakKeyDictionary()


def landings(op: Any) -> tuple[Any, ...]:
    """The operations to be saved before `op`, in order."""
    place = _place(op)
    if not place.is_landing:
        return ()
    found: dict[Any, int] = {}
    stack = [place]
    while stack:
        for below in stack.pop().nearest:
            if below not in found:
                at = _PLACES[below]
                found[below] = at.depth
                stack.append(at)
    return tuple(landing for landing, _ in sorted(found.items(), key=itemgetter(1)))


def blank(cls: type, landed: tuple[Any, ...]) -> Any:
    """An operation without its state, which follows."""
    return object.__new__(cls)


def _place(root: Any) -> _Place:
    stack = [root]
    while stack:
        op = stack[-1]
        if op in _PLACES:
            stack.pop()
            continue
        below = [tensor.op for tensor in op.input_tensors]
        missing = [other for other in below if other not in _PLACES]
        if missing:
            stack += missing
            continue
        places = [_PLACES[other] for other in below]
        depth = 1 + max([place.depth for place in places], default=-1)
        nearest: dict[Any, None] = {}
        for other, place in zip(below, places, strict=True):
            nearest.update(dict.fromkeys((other,) if place.is_landing else place.nearest))
        is_landing = any(0 < place.depth // SPAN < depth // SPAN for place in places)
        _PLACES[op] = _Place(depth, is_landing, tuple(nearest))
        stack.pop()
    return _PLACES[root]
