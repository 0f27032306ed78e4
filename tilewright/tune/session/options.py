"""The limits of a search."""

from __future__ import annotations

from dataclasses import dataclass

UNLIMITED_TRIALS = 1_000_000
"""More trials than any budget of time allows."""


@dataclass(frozen=True)
class SearchOptions:
    """Limits and options of a run.

    `trials`: configurations to measure. `seconds`: after that time, no new candidate is measured. `early_stopping`: end
    after that many trials without a better one. `count_invalid`: a rejected configuration counts as a trial, as in the
    legacy system. `confirm`: how many of the best are measured again at the end, beside the default. `si_prefix`: the
    prefix of displayed rates.
    """

    trials: int
    early_stopping: int | None = None
    count_invalid: bool = False
    confirm: int = 3
    si_prefix: str = "G"
    seconds: float | None = None
