"""The interface of searches: propose configurations that were not tried yet, and learn from results.

`tune/session/run.py` asks for proposals; `tune/session/prefilter.py` inspects them before they are measured.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...core.errors import UserError
from ..analysis.features import Features
from ..space.space import Space

ENUMERABLE = 1 << 16
"""The largest size of a space with listed indices, so that the last configurations are found as quickly as the
first."""
_MOST_ADVISED = 8


@dataclass(frozen=True)
class Seen:
    """The result of a configuration: its score (operations per second; 0 if it failed or was refused)."""

    index: int
    score: float
    features: Features = field(default_factory=dict)
    """Features of its loop nest, if requested."""


class Search(ABC):
    """Proposes indices of a space. The same seed gives the same proposals for the same results."""

    feature_kind = "knob"
    """The kind of features that the search learns from; "knob" means the configuration's own numbers."""

    def __init__(self, space: Space, seed: int | None = None) -> None:
        if seed is not None and (not isinstance(seed, (int, np.integer)) or seed < 0):
            raise UserError(
                f"seed={seed!r} is not a whole number of at least 0",
                primitive="tuner",
                fix="give 0 or more, or leave it out",
            )
        self.space = space
        self.rng = np.random.default_rng(seed)
        self.tried: set[int] = set()
        self._advised: list[int] = []
        self._listed: list[int] | None = None

    @abstractmethod
    def propose(self, count: int) -> list[int]:
        """Return up to `count` configurations that were neither proposed nor skipped; none if there are no more."""

    def has_next(self) -> bool:
        """Return whether configurations are left to propose."""
        return len(self.tried) < self.space.size

    def meet(self, device: str) -> None:  # noqa: B027  # not every search cares
        """Receive the name of the device that measures, before the first proposal."""

    def predicted(self, index: int) -> float:
        """Return the expected seconds of a configuration; 0 if unknown."""
        return 0.0

    def learn(self, results: Sequence[Seen]) -> None:  # noqa: B027  # not every search learns
        """Learn from results."""

    def advise(self, results: Sequence[Seen]) -> None:
        """Receive results of another device or compiler as advice: the best of them are tried first."""
        best = sorted((seen for seen in results if seen.score > 0), key=lambda seen: (-seen.score, seen.index))
        self._advised += [seen.index for seen in best[:_MOST_ADVISED]]

    def suggest(self, indices: Sequence[int]) -> None:
        """Propose these configurations first."""
        self._advised += indices

    def rank(self, looks: Mapping[int, Features]) -> list[int]:
        """Return candidates that can run, the most promising first; `looks` has their features."""
        return list(looks)

    def skip(self, indices: Sequence[int]) -> None:
        """Never propose these configurations."""
        self.tried.update(indices)

    def release(self, indices: Sequence[int]) -> None:
        """Take back proposals that will not be measured now; they may be proposed again."""
        self.tried.difference_update(indices)
        if self._listed is not None:
            self._listed += indices

    def overshoot(self, count: int) -> int:
        """Return the number of candidates to propose if `count` are wanted: `rank` selects among them."""
        return count

    def fresh(self, count: int) -> list[int]:
        """Return untried random configurations, advised ones first, and mark them as tried."""
        found = self._new(self._advised, count)
        self._advised = [i for i in self._advised if i not in self.tried]
        if self.space.range_length > ENUMERABLE:
            for _ in range(16):
                if len(found) < count:
                    drawn = self.space.indices(self.space.draw(self.rng, 2 * (count - len(found)) + 8))
                    found += self._new(drawn, count - len(found))
            return found
        if self._listed is None:
            listed = np.array(
                [i for i in range(self.space.range_length) if self.space.is_index_valid(i)], dtype=np.int64
            )
            self._listed = self.rng.permutation(listed).tolist()
        while self._listed and len(found) < count:
            found += self._new([self._listed.pop()], 1)
        return found

    def _new(self, indices: Sequence[int], count: int) -> list[int]:
        """Return the first `count` untried indices, and mark them as tried."""
        kept: list[int] = []
        for index in indices:
            if len(kept) < count and index not in self.tried:
                self.tried.add(index)
                kept.append(index)
        return kept
