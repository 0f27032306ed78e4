"""Stages that each thread keeps for itself, with one of their own dimensions bound to the threads."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright import te


@pytest.mark.cuda
def test_a_thread_computes_the_elements_of_its_own_number() -> None:
    n, threads = 64, 8
    a = te.placeholder((2, n), name="a")
    b = te.compute((2, n), lambda i, j: a[i, j] * 2.0, name="b")
    s = te.create_schedule(b.op)
    held = s.cache_read(a, "local", [b])
    *_, own, _ = s[held].transform_layout(lambda i, j: [i, j % threads, j // threads])
    row, column = b.op.axis
    thread = te.thread_axis("threadIdx.x")
    s[b].bind(row, te.thread_axis("blockIdx.x"))
    s[b].bind(s[b].split(column, factor=threads)[1], thread)
    s[held].compute_at(s[b], row)
    s[held].bind(own, thread)
    given = np.arange(2 * n, dtype="float32").reshape(2, n)
    arrays = [tw.nd.array(x, tw.cuda()) for x in (given, np.full_like(given, np.nan))]
    tw.build(s, [a, b], "cuda")(*arrays)
    np.testing.assert_array_equal(arrays[1].numpy(), 2 * given)
