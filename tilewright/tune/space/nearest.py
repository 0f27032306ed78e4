"""The configuration nearest to wanted choices. Splits are compared by the binary logarithms of their inner sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from math import inf, log2
from typing import Any

from .choices import Choice, SplitChoice
from .space import Space


def nearest_index(space: Space, wanted: Mapping[str, Any]) -> int:
    """Return the index of the wanted configuration, or of the nearest one."""
    exact = [_place_of(knob, wanted.get(knob.name)) for knob in space.knobs]
    places = [place for place in exact if place is not None]
    if len(places) == len(exact) and space.is_index_valid(space.index(places)):
        return space.index(places)
    knobs = [_by_knob(knob, wanted.get(knob.name)) for knob in space.knobs]
    return next(index for index in map(space.index, _by_distance(knobs)) if space.is_index_valid(index))


def similar_index(space: Space, wanted: Mapping[str, Choice]) -> int | None:
    """Return the index of the configuration nearest to another workload's; None if none is similar.

    Choices other than splits must be equal.
    """
    places: list[int] = []
    for knob in space.knobs:
        choice = wanted.get(knob.name) if knob.name in wanted else None
        if choice is None or not isinstance(knob.choices, tuple) or not _comparable(choice, knob.choices[0]):
            return None
        away, place = min((_distance(other, choice.wanted, inf), place) for place, other in enumerate(knob.choices))
        if away == inf:
            return None
        places.append(place)
    found = space.index(places)
    return found if space.is_index_valid(found) else None


def _comparable(a: Choice, b: Choice) -> bool:
    """Return whether two choices have the same kind and, if they are splits, the same number of loops."""
    return type(a) is type(b) and (not isinstance(a, SplitChoice) or len(a.numbers) == len(b.numbers))


def _distance(choice: Choice, wanted: Any, other: float = 1.0) -> float:
    """Return the distance between the inner sizes of splits, in doublings; `other` for other unequal choices."""
    if wanted is None:
        return 0.0
    if isinstance(choice, SplitChoice):
        pairs = zip(choice.sizes[1:], wanted, strict=True)
        return sum(abs(log2(max(s, 1)) - log2(max(w, 1))) for s, w in pairs)
    return 0.0 if choice.data == wanted else other


def _place_of(knob: Any, wanted: Any) -> int | None:
    """Return the index of the choice equal to `wanted`, or 0 for None; None if there is no such choice."""
    if wanted is None:
        return 0
    return next((place for place, choice in enumerate(knob.choices) if choice.wanted == wanted), None)


Distances = list[tuple[float, int]]
"""The distance of each choice of a knob from the wanted choice, with its index; the nearest first."""


def _by_knob(knob: Any, wanted: Any) -> Distances:
    away = [_distance(choice, wanted) for choice in knob.choices]
    return sorted((distance, place) for place, distance in enumerate(away))


def _by_distance(knobs: list[Distances]) -> Iterator[list[int]]:
    """Yield lists of one index per knob, by the sum of their distances: predicates may rule out the first ones."""
    frontier, seen = [(0.0, (0,) * len(knobs))], set()
    while frontier:
        _, ranks = heappop(frontier)
        yield [knob[rank][1] for knob, rank in zip(knobs, ranks, strict=True)]
        for i, knob in enumerate(knobs):
            further = (*ranks[:i], ranks[i] + 1, *ranks[i + 1 :])
            if further[i] < len(knob) and further not in seen:
                seen.add(further)
                heappush(frontier, (sum(k[r][0] for k, r in zip(knobs, further, strict=True)), further))
