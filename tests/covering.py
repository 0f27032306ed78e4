"""Parameters that cover a product: each value, or each pair of values, by default; the whole product if slow.

A fault depends on one value or on two together far more often than on three. `make test-slow` runs the product.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations, product
from typing import Any

import pytest


def each_value(*axes: Iterable[Any]) -> list[Any]:
    """Every combination; those beyond a cover of each value of each axis are slow."""
    return _covering(1, axes)


def each_pair(*axes: Iterable[Any]) -> list[Any]:
    """Every combination; those beyond a cover of each pair of values of two axes are slow."""
    return _covering(2, axes)


def _covering(strength: int, axes: tuple[Iterable[Any], ...]) -> list[Any]:
    listed = [list(axis) for axis in axes]
    places = list(product(*(range(len(axis)) for axis in listed)))
    missing = {part for place in places for part in _parts(place, strength)}
    chosen = set()
    while missing:
        # Of combinations that cover equally many, a different one each time, so that no value is met too often.
        best = max(places, key=lambda place: (len(missing & _parts(place, strength)), -places.index(place)))
        chosen.add(best)
        missing -= _parts(best, strength)
    slow = pytest.mark.slow
    return [
        pytest.param(*(axis[i] for axis, i in zip(listed, place, strict=True)), marks=() if place in chosen else slow)
        for place in places
    ]


def _parts(place: tuple[int, ...], strength: int) -> set[tuple[tuple[int, int], ...]]:
    """The values, by axis, that a combination has together."""
    return set(combinations(enumerate(place), strength))
