"""Digits that cancel: equal values on random numbers, and fewer quotients."""

from __future__ import annotations

import itertools
import random

import pytest

from tilewright import te, tir
from tilewright.arith.digits import cancel_digits
from tilewright.arith.facts import EMPTY
from tilewright.arith.simplify import simplify
from tilewright.expr.evaluate import evaluate
from tilewright.expr.nodes import FloorDiv, FloorMod
from tilewright.expr.operators import const
from tilewright.expr.traverse import post_order

LANES = 32


def variables(**extents):
    found = {name: te.var(name) for name in extents}
    facts = EMPTY.bind_all({found[name]: (const(0, "int32"), const(e, "int32")) for name, e in extents.items()})
    return found, facts


def quotients(e):
    return sum(isinstance(node, (FloorDiv, FloorMod)) for node in post_order(e))


@pytest.mark.parametrize(("rows", "columns"), [(14, 14), (28, 28), (7, 7), (14, 7), (5, 12)])
@pytest.mark.parametrize("lanes_per_place", [4, 8, 16])
def test_a_place_put_together_again_is_linear(rows, columns, lanes_per_place):
    found, facts = variables(block=98, part=4, lane=LANES)
    together, channels = LANES // lanes_per_place, 256
    place = found["block"] * 128 + found["part"] * together + tir.floordiv(found["lane"], lanes_per_place)
    area = rows * columns
    image, y = tir.floordiv(place, area), tir.floordiv(tir.floormod(place, area), columns)
    x = tir.floormod(place, columns)
    written = image * area * channels + y * columns * channels + x * channels - 3840
    before = simplify(written, facts)
    after = cancel_digits(before, facts)
    assert quotients(after) <= 1  # of the lane
    draw = random.Random(f"{rows} {columns} {lanes_per_place}")
    for _ in range(50):
        values = {found[name]: draw.randrange(e) for name, e in (("block", 98), ("part", 4), ("lane", LANES))}
        assert evaluate(after, values) == evaluate(written, values)


@pytest.mark.parametrize("seed", range(60))
def test_sums_of_digits_keep_their_value(seed):
    draw = random.Random(seed)
    extents = {"a": draw.choice((3, 16, 50)), "b": draw.choice((2, 8)), "c": draw.choice((4, 32))}
    found, facts = variables(**extents)
    a, b, c = found.values()
    sizes = [draw.choice((2, 3, 4, 7, 8, 14, 28)) for _ in range(4)]
    whole = a * (sizes[0] * sizes[1]) + b * sizes[0] + tir.floordiv(c, sizes[2]) + draw.choice((0, 0, 5, -7))
    digits = [
        tir.floordiv(whole, sizes[1]) * (sizes[1] * sizes[3]),
        tir.floormod(whole, sizes[1]) * sizes[3],
        tir.floordiv(tir.floormod(whole, sizes[0] * sizes[1]), sizes[0]) * draw.choice((1, sizes[0])),
        tir.floormod(c, sizes[2]) * draw.choice((1, -1, 3)),
        a * b,
    ]
    written = sum(draw.sample(digits, draw.randint(2, 5)), const(draw.randrange(-9, 9), "int32"))
    after = cancel_digits(written, facts)
    assert quotients(after) <= quotients(written)
    for _ in range(30):
        values = {found[name]: draw.randrange(extent) for name, extent in extents.items()}
        assert evaluate(after, values) == evaluate(written, values)


def test_what_does_not_cancel_stays_as_it_is():
    found, facts = variables(p=200)
    p = found["p"]
    for kept in (tir.floordiv(p, 14) * 1792 + p, tir.floormod(p, 14) * 64, p * 3 + 1):
        assert cancel_digits(kept, facts) is kept


def test_digits_of_variables_without_bounds_end() -> None:
    """Of an index that might not fit its type, no multiple of the divisor is taken out, so the quotient stays."""
    a, b, c, d = (te.var(name) for name in "abcd")
    flat = ((a * 2 + b) * 2 + c) * 2 + d
    for place in (1, 2, 3):
        digit = flat
        for _ in range(place):
            digit = tir.floordiv(digit, 2)
        digit = tir.floormod(digit, 2)
        simpler = simplify(digit, EMPTY)
        for values in itertools.product(range(2), repeat=4):
            bits = dict(zip((a, b, c, d), values, strict=True))
            assert evaluate(simpler, bits) == evaluate(digit, bits)
