"""Facts declared on a variable: what is simplified and proved by them holds for every value that agrees with them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.arith import generate
from tests.arith.exact import UndefinedError, evaluate
from tests.arith.generate import const
from tilewright.arith.facts import EMPTY
from tilewright.arith.interval import interval
from tilewright.arith.modular import modular
from tilewright.arith.simplify import prove, simplify
from tilewright.core.errors import UserError
from tilewright.expr import nodes as n
from tilewright.expr import operators as op
from tilewright.te import size_var, var


class Declared(generate.Scene):
    """A scene whose sizes n and m have declared facts; values are drawn that agree with them."""

    def _draw(self, r: Random) -> dict[n.Var, int] | None:
        env: dict[n.Var, int] = {}
        try:
            for name in self.names:
                if name in self.ranges:
                    low, extent = (evaluate(e, env) for e in self.ranges[name])
                    if extent < 1:
                        return None
                    env[name] = r.randrange(low, low + extent)
                else:
                    low, high, step = name.known
                    first = -24 if low is None else low
                    env[name] = r.randrange(-(-first // step), (high or first + 48) // step + 1) * step
            return env if all(evaluate(c, env) for c in self.conditions) else None
        except UndefinedError:
            return None


def scene(r: Random) -> Declared:
    """Sizes with facts, and loops over them."""
    make = r.choice((var, size_var))
    size = make("n", minimum=r.choice((0, 1, 5)), multiple_of=r.choice((2, 4, 8, 12)))
    other = make("m", multiple_of=r.choice((1, 3, 8)), maximum=r.choice((None, 40)))
    a, b = n.Var("a"), n.Var("b")
    extents = [size, n.FloorDiv(n.Add(size, const(7)), const(8)), n.Mul(size, const(3)), const(8)]
    ranges = {a: (const(0), r.choice(extents)), b: (const(0), r.choice((const(4), const(8))))}
    names = [size, other, a, b]
    held = [r.choice(generate.COMPARES)(generate.symbolic(r, names, 1), size)] if r.random() < 0.4 else []
    facts = EMPTY.bind_all(ranges)
    for cond in held:
        facts = facts.assume(cond)
    return Declared(names, facts, ranges, held)


@given(st.randoms(use_true_random=False))
def test_simplifying_keeps_the_values(r: Random) -> None:
    made = scene(r)
    make = r.choice((generate.symbolic, generate.number))
    e = make(r, made.names, r.randint(1, 3))
    if r.random() < 0.5:
        e = r.choice(generate.COMPARES)(e, make(r, made.names, 1))
    simple, (lo, hi) = simplify(e, made.facts), interval(e, made.facts)
    coeff, base = (1, 0) if e.dtype.is_bool else modular(e, made.facts)
    assert simplify(simple, made.facts) is simple
    for env in made.values(r, 12):
        try:
            value = evaluate(e, env)
        except UndefinedError:
            continue
        told = f"{e} -> {simple} at {[(v.name, v.known, x) for v, x in env.items()]}"
        assert evaluate(simple, env) == value, told
        assert lo <= value <= hi, told
        assert (value - base) % coeff == 0 if coeff else value == base, told


i, j = n.Var("i"), n.Var("j")


def test_a_tile_that_divides_needs_no_guard() -> None:
    size = var("n", multiple_of=32)
    facts = EMPTY.bind_all({i: (const(0), (size + 31) // 32), j: (const(0), const(32))})
    assert str(simplify((size + 31) // 32)) == "n // 32"
    assert prove(i * 32 + j < size, facts)
    assert not prove(i * 32 + j + 1 < size, facts)


def test_products_of_sizes_print_as_sizes() -> None:
    size, other = size_var("n", multiple_of=8), size_var("m", multiple_of=4)
    assert str(simplify(i * other * size + j * size)) == "(i * m + j) * n"
    assert str(simplify(op.floordiv(size * other, 4))) == "m * (n // 8) * 2"
    assert simplify(op.floormod(size * other, 32)) == 0


def test_facts_must_make_sense() -> None:
    for wrong, message in (
        ({"multiple_of": 0}, "multiple_of=0 of 'n' is less than 1"),
        ({"minimum": 1.5}, "minimum=1.5 of 'n' is not a whole number"),
        (
            {"minimum": 9, "maximum": 15, "multiple_of": 8},
            "no value of 'n' is at least 9, at most 15 and a multiple of 8",
        ),
    ):
        with pytest.raises(UserError, match=message):
            var("n", **wrong)
    with pytest.raises(
        UserError, match="'x' has type float32; only integers have a minimum, a maximum or a multiple_of"
    ):
        var("x", "float32", minimum=0)
    assert size_var("n", minimum=-5).known.minimum == 0
    assert var("n", minimum=3, maximum=31, multiple_of=8).known == (8, 24, 8)
