"""Reads beyond the ends of a tensor: what is refused leaves it for certain, and plain ones that do are refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import te, tir
from tilewright.bounds.reads import check_reads
from tilewright.core.errors import UserError

SMALL = st.integers(-3, 3)


def refused(*outputs: Any) -> str:
    """The first line of the error, or nothing."""
    try:
        check_reads([tensor.op for tensor in outputs])
    except UserError as error:
        return str(error).splitlines()[0]
    return ""


@settings(max_examples=150, deadline=None)
@given(st.lists(SMALL, min_size=2, max_size=2), SMALL, st.integers(1, 20), st.integers(1, 5), st.integers(1, 4))
def test_a_linear_index_is_refused_where_it_leaves(factors: list[int], offset: int, size: int, n: int, w: int) -> None:
    A = te.placeholder((size,), name="A")
    k = te.reduce_axis((0, w), "k")
    index = lambda i, j: i * factors[0] + j * factors[1] + offset
    B = te.compute((n,), lambda i: te.sum(A[index(i, k)], axis=k), "B")
    leaves = any(not 0 <= index(i, j) < size for i, j in product(range(n), range(w)))
    assert bool(refused(B)) is leaves


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(2, 4), st.sampled_from(["//", "%", "max"]))
def test_what_is_refused_leaves_for_certain(n: int, size: int, by: int, kind: str) -> None:
    A = te.placeholder((size,), name="A")
    plain = {"//": lambda i: (i * 3) // by, "%": lambda i: (i * 3) % by, "max": lambda i: max(i * 2 - by, 0)}[kind]
    made: Any = {
        "//": lambda i: tir.floordiv(i * 3, by),
        "%": lambda i: tir.floormod(i * 3, by),
        "max": lambda i: tir.max(i * 2 - by, 0),
    }[kind]
    B = te.compute((n,), lambda i: A[made(i)], "B")
    if refused(B):
        assert any(not 0 <= plain(i) < size for i in range(n))


def test_a_read_under_a_condition_is_left_alone() -> None:
    A = te.placeholder((4,), name="A")
    assert refused(te.compute((8,), lambda i: A[i], "B"))
    assert not refused(te.compute((8,), lambda i: tir.if_then_else(i < 4, A[i], 0.0), "B"))
    assert not refused(te.compute((8,), lambda i: tir.Select(i < 4, A[i], tir.const(0.0)), "B"))
    guarded = te.compute((8,), lambda i: tir.if_then_else(tir.all(i < 4, A[i] > 0.0), 1.0, 0.0), "B")
    assert not refused(guarded)


def test_only_what_is_needed_of_a_tensor_counts() -> None:
    """B would read beyond A, but nobody asks for those elements."""
    A = te.placeholder((4,), name="A")
    B = te.compute((8,), lambda i: A[i], "B")
    assert not refused(te.compute((4,), lambda i: B[i] * 2.0, "C"))
    assert refused(te.compute((5,), lambda i: B[i] * 2.0, "C"))
    assert refused(te.compute((4,), lambda i: B[i] * 2.0, "C"), te.compute((2,), lambda i: B[i + 3], "D"))


def test_an_index_that_is_read_is_no_bound() -> None:
    """A call cannot check a place that another tensor holds, even if the axis of that tensor has one value."""
    A, P = te.placeholder((4,), name="A"), te.placeholder((1,), "int32", name="P")
    B = te.compute((8,), lambda i: tir.if_then_else(i < 4, A[i], A[i - 4]), "B")
    assert not check_reads([te.compute((1,), lambda i: B[P[i]], "C").op])


def test_axes_that_may_not_be_extreme_together_are_not_added_up() -> None:
    """Of B only the diagonal is needed, on which i + (3 - i) stays inside."""
    A = te.placeholder((4,), name="A")
    B = te.compute((4, 4), lambda i, j: A[i + j], "B")
    assert not refused(te.compute((4,), lambda i: B[i, 3 - i], "C"))
    assert refused(B)


def test_symbolic_sizes() -> None:
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    assert refused(te.compute((n,), lambda i: A[i + 1], "B"))
    assert not refused(te.compute((n,), lambda i: A[n - 1 - i], "B"))


def test_the_message_names_index_range_and_guard() -> None:
    A = te.placeholder((4,), name="A")
    with pytest.raises(UserError, match="index 0 runs from 2 to 9, but must stay within 0 to 3"):
        check_reads([te.compute((8,), lambda i: A[i + 2], "B").op])
