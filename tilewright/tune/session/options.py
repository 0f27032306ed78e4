"""The limits of a search."""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED_TRIALS = 1_000_000
"""A number of trials that no budget of time reaches."""


@dataclass(frozen=True)
class SearchOptions:
    """The limits and options of a run.

    `trials`: the number of configurations to measure. `seconds`: the time after which no new candidate is measured.
    `early_stopping`: the number of trials without an improvement after which the run ends. `count_invalid`: whether
    rejected configurations count as trials, as in the legacy system. `confirm`: the number of best configurations to
    measure again at the end, beside the default. `si_prefix`: the prefix of displayed rates.
    """

    trials: int
    early_stopping: int | None = None
    count_invalid: bool = False
    confirm: int = 3
    si_prefix: str = "G"
    seconds: float | None = None
