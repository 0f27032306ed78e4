"""The loop of tuning, for one task or for many. Read it from `Campaign.go`.

Each slice of the budget goes to the task with the largest expected gain (`allotment.py`). Its run returns jobs, the
measurer builds and runs them, and the run hears their outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol

from ...core.log import logger
from ...measure.job import Job
from ...measure.outcome import Outcome, Refused
from ..records.format import mean_cost
from .allotment import SLICE, TaskShare, choose
from .confirmation import confirm
from .measurers import Measurer
from .overview import Overview
from .prefilter import Prefilter
from .run import Run
from .show import say, warn_of_nothing_new

_LARGEST_SLICE = 32


class CampaignDisplay(Protocol):
    """The display of a campaign's progress."""

    def shown(self) -> AbstractContextManager[None]: ...
    def update(self) -> None: ...


class Campaign:
    """Runs that share a measurer and a budget.

    Parameters
    ----------
    runs : sequence of Run
        One for each task; their own limits on trials, and their patience, also apply. Runs that share a `total` are
        rivals. The first rival of a layer is the strategy that a call without measurements takes.
    measurer : Measurer
        The measurer: a `MeasureSession`, or a fleet's.
    weights : sequence of float
        The weight of a second of each task.
    trials : int, optional
        Trials of all tasks together.
    seconds : float, optional
        After that many seconds, only the winners are measured again.
    display : CampaignDisplay, optional
        The display of the progress; by default, a line for each task.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        measurer: Measurer,
        weights: Sequence[float],
        trials: int | None = None,
        seconds: float | None = None,
        display: CampaignDisplay | None = None,
    ) -> None:
        self.runs = runs
        self.measurer = measurer
        self.trials = trials
        self.seconds = seconds
        self.display = display
        self.shares = [
            TaskShare(run.task.name, run.task.flop, weight, layer=id(run.total))
            for run, weight in zip(runs, weights, strict=True)
        ]
        for run, share in zip(runs, self.shares, strict=True):
            if run.tally.best is not None and run.tally.resumed:
                seconds_now = run.task.flop / run.tally.best.flops if run.tally.best.flops else None
                share.costs = [seconds_now or float("inf")] * run.tally.resumed
                share.given = run.tally.resumed
        self.interrupted = False
        self._has_begun = False
        self._began = time.monotonic()
        self._prefilters: list[Prefilter] = []

    def go(self) -> None:
        """Tune until the budget is used up, nothing is left to try, or the user interrupts."""
        self._began = time.monotonic()
        tallies, tasks = [run.tally for run in self.runs], [run.task for run in self.runs]
        display = self.display or Overview(tallies, tasks, self.trials, self.seconds)
        with ExitStack() as open_ones, display.shown():
            for run in self.runs:
                self._prefilters.append(open_ones.enter_context(run.prefilter()))
            try:
                self._search(display)
                for run in self.runs:
                    rivals = self._rivals(run)
                    if run is rivals[0]:
                        confirm(rivals, run.options.confirm)
            except KeyboardInterrupt:
                self.interrupted = True
                logger.warning("Interrupted after %d trials; the best so far is kept", self.done)

    def _search(self, display: CampaignDisplay) -> None:
        """Measure slices; the next one is chosen while one is measured."""
        has_room = True
        while has_room and self._room > 0 and not self._late:
            has_room = False
            for job, outcome in self.measurer.measure_all(self._batches()):
                self._hear(job, outcome)
                display.update()
                has_room |= isinstance(outcome, Refused)  # by the compiler, which is no trial
            for run, share in zip(self.runs, self.shares, strict=True):
                run.learn()
                share.over = False

    def conclude(self) -> None:
        """Log a line for each task, and a warning if nothing new was measured."""
        say(lines(self.runs))
        if not self.interrupted:
            warn_of_nothing_new(*(run.tally for run in self.runs))

    @property
    def done(self) -> int:
        """Trials of this session."""
        return sum(run.tally.done - run.tally.resumed for run in self.runs)

    def _rivals(self, of: Run) -> list[Run]:
        """The runs of the same layer, with this one among them."""
        return [run for run in self.runs if run.total is of.total]

    def _batches(self) -> Iterator[list[Job]]:
        """Yield the defaults of rival strategies, then a slice of one task after another."""
        if opening := self._opening():
            yield opening
        last, size = None, SLICE
        while not self._late and self._room > 0:
            self._end_stale_layers()
            number = choose(self.shares)
            if number is None:
                return
            if last is not None and last != number:
                self._prefilters[last].rest()
            # A task that is chosen again gets a larger slice, which keeps more processes building.
            size = min(2 * size, self._largest_slice(number)) if number == last else SLICE
            last = number
            self.runs[number].learn()
            jobs = self._slice(number, size)
            if jobs:
                yield jobs
            else:
                self.shares[number].over = True

    def _largest_slice(self, number: int) -> int:
        alone = len(self.runs) == 1
        return _LARGEST_SLICE if alone else max(SLICE, min(2 * self.runs[number].options.processes, _LARGEST_SLICE))

    def _opening(self) -> list[Job]:
        """The default configuration of each strategy that has rivals."""
        jobs: list[Job] = []
        for number, run in enumerate(self.runs):
            fresh = not self.shares[number].given and run.default is not None
            if fresh and len(self._rivals(run)) > 1 and self._room > 0:
                jobs += self._slice(number, 1)
                self._prefilters[number].rest()
        return jobs

    def _slice(self, number: int, count: int) -> list[Job]:
        """Return up to `count` configurations of a run to measure next."""
        jobs = self.runs[number].next_jobs(self._prefilters[number], min(count, self._room), number)
        self.shares[number].given += len(jobs)
        self._has_begun |= bool(jobs)
        return jobs

    def _end_stale_layers(self) -> None:
        """End layers without a better trial in the last `early_stopping` ones."""
        for run, share in zip(self.runs, self.shares, strict=True):
            patience = run.options.early_stopping
            if patience is not None and run.total.done - run.total.best_at >= patience and not share.over:
                share.over = True
                logger.debug("Early stopped. Best iter: %d.", run.tally.best_at)

    @property
    def _late(self) -> bool:
        if self.seconds is None or not self._has_begun:
            return False
        return time.monotonic() - self._began >= self.seconds

    @property
    def _room(self) -> int:
        """How many more configurations may be measured."""
        if self.trials is None:
            return _LARGEST_SLICE
        return self.trials - self.done - sum(run.under_way for run in self.runs)

    def _hear(self, job: Job, outcome: Outcome) -> None:
        number, key = job.key
        trial = self.runs[number].hear(key, outcome)
        if trial is not None:
            cost = mean_cost(trial.result) if trial.flops else None
            self.shares[number].heard(cost, outcome.build_seconds + outcome.run_seconds)


def lines(runs: Iterable[Run]) -> list[str]:
    """Return a line per task: its trials, its best rate and time."""
    found = []
    for run in runs:
        best = run.tally.best
        if best is None:
            tried = run.tally.done or run.tally.refused
            what = "nothing could be measured" if tried else "the session ended before its turn"
        else:
            rate, micros = best.flops / 1e9, mean_cost(best.result) * 1e6
            what = f"{rate:,.1f} GFLOPS, {micros:,.2f} µs, index {best.input.config.index}"
        found.append(f"{run.tally.done:5} trials  {what}  {run.task.name}{run.task.args}")
    return found
