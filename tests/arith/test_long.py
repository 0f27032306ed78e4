"""Long chains and many conditions: simplified in time that grows with their length, to what has the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewright import te, tir
from tilewright.arith.affine import Affine
from tilewright.arith.simplify import simplify
from tilewright.expr.evaluate import evaluate

X = te.var("x")


def chain(step: Callable[[Any], Any], count: int) -> Any:
    e: Any = X
    for _ in range(count):
        e = step(e)
    return e


@pytest.mark.parametrize(
    ("step", "count"),
    [
        (lambda e: tir.floordiv(e + 1, 2), 800),
        (lambda e: tir.floormod(e * 3 + 1, 7) + X, 800),
        (lambda e: e * 7 + 1, 2000),
        (lambda e: tir.max(e * 3 - 1, X), 800),
    ],
    ids=["halves", "remainders", "overflow", "maxima"],
)
def test_a_long_chain(step: Callable[[Any], Any], count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in linear forms that are made, which does not depend on the machine."""
    made = [0]
    plain = Affine.__init__

    def counted(self: Any, *args: Any) -> None:
        made[0] += 1
        plain(self, *args)

    monkeypatch.setattr(Affine, "__init__", counted)
    e = chain(step, count)
    simple = simplify(e)
    assert made[0] < 60 * count
    for x in (-1000, -5, -1, 0):
        assert evaluate(simple, {X: x}) == evaluate(e, {X: x})


@pytest.mark.parametrize("conjunction", [True, False])
def test_many_conditions(conjunction: bool) -> None:
    many = [te.var(f"y{k}") for k in range(1500)]
    join = te.all if conjunction else te.any
    for parts in ([y < X for y in many], [k + 7 > X for k in range(1500)]):
        simple = simplify(join(*parts))
        for x, low in ((3, 0), (3, 5), (9, 5), (3000, 0), (3000, 3001)):
            env = {X: x, **{y: low + k % 2 for k, y in enumerate(many)}}
            assert bool(evaluate(simple, env)) is (all if conjunction else any)(bool(evaluate(p, env)) for p in parts)
