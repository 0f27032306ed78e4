"""Measurement of rivals in turns: each round measures all of them once, so that a disturbance of the machine affects
all.

The fastest round of each rival counts, because disturbances only add time. The spread of a measurement is the distance
from the fastest to the second fastest round.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ...measure.outcome import Measured, Outcome

One = TypeVar("One", bound=Hashable)

LEAST_ROUNDS, MOST_ROUNDS = 3, 7
_NOISE_FACTOR = 1.1
"""Another round follows if some rival's time in the last round exceeds its fastest time by this factor."""


@dataclass(frozen=True)
class Rounds(Generic[One]):
    """The measurements of each rival by rounds, and the first failure of each failed rival."""

    rounds: Mapping[One, list[Measured]]
    failed: Mapping[One, Outcome]

    def outcomes(self) -> dict[One, Outcome]:
        """Return the fastest outcome of each rival, or its failure if one of its rounds failed."""
        return {one: self.failed[one] if one in self.failed else _fastest(each) for one, each in self.rounds.items()}

    def margin(self, of: One) -> float:
        """Return the fraction by which a rival must be faster than `of` to be faster beyond the spread.

        It is the larger spread of this one and of the fastest rival.
        """
        running = {one: each for one, each in self.rounds.items() if one not in self.failed}
        own = running.pop(of, None)
        if own is None or not running:
            return 0.0
        return max(_spread(own), _spread(min(running.values(), key=lambda each: _fastest(each).mean)))


def measure_in_turns(
    rivals: Sequence[One],
    measure: Callable[[Sequence[One]], Iterable[tuple[One, Outcome]]],
    expected: Mapping[One, float],
) -> Rounds[One]:
    """Measure rivals in rounds until the last round is undisturbed and has the same winner as all rounds together.

    `expected` has earlier times of some rivals. If all measurements of such a rival are slower, the rounds count as
    disturbed, too.
    """
    rounds: dict[One, list[Measured]] = {one: [] for one in rivals}
    failed: dict[One, Outcome] = {}
    turn = list(rivals)
    for number in range(1, MOST_ROUNDS + 1):
        for one, outcome in measure(turn):
            if isinstance(outcome, Measured):
                rounds[one].append(outcome)
            else:
                failed[one] = outcome
        turn = [one for one in (*turn[1:], turn[0]) if one not in failed]
        if not turn:
            break
        slow = any(_fastest(rounds[one]).mean > _NOISE_FACTOR * expected[one] for one in turn if one in expected)
        if number >= LEAST_ROUNDS and not slow and _is_settled([rounds[one] for one in turn]):
            break
    return Rounds(rounds, failed)


def _is_settled(rounds: Sequence[Sequence[Measured]]) -> bool:
    """Return whether the last round was undisturbed, and has the same winner as all rounds together."""
    last, least = [each[-1].mean for each in rounds], [_fastest(each).mean for each in rounds]
    calm = all(now <= _NOISE_FACTOR * before for now, before in zip(last, least, strict=True))
    return calm and last.index(min(last)) == least.index(min(least))


def _fastest(outcomes: Sequence[Measured]) -> Measured:
    return min(outcomes, key=lambda outcome: outcome.mean)


def _spread(outcomes: Sequence[Measured]) -> float:
    """Return the distance from the fastest round to the second fastest, as a fraction of the latter."""
    fastest, second, *_ = sorted(outcome.mean for outcome in outcomes)
    return 1 - fastest / second
