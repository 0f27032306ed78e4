"""The loop of tuning: propose, inspect, measure, remember, learn.

The run passes each trial to its listeners.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from ...core.log import logger
from ...core.target import Target
from ...measure.job import Job
from ...measure.outcome import Failure, Measured, MeasureErrorNo, Outcome, Refused, WrongAnswer, to_result
from ...runtime.driver import DeviceAttributes
from ..analysis.features import Features
from ..records.best import best_of
from ..records.format import COMPILER, MeasureInput, Notes, Pair, mean_cost
from ..records.history import applies
from ..search.strategy import Seen, Strategy
from ..space.moves import nearest
from ..task import Candidate, Task
from .confirmation import confirm
from .measurers import unrecorded
from .prefilter import Prefilter
from .show import Display, say, summary, trial_line
from .trials import Tally, Trial, flops_of

_FIRST_BATCH = 8
_LARGEST_BATCH = 32
_TRANSFERRED = 4
"""Configurations of other workloads that are tried first."""
UNLIMITED_TRIALS = 1_000_000
"""More trials than any budget of time allows."""
_HOPELESS = 2000
"""The search ends after this many rejected candidates in a row, before they are built or by the compiler."""


class Measurer(Protocol):
    """An object that measures jobs: a `MeasureSession`, or a stand-in."""

    @property
    def attributes(self) -> DeviceAttributes: ...
    @property
    def target(self) -> Target: ...
    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]: ...
    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]: ...


@dataclass(frozen=True)
class SearchOptions:
    """Limits and options of a run.

    `trials`: configurations to measure; `seconds`: after that time, no new candidate is measured; `early_stopping`: end
    after that many trials without a better one; `count_invalid`: a rejected configuration counts as a trial, as in the
    legacy system; `confirm`: how many of the best are measured again at the end, beside the default; `processes`: how
    many candidates are inspected at a time; `si_prefix`: the prefix of displayed rates.
    """

    trials: int
    early_stopping: int | None = None
    count_invalid: bool = False
    confirm: int = 3
    processes: int = 1
    si_prefix: str = "G"
    seconds: float | None = None


Listener = Callable[[Trial], None]


class Run:
    """One run of tuning. `listeners` get every result as it comes, including results of rejected and repeated
    candidates.
    """

    def __init__(
        self,
        task: Task,
        strategy: Strategy,
        measurer: Measurer,
        options: SearchOptions,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self.task = task
        self.strategy = strategy
        self.measurer = measurer
        self.options = options
        self.listeners = listeners
        self.tally = Tally(options.trials)
        self.best_iter = 0
        self.interrupted = False
        self._under_way = 0
        self._stopped = False
        self._deadline = float("inf")
        self._unlearned: list[Seen] = []
        self._device: DeviceAttributes | None = None
        self.good: dict[int, Trial] = {}
        """The last successful trial of each configuration."""
        self.first: Sequence[int] | None = None
        self._outstanding: list[int] = []
        self._refused_by_compiler = 0  # in a row
        self._records: list[Trial] = []
        """The records that decide the best: all measurements, and wrong answers."""
        self._features: dict[int, Features] = {}
        self._display = Display(options.si_prefix, task.name, options.seconds)

    def resume(self, known: Iterable[Pair]) -> None:
        """Take over the records of this task in a log: they count as trials and are not measured again.

        Records of another device or compiler are only advice. Configurations that an earlier session sent to a fleet
        and has no record of are measured first, then configurations like the best of the template's other workloads.
        """
        known = list(known)
        self.strategy.suggest(self._transferred(known))
        seen: dict[int, Seen] = {}
        advice: list[Seen] = []
        best = 0.0
        for inp, result in known:
            index = self.task.config_space.find(inp.config) if inp.task.workload == self.task.workload else None
            if index is None or inp.target.kind != self._target.kind:
                continue
            one = Seen(index, flops_of(self.task.flop, result))
            if not applies(inp.notes, str(inp.target.kind), lambda _: self._attributes.name):
                advice.append(one)
                continue
            if index not in seen and (not inp.notes.refused or self.options.count_invalid):
                self.tally.done += 1
                self.tally.resumed += 1
            seen[index] = one
            if one.score > best and not inp.notes.confirmed:
                best, self.best_iter = one.score, self.tally.done  # early stopping continues from its state
            if result.error_no == MeasureErrorNo.WRONG_ANSWER:
                self._records.append(Trial(0, self._input(index, inp.notes), result, Outcome(), 0.0))
            if one.score > 0:
                noted = self._input(index, replace(inp.notes, default=index == self.default))
                done = Measured(costs=result.costs, checked=inp.notes.checked)
                self.good[index] = Trial(0, noted, result, done, one.score)
                self._records.append(self.good[index])
        self.strategy.skip(list(seen))
        self.strategy.advise(advice)
        self.strategy.learn([seen[i] for i in sorted(seen)])
        self.choose_best()
        self._ask_again(unrecorded(self.measurer, self.task, self.strategy))

    def begin_with(self, indices: Sequence[int]) -> None:
        """Measure these configurations first, the first of which is the default, in place of the task's own default."""
        self.first = indices

    @cached_property
    def default(self) -> int | None:
        """The index of the configuration that a call without measurements uses; None if there is none."""
        return self.task.default if self.first is None else next(iter(self.first), None)

    def _ask_again(self, indices: Iterable[int]) -> None:
        valid = filter(self.task.config_space.is_index_valid, dict.fromkeys(indices))  # of the space as it is now
        self._outstanding = [index for index in valid if index not in self.strategy.tried]
        self.strategy.skip(self._outstanding)

    def _transferred(self, known: Sequence[Pair]) -> list[int]:
        """Configurations like the best of other workloads of this template, workloads with the most work first."""
        best: dict[Any, Pair] = {}
        for pair in known:
            task, notes = pair[0].task, pair[0].notes
            other = task.name == self.task.name and task.workload != self.task.workload
            if other and pair[1].error_no == MeasureErrorNo.NO_ERROR and notes.checked:
                held = best.get(task.workload)
                if held is None or mean_cost(pair[1]) < mean_cost(held[1]):
                    best[task.workload] = pair
        near = sorted(best.values(), key=lambda pair: -pair[0].notes.flop)
        found = (nearest(self.task.config_space, pair[0].config) for pair in near)
        return list(dict.fromkeys(i for i in found if i is not None))[:_TRANSFERRED]

    def go(self) -> Tally:
        """Tune until the trials are used up, nothing is left to try, or the user interrupts."""
        began = time.monotonic()
        if self.options.seconds is not None:
            self._deadline = began + self.options.seconds
        with self._display.shown(self.tally), self.prefilter() as prefilter:
            try:
                self._search(prefilter)
                confirm([self], self.options.confirm)
            except KeyboardInterrupt:
                self.interrupted = True
                logger.warning("Interrupted after %d trials; the best so far is kept", self.tally.done)
        seconds = time.monotonic() - began
        say(summary(self.tally, self.task.config_space, self._device, self.options.si_prefix, seconds))
        return self.tally

    # The search

    def _search(self, prefilter: Prefilter) -> None:
        """Measure the strategy's proposals; it proposes the next batch while one is measured."""
        while self._room > 0 and not self._stopped and not self._late:
            proposed = len(self._features)
            for job, outcome in self.measurer.measure_all(self._batches(prefilter)):
                self.hear(job.key, outcome)
            self.learn()
            if len(self._features) == proposed:
                return

    def _batches(self, prefilter: Prefilter) -> Iterator[list[Job]]:
        """Each batch, with the results of earlier batches as far as known."""
        size = max(_FIRST_BATCH, min(self.options.processes, _LARGEST_BATCH))
        while self._room > 0 and not self._late:
            jobs = self.next_jobs(prefilter, size)
            if not jobs:
                return
            yield jobs
            self.learn()
            if self._stops_early():
                return
            size = min(2 * size, _LARGEST_BATCH)

    # The parts of a run that a campaign calls

    def prefilter(self) -> Prefilter:
        """Return the prefilter, which inspects candidates before they are built; a context manager."""
        return Prefilter(self.task, self._target, self.strategy.feature_kind, self.options.processes)

    def next_jobs(self, prefilter: Prefilter, count: int) -> list[Job]:
        """Return about `count` configurations to measure next; none if nothing is left to try."""
        if not self._features:
            self.strategy.meet(self._attributes.name)
            self._begin()
        if self._refused_by_compiler >= _HOPELESS:
            logger.warning("the compiler refuses %d configurations in a row: the search ends here", _HOPELESS)
            return []
        batch, self._outstanding = self._outstanding, []
        self._features.update((i, found.features) for i, found in prefilter.inspect(batch).items())
        self._under_way += len(batch)
        more = self._candidates(prefilter, min(count - len(batch), self._room)) if count > len(batch) else []
        self._under_way += len(more)
        return [self.job(i) for i in (*batch, *more)]

    def _begin(self) -> None:
        """Put the default configuration, and others to begin with, in front of the strategy's proposals."""
        first = [self.default] if self.first is None else self.first
        fresh = [i for i in first if i is not None and i not in self.strategy.tried]
        self.strategy.skip(fresh)
        self._outstanding = [*fresh, *self._outstanding]

    def hear(self, index: int, outcome: Outcome) -> Trial | None:
        """Record the outcome of a configuration; returns its trial, None if it does not count as one."""
        self._under_way -= 1
        if isinstance(outcome, Refused):
            self._refused_by_compiler += 1
            self._refuse(index, outcome)
            return None
        self._refused_by_compiler = 0
        self.tally.done += 1
        trial = self._take(self.tally.done, index, outcome)
        self._unlearned.append(self._seen(trial))
        return trial

    @property
    def _late(self) -> bool:
        """Whether the budget of seconds is used up; the first batch is measured in any case."""
        return bool(self._features) and time.monotonic() >= self._deadline

    def learn(self) -> None:
        """Let the strategy learn from the outcomes since the last call."""
        self.strategy.learn(self._unlearned)
        self._unlearned = []

    @property
    def _room(self) -> int:
        """How many more configurations may be measured."""
        return self.options.trials - self.tally.done - self._under_way

    def _candidates(self, prefilter: Prefilter, count: int) -> list[int]:
        """Up to `count` configurations that can run; the others are recorded on the way."""
        possible: dict[int, Features] = {}
        refused_in_a_row = 0
        while len(possible) < (count := min(count, self._room)):  # refusals may take of the room
            # If so, only candidates that are to be measured are inspected: a rejected one costs a trial.
            wanted = count if self.options.count_invalid else self.strategy.overshoot(count)
            proposed = self.strategy.propose(wanted - len(possible))
            if not proposed:
                break
            for index, found in prefilter.inspect(proposed).items():
                if found.refusal is None:
                    possible[index] = found.features
                else:
                    reason, step = found.refusal.reason, found.refusal.step
                    self._refuse(index, Refused(reason=reason, step=step, build_seconds=found.seconds))
            refused_in_a_row = 0 if possible else refused_in_a_row + len(proposed)
            if refused_in_a_row >= _HOPELESS:
                logger.warning("%d configurations in a row were refused: the search ends here", refused_in_a_row)
                break
        best = self.strategy.rank(possible)
        chosen = best[: min(count, self._room)]
        self.strategy.release(best[len(chosen) :])
        self._features.update((i, possible[i]) for i in chosen)
        return chosen

    def _stops_early(self) -> bool:
        patience = self.options.early_stopping
        if patience is not None and self.tally.done >= self.best_iter + patience:
            logger.debug("Early stopped. Best iter: %d.", self.best_iter)
            self._stopped = True
        return self._stopped

    # Results

    def job(self, index: int) -> Job:
        """Return the job of a configuration."""
        config = self.task.config_space.get(index)
        return Job(Candidate(self.task, config), index, self._target, self.task.declared.reference)

    def _take(self, number: int, index: int, outcome: Outcome, confirmed: bool = False) -> Trial:
        """Count and show the outcome of a configuration, and tell the listeners."""
        reason, step = (outcome.reason, outcome.step) if isinstance(outcome, Failure) else ("", "")
        refused = isinstance(outcome, Refused)
        checked = not isinstance(outcome, Measured) or outcome.checked
        notes = Notes(
            self._attributes.name, COMPILER, reason, step, refused, confirmed, self.task.flop, checked,
            self.strategy.predicted(index), index == self.default,
        )  # fmt: skip
        result = to_result(outcome)
        trial = Trial(number, self._input(index, notes), result, outcome, flops_of(self.task.flop, result))
        self.tally.take(trial)
        if self.tally.best is trial:
            self.best_iter = self.tally.done
        if outcome.ok:
            self.good[index] = trial
        if outcome.ok or isinstance(outcome, WrongAnswer):
            self._records.append(trial)
        if number:
            logger.debug("%s", trial_line(trial, self.tally.best_flops, self.options.si_prefix))
        self._display.update(self.tally)
        for listener in self.listeners:
            listener(trial)
        return trial

    def _refuse(self, index: int, outcome: Refused) -> None:
        self.tally.refused += 1
        if self.options.count_invalid:
            self.tally.done += 1
        self._take(self.tally.done if self.options.count_invalid else 0, index, outcome)
        self.strategy.learn([Seen(index, 0.0)])

    def take_confirmed(self, index: int, outcome: Outcome) -> None:
        """Record the result of measuring a configuration again at the end."""
        self._take(0, index, outcome, confirmed=True)
        if isinstance(outcome, WrongAnswer):  # nobody had checked it before
            del self.good[index]

    def choose_best(self) -> None:
        """Choose the best of all records."""
        self.tally.best = self._best()

    def _best(self) -> Trial | None:
        """The best of all, by the rule that `apply_history_best` follows."""
        by_result = {id(trial.result): trial for trial in self._records}
        found = best_of([(trial.input, trial.result) for trial in self._records])
        return None if found is None else by_result[id(found[1])]

    def _seen(self, trial: Trial) -> Seen:
        index = trial.input.config.index or 0
        return Seen(index, trial.flops, self._features.get(index, {}))

    def _input(self, index: int, notes: Notes) -> MeasureInput:
        return MeasureInput(self._target, self.task, self.task.config_space.get(index)).noted(notes)

    @property
    def _attributes(self) -> DeviceAttributes:
        if self._device is None:
            self._device = self.measurer.attributes
        return self._device

    @property
    def _target(self) -> Target:
        return self.measurer.target
