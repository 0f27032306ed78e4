"""Shared buffers that are not in use at the same time take the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.programs import alloc, buf, load, store
from tests.passes.kernels import A, B, inside, kernel, same, tx, v
from tests.passes.running import finish, run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.expr.operators import less
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, If, Let, Stmt, seq
from tilewright.passes.place_barriers import place_barriers
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


S, T = buf("S", 8, scope="shared"), buf("T", 8, scope="shared")
INTO_B = store(B, tx, load(S, tx))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            seq(
                store(T, tx, load(A, tx)),
                If(less(tx, 4), seq(store(S, tx, load(A, tx + 8)), INTO_B), store(B, tx, load(T, tx - 4))),
            ),
            id="what the other part reads",
        ),
        pytest.param(
            If(less(tx, 4), seq(fill(S)[1], INTO_B), seq(store(T, 7 - tx, load(A, tx)), store(B, tx, load(T, 7 - tx)))),
            id="what the other part stores",
        ),
        pytest.param(
            If(less(tx, 4), seq(fill(S)[1], INTO_B, store(T, 3 - tx, 1), store(B, tx + 8, load(T, 3 - tx))), None),
            id="what other threads store later",
        ),
        pytest.param(
            Let(v, tx // 4, If(less(v, 1), seq(fill(S)[1], store(T, 3 - tx, 1)), None)),
            id="a named condition, and stores that nothing reads",
        ),
    ],
)
def test_what_no_barrier_can_part_stays_apart(body: Stmt) -> None:
    """Threads of a block pass a branch differently, so they may store to one buffer while others use the other one."""
    before = kernel(alloc(S, alloc(T, body)))
    made = run_pass(share_storage, before)
    assert sorted(at.buffer.name for at in post_order(inside(made)) if isinstance(at, Allocate)) == ["S", "T"]
    a, results = np.random.default_rng(5).standard_normal(64).astype("float32"), []
    for function in (before, made):
        results.append(np.zeros(64, "float32"))
        interpret(run_pass(place_barriers, function), [a, results[-1]])
    np.testing.assert_array_equal(*results)


def test_what_a_barrier_parts_in_a_branch_that_all_threads_take_alike_shares() -> None:
    """The condition reads memory that no thread writes."""
    branch = If(less(load(A, 0), 9), seq(*(stmt for _, stmt in (fill(S), drain(S), fill(T), drain(T, 1)))), None)
    made = run_pass(share_storage, kernel(alloc(S, alloc(T, branch))))
    assert len([at for at in post_order(inside(made)) if isinstance(at, Allocate)]) == 1
