"""Random products and convolutions whose operands go through rings in shared memory, and from there perhaps through
rings in registers: sizes that tiles do not divide, fills cut in any way, padding, rings of different depths.

A program is drawn by its seed, and the numbers are small and whole, so that sums are exact in any order.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import te, tir

TYPES = ("float32", "float32", "float16", "float64", "int8")


@dataclass(frozen=True)
class Pipeline:
    """A schedule with its tensors, inputs for it, and what it computes."""

    schedule: Any
    tensors: list[Any]
    inputs: list[np.ndarray]
    expected: np.ndarray


def draw(seed: int) -> Pipeline:
    """The program of a seed."""
    r = random.Random(seed)
    return _product(r) if r.random() < 0.6 else _convolution(r)


def _numbers(r: random.Random, tensor: Any) -> np.ndarray:
    shape = [int(extent) for extent in tensor.shape]
    return np.random.default_rng(r.randrange(1 << 30)).integers(-3, 4, shape).astype(tensor.dtype)


def _sums(dtype: str) -> str:
    return "int32" if dtype == "int8" else "float64" if dtype == "float64" else "float32"


def _product(r: random.Random) -> Pipeline:
    """C = Aᵀ·B or A·B."""
    dtype, turned = r.choice(TYPES), r.random() < 0.5
    n, m, k = (r.choice([16, 24, 32, 30, 17]) for _ in range(3))
    A = te.placeholder((k, n) if turned else (n, k), dtype, "A")
    B = te.placeholder((k, m), dtype, "B")
    x, sums = te.reduce_axis((0, k), "x"), _sums(dtype)
    C = te.compute(
        (n, m),
        lambda i, j: te.sum((A[x, i] if turned else A[i, x]).astype(sums) * B[x, j].astype(sums), axis=x),
        "C",
    )
    s = te.create_schedule(C.op)
    a, b = _numbers(r, A), _numbers(r, B)
    left = a.T if turned else a
    _schedule(r, s, C, [A, B])
    return Pipeline(s, [A, B, C], [a, b], left.astype(sums) @ b.astype(sums))


def _convolution(r: random.Random) -> Pipeline:
    """Rows of an image with zeros around it, channels last: D[y, f] = sum of P[y + w, c] * K[w, c, f]."""
    dtype = r.choice(TYPES)
    height, channels, filters, width = r.choice([12, 13, 16]), r.choice([8, 16, 6]), r.choice([16, 8, 12]), 3
    A = te.placeholder((height, channels), dtype, "A")
    K = te.placeholder((width, channels, filters), dtype, "K")
    P = te.compute(
        (height + 2, channels),
        lambda y, c: tir.if_then_else(tir.all(y >= 1, y <= height), A[y - 1, c], tir.const(0, dtype)),
        "P",
    )
    w, c, sums = te.reduce_axis((0, width), "w"), te.reduce_axis((0, channels), "c"), _sums(dtype)
    D = te.compute(
        (height, filters),
        lambda y, f: te.sum(P[y + w, c].astype(sums) * K[w, c, f].astype(sums), axis=[w, c]),
        "D",
    )
    s = te.create_schedule(D.op)
    a, k = _numbers(r, A), _numbers(r, K)
    s[P].compute_inline()
    _schedule(r, s, D, [P, K])
    wide = np.pad(a, ((1, 1), (0, 0))).astype(sums)
    expected = sum(wide[i : i + height] @ k[i].astype(sums) for i in range(width))
    return Pipeline(s, [A, K, D], [a, k], np.asarray(expected))


def _schedule(r: random.Random, s: Any, out: Any, operands: list[Any]) -> None:
    total = s.cache_write(out, "local")
    shared = [s.cache_read(tensor, "shared", [total]) for tensor in operands]
    near = [s.cache_read(tensor, "local", [total]) if r.random() < 0.4 else None for tensor in shared]
    threads = [r.choice([4, 8]), r.choice([4, 8])]
    tags = ["threadIdx.y", "threadIdx.x"]
    blocks, inner = [], []
    for axis, count, tag in zip(s[out].op.axis, threads, tags, strict=True):
        block, rest = s[out].split(axis, factor=count * r.choice([1, 2]))
        thread, each = s[out].split(rest, nparts=count)
        s[out].bind(block, te.thread_axis(tag.replace("thread", "block")))
        s[out].bind(thread, te.thread_axis((0, count), tag))
        blocks += [block, thread]
        inner.append(each)
    s[out].reorder(blocks[0], blocks[2], blocks[1], blocks[3], *inner)
    s[total].compute_at(s[out], blocks[3])
    outer, within = [], []
    for axis in s[total].op.reduce_axis:
        if r.random() < 0.8:
            first, second = s[total].split(axis, factor=r.choice([2, 4, 8]))
            outer.append(first)
            within.append(second)
        else:
            outer.append(axis)
    s[total].reorder(*outer, *within, *s[total].op.axis)
    for axis in (*within, *s[total].op.axis):
        if r.random() < 0.2:
            s[total].unroll(axis)
    at = outer[-1] if r.random() < 0.85 else outer[0]
    depths = [r.choice([2, 3, 4, 5])] * 2 if r.random() < 0.6 else [r.choice([1, 2, 3, 4]) for _ in operands]
    for stage, depth in zip(shared, depths, strict=True):
        s[stage].compute_at(s[total], at)
        s[stage].pipeline(depth)
        _fill(r, s, stage, dict(zip(tags, threads, strict=True)))
    for stage in near:
        if stage is not None:
            s[stage].compute_at(s[total], r.choice(within or [at]))
            s[stage].pipeline(r.choice([1, 2, 3]))


def _fill(r: random.Random, s: Any, stage: Any, threads: dict[str, int]) -> None:
    """Leave the fill to the compiler, or cut it among some of the threads, in vectors perhaps."""
    if r.random() < 0.3:
        s[stage].storage_align(stage.op.axis[0], r.choice([8, 16, 32]), r.choice([0, 1, 4, 8]))
    if r.random() < 0.5:
        return
    rest, lane = s[stage].fuse(*stage.op.axis), None
    if r.random() < 0.6:
        rest, lane = s[stage].split(rest, factor=r.choice([2, 4, 8]))
        s[stage].vectorize(lane)
    for tag, count in threads.items():
        if r.random() < 0.8:
            first, second = s[stage].split(rest, nparts=count)
            s[stage].bind(first, te.thread_axis((0, count), tag))
            rest = second
