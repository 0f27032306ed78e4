"""flatten_storage: multi-dimensional buffers become one-dimensional ones, row-major."""

from __future__ import annotations

import math
from typing import Any

from ..expr.nodes import Expr, IntImm, Load
from ..expr.operators import add, const, multiply
from ..loops.nodes import Allocate, Buffer, Function, Store


def flatten_storage(function: Function) -> Function:
    """Every access gets one index, into a flat buffer.

    A parameter of one dimension stays as it is; one of another rank is accessed through a flat view.
    Allocated buffers become flat themselves, aligned for accesses of up to their own size.
    """
    flat: dict[Buffer, Buffer] = {}
    params = set(function.buffers)
    memo: dict[Any, Any] = {}

    def view(buffer: Buffer) -> Buffer:
        made = flat.get(buffer)
        if made is None:
            made = flat[buffer] = (
                buffer if len(buffer.shape) == 1 and buffer in params else _flat(buffer, buffer in params)
            )
        return made

    def visit(node: Any) -> Any:
        done = memo.get(node)
        if done is None:
            done = node.map_children(visit)
            if isinstance(done, Load) and isinstance(done.source, Buffer):
                done = Load(view(done.source), _index(done.source, done.indices))
            elif isinstance(done, Store):
                done = Store(view(done.buffer), _index(done.buffer, done.indices), done.value)
            elif isinstance(done, Allocate):
                done = Allocate(view(done.buffer), done.body)
            memo[node] = done
        return done

    return function.with_body(visit(function.body))


def _flat(buffer: Buffer, is_param: bool) -> Buffer:
    size = const(1, "int32")
    for extent in buffer.shape:
        size = multiply(size, extent)
    align = buffer.align
    if not is_param and isinstance(size, IntImm):
        bytes_held = max(1, size.value * buffer.dtype.bytes)
        align = min(64, 1 << int(math.log2(bytes_held)))
    alias = buffer if is_param else None
    return Buffer(buffer.name, buffer.dtype, (size,), buffer.scope, align, alias, buffer.note)


def _index(buffer: Buffer, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
    if len(indices) == 1:
        return indices
    flat: Expr = const(0, indices[0].dtype if indices else "int32")
    for extent, index in zip(buffer.shape, indices, strict=True):
        flat = add(multiply(flat, extent), index)
    return (flat,)
