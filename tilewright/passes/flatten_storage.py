"""flatten_storage: storage flattening. Multi-dimensional buffers become one-dimensional, as their layouts say.

Each keeps its `Allocate`, which `hoist_allocations.py` moves.
"""

from __future__ import annotations

import math

from ..arith.simplify import simplify
from ..core.hardware import SWIZZLE_LINE
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm, Ramp
from ..expr.operators import add, const, floordiv, multiply
from ..loops.buffers import with_accesses
from ..loops.layout import StorageLayout
from ..loops.nodes import Buffer, Function


def flatten_storage(function: Function, target: Target, options: Options) -> Function:
    """Give every access one index, into a flat buffer.

    A parameter or a view of one dimension stays as it is; one of another rank is accessed through a flat view.
    Allocated buffers become flat themselves, aligned for accesses of up to their own size. An element that is a vector
    becomes several scalars, and its access a vector access.
    """
    flat: dict[Buffer, Buffer] = {}
    params = set(function.buffers)

    def view(buffer: Buffer) -> Buffer:
        made = flat.get(buffer)
        if made is None:
            is_param = buffer in params
            stays = _is_flat(buffer) and (is_param or buffer.alias_of is not None)
            made = flat[buffer] = buffer if stays else _flat(buffer, is_param)
        return made

    return function.with_body(with_accesses(function.body, view, _index))


_OWN_SIZE = 64
"""Bytes up to which a buffer is aligned to its own size; larger alignments demanded by instructions stay."""


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and buffer.layout.given is None and buffer.dtype.lanes == 1


def _flat(buffer: Buffer, is_param: bool) -> Buffer:
    size = buffer.layout.size(buffer.shape)
    if buffer.layout.swizzle:  # pieces are exchanged within whole lines of all banks
        line = SWIZZLE_LINE // buffer.dtype.bytes
        size = simplify(multiply(floordiv(add(size, line - 1), line), line))
    align = buffer.align
    if not is_param and isinstance(size, IntImm) and align <= _OWN_SIZE:
        bytes_held = max(1, size.value * buffer.dtype.bytes)
        align = min(_OWN_SIZE, 1 << int(math.log2(bytes_held)))
    alias = buffer if is_param else None
    kept = StorageLayout(swizzle=buffer.layout.swizzle)
    kind, size = buffer.dtype.scalar, multiply(size, buffer.dtype.lanes)
    return buffer.changed(dtype=kind, shape=(size,), align=align, alias_of=alias, layout=kept)


def _index(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if _is_flat(buffer):
        return indices
    offset, lanes = buffer.layout.offset(buffer.shape, indices), buffer.dtype.lanes
    return (offset if lanes == 1 else Ramp(multiply(offset, lanes), const(1, offset.dtype), lanes),)
