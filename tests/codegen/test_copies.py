"""How asynchronous copies are written: predicates for guards, shared addresses, and their place beside a product."""

from __future__ import annotations

import re
from typing import Any

import tilewright
from benchmarks.matmul import Tiling, product
from tests.passes.test_place_awaits import sums
from tilewright import te


def source(s: Any, args: list[Any]) -> str:
    return tilewright.build(s, args, "cuda -arch=sm_90").imported_modules[0].get_source()


def test_guards_around_copies_are_predicates() -> None:
    text = source(*sums(3))
    assert "const bool runs = k_outer < 6;" in text
    assert "copy_16_where(runs, " in text
    assert "if (" not in text


def test_guards_of_copies_from_where_memory_says_stay_branches() -> None:
    """The table must not be read where the guard does not hold."""
    A, T = te.placeholder((64, 16), name="A"), te.placeholder((30,), "int32", "T")
    k = te.reduce_axis((0, 30), "k")
    G = te.compute((30, 16), lambda y, x: A[T[y], x], "G")
    C = te.compute((16,), lambda i: te.sum(G[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    s[G].set_scope("shared")
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=8)
    s[G].compute_at(s[C], outer)
    s[G].bind(G.op.axis[1], tx)
    s[G].pipeline(2)
    text = source(s, [A, T, C])
    assert "copy_16(" in text
    assert "_where(" not in text


def test_copies_are_issued_behind_the_first_loads_of_a_product() -> None:
    s, args = product(256, 256, 256, "float16", Tiling((128, 128), (64, 64), 32, 3))
    text = source(s, args)
    loop = text[text.index("for (int k_outer") :]
    order = [
        loop.index(what) for what in ("wait_group", "__syncthreads", "ldmatrix_x4(", "copy_16_where", "mma_float16(")
    ]
    assert order == sorted(order)
    assert loop.index("copy_16_where") < loop.index("commit_group") < loop.index("mma_float16(")
    # Rounds share their addresses: the distances are part of the instructions.
    assert re.search(r"copy_16_where<\d+, \d+>\(runs, copy_to_\d+, copy_from_\d+\);", loop)
