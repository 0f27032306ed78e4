"""The confirmation of a search: its best few configurations and its initial one are measured again, in turns.

The best of many single measurements is partly luck. So each round measures every contender once (`turns.py`). A search
begins with the configuration of calls without measurements: the best record of the log, else the default configuration.
That configuration is always a contender. A rival replaces it only if the rival is faster by more than the spread of the
measurements. So a search cannot end slower than it began.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...measure.outcome import Outcome
from ..records.format import mean_cost
from .run import Run
from .turns import Rounds, measure_in_turns


@dataclass(frozen=True)
class Contender:
    """A configuration and its run."""

    run: Run
    index: int

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key: largest for the best, least for a configuration without a measurement."""
        trial = self.run.good.get(self.index)
        return (False, 0.0) if trial is None else trial.rank


def confirm(runs: Sequence[Run], count: int) -> None:
    """Confirm the best `count` configurations of the runs of rival strategies.

    Further contenders are the configuration of calls without measurements, the default configuration of the first run,
    and the fastest default of all runs. Nothing is measured for a `count` below 2, or if the runs are settled.
    """
    if count < 2 or settled(runs):
        return
    first = _begun_with(runs)
    contenders = _contenders(runs, count, first)
    confirmed: set[Contender] = set()
    while len(contenders) > 1:
        turns = _in_turns(contenders, first)
        margin = 0.0 if first is None else turns.margin(first)
        for contender, outcome in turns.outcomes().items():
            contender.run.take_confirmed(contender.index, outcome, margin if contender == first else 0.0)
        confirmed |= {*contenders}
        for run in runs:
            run.results.choose_best()
        contenders = _overlooked(runs, confirmed, first)


def settled(runs: Sequence[Run]) -> bool:
    """Whether rival runs measured nothing, and their log has no best record, or a confirmed one.

    The log of a search that was interrupted before its confirmation has an unconfirmed best record, which may be luck.
    """
    best = max((run.tally.best for run in runs if run.tally.best is not None), key=lambda one: one.rank, default=None)
    return all(run.tally.done == run.tally.resumed for run in runs) and (best is None or best.input.notes.confirmed)


def _begun_with(runs: Sequence[Run]) -> Contender | None:
    """Return the configuration of calls without measurements, even if it has no successful measurement yet.

    The first run has the strategy of such calls.
    """
    known = [(run.known.rank, run, run.known) for run in runs if run.known is not None]
    if known:
        _, run, trial = max(known, key=lambda one: one[0])
        return Contender(run, trial.input.config.index or 0)
    index = runs[0].confirmable_default
    return None if index is None else Contender(runs[0], index)


def _contenders(runs: Sequence[Run], count: int, first: Contender | None) -> list[Contender]:
    every = [Contender(run, index) for run in runs for index in run.good]
    best = sorted(every, key=lambda one: one.rank, reverse=True)[:count]
    defaults = [Contender(run, run.default) for run in runs if run.default is not None and run.default in run.good]
    fastest = max(defaults, key=lambda one: one.rank, default=None)
    of_first_run = [one for one in defaults if one is fastest or one.run is runs[0]]
    return list(dict.fromkeys([*best, *of_first_run, *([first] if first is not None else [])]))


def _overlooked(runs: Sequence[Run], confirmed: set[Contender], first: Contender | None) -> list[Contender]:
    """Return the runs' best records that would still beat the confirmed winner, with the winner and `first`.

    Readers of a log compare strategies by their best records. A confirmed record must not lose to a lucky record, or to
    a record of a faster day.
    """
    best = [Contender(run, run.tally.best.input.config.index or 0) for run in runs if run.tally.best is not None]
    running = [one for one in confirmed if one.index in one.run.good]
    winner = max(running, key=lambda one: one.rank, default=None)
    lucky = [one for one in best if winner is not None and one not in confirmed and one.rank > winner.rank]
    return [one for one in dict.fromkeys([*lucky, winner, first]) if one in lucky or one in running] if lucky else []


def _in_turns(contenders: Sequence[Contender], first: Contender | None) -> Rounds[Contender]:
    """Measure contenders in turns; the tallies count the seconds of all rounds."""

    def measured(turn: Sequence[Contender]) -> Iterator[tuple[Contender, Outcome]]:
        jobs = [one.run.job(one.index, place) for place, one in enumerate(turn)]
        for job, outcome in turn[0].run.measurer.measure(jobs):
            yield turn[job.key], outcome

    trial = None if first is None else first.run.good.get(first.index)
    expected = {first: mean_cost(trial.result)} if first is not None and trial is not None else {}
    turns = measure_in_turns(contenders, measured, expected)
    for one, outcome in turns.outcomes().items():  # the tally counts the recorded outcome itself
        spent = sum(each.run_seconds for each in turns.rounds[one] if each is not outcome)
        one.run.tally.measuring_seconds += spent
    return turns
