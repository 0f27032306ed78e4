"""Stages at a loop over a hardware index, of which readers inside have a loop of their own: it is the same number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.loops.running import empty, floats
from tests.passes.running import finish
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret

CUDA = Target("cuda -arch=sm_90")
ROUNDS, THREADS = 3, 8


def kept(inner: int, tag: str = "threadIdx.x") -> tuple[Any, list[Any]]:
    """Rounds over a row that pass through shared memory, by `inner` threads, with a factor each that a thread keeps."""
    A = te.placeholder((ROUNDS, THREADS), name="A")
    factors = te.placeholder((THREADS,), name="factors")
    scaled = te.compute((ROUNDS, THREADS), lambda i, j: A[i, j] * factors[j], "scaled")
    B = te.compute((ROUNDS, THREADS), lambda i, j: scaled[i, THREADS - 1 - j], "B")
    s = te.create_schedule(B.op)
    s[scaled].set_scope("shared")
    own = s.cache_read(factors, "local", [scaled])
    i, j = s[B].op.axis
    block = s[B].split(i, nparts=1)[0]
    round_ = s[B].leaf_iter_vars[1]
    s[B].reorder(block, j, round_)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    s[scaled].compute_at(s[B], round_)
    _, lane = s[scaled].split(scaled.op.axis[1], factor=inner)
    s[scaled].bind(lane, te.thread_axis(tag))
    s[own].compute_at(s[B], j)
    return s, [A, factors, B]


def test_a_thread_keeps_what_its_readers_need_of_its_own_index() -> None:
    s, args = kept(THREADS)
    function = finish(lower_for(CUDA, s, args).functions[0], str(CUDA), check=True)
    a, factors, out = floats(ROUNDS, THREADS), floats(THREADS), empty(ROUNDS, THREADS)
    interpret(function, [a, factors, out], outputs=[function.buffers[-1]], races=True)
    np.testing.assert_array_equal(out, (a * factors)[:, ::-1])
    text = str(lower_for(CUDA, s, args))
    assert text.index("factors_local_1[0] = factors[") < text.index("for i_inner")  # once, before all rounds
    assert text.count("= factors[") == 1


@pytest.mark.parametrize("inner", [4, 2])
def test_not_where_fewer_threads_have_the_index(inner: int) -> None:
    """Thread 5 has no element that four threads deal with: nothing says which one it should keep."""
    s, args = kept(inner)
    with pytest.raises(UserError, match=r"the part of 'factors.local' that 'scaled' needs depends on .*threadIdx.x"):
        lower_for(CUDA, s, args)


def test_not_by_another_index() -> None:
    s, args = kept(THREADS, "threadIdx.y")
    with pytest.raises(UserError, match=r"the part of 'factors.local' that 'scaled' needs depends on .*threadIdx.y"):
        lower_for(CUDA, s, args)


def test_not_by_virtual_threads() -> None:
    """Loops of that name are not one index: each is expanded by itself."""
    s, args = kept(THREADS, "vthread")
    with pytest.raises(UserError, match=r"the part of 'factors.local' that 'scaled' needs depends on"):
        lower_for(CUDA, s, args)
