"""Confirm the result of a search: measure the best few and the default configuration again, in turns.

The best of many single measurements is partly luck. Each round measures every contender once, so that a disturbance of
the machine affects all of them. The fastest of its rounds counts for each, as a disturbance only adds time. The default
configuration is always a contender: a search cannot end slower than it began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...measure.outcome import Measured, Outcome
from .run import Run

LEAST_ROUNDS, MOST_ROUNDS = 3, 7
_NOISE_FACTOR = 1.1
"""Another round follows if a time of the last one is longer by this factor than the fastest of its contender."""


@dataclass(frozen=True)
class Contender:
    """A configuration of a run."""

    run: Run
    index: int

    @property
    def rank(self) -> tuple[bool, float]:
        """The sort key, largest for the best."""
        return self.run.good[self.index].rank


def confirm(runs: Sequence[Run], count: int) -> None:
    """Confirm the best `count` configurations of the runs, which compute the same by different strategies.

    Contenders are also the default configuration of the first run, which is the strategy that a call without
    measurements takes, and the fastest default of all runs. Nothing is measured for a `count` below 2, or if the runs
    measured nothing themselves.
    """
    if count < 2 or all(run.tally.done == run.tally.resumed for run in runs):
        return
    contenders = _contenders(runs, count)
    confirmed: set[Run] = set()
    while len(contenders) > 1:
        for contender, outcome in _measured_in_turns(contenders).items():
            contender.run.take_confirmed(contender.index, outcome)
        confirmed |= {contender.run for contender in contenders}
        for run in runs:
            run.results.choose_best()
        contenders = _overlooked(runs, confirmed)


def _contenders(runs: Sequence[Run], count: int) -> list[Contender]:
    every = [Contender(run, index) for run in runs for index in run.good]
    best = sorted(every, key=lambda one: one.rank, reverse=True)[:count]
    defaults = [Contender(run, run.default) for run in runs if run.default is not None and run.default in run.good]
    fastest = max(defaults, key=lambda one: one.rank, default=None)
    first = [one for one in defaults if one is fastest or one.run is runs[0]]
    return list(dict.fromkeys([*best, *first]))


def _overlooked(runs: Sequence[Run], confirmed: set[Run]) -> list[Contender]:
    """The best of each unconfirmed run whose single measurement beats the confirmed winner, and that winner.

    Readers of a log compare strategies by their best records, so a lucky one must not stand against a confirmed one.
    """
    best = [Contender(run, run.tally.best.input.config.index or 0) for run in runs if run.tally.best is not None]
    winner = max((one for one in best if one.run in confirmed), key=lambda one: one.rank, default=None)
    if winner is None:
        return []
    lucky = [one for one in best if one.run not in confirmed and one.rank > winner.rank]
    return [*lucky, winner] if lucky else []


def _measured_in_turns(contenders: Sequence[Contender]) -> dict[Contender, Outcome]:
    """Measure contenders in rounds; returns the fastest outcome of each, a failure if one of its rounds failed."""
    rounds: dict[Contender, list[Measured]] = {one: [] for one in contenders}
    failed: dict[Contender, Outcome] = {}
    turn = list(contenders)
    for number in range(1, MOST_ROUNDS + 1):
        jobs = [one.run.job(one.index, place) for place, one in enumerate(turn)]
        for job, outcome in turn[0].run.measurer.measure(jobs):
            one = turn[job.key]
            if isinstance(outcome, Measured):
                rounds[one].append(outcome)
            else:
                failed[one] = outcome
        turn = [one for one in (*turn[1:], turn[0]) if one not in failed]
        if not turn or (number >= LEAST_ROUNDS and _is_settled([rounds[one] for one in turn])):
            break
    found: dict[Contender, Outcome] = {**{one: _fastest(rounds[one]) for one in turn}, **failed}
    for one, outcome in found.items():  # the tally itself counts the outcome that is recorded
        spent = sum(each.run_seconds for each in rounds[one] if each is not outcome)
        one.run.tally.measuring_seconds += spent
    return found


def _is_settled(rounds: Sequence[Sequence[Measured]]) -> bool:
    """Whether the last round was calm, and has the winner of all rounds."""
    last, least = [each[-1].mean for each in rounds], [_fastest(each).mean for each in rounds]
    calm = all(now <= _NOISE_FACTOR * before for now, before in zip(last, least, strict=True))
    return calm and last.index(min(last)) == least.index(min(least))


def _fastest(outcomes: Sequence[Measured]) -> Measured:
    return min(outcomes, key=lambda outcome: outcome.mean)
