"""Products by instructions of a warpgroup: schedules of C = A B', whose factors have their terms as last dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import intrin, te
from tilewright.core.atoms import WARPGROUP_ATOMS
from tilewright.core.dtype import DType

LINE = 128
"""Bytes of a row of a tile in shared memory."""


@dataclass(frozen=True)
class Groups:
    """How many warpgroups a block has below each other, their columns, and slices in flight."""

    groups: int = 1
    columns: int = 64
    stages: int = 3


USUAL = Groups()


def product(m: int, n: int, k: int, atom: str = "wgmma_float16", by: Groups = USUAL) -> tuple[te.Schedule, list[Any]]:
    """The schedule of a product, and its arguments."""
    found = WARPGROUP_ATOMS[atom]
    dtype, sums = found.operands, found.accumulator
    terms = LINE // DType(dtype).bytes
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((n, k), dtype, name="B")
    x = te.reduce_axis((0, k), "x")
    D = te.compute((m, n), lambda i, j: te.sum(A[i, x].astype(sums) * B[j, x].astype(sums), axis=x), name="D")
    C = te.compute((m, n), lambda i, j: te.max(D[i, j], te.const(-(2**30) if sums == "int32" else -1000, sums)), "C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block_i, block_j, i, j = s[C].tile(*C.op.axis, 64 * by.groups, by.columns)
    group, i = s[C].split(i, 64)
    warp, i = s[C].split(i, 16)
    s[C].reorder(block_i, block_j, group, warp, i, j)
    tags = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")
    for axis, tag in zip((block_i, block_j, group, warp), tags, strict=True):
        s[C].bind(axis, te.thread_axis(tag))
    s[D].compute_at(s[C], warp)
    outer, inner = s[D].split(x, terms)
    s[D].reorder(outer, *D.op.axis, inner)
    for tile in tiles:
        s[tile].compute_at(s[D], outer)
        _, vector = s[tile].split(s[tile].fuse(*tile.op.axis), 16 // DType(dtype).bytes)
        s[tile].vectorize(vector)
        if by.stages > 1:
            s[tile].pipeline(by.stages)
    s[D].tensorize(D.op.axis[0], atom_of(atom))
    return s, [A, B, C]


def atom_of(name: str) -> Any:
    """The atom as users ask for it."""
    _, operands, *sums = name.split("_")
    return intrin.wgmma(operands, *sums)


def inputs(args: list[Any]) -> list[np.ndarray]:
    """Random operands."""
    rng = np.random.default_rng(0)
    found = []
    for tensor in args[:2]:
        shape, kind = [int(extent) for extent in tensor.shape], DType(tensor.dtype)
        if kind.is_float:
            found.append(rng.uniform(-1, 1, shape).astype(kind.numpy))
        else:
            found.append(rng.integers(0 if kind == "uint8" else -128, 128, shape).astype(kind.numpy))
    return found
