"""Reads beyond the ends of a tensor that a point shows: indices that are not linear, and reads under conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tilewright import te
from tilewright.error import TVMError

Index = Callable[[Any], Any]


def lowered(size: int, extent: int, body: Callable[[Any, Any], Any]) -> Any:
    A = te.placeholder((size,), name="A")
    B = te.compute((extent,), lambda i: body(A, i), name="B")
    return tw.lower(te.create_schedule(B.op), [A, B])


@pytest.mark.parametrize(
    ("size", "extent", "index", "shown"),
    [
        (1000, 1000, lambda i: i * i, "is 998001 at i = 999"),
        (1000, 1000, lambda i: i << 1, "is 1998 at i = 999"),
        (1000, 1000, lambda i: i ^ 512, "is 1000 at i = 488"),
        (1001, 1001, lambda i: i | 7, "is 1007 at i = 1000"),
    ],
    ids=["square", "shift", "xor", "or"],
)
def test_a_nonlinear_index_that_leaves_its_tensor(size: int, extent: int, index: Index, shown: str) -> None:
    with pytest.raises(TVMError, match=f"stage 'B' reads beyond the ends of 'A'.*index 0 {shown}"):
        lowered(size, extent, lambda A, i: A[index(i)])


def test_a_condition_that_does_not_keep_the_index_inside() -> None:
    with pytest.raises(TVMError, match=r"in A\[i \+ 20\], index 0 is 1000 at i = 980"):
        lowered(1000, 1000, lambda A, i: te.if_then_else(i < 990, A[i + 20], 0.0))


def test_the_branch_where_a_condition_fails() -> None:
    with pytest.raises(TVMError, match=r"in A\[i - 2\], index 0 is -2 at i = 0"):
        lowered(1000, 1000, lambda A, i: te.if_then_else(i >= 3, 0.0, A[i - 2]))


@pytest.mark.parametrize(
    "body",
    [
        lambda A, i: te.if_then_else(i < 980, A[i + 20], 0.0),
        lambda A, i: te.if_then_else(te.all(i >= 3, i < 900), A[i - 3], 0.0),
        lambda A, i: A[(i * i) % 1000],
        lambda A, i: te.if_then_else(i * i < 1000, A[i * i], 0.0),
        lambda A, i: A[i & 511],
    ],
    ids=["guard", "both", "remainder", "square", "mask"],
)
def test_reads_that_stay_inside_are_accepted(body: Callable[[Any, Any], Any]) -> None:
    assert "A[" in str(lowered(1000, 1000, body))
