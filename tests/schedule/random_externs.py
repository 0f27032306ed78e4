"""Statements for `te.extern` in random programs, and what each of them means in NumPy.

A statement sees its buffers as rows of elements in row-major order. `BOUNDS` tells how many times as large its results
may be as its input, whose number of elements is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewright import te, tir


def _count(buffer: Any) -> int:
    return math.prod(int(extent) for extent in buffer.shape)


def branches(ins: Any, outs: Any) -> Any:
    """Twice the elements at even places, the others as they are."""
    ib = tir.ir_builder.create()
    source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    with ib.for_range(0, _count(ins[0]), "e") as e:
        with ib.if_scope((e % 2).equal(0)):
            out[e] = source[e] * 2
        with ib.else_scope():
            out[e] = source[e]
    return ib.get()


def running(ins: Any, outs: Any) -> Any:
    """Sums of all elements so far, in a variable."""
    ib = tir.ir_builder.create()
    source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    total = ib.allocate(str(ins[0].dtype), (1,), "total", scope="local")
    total[0] = te.const(0, str(ins[0].dtype))
    with ib.for_range(0, _count(ins[0]), "e") as e:
        total[0] = total[0] + source[e]
        out[e] = total[0]
    return ib.get()


def mirrored(ins: Any, outs: Any) -> Any:
    """The elements in reverse order, in a loop that is written out."""
    ib = tir.ir_builder.create()
    source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    count = _count(ins[0])
    with ib.for_range(0, count, "e", kind="unroll" if count <= 16 else "serial") as e:
        out[e] = source[count - 1 - e]
    return ib.get()


def both(ins: Any, outs: Any) -> Any:
    """The elements, and their negatives."""
    ib = tir.ir_builder.create()
    source, same, other = ib.buffer_ptr(ins[0]), *map(ib.buffer_ptr, outs)
    with ib.for_range(0, _count(ins[0]), "e") as e:
        same[e] = source[e]
        other[e] = 0 - source[e]
    return ib.get()


def threads(ins: Any, outs: Any) -> Any:
    """The elements in reverse order within each block of 4 threads, by way of shared memory."""
    ib = tir.ir_builder.create()
    source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    count = _count(ins[0])
    bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    ib.scope_attr(bx, "thread_extent", -(-count // 4))
    ib.scope_attr(tx, "thread_extent", 4)
    shared = ib.allocate(str(ins[0].dtype), (4,), "shared", scope="shared")
    with ib.if_scope(bx.var * 4 + tx.var < count):
        shared[tx.var] = source[bx.var * 4 + tx.var]
    ib.barrier()
    with ib.if_scope(bx.var * 4 + tx.var < count):
        last = tir.Select(bx.var * 4 + 3 < count, 3, count - 1 - bx.var * 4)
        out[bx.var * 4 + tx.var] = shared[last - tx.var]
    return ib.get()


def _blocks_mirrored(x: np.ndarray) -> np.ndarray:
    flat = x.ravel()
    return np.concatenate([flat[i : i + 4][::-1] for i in range(0, flat.size, 4)] or [flat]).reshape(x.shape)


MEANINGS: dict[str, Callable[[np.ndarray], tuple[np.ndarray, ...]]] = {
    "branches": lambda x: ((x.ravel() * np.where(np.arange(x.size) % 2, 1, 2)).reshape(x.shape),),
    "running": lambda x: (np.cumsum(x.ravel()).reshape(x.shape),),
    "mirrored": lambda x: (x.ravel()[::-1].reshape(x.shape),),
    "both": lambda x: (x, 0 - x),
    "threads": lambda x: (_blocks_mirrored(x),),
}
BOUNDS: dict[str, Callable[[int], int]] = {
    "branches": lambda count: 2,
    "running": lambda count: count,
    "mirrored": lambda count: 1,
    "both": lambda count: 1,
    "threads": lambda count: 1,
}
