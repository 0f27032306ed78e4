"""Slots of rings are counted where a remainder would have to be computed."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.running import compiled
from tests.passes.test_place_awaits import inputs, run, sums
from tilewright.expr.nodes import FloorMod, Mod
from tilewright.expr.traverse import post_order


@pytest.mark.parametrize("depth", [2, 3, 4, 5, 6, 7])
@pytest.mark.parametrize("n", [64, 72, 30])
def test_only_masks_are_left(depth: int, n: int) -> None:
    s, args = sums(depth, n)
    function = compiled(s, args)
    divisors = {int(node.b) for node in post_order(function.body) if isinstance(node, (FloorMod, Mod))}
    assert all(divisor & (divisor - 1) == 0 for divisor in divisors)
    np.testing.assert_array_equal(run(function, args), inputs(args)[0].sum(axis=0)[::-1])


def test_a_ring_of_stores_is_counted_too() -> None:
    s, args = sums(3, 72)
    function = compiled(s, args, without=["asynchronous_copies"])
    assert not any(isinstance(node, (FloorMod, Mod)) for node in post_order(function.body))
    np.testing.assert_array_equal(run(function, args), inputs(args)[0].sum(axis=0)[::-1])
    kept = compiled(s, args, without=["count_ring_slots"])
    assert any(isinstance(node, (FloorMod, Mod)) for node in post_order(kept.body))
