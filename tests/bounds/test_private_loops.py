"""Loops over threads in a stage of which each thread, or each block, keeps a result of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats, run
from tilewright import te


class Copied:
    """C[i] = B[i] + 2 with B[i] = A[i] + 1, and a copy of A in local memory that is filled before the loops of B."""

    def __init__(self, step: int, tile: int = 32) -> None:
        self.A = te.placeholder((128,), name="A")
        self.B = te.compute((128,), lambda i: self.A[i] + 1, name="B")
        self.C = te.compute((128,), lambda i: self.B[i] + 2, name="C")
        s = self.s = te.create_schedule(self.C.op)
        copy = s.cache_read(self.A, "local", [self.B])
        s[self.B].set_scope("shared")
        thread = te.thread_axis((0, 32), "threadIdx.x")
        block, rest = s[self.C].split(self.C.op.axis[0], factor=128)
        outer, rest = s[self.C].split(rest, factor=64)
        s[self.C].bind(block, te.thread_axis("blockIdx.x"))
        s[self.C].bind(s[self.C].split(rest, factor=32)[1], thread)
        s[self.B].compute_at(s[self.C], outer)
        far, near = s[self.B].split(self.B.op.axis[0], factor=tile)
        s[self.B].bind(near if tile == 32 else far, thread)
        s[copy].compute_at(s[self.C], block)
        s[copy].bind(s[copy].split(s[copy].op.axis[0], factor=step)[1], thread)


def test_each_thread_copies_the_elements_that_it_reads() -> None:
    e = Copied(step=32)
    lowered = tw.lower(e.s, [e.A, e.C])
    assert "for ax0_outer in range(4):" in str(lowered)
    assert "if " not in str(lowered)
    values, out = floats(128), empty(128)
    run(lowered["main"], values, out)
    np.testing.assert_allclose(out, values + 3, rtol=1e-6)


def test_a_thread_that_reads_others_is_refused() -> None:
    e = Copied(step=32, tile=2)  # thread t reads elements 2 * t and 2 * t + 1
    with refused("bind", "sees only its own copy", fix="unbound"):
        tw.lower(e.s, [e.A, e.C])


@pytest.mark.parametrize(("tag", "scope"), [("threadIdx.x", "local"), ("blockIdx.y", "shared"), ("vthread", "local")])
def test_one_element_for_each_thread(tag: str, scope: str) -> None:
    A = te.placeholder((2, 3, 4), name="A")
    B = te.compute((2, 3, 4), lambda i, j, k: A[i, j, k] * 2, name="B")
    C = te.compute((2, 3, 4), lambda i, j, k: B[i, j, k] + 1, name="C")
    s = te.create_schedule(C.op)
    thread: Any = te.thread_axis(tag)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].set_scope(scope)
    _, near = s[B].split(B.op.axis[1], 3)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(C.op.axis[1], thread)
    s[B].bind(near, thread)
    lowered = tw.lower(s, [A, C])
    assert "if " not in str(lowered)
    values, out = floats(2, 3, 4), empty(2, 3, 4)
    run(lowered["main"], values, out)
    np.testing.assert_allclose(out, values * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("tag", ["threadIdx.y", "blockIdx.x"])
def test_an_element_for_another_index_is_refused(tag: str) -> None:
    A = te.placeholder((13,), name="A")
    B = te.compute((13,), lambda i: A[i] * 2, name="B")
    C = te.compute((13,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x"))
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].bind(B.op.axis[0], te.thread_axis(tag))
    with refused("bind", "sees only its own copy", fix="unbound"):
        tw.lower(s, [A, C])
