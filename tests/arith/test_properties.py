"""The simplifier, the prover and the analyses on random expressions, against exact evaluation."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.arith import generate
from tests.arith.exact import UndefinedError, evaluate
from tilewright.arith.facts import Facts
from tilewright.arith.interval import interval
from tilewright.arith.modular import modular
from tilewright.arith.simplify import prove, prove_equal, simplify
from tilewright.expr import nodes as n

RANDOMS = st.randoms(use_true_random=False)
VALUES = 15


def draw(r: Random) -> tuple[generate.Scene, n.Expr]:
    """A scene, and an expression over its variables."""
    if r.random() < 0.75:
        scene = generate.scene(r)
        make = generate.condition if r.random() < 0.4 else generate.number
        return scene, make(r, scene.names, r.randint(1, 4))
    scene = generate.symbolic_scene(r)
    e = generate.symbolic(r, scene.names, r.randint(1, 3))
    if r.random() < 0.5:
        e = r.choice(generate.COMPARES)(e, generate.symbolic(r, scene.names, 2))
    return scene, e


def check(r: Random, scene: generate.Scene, e: n.Expr) -> None:
    """Equal values after simplification, and all values within what the analyses say."""
    simple = simplify(e, scene.facts)
    lo, hi = interval(e, scene.facts)
    coeff, base = (1, 0) if e.dtype.is_bool else modular(e, scene.facts)
    proved = e.dtype.is_bool and prove(e, scene.facts)
    assert simple.dtype == e.dtype
    assert simplify(simple, scene.facts) is simple
    for env in scene.values(r, VALUES):
        try:
            value = evaluate(e, env)
        except UndefinedError:
            continue
        shown = {var.name: held for var, held in env.items()}
        assert evaluate(simple, env) == value, f"{e}  ->  {simple}  under {scene.facts} at {shown}"
        assert lo <= value <= hi, f"{e} in [{lo}, {hi}] under {scene.facts} at {shown}"
        assert (value - base) % coeff == 0 if coeff else value == base, f"{e} = {coeff}k + {base} at {shown}"
        assert value or not proved


@given(RANDOMS)
def test_simplify_keeps_values(r: Random) -> None:
    check(r, *draw(r))


@pytest.mark.parametrize("seed", range(8))
def test_simplify_keeps_values_in_bulk(seed: int) -> None:
    r = Random(seed)
    for _ in range(250):
        check(r, *draw(r))


def test_nearly_every_result_is_a_fixed_point_for_a_fresh_simplifier() -> None:
    r = Random(1)
    moved = 0
    for _ in range(1000):
        scene = generate.scene(r)
        simple = simplify(generate.number(r, scene.names, r.randint(1, 4)), scene.facts)
        fresh = Facts(scene.facts.ranges, scene.facts.conditions)  # not interned, so without any memo
        moved += simplify(simple, fresh) is not simple
    assert moved <= 5


@given(RANDOMS)
def test_what_is_proved_equal_is_equal(r: Random) -> None:
    scene = generate.scene(r)
    a = generate.number(r, scene.names, 3)
    shuffled = n.Sub(n.Add(n.Mul(a, generate.const(3)), scene.names[0]), n.Add(scene.names[0], n.Add(a, a)))
    assert prove_equal(a, shuffled, scene.facts)
    b = generate.number(r, scene.names, 2)
    if prove_equal(a, b, scene.facts):
        for env in scene.values(r, VALUES):
            try:
                assert evaluate(a, env) == evaluate(b, env)
            except UndefinedError:
                continue


@given(RANDOMS)
def test_vectors_keep_their_lanes(r: Random) -> None:
    scene = generate.scene(r, conditions=False)
    lanes = r.choice((2, 4))

    def vector(depth: int) -> n.Expr:
        if depth == 0:
            start = generate.number(r, scene.names, 1)
            step = generate.const(r.choice((1, 2, 4, -1)))
            return n.Ramp(start, step, lanes) if r.random() < 0.5 else n.Broadcast(start, lanes)
        kind = r.choice((n.Add, n.Sub, n.Mul, n.FloorDiv, n.FloorMod, n.Min, n.Max))
        if kind in (n.Add, n.Sub, n.Min, n.Max):
            return kind(vector(depth - 1), vector(depth - 1))
        return kind(vector(depth - 1), n.Broadcast(generate.const(r.choice((1, 2, 4, 8))), lanes))

    e = vector(r.randint(1, 3))
    if r.random() < 0.4:
        e = r.choice(generate.COMPARES)(e, vector(1))
    simple = simplify(e, scene.facts)
    assert simple.dtype == e.dtype
    for env in scene.values(r, VALUES):
        try:
            value = evaluate(e, env)
        except UndefinedError:
            continue
        assert evaluate(simple, env) == value, f"{e} -> {simple} under {scene.facts}"
