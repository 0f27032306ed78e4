"""Threads combine by shuffles within warps, through shared memory between warps, else in a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.kernels import copy, kernel, tx
from tests.passes.running import compiled, run_pass
from tilewright import te
from tilewright.core.hardware import MemoryScope
from tilewright.expr.nodes import Call
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, AllReduce, Barrier, Function
from tilewright.passes.lower_thread_reduce import lower_thread_reduce


def sums(threads: int, rows: int = 1, terms: int = 3) -> tuple[Any, list[Any]]:
    """Sums of rows, each shared by `threads` threads along x, `rows` of them in a block."""
    A = te.placeholder((2 * rows, threads * terms), name="A")
    k = te.reduce_axis((0, threads * terms), name="k")
    B = te.compute((2 * rows,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    block, row = s[B].split(B.op.axis[0], factor=rows)
    _, part = s[B].split(B.op.reduce_axis[0], factor=threads)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(row, te.thread_axis("threadIdx.y"))
    s[B].bind(part, te.thread_axis("threadIdx.x"))
    return s, [A, B]


def counts(function: Function) -> tuple[int, int, int]:
    """Shuffles, arrays in shared memory, and barriers."""
    nodes = list(post_order(function.body))
    shuffles = sum(isinstance(n, Call) and n.name in ("shuffle", "shuffle_down") for n in nodes)
    arrays = sum(isinstance(n, Allocate) and n.buffer.scope is MemoryScope.SHARED for n in nodes)
    assert not any(isinstance(n, AllReduce) for n in nodes)
    return shuffles, arrays, sum(isinstance(n, Barrier) for n in nodes)


@pytest.mark.parametrize(
    ("threads", "rows", "expected"),
    [
        (1, 4, (0, 0, 0)),  # nothing to combine
        (2, 4, (2, 0, 0)),  # one step down, and the result back
        (16, 2, (5, 0, 0)),
        (32, 1, (6, 0, 0)),
        (64, 1, (6 + 2, 1, 1)),  # two warps: a value of each in shared memory
        (128, 2, (6 + 3, 1, 1)),
    ],
)
def test_groups_of_whole_warps_or_of_neighbours_shuffle(
    threads: int, rows: int, expected: tuple[int, int, int]
) -> None:
    function = compiled(*sums(threads, rows))
    assert counts(function) == expected


@pytest.mark.parametrize(("threads", "steps"), [(3, 2), (24, 5), (48, 6)])
def test_other_groups_meet_in_a_tree_with_a_barrier_a_step(threads: int, steps: int) -> None:
    shuffles, arrays, barriers = counts(compiled(*sums(threads, 2), without=["share_storage"]))
    assert (shuffles, arrays) == (0, steps + 1)
    assert barriers == steps + 1


@pytest.mark.parametrize("threads", [1, 3, 16, 24, 32, 64, 96])
@pytest.mark.parametrize("rows", [1, 2])
def test_all_ways_give_the_sums(threads: int, rows: int) -> None:
    s, (A, B) = sums(threads, rows)
    a = np.random.default_rng(0).integers(-9, 9, [int(e) for e in A.shape]).astype("float32")
    out = np.full(2 * rows, np.nan, "float32")
    function = compiled(s, [A, B])
    interpret(function, [a, out], outputs=function.buffers[-1:])
    np.testing.assert_array_equal(out, a.sum(axis=1))


def test_a_kernel_without_exchanges_is_left_as_it_is() -> None:
    before = kernel(copy(tx))
    assert run_pass(lower_thread_reduce, before).body is before.body
