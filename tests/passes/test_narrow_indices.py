"""narrow_indices: what is computed in 32 bits again, and what must not be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.loops.programs import buf, function, launch, load, store
from tests.passes.running import run_pass
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Broadcast, Cast, Expr, Load, Ramp, Var
from tilewright.expr.operators import all_of, const, floordiv, floormod, less, maximum, minimum, truncdiv, truncmod
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import For, Function, If, Launch, Stmt, Store
from tilewright.loops.verify import Form, verify
from tilewright.passes.narrow_indices import narrow_indices

A, B = buf("A", 64), buf("B", 64)
LARGE = buf("L", const(2**33, "int64"), dtype="int8")
i, j, tx, n = Var("i", "int64"), Var("j", "int64"), Var("tx", "int64"), Var("n", "int64")


def wide(value: int) -> Expr:
    return const(value, "int64")


def loop(var: Var, extent: int | Expr, body: Stmt, low: int = 0) -> For:
    """A loop that counts in 64 bits."""
    return For(var, wide(low), wide(extent) if isinstance(extent, int) else extent, LoopKind.SERIAL, None, (), body)


def narrowed(*body: Stmt) -> Any:
    """The body after the pass; both forms are well formed and, on 64 elements, compute the same."""
    before = function((A, B), *body)
    made = run_pass(narrow_indices, before)
    a = np.random.default_rng(0).integers(-9, 10, 64).astype("float32")
    results = []
    for form in (before, made):
        verify(form, Form.FLAT | Form.FINISHED)
        b = np.zeros(64, "float32")
        interpret(form, [a, b], races=False)
        results.append(b)
    np.testing.assert_array_equal(*results)
    return made.body


def shown(*body: Stmt, params: tuple[Any, ...] = (LARGE, n)) -> list[str]:
    """Indices of stores, of a function that is too large to run."""
    before = function(params, *body)
    made = run_pass(narrow_indices, before)
    for form in (before, made):
        verify(form, Form.FLAT | Form.FINISHED)
    return [str(node.indices[0]) for node in post_order(made.body) if isinstance(node, Store)]


def mark(index: Expr) -> Store:
    return store(LARGE, index, const(1, "int8"))


def index_types(root: Stmt) -> set[str]:
    indices = [x for node in post_order(root) if isinstance(node, (Store, Load)) for x in node.indices]
    return {str(index.dtype) for index in indices}


# What is narrowed.


def test_loops_that_fit_count_in_32_bits() -> None:
    made = narrowed(loop(i, 8, loop(j, 8, store(B, i * 8 + j, load(A, j * 8 + i)))))
    assert isinstance(made, For)
    assert [str(e.dtype) for e in (made.var, made.min, made.extent)] == ["int32"] * 3
    assert index_types(made) == {"int32"}
    assert not any(isinstance(node, Cast) for node in post_order(made))


def test_loops_that_start_elsewhere() -> None:
    made = narrowed(loop(i, 8, store(B, i * 2, load(A, i)), low=5))
    assert str(made.min) == "5"
    assert index_types(made) == {"int32"}


def test_threads_have_32_bits() -> None:
    made = narrowed(launch(store(B, tx * 2, load(A, tx)), tx=(tx, wide(8))))
    assert isinstance(made, Launch)
    ((_, var, _),) = made.threads
    assert var.dtype == "int32"
    assert index_types(made) == {"int32"}


@pytest.mark.parametrize(
    "index",
    [
        floordiv(i, 3),
        floormod(i, 3),
        truncdiv(i, wide(3)),
        truncmod(i, wide(3)),
        minimum(i, wide(5)),
        maximum(i, wide(5)),
        i * 7 + 1,
        60 - i,
    ],
    ids=str,
)
def test_every_operator(index: Expr) -> None:
    made = narrowed(loop(i, 9, store(B, index, load(A, index))))
    assert index_types(made) == {"int32"}
    assert not any(isinstance(node, Cast) for node in post_order(made))


def test_conditions() -> None:
    made = narrowed(loop(i, 8, If(all_of(i * 3 < 20, i + 1 > 2), store(B, i, load(A, i)), None)))
    assert str(made.body.condition) == "i * 3 < 20 and i + 1 > 2"


def test_vectors() -> None:
    made = narrowed(loop(i, 8, store(B, Ramp(i * 4, wide(1), 4), load(A, Ramp(i, wide(3), 4)))))
    assert index_types(made) == {"int32x4"}


def test_where_a_product_with_a_size_is_known_to_fit() -> None:
    """A loop over as many of n as there are, but at most 100."""
    few = maximum(minimum(n, wide(100)), wide(0))
    made = run_pass(narrow_indices, function((LARGE, n), loop(i, few, mark(i * 8)))).body
    assert isinstance(made, For)
    assert made.var.dtype == "int32"
    assert index_types(made) == {"int32"}


# What must stay wide.


def test_functions_without_wide_loops_are_left_alone() -> None:
    k = Var("k")
    before = function((LARGE, n), For(k, const(0), const(8), LoopKind.SERIAL, None, (), mark(k.astype("int64") * n)))
    assert run_pass(narrow_indices, before) is before


def test_loops_that_do_not_fit_stay() -> None:
    made = run_pass(narrow_indices, function((LARGE,), loop(i, 2**31 + 1, mark(i)))).body
    assert isinstance(made, For)
    assert made.var.dtype == "int64"
    assert index_types(made) == {"int64"}


@pytest.mark.parametrize(("low", "extent", "bits"), [(2**31 - 9, 8, 32), (2**31 - 8, 8, 64), (2**31, 8, 64)])
def test_loops_that_end_near_the_limit(low: int, extent: int, bits: int) -> None:
    made = run_pass(narrow_indices, function((LARGE,), loop(i, extent, mark(i), low=low))).body
    assert isinstance(made, For)
    assert made.var.dtype.bits == bits


def test_sums_and_products_that_do_not_fit_are_computed_wide() -> None:
    """Only what fits is narrow: 2¹⁶ times up to 2¹⁶ - 1, of which the rest is counted in 64 bits."""
    (text,) = shown(loop(i, 2**16, loop(j, 2**16, mark(i * 2**16 + j))))
    assert text.count("int64") >= 2
    (text,) = shown(loop(i, 2**16 + 1, mark(i * 2**15 - i)))
    assert "int64" in text  # the difference fits, but what is subtracted from does not
    (text,) = shown(loop(i, 2**15, mark(i * 2**15)))
    assert text == "i * 32768"


def test_sizes_without_a_known_maximum_stay() -> None:
    (text,) = shown(loop(i, n, mark(i * n)))
    assert text == "i * n"


def test_constants_beyond_32_bits_stay() -> None:
    (text,) = shown(loop(i, 4, mark(i + 2**32)))
    assert "int64" in text
    assert str(2**32) in text


def test_data_of_64_bits_stays() -> None:
    """A value of 64 bits that is loaded is not an index: it may be anything."""
    X, Y = buf("X", 8, dtype="int64"), buf("Y", 8, dtype="int64")
    before = function((X, Y), loop(i, 8, store(Y, i, load(X, i) * 3 + i)))
    made = run_pass(narrow_indices, before)
    verify(made, Form.FLAT | Form.FINISHED)
    x = np.array([2**40, -(2**62), 2**31, -(2**31) - 1, 5, 0, -1, 7])
    y = np.zeros(8, "int64")
    interpret(made, [x, y])
    np.testing.assert_array_equal(y, x * 3 + np.arange(8))


def test_broadcast_values() -> None:
    X = buf("X", 32, dtype="int64")
    before = function((X,), loop(i, 8, store(X, Ramp(i * 4, wide(1), 4), Broadcast(i * 2**33, 4))))
    made = run_pass(narrow_indices, before)
    verify(made, Form.FLAT | Form.FINISHED)
    x = np.zeros(32, "int64")
    interpret(made, [x])
    np.testing.assert_array_equal(x, np.repeat(np.arange(8) * 2**33, 4))


# Whatever the expression: the same value as 64 bits give.


@st.composite
def expressions(draw: Any, depth: int = 3) -> Expr:
    """Of i and j, with constants around the limits of 32 bits."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        number = st.sampled_from([0, 1, -1, 3, 8, 2**15, 2**16, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**33])
        return draw(st.one_of(st.sampled_from([i, j]), number.map(wide)))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    what = draw(st.sampled_from(["+", "-", "*", "min", "max", "//", "%", "quot", "rem"]))
    if what in ("//", "%", "quot", "rem"):
        b = wide(draw(st.sampled_from([2, 3, 7, 2**20, 2**31])))
    made: Expr = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b if not _large(a) or not _large(b) else a + b,
        "min": lambda: minimum(a, b),
        "max": lambda: maximum(a, b),
        "//": lambda: floordiv(a, b),
        "%": lambda: floormod(a, b),
        "quot": lambda: truncdiv(a, b),
        "rem": lambda: truncmod(a, b),
    }[what]()
    return made


def _large(e: Expr) -> bool:
    """Whether products with it might leave 64 bits."""
    return sum(1 for _ in post_order(e)) > 2


@settings(max_examples=80)
@given(expressions(), expressions(), st.sampled_from([0, -5, 2**31 - 3, -(2**31)]))
def test_values_and_comparisons_are_what_64_bits_give(value: Expr, other: Expr, low: int) -> None:
    X = buf("X", 16, dtype="int64")
    place = (i - low) * 4 + j
    body = If(less(value, other), store(X, place, value), store(X, place, other - 1))
    before = function((X,), loop(i, 4, loop(j, 4, body), low=low))
    made = run_pass(narrow_indices, before)
    verify(made, Form.FLAT | Form.FINISHED)
    np.testing.assert_array_equal(run(made), run(before))


def run(made: Function) -> np.ndarray:
    x = np.zeros(16, "int64")
    interpret(made, [x])
    return x
