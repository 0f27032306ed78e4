"""Operands in every kind of memory: any order of dimensions, with gaps, offsets, expanded and reversed dimensions."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Arrangement:
    """How an array lies in memory.

    Attributes
    ----------
    order : tuple of int
        Its dimensions, outermost first.
    step : int, optional
        The dimension of which every second element of the memory is used.
    offset : int
        Elements in front of it.
    expanded : int, optional
        The dimension whose elements are one place in memory.
    reversed : int, optional
        The dimension with a negative stride.
    """

    order: tuple[int, ...]
    step: int | None = None
    offset: int = 0
    expanded: int | None = None
    reversed: int | None = None

    def __str__(self) -> str:
        parts = [] if self.order == tuple(range(len(self.order))) else [f"order {self.order}"]
        for name in ("step", "offset", "expanded", "reversed"):
            value = getattr(self, name)
            parts += [f"{name} {value}"] if value not in (None, 0) or (value == 0 and name != "offset") else []
        return ", ".join(parts)


class Arranged(NamedTuple):
    """An array, and the memory that it lies in."""

    view: Any
    memory: Any
    used: Any
    """Which elements of the memory are the array's."""


def draw_arrangement(rng: random.Random, dims: int, reverses: bool, expands: bool = True) -> Arrangement:
    """A third of them are contiguous, a third have the first but one dimension innermost, others have any order."""
    how = rng.random()
    order = list(range(dims))
    if how < 0.3 and dims > 2:
        order.append(order.pop(1 if dims > 2 and rng.random() < 0.6 else 0))
    elif how < 0.7:
        rng.shuffle(order)
    odd = rng.random()
    any_dim = rng.randrange(dims)
    if odd < 0.12:
        return Arrangement(tuple(order), step=any_dim)
    if odd < 0.24:
        return Arrangement(tuple(order), offset=rng.choice([1, 2, 3, 8]))
    if odd < 0.32 and expands:
        return Arrangement(tuple(order), expanded=any_dim)
    if odd < 0.45 and reverses:
        return Arrangement(tuple(order), reversed=any_dim)
    return Arrangement(tuple(order))


def arrange(array: Any, how: Arrangement) -> Arranged:
    """Copy an array of NumPy or PyTorch into memory of that arrangement, whose other elements are NaN.

    Of an expanded dimension, the first elements are copied.
    """
    sizes = [
        1 if dim == how.expanded else (2 if dim == how.step else 1) * array.shape[dim]
        for dim in range(len(array.shape))
    ]
    whole = how.offset + int(np.prod([sizes[dim] for dim in how.order])) + 3
    memory = _filled(array, whole, float("nan"))
    used = _filled(array, whole, 0.0)
    view, inside = (_viewed(flat, how, sizes, array.shape) for flat in (memory, used))
    if how.expanded is None or array.shape[how.expanded]:
        part = tuple(slice(0, 1) if dim == how.expanded else slice(None) for dim in range(len(array.shape)))
        view[part] = array[part]
        inside[part] = 1.0
    return Arranged(view, memory, used)


def _filled(like: Any, size: int, value: float) -> Any:
    return np.full(size, value, like.dtype) if isinstance(like, np.ndarray) else like.new_full((size,), value)


def _viewed(flat: Any, how: Arrangement, sizes: list[int], shape: Any) -> Any:
    end = how.offset + int(np.prod(sizes))
    dims = range(len(sizes))
    inverse = sorted(dims, key=how.order.__getitem__)
    view = flat[how.offset : end].reshape([sizes[dim] for dim in how.order])
    numpy = isinstance(flat, np.ndarray)
    view = view.transpose(inverse) if numpy else view.permute(inverse)
    steps = tuple(slice(None, None, 2 if dim == how.step else -1 if dim == how.reversed else 1) for dim in dims)
    view = view[steps]
    if how.expanded is None:
        return view
    return (
        np.lib.stride_tricks.as_strided(view, shape, [0 if dim == how.expanded else view.strides[dim] for dim in dims])
        if numpy
        else view.expand(tuple(shape))
    )


def intact(array: Arranged) -> bool:
    """Whether the memory around an array is as it was."""
    around = array.used == 0
    rest = array.memory[around]
    return bool((rest != rest).all())
