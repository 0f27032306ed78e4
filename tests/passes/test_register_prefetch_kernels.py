"""Fills that are loaded an iteration ahead, in kernels that went through all passes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tilewright import te
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.nodes import Load
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Barrier, For, Function, Seq, Store
from tilewright.passes.context import PassContext

CUDA = Target("cuda -arch=sm_90")


def column_sums(n: int, factor: int, tile: Callable[[Any, Any, Any], None] | None = None) -> tuple[Any, list[Any]]:
    """Sums over n rows of 16, a block of threads, `factor` rows at a time in shared memory."""
    A, k = te.placeholder((n, 16), name="A"), te.reduce_axis((0, n), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, 15 - i], axis=k), "C")
    s = te.create_schedule(C.op)
    AS = s.cache_read(A, "shared", [C])
    x = te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], x)
    outer, _ = s[C].split(C.op.reduce_axis[0], factor=factor)
    s[AS].compute_at(s[C], outer)
    s[AS].bind(AS.op.axis[1], x)
    return s, [A, C]


def finished(s: Any, args: list[Any], *without: str) -> Function:
    """The finished program, which computes what it should."""
    (low,) = lower_for(CUDA, s, args).functions
    made = finish(low, check=True, without=without)
    a = np.random.default_rng(0).integers(-3, 4, [int(e) for e in args[0].shape]).astype("float32")
    c = np.full(16, np.nan, "float32")
    interpret(made, [a, c], outputs=made.buffers[1:])
    np.testing.assert_array_equal(c, a.sum(axis=0)[::-1])
    return made


def held(made: Function) -> list[str]:
    found = (node.buffer for node in post_order(made.body) if isinstance(node, Allocate))
    return sorted(buffer.name for buffer in found if buffer.name.endswith(".next"))


@pytest.mark.parametrize("n", [16, 32, 36, 41, 7])
def test_a_remainder_is_a_loop_of_its_own(n: int) -> None:
    """partition_loops cuts off the iterations with guards; what is left of one iteration loads nothing ahead."""
    made = finished(*column_sums(n, 8))
    assert held(made) == (["A.shared.next"] if n > 8 else [])
    barriers = [node for node in post_order(made.body) if isinstance(node, Barrier)]
    assert barriers


def test_the_pass_can_be_left_out() -> None:
    s, args = column_sums(32, 8)
    assert held(finished(s, args))
    assert not held(finished(s, args, "register_prefetch"))
    with PassContext(disabled_pass=["register_prefetch"]):
        source = tilewright.build(s, args, "cuda -arch=sm_90").imported_modules[0].get_source()
        assert "next" not in source
    source = tilewright.build(s, args, "cuda -arch=sm_90").imported_modules[0].get_source()
    assert "A_shared_next" in source


def test_it_is_explained() -> None:
    s, args = column_sums(32, 8)
    assert "── register_prefetch" in tilewright.lower(s, args).explain("cuda")


def test_loads_stand_between_the_barriers() -> None:
    """Of one iteration: all have read what is replaced; then it is stored; the next is asked for; all have stored."""
    made = finished(*column_sums(32, 8))
    (outer,) = [n for n in post_order(made.body) if isinstance(n, For) and n.var.name == "k.outer"]
    assert isinstance(outer.body, Seq)
    kinds = [type(part).__name__ for part in outer.body.stmts]
    assert kinds == ["Barrier", "For", "If", "Barrier", "For"]
    ahead = outer.body.stmts[2]
    assert {n.source.name for n in post_order(ahead) if isinstance(n, Load)} == {"A"}
    assert {n.buffer.name for n in post_order(ahead) if isinstance(n, Store)} == {"A.shared.next"}
