"""Divisions that are used more than once are named."""

from __future__ import annotations

from tests.loops.programs import load, loop, store
from tests.passes.kernels import A, B, i, inside, kernel, same, tx
from tests.passes.running import run_pass
from tilewright.expr.operators import floordiv, floormod, truncdiv
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import For, Let, Store
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
