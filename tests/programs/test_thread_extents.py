"""Kernels whose stages bind one thread index differently: loops of extent 1, and extents smaller than their factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tests.schedule.test_random_schedules import CUDA
from tilewright import te
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Launch
from tilewright.loops.walk import statements


def staged(fill: int, tile: int, summed: bool) -> tuple[Any, list[Any]]:
    """Each block computes a row of C from a shared row of B; `fill` and `tile` threads along threadIdx.x do so."""
    A = te.placeholder((6, 16), name="A")
    r = te.reduce_axis((0, 4), name="r")
    body = (lambda i, j: te.sum(A[i, j] * (r + 1), axis=r)) if summed else (lambda i, j: A[i, j] * 10)
    B = te.compute((6, 16), body, name="B")
    C = te.compute((6, 16), lambda i, j: B[i, 15 - j] + 1, name="C")
    s = te.create_schedule(C.op)
    row, column = C.op.axis
    _, thread = s[C].split(column, factor=tile)
    s[C].bind(row, te.thread_axis("blockIdx.x"))
    s[C].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], row)
    s[B].set_scope("shared")
    _, thread = s[B].split(B.op.axis[1], factor=fill)
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    return s, [A, C]


@pytest.mark.parametrize("summed", [False, True])
@pytest.mark.parametrize(("fill", "tile"), [(1, 8), (8, 1)])
def test_a_loop_of_one_iteration_agrees_with_any_number_of_threads(fill: int, tile: int, summed: bool) -> None:
    s, args = staged(fill, tile, summed)
    function = finish(lower_for(CUDA, s, args).functions[0], check=True)
    (launch,) = [stmt for stmt in statements(function.body) if isinstance(stmt, Launch)]
    assert {tag.value: int(extent) for tag, _, extent in launch.threads} == {"blockIdx.x": 6, "threadIdx.x": 8}
    a = np.arange(96, dtype="float32").reshape(6, 16)
    found = np.full_like(a, np.nan)
    interpret(function, [a, found], races=True, outputs=function.buffers[1:])
    np.testing.assert_array_equal(found, a[:, ::-1] * 10 + 1)


@pytest.mark.opencl
def test_sums_of_one_thread_happen_once_on_a_device() -> None:
    """Every thread adding to the shared sums would add too often."""
    module = tilewright.build(*staged(1, 8, True), "opencl")
    a = np.arange(96, dtype="float32").reshape(6, 16)
    given, found = (tilewright.nd.array(x, tilewright.opencl()) for x in (a, np.full_like(a, np.nan)))
    module(given, found)
    np.testing.assert_array_equal(found.numpy(), a[:, ::-1] * 10 + 1)


def test_an_axis_that_threads_divide_keeps_its_factor_where_fewer_elements_are_left() -> None:
    """As in the legacy compiler: tiles of 16 by four threads stay so, though the tensor has 11 elements."""
    A = te.placeholder((11,), name="A")
    B = te.compute((11,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    block, rest = s[B].split(B.op.axis[0], factor=16)
    thread, _ = s[B].split(rest, factor=4)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    (function,) = tilewright.lower(s, [A, B]).functions
    assert 'launch_thread("threadIdx.x", 4)' in str(tilewright.lower(s, [A, B]))
    a = np.arange(11, dtype="float32")
    found = np.full_like(a, np.nan)
    interpret(finish(function, check=True), [a, found], races=True, outputs=function.buffers[1:])
    np.testing.assert_array_equal(found, a + 1)
