"""The results of a run so far: the best trial, and the number of failures of each kind."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from ...measure.outcome import (
    Failure,
    Measured,
    MeasureResult,
    Outcome,
    Refused,
)
from ..records.failure_kinds import gist, kind_of
from ..records.format import MeasureInput, mean_cost


@dataclass(frozen=True)
class Trial:
    """One configuration and its result. `number` counts from 1; it is 0 for a rejected or repeated configuration."""

    number: int
    input: MeasureInput
    result: MeasureResult
    outcome: Outcome
    flops: float
    """Operations per second; 0 after a failure."""

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key of a trial, largest for the best; unchecked results come after all checked ones."""
        return self.input.notes.checked, self.flops / (1 - self.input.notes.margin)


@dataclass
class Tally:
    """Counts of trials and failures, and the best trial, of one run or of the rival runs of a layer."""

    wanted: int
    done: int = 0
    resumed: int = 0
    refused: int = 0
    best: Trial | None = None
    best_at: int = 0
    """The number of trials at the last improvement."""
    current: float = 0.0
    failures: Counter[str] = field(default_factory=Counter)
    steps: Counter[tuple[str, str]] = field(default_factory=Counter)
    """The number of failures by kind and schedule step at fault."""
    reasons: dict[str, str] = field(default_factory=dict)
    """The first reason of each kind of failure."""
    mixed: set[str] = field(default_factory=set)
    """Kinds of failure with several reasons."""
    unchecked: int = 0
    """The number of results that were not compared with a reference."""
    why_unchecked: str = ""
    sampled: int = 0
    """The elements that were compared with a reference, if it was a sample."""
    measuring_seconds: float = 0.0
    """Seconds of candidates on the device: the first run, both checks, the timed runs."""

    @property
    def best_flops(self) -> float:
        """The best so far, in operations per second."""
        return self.best.flops if self.best is not None else 0.0

    def take(self, trial: Trial) -> None:
        """Count one result."""
        self.done += trial.number > 0
        self.refused += trial.input.notes.refused and not trial.input.notes.confirmed
        self.measuring_seconds += trial.outcome.run_seconds
        if trial.outcome.ok:
            self.current = trial.flops
            if isinstance(trial.outcome, Measured):
                self.sampled = max(self.sampled, trial.outcome.sampled)
            if isinstance(trial.outcome, Measured) and not trial.outcome.checked:
                self.unchecked += 1
                self.why_unchecked = self.why_unchecked or trial.outcome.unchecked
            if self.best is None or trial.rank > self.best.rank:
                self.best, self.best_at = trial, self.done
            return
        kind = kind_of(trial.outcome.error_no, isinstance(trial.outcome, Refused))
        self.failures[kind] += 1
        if isinstance(trial.outcome, Failure):
            self.steps[kind, trial.outcome.step] += 1
            first = self.reasons.setdefault(kind, trial.outcome.reason)
            if gist(trial.outcome.reason) != gist(first):
                self.mixed.add(kind)

    def add_resumed(self, rival: Tally) -> None:
        """Add the resumed trials of a rival."""
        self.done += rival.resumed
        self.resumed += rival.resumed
        if rival.best is not None and (self.best is None or rival.best.rank > self.best.rank):
            self.best, self.best_at = rival.best, self.done - (rival.done - rival.best_at)
        elif self.best is not None:  # patience continues from the best record of all strategies
            self.best_at += rival.resumed


def flops_of(flop: float, result: MeasureResult) -> float:
    """Return the operations per second; 0 after a failure."""
    return flop / mean_cost(result) if result.error_no == 0 else 0.0
