"""Vector loads whose lanes lie near each other: as whole vectors, of elements that the lanes read or lie between."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.covering import each_pair
from tilewright import te
from tilewright.codegen.vectors import lane_offsets
from tilewright.expr import nodes as n
from tilewright.expr import operators as op

Place = Callable[[Any], Any]
ROWS = 3
NEAR: dict[str, Place] = {
    "i": lambda i: i,
    "i // 2": lambda i: i // 2,
    "i // 4": lambda i: i // 4,
    "i // 16": lambda i: i // 16,
    "2 * i": lambda i: 2 * i,
    "3 * i + 1": lambda i: 3 * i + 1,
    "4 * i": lambda i: 4 * i,
    "-i": lambda i: 99 - i,
    "-2 * i": lambda i: 200 - 2 * i,
    "i % 4": lambda i: i % 4,
    "i % 4 // 2 + i // 8": lambda i: i % 4 // 2 + i // 8,
    "i // 4 * 3": lambda i: i // 4 * 3,
    "i // 2 - i % 2": lambda i: i // 2 - i % 2 + 1,
}
"""Of an element of the result: the place of what it reads."""
FAR: dict[str, Place] = {"9 * i": lambda i: 9 * i, "i * i": lambda i: i * i, "i // 3": lambda i: i // 3}


def picked(place: Place, lanes: int, dtype: str) -> tuple[Any, np.ndarray]:
    """A vectorized program that copies the elements at these places, and the places."""
    size = ROWS * lanes
    places = np.array([int(place(i)) for i in range(size)])
    A = te.placeholder((int(places.max()) + 1,), dtype, "A")
    B = te.compute((size,), lambda i: A[place(i)], name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(B.op.axis[0], factor=lanes)
    s[B].vectorize(inner)
    return tw.build(s, [A, B], "llvm"), places


@pytest.mark.parametrize(
    ("name", "lanes", "dtype"),
    each_pair([*NEAR, *FAR], [2, 4, 8, 16, 32], ["float32", "float16", "bfloat16", "int8", "bool", "float64"]),
)
def test_elements_are_those_of_numpy(name: str, lanes: int, dtype: str) -> None:
    program, places = picked({**NEAR, **FAR}[name], lanes, dtype)
    data = np.arange(places.max() + 1) * 7 % 101
    x = tw.nd.array(data % 2 == 1 if dtype == "bool" else data.astype("float32"), dtype=dtype)
    out = tw.nd.empty((len(places),), dtype)
    program(x, out)
    np.testing.assert_array_equal(out.numpy(), x.numpy()[places])


@pytest.mark.parametrize("lanes", [3, 5, 7, 12, 24])
@pytest.mark.parametrize("name", ["i", "-i", "2 * i", "3 * i + 1"])
def test_lanes_of_any_number(name: str, lanes: int) -> None:
    program, places = picked(NEAR[name], lanes, "float32")
    x = np.random.default_rng(0).random(places.max() + 1, "float32")
    out = tw.nd.empty((len(places),), "float32")
    program(tw.nd.array(x), out)
    np.testing.assert_array_equal(out.numpy(), x[places])


@pytest.mark.parametrize("name", NEAR)
def test_no_lane_is_fetched_by_itself(name: str) -> None:
    assert "gather" not in picked(NEAR[name], 16, "float32")[0].get_source()


@pytest.mark.parametrize("name", FAR)
def test_lanes_far_apart_are(name: str) -> None:
    assert "masked.gather" in picked(FAR[name], 16, "float32")[0].get_source()


@pytest.mark.parametrize("lanes", [2, 8, 16, 32])
@pytest.mark.parametrize("name", NEAR)
def test_nothing_is_read_beyond_the_last_lane(name: str, lanes: int) -> None:
    """The array ends where its page does, and the next page cannot be read."""
    program, places = picked(NEAR[name], lanes, "int8")
    size, page = int(places.max()) + 1, mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    assert protect(start + page, page, 0) == 0
    x = np.frombuffer(memory, "int8", size, page - size)
    shared = tw.nd.from_dlpack(x)
    x[:] = np.arange(size) % 101
    np.testing.assert_array_equal(shared.numpy(), x)  # the same memory
    out = tw.nd.empty((len(places),), "int8")
    try:
        program(shared, out)
        np.testing.assert_array_equal(out.numpy(), x[places])
    finally:
        assert protect(start + page, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def vectors(lanes: int) -> st.SearchStrategy[n.Expr]:
    """Vector indices, of a variable and constants; some divide by numbers that their parts are multiples of."""

    def scalar(name: str, by: int, plus: int) -> n.Expr:
        return op.add(op.multiply(n.Var(name, n.DType("int32")), by), plus)

    bases = st.builds(scalar, st.sampled_from("xy"), st.sampled_from([0, 1, 3, 4, 8, 48]), st.sampled_from([0, 8, 16]))
    leaves = st.builds(n.Ramp, bases, st.integers(-3, 4).map(lambda v: op.const(v, "int32")), st.just(lanes))
    leaves |= st.builds(n.Broadcast, bases, st.just(lanes))
    by = st.integers(1, 6).map(lambda v: n.Broadcast(op.const(v, "int32"), lanes))

    def more(of: st.SearchStrategy[n.Expr]) -> st.SearchStrategy[n.Expr]:
        sums = st.builds(lambda kind, a, b: kind(a, b), st.sampled_from([n.Add, n.Sub]), of, of)
        return sums | st.builds(lambda kind, a, b: kind(a, b), st.sampled_from([n.Mul, n.FloorDiv, n.FloorMod]), of, by)

    return st.recursive(leaves, more, max_leaves=4)


def value(e: n.Expr, given_values: dict[str, int]) -> Any:
    """What an index is, by NumPy."""
    if isinstance(e, n.IntImm):
        return e.value
    if isinstance(e, n.Var):
        return given_values[e.name]
    if isinstance(e, n.Ramp):
        return value(e.base, given_values) + value(e.stride, given_values) * np.arange(e.lanes)
    if isinstance(e, n.Broadcast):
        return np.full(e.lanes, value(e.value, given_values))
    assert isinstance(e, n.Binary)
    a, b = value(e.a, given_values), value(e.b, given_values)
    of = {n.Add: np.add, n.Sub: np.subtract, n.Mul: np.multiply, n.FloorDiv: np.floor_divide, n.FloorMod: np.mod}
    return of[type(e)](a, b)


@settings(max_examples=300, deadline=None)
@given(vectors(8), st.integers(-50, 50), st.integers(-50, 50))
def test_lanes_are_at_these_distances(index: n.Expr, x: int, y: int) -> None:
    found = lane_offsets(index)
    if found is not None:
        base, offsets = found
        at = {"x": x, "y": y}
        np.testing.assert_array_equal(value(index, at), value(base, at) + np.array(offsets))
