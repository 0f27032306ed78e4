"""Divisions that are used more than once are named."""

from __future__ import annotations

import numpy as np

from tests.loops.programs import alloc, buf, function, launch, load, loop, store
from tests.passes.kernels import A, B, i, inside, kernel, same, tx
from tests.passes.running import run_pass
from tilewright.core.dtype import INT32
from tilewright.expr.nodes import IntImm
from tilewright.expr.operators import floordiv, floormod, truncdiv
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import For, If, Let, Store, seq
from tilewright.passes.hoist_divisions import hoist_divisions


def test_a_division_that_is_used_twice_is_named() -> None:
    quotient = truncdiv(tx, 3)
    before = kernel(store(B, quotient, load(A, quotient)))
    body = inside(run_pass(hoist_divisions, before))
    assert isinstance(body, Let)
    assert str(body.value) == "T.truncdiv(tx, 3)"
    assert isinstance(body.body, Store)
    assert body.body.indices == (body.var,)


def test_at_the_head_of_the_loop_that_it_depends_on() -> None:
    remainder = floormod(i * 8 + tx, 3)
    before = kernel(loop(i, 4, store(B, remainder, load(A, remainder))))
    made = run_pass(hoist_divisions, before)
    same(before, made)
    body = inside(made)
    assert isinstance(body, For)
    assert isinstance(body.body, Let)


def test_a_division_that_is_used_once_stays() -> None:
    before = kernel(store(B, truncdiv(tx, 3), load(A, tx)))
    assert isinstance(inside(run_pass(hoist_divisions, before)), Store)


def test_divisions_within_divisions() -> None:
    inner = floordiv(tx, 2)
    outer = floormod(inner, 3)
    before = kernel(store(B, inner, load(A, outer)), store(B, inner + 8, load(A, outer + 1)))
    made = run_pass(hoist_divisions, before)
    same(before, made)
    lets = [node for node in post_order(made.body) if isinstance(node, Let)]
    assert len(lets) == 2


def test_a_division_of_what_is_read_stays_behind_its_guard_and_its_store() -> None:
    held, there, out = buf("H", 1, dtype="int32", scope="local"), buf("N", 8, dtype="int32"), buf("M", 8, dtype="int32")
    quotient = floordiv(load(there, tx), 3)
    guarded = If(tx < 8, store(out, tx, quotient * quotient), None)
    taken = floordiv(load(held, 0) + tx, 3)
    stale = [store(held, 0, IntImm(5, INT32)), store(out, tx, taken), store(held, 0, IntImm(0, INT32))]
    body = seq(guarded, alloc(held, *stale, If(tx < 8, store(out, tx, taken + load(out, tx)), None)))
    before = function((there, out), launch(body, tx=(tx, 8)))
    made = run_pass(hoist_divisions, before)
    assert not [node for node in post_order(made.body) if isinstance(node, Let)]
    result = np.zeros(8, "int32")
    interpret(made, [np.arange(8, dtype="int32"), result], races=False)
    np.testing.assert_array_equal(result, (np.arange(8) + 5) // 3 + np.arange(8) // 3)
