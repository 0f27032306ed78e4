"""Reads that leave their tensor for some arguments of a call: the call is refused, and no other one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target, spread
from tilewright import te
from tilewright.bounds.reads import check_reads
from tilewright.core.errors import UserError
from tilewright.expr.evaluate import evaluate
from tilewright.runtime import load_module

Body = Callable[[Any, Any], Any]
K = te.var("k")


def entry(body: Body, size: Any = 10, extent: Any = 8, extra: tuple[Any, ...] = (K,), target: str = "llvm") -> Any:
    """`B[i] = body(A, i)`, built; called with the lengths of A and B, then the further arguments."""
    A = te.placeholder((size,), name="A")
    B = te.compute((extent,), lambda i: body(A, i), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    module = tw.build(s, [A, B, *extra], target)
    on = tw.device(target)

    def call(sizes: tuple[int, int], *more: Any) -> np.ndarray:
        a = tw.nd.array(np.arange(sizes[0], dtype="float32"), on)
        b = tw.nd.array(np.full(sizes[1], -1.0, "float32"), on)
        module(a, b, *more)
        return b.numpy()

    call.module = module  # type: ignore[attr-defined]
    return call


@every_target
def test_a_scalar_moves_the_window(target: str) -> None:
    call = entry(lambda A, i: A[i + K], target=target)
    assert call((10, 8), 2).tolist() == list(range(2, 10))
    with refused(
        "", "reads beyond the ends of 'A': in A[i + k] of stage 'B'", "from 5000 to 5007 at k = 5000", "0 to 9"
    ):
        call((10, 8), 5000)
    for k in (-1, 3, 2**31 - 1, -(2**31)):
        with pytest.raises(UserError, match="beyond the ends of 'A'"):
            call((10, 8), k)


def test_sizes_of_two_tensors() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    call = entry(lambda A, i: A[i], n, m, ())
    assert call((10, 8)).tolist() == list(range(8))
    assert call((0, 0)).tolist() == call((5, 0)).tolist() == []
    with refused("", "index 0 runs from 0 to 9 at m = 10, n = 8, but must stay within 0 to 7"):
        call((8, 10))
    with refused("", "at m = 1, n = 0, but 'A' has no element there"):
        call((0, 1))


@pytest.mark.parametrize(
    ("body", "size", "fine", "wrong", "shown"),
    [
        (lambda A, i: A[i * i + K], 100, (0, 50), (51, -1), "index 0 is 100 at i = 7, k = 51"),
        (lambda A, i: A[i * K], 15, (0, 2), (3, -1), "index 0 is 21 at i = 7, k = 3"),
        (lambda A, i: A[(i << 1) & K], 10, (0, 9), (14,), "index 0 is 14 at i = 7, k = 14"),
        (lambda A, i: te.if_then_else(i < K, A[i + 4], 0.0), 10, (-9, 0, 6), (7, 99), "is 10 at i = 6, k = 7"),
        (lambda A, i: te.if_then_else(K > 3, A[i + K], 0.0), 12, (-9, 3, 4), (5,), "is 12 at i = 7, k = 5"),
        (lambda A, i: te.if_then_else(te.all(i >= K, i < 12), A[i - K], 0.0), 8, (0, 7, 99), (-1,), "is 8 at i = 7"),
    ],
    ids=["square", "product", "bits", "under-k", "of-k", "padding"],
)
def test_indices_that_are_not_linear_and_reads_under_conditions(
    body: Body, size: int, fine: tuple[int, ...], wrong: tuple[int, ...], shown: str
) -> None:
    call = entry(body, size)
    for k in fine:
        call((size, 8), k)
    for k in wrong:
        with pytest.raises(UserError, match="beyond the ends") as caught:
            call((size, 8), k)
        assert k != wrong[0] or shown in str(caught.value)


def test_what_readers_need_of_a_stage_in_between() -> None:
    A = te.placeholder((10,), name="A")
    B = te.compute((20,), lambda i: A[i], name="B")
    C = te.compute((5,), lambda i: B[i] + B[i + K], name="C")
    s = te.create_schedule(C.op)
    module = tw.build(s, [A, C, K], "llvm")
    a, c = tw.nd.array(np.arange(10, dtype="float32")), tw.nd.array(np.zeros(5, "float32"))
    module(a, c, 5)
    assert c.numpy().tolist() == [5, 7, 9, 11, 13]
    with refused("", "in A[i] of stage 'B'", "index 0 runs from 0 to 10 at k = 6"):
        module(a, c, 6)


def test_reductions_of_a_given_length() -> None:
    A, r = te.placeholder((10,), name="A"), te.reduce_axis((0, K), "r")
    B = te.compute((2,), lambda i: te.sum(A[r], axis=r), name="B")
    module = tw.build(te.create_schedule(B.op), [A, B, K], "llvm")
    a, b = tw.nd.array(np.ones(10, "float32")), tw.nd.array(np.zeros(2, "float32"))
    for k in (10, 0, -4):
        module(a, b, k)
        assert b.numpy().tolist() == [max(k, 0)] * 2
    with refused("", "in A[r]", "index 0 runs from 0 to 10 at k = 11"):
        module(a, b, 11)


SMALL = st.integers(-3, 3)


@settings(max_examples=60, deadline=None)
@given(st.lists(SMALL, min_size=3, max_size=3), SMALL, st.integers(1, 12), st.integers(1, 5), st.integers(1, 4))
def test_a_call_is_refused_where_an_index_leaves(c: list[int], offset: int, size: int, n: int, w: int) -> None:
    """Against all points: what is stated of a linear index is neither too strict nor too lax."""
    A, r = te.placeholder((size,), name="A"), te.reduce_axis((0, w), "r")
    index = lambda i, r, k: i * c[0] + r * c[1] + k * c[2] + offset
    try:
        checks = check_reads([te.compute((n,), lambda i: te.sum(A[index(i, r, K)], axis=r), "B").op])
    except UserError:
        checks = None
    for k in range(-8, 9):
        leaves = any(not 0 <= index(i, j, k) < size for i, j in product(range(n), range(w)))
        found = checks is None or any(evaluate(check.outside, {K: k}) for check in checks)
        assert bool(found) is leaves


def test_nothing_is_compared_that_is_proven() -> None:
    n = te.size_var("n")
    padded = entry(lambda A, i: te.if_then_else(te.all(i >= 1, i < n + 1), A[i - 1], 0.0), n, n + 2, ())
    k = te.var("k", minimum=0, maximum=2)
    declared = entry(lambda A, i: A[i + k], extra=(k,))
    wrapped = entry(lambda A, i: A[te.floormod(i * K, 10)])
    for call in (padded, declared, wrapped):
        assert "beyond" not in call.module["main"]._entry.source


def test_a_saved_module_refuses_too(tmp_path: Path) -> None:
    call = entry(lambda A, i: A[i + K])
    call.module.save(str(tmp_path / "window.tw"))
    pickle.loads(pickle.dumps(call.module["main"]._entry))
    module = load_module(str(tmp_path / "window.tw"))
    a, b = tw.nd.array(np.zeros(10, "float32")), tw.nd.array(np.zeros(8, "float32"))
    with pytest.raises(UserError, match="from 3 to 10 at k = 3"):
        module(a, b, 3)


@pytest.mark.parametrize("upper", [True, False])
def test_an_index_that_wraps_passes_no_comparison_with_one_end(upper: bool) -> None:
    """In 32 bits, i + k would be far below 0 there, and less than any extent."""
    A, k = te.placeholder((100,), name="A"), te.var("k")
    B = te.compute((50,), lambda i: te.if_then_else(i + k < 100 if upper else i + k >= 0, A[i + k], 0.0), name="B")
    f = tw.build(te.create_schedule(B.op), [k, A, B], "llvm")
    a, b = tw.nd.array(np.arange(100, dtype="float32")), tw.nd.empty((50,))
    f(50, a, b)
    assert b.numpy()[49] == 99
    for argument in (2**31 - 1, 2**31 - 49):
        with pytest.raises(UserError, match="reads beyond the ends of 'A'"):
            f(argument, a, b)
