"""Tune many tasks in one session: each slice of the budget goes where it is expected to gain most."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

from ...core.log import logger
from ...measure.job import Job
from ...measure.outcome import Outcome
from .allotment import TaskShare, choose
from .overview import Overview
from .prefilter import Prefilter
from .run import Measurer, Run
from .trials import Trial

SLICE = 8
"""Trials that a task is given at a time."""


class Campaign:
    """Runs that share a measurer and a budget.

    Parameters
    ----------
    runs : sequence of Run
        One for each task; their own limits on trials and seconds also apply.
    measurer : Measurer
        What measures: a `MeasureSession`, or a fleet's.
    weights : sequence of float
        The weight of a second of each task.
    trials : int, optional
        Trials of all tasks together.
    seconds : float, optional
        After so many seconds, only the winners are measured again.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        measurer: Measurer,
        weights: Sequence[float],
        trials: int | None = None,
        seconds: float | None = None,
    ) -> None:
        self.runs = runs
        self.measurer = measurer
        self.trials = trials
        self.seconds = seconds
        self.shares = [
            TaskShare(run.task.name, run.task.flop, weight) for run, weight in zip(runs, weights, strict=True)
        ]
        for run, share in zip(runs, self.shares, strict=True):
            if run.tally.best is not None and run.tally.resumed:
                seconds_now = run.task.flop / run.tally.best.flops if run.tally.best.flops else None
                share.costs = [seconds_now or float("inf")] * run.tally.resumed
                share.given = run.tally.resumed
        self.interrupted = False
        self._given = 0
        self._began = time.monotonic()
        self._prefilters: list[Prefilter] = []

    def go(self) -> None:
        """Tune until the budget is used up, nothing is left to try, or the user interrupts."""
        self._began = time.monotonic()
        tallies, tasks = [run.tally for run in self.runs], [run.task for run in self.runs]
        overview = Overview(tallies, tasks, self.trials, self.seconds)
        with ExitStack() as open_ones, overview.shown():
            for run in self.runs:
                self._prefilters.append(open_ones.enter_context(run.prefilter()))
            try:
                for job, outcome in self.measurer.measure_all(self._batches()):
                    self._hear(job, outcome)
                    overview.update()
                for run in self.runs:
                    run.confirm()
            except KeyboardInterrupt:
                self.interrupted = True
                for run in self.runs:
                    run.interrupted = True
                logger.warning("Interrupted after %d trials; the best so far are kept", self.done)

    @property
    def done(self) -> int:
        """Trials of this session."""
        return sum(run.tally.done - run.tally.resumed for run in self.runs)

    def _batches(self) -> Iterator[list[Job]]:
        """Yield a slice of one task after another."""
        while not self._late and (room := self._room) > 0:
            number = choose(self.shares)
            if number is None:
                return
            share, prefilter = self.shares[number], self._prefilters[number]
            self.runs[number].learn()
            jobs = self.runs[number].next_jobs(prefilter, min(SLICE, room))
            prefilter.rest()
            if not jobs:
                share.over = True
                continue
            share.given += len(jobs)
            self._given += len(jobs)
            yield [replace(job, key=(number, job.key)) for job in jobs]

    @property
    def _late(self) -> bool:
        if self.seconds is None or not self._given:
            return False
        return time.monotonic() - self._began >= self.seconds

    @property
    def _room(self) -> int:
        return SLICE if self.trials is None else self.trials - self._given

    def _hear(self, job: Job, outcome: Outcome) -> None:
        number, key = job.key
        trial = self.runs[number].hear(key, outcome)
        if trial is not None:
            cost = _seconds(trial)
            self.shares[number].heard(cost, outcome.build_seconds + outcome.run_seconds)


def _seconds(trial: Trial) -> float | None:
    return sum(trial.result.costs) / len(trial.result.costs) if trial.flops else None


def lines(runs: Iterable[Run]) -> list[str]:
    """Return a line per task: its trials, its best rate and time."""
    found = []
    for run in runs:
        best = run.tally.best
        if best is None:
            tried = run.tally.done or run.tally.refused
            what = "nothing could be measured" if tried else "the session ended before its turn"
        else:
            cost = sum(best.result.costs) / len(best.result.costs)
            what = f"{best.flops / 1e9:,.1f} GFLOPS, {cost * 1e6:,.2f} µs, index {best.input.config.index}"
        found.append(f"{run.tally.done:5} trials  {what}  {run.task.name}{run.task.args}")
    return found
