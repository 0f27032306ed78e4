"""Shared buffers that are not in use at the same time take the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.programs import alloc, buf, load, store
from tests.passes.kernels import A, B, inside, kernel, same, tx
from tests.passes.running import finish, run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Stmt, seq
from tilewright.passes.share_storage import share_storage


def shared(*uses: tuple[Any, Stmt]) -> list[str]:
    """The shared buffers left of a kernel that uses these, one after the other."""
    body = seq(*(stmt for _, stmt in uses))
    for buffer in dict.fromkeys(buffer for buffer, _ in uses):
        body = alloc(buffer, body)
    before = kernel(body)
    made = run_pass(share_storage, before)
    same(before, made)
    return sorted(node.buffer.name for node in post_order(inside(made)) if isinstance(node, Allocate))


def fill(buffer: Any) -> tuple[Any, Stmt]:
    return buffer, store(buffer, tx, load(A, tx))


def drain(buffer: Any, row: int = 0) -> tuple[Any, Stmt]:
    return buffer, store(B, row * 8 + tx, load(buffer, tx))


def test_buffers_in_use_one_after_the_other_share() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 16, scope="shared")
    assert shared(fill(S), drain(S), fill(T), drain(T, 1)) == ["T"]


def test_buffers_in_use_together_do_not() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 8, scope="shared")
    assert shared(fill(S), fill(T), drain(S), drain(T, 1)) == ["S", "T"]


def test_buffers_of_other_types_share_bytes() -> None:
    S, T = buf("S", 8, scope="shared"), buf("T", 8, dtype="int32", scope="shared")
    ints = (T, store(T, tx, tx)), (T, store(B, tx, load(T, tx).astype("float32")))
    assert shared(fill(S), drain(S, 1), *ints) == ["arena"]


def test_what_shares_is_kept_apart_by_a_barrier() -> None:
    """Through the whole pipeline: the second buffer is filled when all are done with the first."""
    X = te.placeholder((32,), name="X")
    Y = te.compute((32,), lambda i: X[31 - i] * 2.0, "Y")
    s = te.create_schedule(Y.op)
    first = s.cache_read(X, "shared", [Y])
    second = s.cache_read(first, "local", [Y])
    third = s.cache_read(second, "shared", [Y])
    outer, inner = s[Y].split(Y.op.axis[0], nparts=1)
    s[Y].bind(outer, te.thread_axis("blockIdx.x"))
    s[Y].bind(inner, te.thread_axis("threadIdx.x"))
    for stage in (first, second, third):
        s[stage].compute_at(s[Y], outer)
    for stage in (first, third):
        s[stage].bind(stage.op.axis[0], te.thread_axis("threadIdx.x"))
    with pytest.raises(UserError):  # the local copy in between is each thread's own
        tilewright.lower(s, [X, Y])
    s[second].set_scope("shared")
    s[second].bind(second.op.axis[0], te.thread_axis("threadIdx.x"))
    made = finish(tilewright.lower(s, [X, Y]).functions[0], check=True)
    x, y = np.arange(32, dtype="float32"), np.full(32, np.nan, "float32")
    interpret(made, [x, y], outputs=made.buffers[1:])
    np.testing.assert_array_equal(y, x[::-1] * 2)
    allocated = [node.buffer.name for node in post_order(made.body) if isinstance(node, Allocate)]
    assert len(allocated) == 2
