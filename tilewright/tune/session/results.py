"""The results of a run: each outcome becomes a trial, which is counted, shown and passed to the listeners.

One of the listeners appends it to a log (`records/log.py::RecordLog.record`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.log import logger
from ...measure.outcome import (
    Failure,
    Measured,
    MeasureErrorNo,
    MeasureResult,
    Outcome,
    Refused,
    WrongAnswer,
    to_result,
)
from ...runtime.driver import DeviceAttributes
from ..records.best import best_of
from ..records.format import COMPILER, MeasureInput, Notes
from ..task import Task
from .measurers import Measurer
from .options import SearchOptions
from .show import trial_line
from .trials import Tally, Trial, flops_of

Listener = Callable[[Trial], None]


class Results:
    """The trials of one run.

    `listeners` are called with each result, including rejected and repeated candidates. `total` counts and numbers the
    trials of all rivals of the run.
    """

    def __init__(
        self,
        task: Task,
        measurer: Measurer,
        options: SearchOptions,
        listeners: Sequence[Listener],
        total: Tally | None = None,
    ) -> None:
        self.task = task
        self.measurer = measurer
        self.options = options
        self.listeners = list(listeners)
        self.tally = Tally(options.trials)
        self.total = self.tally if total is None else total
        self.good: dict[int, Trial] = {}
        """The last successful trial of each configuration."""
        self.device: DeviceAttributes | None = None
        """The attributes of the device, after the first request."""
        self._decisive: list[Trial] = []
        """The trials from which the best is chosen: all measurements, and wrong answers."""

    @property
    def attributes(self) -> DeviceAttributes:
        """The attributes of the device."""
        if self.device is None:
            self.device = self.measurer.attributes
        return self.device

    def take(
        self,
        index: int,
        outcome: Outcome,
        predicted: float,
        is_default: bool,
        repeated: bool = False,
        margin: float = 0.0,
    ) -> Trial:
        """Convert the outcome of a configuration to a trial, count it, and call the listeners.

        `predicted` is the search's prediction in seconds; 0 for none. A rejected configuration is a trial only with
        `count_invalid`; a repeated measurement is none. A rival must be faster by the `margin`.
        """
        refused = isinstance(outcome, Refused)
        counts = not repeated and (self.options.count_invalid or not refused)
        reason, step = (outcome.reason, outcome.step) if isinstance(outcome, Failure) else ("", "")
        checked = not isinstance(outcome, Measured) or outcome.checked
        notes = Notes(
            self.attributes.name, COMPILER, reason, step, refused, repeated, self.task.flop, checked, predicted,
            is_default, margin,
        )  # fmt: skip
        result = to_result(outcome)
        flops = flops_of(self.task.flop, result)
        trial = Trial(self.total.done + 1 if counts else 0, self._input(index, notes), result, outcome, flops)
        self._decide(index, trial)
        if trial.number:
            logger.debug("%s", trial_line(trial, self.tally.best_flops, self.options.si_prefix))
        for listener in self.listeners:
            listener(trial)
        return trial

    def _decide(self, index: int, trial: Trial) -> None:
        """Let a trial compete for the best."""
        self.tally.take(trial)
        if self.total is not self.tally:
            self.total.take(trial)
        if trial.outcome.ok:
            self.good[index] = trial
        if trial.outcome.ok or isinstance(trial.outcome, WrongAnswer):
            self._decisive.append(trial)

    def take_known(self, index: int, notes: Notes, result: MeasureResult, is_default: bool) -> None:
        """Take over a record of a log. It is no new trial, and listeners are not called."""
        if result.error_no == MeasureErrorNo.WRONG_ANSWER:
            self._decisive.append(Trial(0, self._input(index, notes), result, Outcome(), 0.0))
        flops = flops_of(self.task.flop, result)
        if flops > 0:
            noted = self._input(index, replace(notes, default=is_default))
            done = Measured(costs=result.costs, checked=notes.checked)
            self.good[index] = Trial(0, noted, result, done, flops)
            self._decisive.append(self.good[index])

    def choose_best(self) -> None:
        """Choose the best of all trials, by the rule of `apply_history_best`."""
        by_result = {id(trial.result): trial for trial in self._decisive}
        found = best_of([(trial.input, trial.result) for trial in self._decisive])
        self.tally.best = None if found is None else by_result[id(found[1])]

    def _input(self, index: int, notes: Notes) -> MeasureInput:
        return MeasureInput(self.measurer.target, self.task, self.task.config_space.get(index)).noted(notes)
