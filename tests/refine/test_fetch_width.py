"""How many elements a thread fetches at a time, for rings that asynchronous copies fill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import compiled
from tilewright import te, tir
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Copy

Stored = Callable[[Any, Any, Any], Any]


def copied(shape: tuple[int, int], dtype: str = "float32", padding: int = 0, **how: Any) -> tuple[set[int], Any]:
    """The sizes of the copies by which rows of a matrix go through shared memory, four at a time."""
    n, m = shape
    A, k = te.placeholder(shape, dtype, "A"), te.reduce_axis((0, n + 2 * how.get("rows", 0)), "k")
    P = A
    if padding or "rows" in how:
        above, left = how.get("rows", 0), padding
        P = te.compute(
            (n + 2 * above, m + 2 * left),
            lambda y, x: tir.if_then_else(
                tir.all(y >= above, y < n + above, x >= left, x < m + left), A[y - above, x - left], tir.const(0, dtype)
            ),
            "P",
        )
    width = int(P.shape[1])
    C = te.compute((width,), lambda i: te.sum(P[k, width - 1 - i].astype("float32"), axis=k), "C")
    s = te.create_schedule(C.op)
    if P is not A:
        s[P].compute_inline()
    tile = s.cache_read(P, "shared", [C])
    block, thread = s[C].split(C.op.axis[0], factor=how.get("block", 32))
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=4)
    s[tile].compute_at(s[C], outer)
    s[tile].pipeline(2)
    if "align" in how:
        s[tile].storage_align(tile.op.axis[0], *how["align"])
    function = compiled(s, [A, C])
    a = np.random.default_rng(0).integers(-3, 4, shape).astype(dtype)
    c = np.full(width, np.nan, "float32")
    interpret(function, [a, c], outputs=function.buffers[1:])
    np.testing.assert_array_equal(c, np.pad(a, ((0, 0), (padding, padding))).astype("float32").sum(axis=0)[::-1])
    assert tilewright.build(s, [A, C], "cuda").resources
    return {node.size for node in post_order(function.body) if isinstance(node, Copy)}, s


@pytest.mark.parametrize(
    ("shape", "dtype", "how", "expected"),
    [
        ((16, 64), "float32", {}, {16}),
        ((16, 64), "float16", {}, {16}),
        ((16, 64), "float64", {}, {16}),
        ((16, 64), "int8", {}, {16}),
        ((16, 62), "float32", {"block": 2}, {8}),
        ((16, 62), "float16", {"block": 2}, {4}),
        ((16, 63), "float32", {"block": 9}, {4}),
        ((16, 63), "float16", {"block": 9}, set()),  # single elements of two bytes
        ((15, 64), "float32", {}, {16}),  # rows that are not there are guarded whole
        ((16, 64), "float32", {"align": (8, 1)}, {4}),  # padded rows start anywhere
        ((16, 64), "float32", {"align": (64, 4)}, {16}),
        ((16, 64), "float16", {"align": (64, 4)}, {8}),
        ((16, 64), "float32", {"rows": 1}, {16}),  # whole vectors of zeros
        ((16, 62), "float32", {"padding": 1}, {4}),  # vectors that are zeros in part
    ],
)
def test_copies_are_as_wide_as_rows_are_aligned(
    shape: tuple[int, int], dtype: str, how: dict[str, Any], expected: set[int]
) -> None:
    assert copied(shape, dtype, **how)[0] == expected
