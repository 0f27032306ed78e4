"""Every way in which a tensor's values may lie in memory: orders, steps, gaps, an offset, dimensions of stride 0.

Gaps hold NaN, so a kernel that reads the wrong memory shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple


class Memory(NamedTuple):
    """A way to store a tensor: `place` returns a tensor of the same shape and values that lies in memory that way.

    An `expanded` tensor repeats its first value along a dimension, so its values differ from those of the original.
    """

    name: str
    place: Callable[[Any], Any]
    expanded: bool = False


PLAIN = Memory("as it is", lambda a: a)


def memories(rank: int) -> list[Memory]:
    """Return every way to store a tensor of PyTorch that has `rank` dimensions."""
    orders = [Memory("order " + "".join(map(str, p)), partial(_ordered, order=p)) for p in permutations(range(rank))]
    steps = [Memory(f"step 2 in {d}", partial(_stepped, dimension=d)) for d in range(rank)]
    gaps = [Memory(f"gap after {d}", partial(_with_gap, dimension=d)) for d in range(rank)]
    expanded = [Memory(f"expanded in {d}", partial(_expanded, dimension=d), expanded=True) for d in range(rank)]
    return [*orders, *steps, *gaps, Memory("offset", _offset), *expanded]


def reversals(rank: int) -> list[Memory]:
    """Return the ways to store an array of NumPy or CuPy with negative strides."""
    each = [(d,) for d in range(rank)]
    return [Memory(f"reversed in {d}", partial(_reversed, dimensions=d)) for d in [*each, tuple(range(rank))]]


def _ordered(a: Any, order: tuple[int, ...]) -> Any:
    """Store the dimensions from the slowest, `order[0]`, to the fastest."""
    back = sorted(range(len(order)), key=order.__getitem__)
    return a.new_empty([a.shape[d] for d in order]).permute(back).copy_(a)


def _stepped(a: Any, dimension: int) -> Any:
    shape = list(a.shape)
    shape[dimension] *= 2
    return _poisoned(a, shape)[(slice(None),) * dimension + (slice(None, None, 2),)].copy_(a)


def _with_gap(a: Any, dimension: int) -> Any:
    shape = list(a.shape)
    shape[dimension] += 3
    return _poisoned(a, shape).narrow(dimension, 1, a.shape[dimension]).copy_(a)


def _offset(a: Any) -> Any:
    return _poisoned(a, [a.numel() + 1])[1:].view(a.shape).copy_(a)


def _expanded(a: Any, dimension: int) -> Any:
    return a.narrow(dimension, 0, min(1, a.shape[dimension])).clone().expand(a.shape)


def _reversed(a: Any, dimensions: tuple[int, ...]) -> Any:
    backwards = tuple(slice(None, None, -1 if d in dimensions else 1) for d in range(a.ndim))
    return a[backwards].copy()[backwards]


def _poisoned(a: Any, shape: list[int]) -> Any:
    return a.new_full(shape, float("nan"))
