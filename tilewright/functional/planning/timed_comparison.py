"""The comparison of two implementations timed in turns: the gain, its confidence interval, and the decision."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from enum import Enum
from math import comb
from typing import NamedTuple

_DOUBT = 0.01
"""The probability, with enough rounds, that the true median gain lies outside the spread."""
PARTS = 8
"""The number of parts into which all rounds are divided; each part yields one least time per side."""


class Verdict(Enum):
    """The outcome of a comparison."""

    FASTER = "faster"
    SLOWER = "slower"
    CLOSE = "too close to call"


class Comparison(NamedTuple):
    """The seconds of one run of our implementation and of the other, one pair per round.

    The runs of a round follow each other, so that both sides have the same clock rate and the same load. `chosen` is
    the statistic that summarises all rounds of a side. It is `min` if other programs can only make times longer. With
    `min`, the rounds are divided into `PARTS` parts, and a gain is the quotient of both sides' least times in a part.
    """

    ours: tuple[float, ...]
    theirs: tuple[float, ...]
    chosen: Callable[[tuple[float, ...]], float] = statistics.median

    @property
    def seconds(self) -> tuple[float, float]:
        """Return the seconds of one run of ours, and of the other implementation."""
        return self.chosen(self.ours), self.chosen(self.theirs)

    @property
    def gains(self) -> list[float]:
        """Return the speedups of ours over the other, one per round or part of the rounds, in ascending order."""
        parts = PARTS if self.chosen is min else len(self.ours)
        ours, theirs = ([self.chosen(side[at::parts]) for at in range(parts) if side[at::parts]] for side in self[:2])
        return sorted(their / own for own, their in zip(ours, theirs, strict=True))

    @property
    def gain(self) -> float:
        """The median gain."""
        return statistics.median(self.gains)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the confidence interval of the median gain, by the sign test, which assumes no distribution of the
        noise."""
        gains = self.gains
        outside = _outside(len(gains))
        return gains[outside], gains[-1 - outside]

    def verdict(self, margin: float = 1.0) -> Verdict:
        """Return the decision. It requires that the spread lies on one side of 1, and that the gain exceeds the
        `margin`."""
        low, high = self.spread
        if low > 1 and self.gain >= margin:
            return Verdict.FASTER
        if high < 1 and self.gain <= 1 / margin:
            return Verdict.SLOWER
        return Verdict.CLOSE


def _outside(rounds: int) -> int:
    """Return the number of gains outside the spread on each side."""
    outside, probability = 0, 2 / 2**rounds
    while 2 * (outside + 1) < rounds:
        probability += 2 * comb(rounds, outside + 1) / 2**rounds
        if probability > _DOUBT:
            break
        outside += 1
    return outside
