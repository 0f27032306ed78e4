"""Typed views of memory that is an arena of bytes: values are stored byte by byte, and reassembled when read."""

from __future__ import annotations

import numpy as np

from ...core.dtype import DType
from ...expr.numerics import Value
from .memory import Address


def byte_places(place: Address) -> list[Address]:
    """The places of the bytes of an element of a view."""
    buffer = place.view.buffer
    first = place.offset * buffer.dtype.bytes + (buffer.byte_offset or 0)
    return [Address(place.view, first + i) for i in range(buffer.dtype.bytes)]


def byte_stores(place: Address, value: Value) -> list[tuple[Address, Value]]:
    """The places of the bytes of an element, and their values."""
    array = np.asarray(value, place.view.buffer.dtype.numpy)
    split = np.ascontiguousarray(array).reshape((*array.shape, 1)).view(np.uint8)
    return [(at, split[..., i]) for i, at in enumerate(byte_places(place))]


def value_of_bytes(parts: list[Value], dtype: DType) -> Value:
    """Return the value of an element from its loaded bytes."""
    joined = np.stack(np.broadcast_arrays(*parts), axis=-1)
    return joined.view(dtype.numpy)[..., 0]
