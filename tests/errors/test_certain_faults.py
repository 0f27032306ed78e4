"""Statements of users that certainly go wrong are refused where they are declared; what may be right is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir

Body = Callable[[Any, Any, Any], None]


def declare(body: Body, *shape: Any) -> te.Tensor:
    """An extern of one input and one output of a shape, whose statement `body(builder, input, output)` writes."""
    A = te.placeholder(shape, name="A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        body(ib, ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]))
        return ib.get()

    made: te.Tensor = te.extern(shape, [A], write, name="E")
    return made


def shifted(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i:
        out[i + 1] = a[i]


def read_ahead(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i:
        out[i] = a[i + 1] + 1


def guarded_too_late(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i, ib.if_scope(i < 7):
        out[i] = a[i + 2]


def before_the_first(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i:
        out[i] = tir.if_then_else(i > 2, a[i - 4], a[i])


def named(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 2, "i") as i, ib.for_range(0, 4, "j") as j:
        at = ib.let("at", i * 5 + j)
        out[at] = a[i * 4 + j]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (shifted, "stores to E beyond its ends, of shape [8]: in E[i + 1], index 0 is 8 at i = 7"),
        (read_ahead, "reads A beyond its ends, of shape [8]: in A[i + 1], index 0 is 8 at i = 7"),
        (guarded_too_late, "in A[i + 2], index 0 is 8 at i = 6, but must stay within 0 to 7"),
        (before_the_first, "in A[i - 4], index 0 is -1 at i = 3"),
        (named, "stores to E beyond its ends, of shape [8]: in E[at], index 0 is 8 at i = 1, j = 3"),
    ],
)
def test_an_access_beyond_the_ends(body: Body, says: str) -> None:
    with refused("extern", "the statement of 'E'", says, fix="with ib.if_scope("):
        declare(body, 8)


def test_an_access_beyond_ends_that_are_known_at_the_call() -> None:
    n = te.size_var("n")

    def body(ib: Any, a: Any, out: Any) -> None:
        with ib.for_range(0, n, "i") as i:
            out[i + 1] = a[i]

    with refused(
        "extern", "in E[i + 1], index 0 runs from 1 to n, but must stay within 0 to n - 1", fix="mend the index"
    ):
        declare(body, n)


def sums(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i", kind="parallel") as i:
        out[0] = out[0] + a[i]


def last_one_wins(ib: Any, a: Any, out: Any) -> None:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    out[3] = a[tx.var]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (sums, "stores another value to E[0] in each iteration of 'i' (a parallel loop), which run at the same time"),
        (last_one_wins, "stores another value to E[3] in each iteration of 'threadIdx.x' (threadIdx.x)"),
    ],
)
def test_a_race(body: Body, says: str) -> None:
    with refused("extern", "the statement of 'E'", says, fix="tir.atomic_add"):
        declare(body, 8)


def guarded(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i:
        with ib.if_scope(i + 1 < 8):
            out[i + 1] = a[i]
        with ib.if_scope(i == 0):
            out[i] = a[7 - i]


def chosen(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i") as i:
        out[i] = tir.if_then_else(tir.all(i >= 2, i < 6), a[i + 2], a[7 - i])


def never_reached(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 0, "k") as k:
        out[k + 100] = a[0]
    with ib.for_range(0, 8, "i") as i:
        out[i] = a[i]


def the_same_value(ib: Any, a: Any, out: Any) -> None:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    out[tx.var] = a[tx.var]
    out[0] = a[0]


def one_thread(ib: Any, a: Any, out: Any) -> None:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    out[tx.var] = a[7 - tx.var]
    ib.barrier()
    with ib.if_scope(tx.var == 0):
        out[0] = a[tx.var] + 1


def its_own_array(ib: Any, a: Any, out: Any) -> None:
    tx = te.thread_axis("threadIdx.x")
    ib.scope_attr(tx, "thread_extent", 8)
    held = ib.allocate("float32", 1, name="held", scope="local")
    held[0] = a[tx.var]
    out[tx.var] = held[0]


@pytest.mark.parametrize("body", [guarded, chosen, never_reached, the_same_value, one_thread, its_own_array])
def test_what_may_be_right_is_accepted(body: Body) -> None:
    assert isinstance(declare(body, 8), tw.te.Tensor)


@te.hybrid.script
def beyond(a):  # type: ignore[no-untyped-def]
    out = output_tensor((8,), "float32")  # noqa: F821  # a word of the language
    for i in range(8):
        out[i + 1] = a[i]
    return out


def test_a_script_that_leaves_its_array() -> None:
    A = te.placeholder((8,), name="A")
    with refused("hybrid.script", "the script 'beyond' stores to out beyond its ends", "index 0 is 8 at i = 7"):
        beyond(A)


def in_a_range_of_its_own(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 2, "i", kind="parallel") as i, ib.for_range(i * 4, i * 4 + 4, "j") as j:
        out[j] = a[j] + i.astype("float32")


def in_the_first_iteration(ib: Any, a: Any, out: Any) -> None:
    with ib.for_range(0, 8, "i", kind="parallel") as i:
        with ib.for_range(i, 1, "once"):
            out[0] = i.astype("float32")
        with ib.if_scope(i > 0):
            out[i] = a[i]


@pytest.mark.parametrize("body", [in_a_range_of_its_own, in_the_first_iteration])
def test_inner_loops_over_other_elements_in_each_iteration_are_no_race(body: Body) -> None:
    declare(body, 8)
