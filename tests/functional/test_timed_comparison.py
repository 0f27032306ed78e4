"""Decisions between two implementations, on made-up timings."""

from __future__ import annotations

import random
import statistics

import pytest

from tilewright.functional.planning.timed_comparison import Comparison, Verdict


def noisy(gain: float, load: float, seed: int, rounds: int = 64) -> Comparison:
    """Seconds of both sides on a loaded machine: any run may take several times as long, more often than not."""
    rng = random.Random(seed)

    def times(seconds: float) -> tuple[float, ...]:
        return tuple(seconds * (1 + rng.expovariate(1 / load)) for _ in range(rounds))

    return Comparison(times(1e-3), times(gain * 1e-3), min)


def test_the_spread_is_that_of_the_sign_test() -> None:
    """Against the definition: of all orders of signs, those in which fewer gains than that lie on one side."""
    for rounds, outside in ((1, 0), (2, 0), (7, 0), (11, 0), (14, 1), (21, 4), (35, 9)):
        found = Comparison((1.0,) * rounds, tuple(map(float, range(1, rounds + 1))))
        assert found.spread == (1.0 + outside, float(rounds - outside))
        if rounds <= 14:
            few = sum(bin(signs).count("1") <= outside for signs in range(2**rounds))
            assert 2 * few / 2**rounds <= 0.01 or outside == 0


def test_seconds_and_gain() -> None:
    found = Comparison((1.0, 2.0, 4.0), (3.0, 4.0, 6.0))
    assert found.seconds == (2.0, 4.0)
    assert found._replace(chosen=min).seconds == (1.0, 3.0)
    assert (found.gain, found.spread) == (2.0, (1.5, 3.0))


def test_least_times_of_eight_parts() -> None:
    """A round in which other programs ran does not count beside a quick one of the same part."""
    busy = [9.0 if at % 3 else 1.0 for at in range(24)]
    found = Comparison(tuple(busy), tuple(2 * each for each in reversed(busy)), min)
    assert (found.gain, found.spread) == (2.0, (2.0, 2.0))
    assert found._replace(chosen=statistics.median).spread != found.spread


def test_verdicts() -> None:
    even = (1.0,) * 7
    assert Comparison(even, (1.1,) * 7).verdict(1.02) == Verdict.FASTER
    assert Comparison((1.1,) * 7, even).verdict(1.02) == Verdict.SLOWER
    assert Comparison(even, (1.01,) * 7).verdict(1.02) == Verdict.CLOSE
    assert Comparison(even, (1.01,) * 7).verdict() == Verdict.FASTER
    assert Comparison(even, (*(1.5,) * 6, 0.9)).verdict(1.02) == Verdict.CLOSE


@pytest.mark.parametrize("load", [0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("gain", [0.6, 0.9, 0.98, 1.0, 1.02, 1.1, 1.5])
def test_runs_on_a_loaded_machine_do_not_contradict_each_other(gain: float, load: float) -> None:
    found = [noisy(gain, load, seed).verdict(1.02) for seed in range(200)]
    wrong = {Verdict.FASTER} if gain < 1 else {Verdict.SLOWER} if gain > 1 else {Verdict.FASTER, Verdict.SLOWER}
    assert sum(each in wrong for each in found) <= 200 * 0.01
    if load <= 0.1 and gain in (0.6, 1.5):
        assert found.count(Verdict.CLOSE) < 5
