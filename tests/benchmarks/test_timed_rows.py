"""Times in turns, and tensors in several places of memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest

from benchmarks.timed_rows import PLACE_ROUNDS, PLACES, SMALL, Row, in_places


def clock(microseconds: float, calls: list[str], name: str) -> Callable[[int], float]:
    """A timer of something that takes so long."""

    def timer(number: int) -> float:
        calls.append(name)
        return number * microseconds * 1e-6

    return timer


def test_each_place_has_its_own_time_and_is_timed_beside_what_it_is_compared_with() -> None:
    calls: list[str] = []
    places = {
        "plain": [clock(2.0, calls, "plain 0"), clock(3.0, calls, "plain 1")],
        "fused": [clock(2.5, calls, "fused 0"), clock(3.5, calls, "fused 1")],
        "alone": [clock(9.0, calls, "alone")],
    }
    assert in_places(places) == {
        who: pytest.approx(us) for who, us in (("plain", [2.0, 3.0]), ("fused", [2.5, 3.5]), ("alone", [9.0]))
    }
    assert calls[-5 * PLACE_ROUNDS :] == ["plain 0", "fused 0", "alone", "plain 1", "fused 1"] * PLACE_ROUNDS


@pytest.mark.cuda
def test_places_hold_the_same_values_and_share_no_memory() -> None:
    pytest.importorskip("torch")
    row = Row("dw-256x32-k3", "bfloat16")
    first, *others = row.places
    assert first.out is row.out
    assert len(others) == PLACES - 1
    for each in others:
        assert all((a == b).all() for a, b in zip(first[:3], each[:3], strict=True))
        assert all(tensor.data_ptr() % 512 == 0 for tensor in each)
    spans = [(t.data_ptr(), t.data_ptr() + t.numel() * t.element_size()) for each in row.places for t in each]
    assert all(a[1] <= b[0] for a, b in combinations(sorted(spans), 2))


@pytest.mark.cuda
def test_large_tensors_stay_where_they_are() -> None:
    pytest.importorskip("torch")
    row = Row("convnext-b128-dw96x56", "float16")
    assert row.bytes > SMALL
    assert len(row.places) == 1
