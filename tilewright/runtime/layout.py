"""The positions of an array's elements in memory: strides, and marks that distinguish layouts by one comparison."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from ..core.forking import new_lock

if TYPE_CHECKING:
    from ..core.dtype import DType
    from .argument_checks import Shape
    from .device import Device


class _Mark:
    """A marker that is compared by identity."""

    __slots__ = ("__weakref__",)


_marks: WeakValueDictionary[tuple[Any, ...], _Mark] = WeakValueDictionary()  # kept by the arrays and functions
_making = new_lock()
APART = _Mark()
"""The layout and kind of arrays that are not contiguous."""


def layout_of(on: Device, dtype: DType, shape: Shape) -> object:
    """Return the mark of a device, a type and a shape: arrays that a call may take have the same mark."""
    return _mark((on, dtype, shape))


def kind_of(on: Device, dtype: DType, dimensions: int) -> object:
    """Return the mark of a device, a type and a number of dimensions."""
    return _mark((on, dtype, dimensions))


def _mark(key: tuple[Any, ...]) -> _Mark:
    with _making:
        found = _marks.get(key)
        if found is None:
            found = _marks[key] = _Mark()
        return found


def packed(shape: Shape) -> Shape:
    """The strides of a row-major array."""
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def reach(shape: Shape, strides: Shape | None) -> int:
    """Elements from the first to the end of the last one."""
    if strides is None or 0 in shape:
        return math.prod(shape)
    return 1 + sum((extent - 1) * step for extent, step in zip(shape, strides, strict=True))


def in_one_row(shape: Shape, strides: Shape) -> bool:
    """Whether the elements follow each other: the stride of a dimension of one element does not matter."""
    pairs = zip(shape, strides, packed(shape), strict=True)
    return 0 in shape or all(extent == 1 or step == want for extent, step, want in pairs)
