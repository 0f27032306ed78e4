"""The loop of tuning, for one task or for many. It starts in `Campaign.go`.

Each slice of the budget goes to the task with the largest expected gain (`allotment.py`). The task's run returns jobs,
the measurer builds and runs them, and the run receives their outcomes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from ...core.errors import InternalError
from ...core.log import logger
from ...measure.job import Job
from ...measure.outcome import Outcome, Refused
from ..records.format import Pair, mean_cost
from ..search.search import Search
from ..task import Task
from .allotment import SLICE, TaskShare, choose
from .confirmation import confirm
from .measurers import Measurer, show_waits
from .options import SearchOptions
from .overview import Overview
from .prefilter import Prefilter
from .results import Listener
from .run import Run
from .show import say, warn_of_nothing_new
from .trials import Tally

_LARGEST_SLICE = 32


class CampaignDisplay(Protocol):
    """The display of a campaign's progress."""

    def shown(self) -> AbstractContextManager[None]: ...
    def update(self) -> None: ...
    def wait(self, what: str) -> None:
        """Show that the campaign waits for something; "" if it does not any more."""


@dataclass(frozen=True)
class Entrant:
    """A task, and the search of its space.

    Attributes
    ----------
    first : sequence of int, optional
        The indices to measure first, beginning with the default configuration; None for the task's default.
    layer : int
        The layer of the task. Tasks of one layer are rivals: strategies for the same computation. The first of them is
        the strategy of calls without measurements.
    weight : float
        The weight of the task's seconds, such as its number of uses in a network.
    listeners_of : callable, optional
        Returns the listeners of the task's run, which are called after the listeners of the campaign.
    """

    task: Task
    search: Search
    first: Sequence[int] | None = None
    layer: int = 0
    weight: float = 1.0
    listeners_of: Callable[[Run], Sequence[Listener]] | None = None


class Campaign:
    """Searches that share a measurer and a budget.

    Parameters
    ----------
    entrants : sequence of Entrant
        The tasks; `runs` has one run per task.
    measurer : Measurer
        The measurer: a `MeasureSession`, or a fleet's.
    options : SearchOptions
        Limits and options. The limits `trials` and `early_stopping` apply per task, `seconds` to all tasks together.
        After that time, only the winners are measured again.
    listeners : sequence of callable
        Called with each trial, and with rejected and repeated candidates.
    trials : int, optional
        The most trials of all tasks together.
    display : CampaignDisplay, optional
        The display of progress; by default, one line per task.
    """

    def __init__(
        self,
        entrants: Sequence[Entrant],
        measurer: Measurer,
        options: SearchOptions,
        listeners: Sequence[Listener] = (),
        trials: int | None = None,
        display: CampaignDisplay | None = None,
    ) -> None:
        if not entrants:
            raise InternalError("a campaign without a task")
        totals = {one.layer: Tally(options.trials) for one in entrants}
        self.runs = [
            Run(one.task, one.search, measurer, options, listeners, totals[one.layer], one.first) for one in entrants
        ]
        for one, run in zip(entrants, self.runs, strict=True):
            run.results.listeners += () if one.listeners_of is None else one.listeners_of(run)
        self.shares = [TaskShare(one.task.name, one.task.flop, one.weight, layer=one.layer) for one in entrants]
        self.measurer = measurer
        self.trials = trials
        self.seconds = options.seconds
        self.display = display
        self.interrupted = False
        self._has_begun = False
        self._began = time.monotonic()
        self._prefilters: list[Prefilter] = []

    def resume(self, known: Iterable[Pair]) -> None:
        """Take over the records of the tasks in a log; see `Run.resume`."""
        known = list(known)
        for run, share in zip(self.runs, self.shares, strict=True):
            run.resume(known)
            if run.tally.best is not None:
                seconds = run.task.flop / run.tally.best_flops if run.tally.best_flops else float("inf")
                share.given, share.costs = run.tally.resumed, [seconds] * run.tally.resumed

    def go(self) -> None:
        """Tune until the budget is used up, no configuration is left, or the user interrupts."""
        self._began = time.monotonic()
        tallies, tasks = [run.tally for run in self.runs], [run.task for run in self.runs]
        display = self.display or Overview(tallies, tasks, self.trials, self.seconds)
        show_waits(self.measurer, display.wait)
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
        """Measure slices; the next slice is chosen while the present one is measured."""
        has_room = True
        while has_room and self._room > 0 and not self._late:
            has_room = False
            for job, outcome in self.measurer.measure_all(self._batches()):
                self._hear(job, outcome)
                display.update()
                has_room |= isinstance(outcome, Refused)  # a refusal by the compiler is no trial
            for run, share in zip(self.runs, self.shares, strict=True):
                run.learn()
                share.over = False

    def conclude(self) -> None:
        """Log one line per task, and a warning if nothing new was measured."""
        say(lines(self.runs))
        if not self.interrupted:
            warn_of_nothing_new(*(run.tally for run in self.runs))

    @property
    def done(self) -> int:
        """The number of trials of this session."""
        return sum(run.tally.done - run.tally.resumed for run in self.runs)

    def _rivals(self, of: Run) -> list[Run]:
        """Return the runs of the same layer, including this one."""
        return [run for run in self.runs if run.total is of.total]

    def _batches(self) -> Iterator[list[Job]]:
        """Yield the jobs of rival strategies' defaults, then of one slice after another."""
        if opening := self._opening():
            yield opening
        last, size = None, SLICE
        while not self._late and self._room > 0:
            self._stop_early()
            number = choose(self.shares)
            if number is None:
                return
            if last is not None and last != number:
                self._prefilters[last].rest()
            # A task that is chosen twice in a row gets a larger slice, which keeps more processes building.
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
        return _LARGEST_SLICE if alone else max(SLICE, min(2 * self.measurer.processes, _LARGEST_SLICE))

    def _opening(self) -> list[Job]:
        """Return the jobs of the default configuration of each strategy with rivals."""
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

    def _stop_early(self) -> None:
        """End layers without an improvement in the last `early_stopping` trials."""
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
        """The number of configurations that may still be measured."""
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
    """Return a line per task with its trials, its best rate and its best time."""
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
