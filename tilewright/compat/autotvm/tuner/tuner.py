"""The common part of tuners: run a search strategy over a task's space, and report each trial."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from ....core.errors import UserAttributeError, UserError
from ....core.log import logger
from ....measure.base_session import BaseSession
from ....measure.option import builder_and_runner
from ....measure.outcome import MeasureResult
from ....tune.records.format import MeasureInput, Pair, pairs_of
from ....tune.search.search import Search, Seen
from ....tune.search.subclass import SubclassSearch
from ....tune.session.campaign import Entrant
from ....tune.session.durations import check_counts, seconds_of
from ....tune.session.layer import LayerSearch
from ....tune.session.measurers import open_session
from ....tune.session.options import SearchOptions
from ....tune.session.run import Run
from ....tune.session.show import scale_of, warn_of_nothing, warn_of_nothing_new
from ....tune.session.trials import Trial, flops_of
from ....tune.space.config import Config
from ....tune.space.space import Space
from ....tune.task import Task
from .. import callback
from ..env import GLOBAL_SCOPE

Callback = Callable[[Any, Sequence[MeasureInput], Sequence[MeasureResult]], None]


_MADE = ("task", "space", "strategy", "best_config", "best_flops", "best_measure_pair", "best_iter", "n_trial")
"""The state that `Tuner.__init__` creates."""


class Tuner:
    """Searches the space of a task. `best_config`, `best_flops` and `best_measure_pair` hold its results.

    A subclass calls `super().__init__(task)` and overrides `next_batch`, which returns configurations of `self.space`.
    It may override `update` to learn from results, and `has_next` to end the search.
    """

    def __init__(self, task: Task, strategy: Search | None = None) -> None:
        self.task = task
        self.space = space_of(task)
        if strategy is None and not self._has_own_search:
            raise UserError(
                f"{type(self).__name__} names no configuration to try",
                primitive="tuner",
                fix="define next_batch(self, batch_size) in it, or use autotvm.tuner.XGBTuner",
            )
        self.strategy = SubclassSearch(self) if strategy is None else strategy
        self.best_config: Config | None = None
        self.best_flops = 0.0
        self.best_measure_pair: Pair | None = None
        self.best_iter = 0
        self.n_trial: int | None = None
        self.early_stopping: float | None = None
        self.ttl: float | None = None
        """Trials left before early stopping or the end."""
        self.interrupted = False
        """Whether Ctrl-C ended the last run."""
        self.measuring_seconds = 0.0
        """How long candidates had the device in the last run, pauses between them not included."""

    def tune(
        self,
        n_trial: int,
        measure_option: Any,
        early_stopping: int | None = None,
        callbacks: Iterable[Callback] = (),
        si_prefix: str = "G",
        *,
        resume: bool = True,
        count_invalid: bool = False,
        confirm: int = 3,
        seconds: float | str | None = None,
    ) -> None:
        """Measure up to `n_trial` configurations, each reported to the callbacks as (tuner, [input], [result]).

        Ends after `early_stopping` trials without a better one, and after `seconds`. Configurations of this task in a
        file given to `callback.log_to_file` are not measured again and count towards `n_trial`, unless `resume` is
        False. A configuration that cannot run is refused before it is compiled, and is a trial only with
        `count_invalid`. The default configuration of the template is measured first. At the end, the best `confirm` are
        measured again beside it, so that no search ends slower than it began. Ctrl-C ends it with the best so far. A
        second one within two seconds, as when a script continues with its next workload, ends the script.
        """
        scale_of(si_prefix)
        check_counts("tune", n_trial=n_trial)
        check_counts("tune", least=0, confirm=confirm)
        for name, flag in (("resume", resume), ("count_invalid", count_invalid)):
            if not isinstance(flag, (bool, int)):
                raise UserError(f"{name}={flag!r} is not True or False", primitive="tune", fix=f"{name}=True")
        if early_stopping is not None:
            check_counts("tune", early_stopping=early_stopping)
        seconds = seconds_of(seconds, "tune", "seconds")
        called = checked_callbacks(callbacks)
        self.n_trial, self.early_stopping = n_trial, early_stopping or 1e9
        with open_session_of(self.task.target, measure_option, called) as session:
            options = SearchOptions(n_trial, early_stopping, count_invalid, confirm, si_prefix, seconds)
            # A subclass of a tuner that has a strategy may override `next_batch`, too.
            strategy = SubclassSearch(self) if self._has_own_search else self.strategy
            reporting = Entrant(
                self.task, strategy, listeners_of=lambda run: [partial(self.report, run, callbacks=called)]
            )
            search = LayerSearch([reporting], session, options)
            (run,) = search.runs
            logger.info("Get devices for measurement successfully!")
            bars = [c for c in called if isinstance(c, callback.ProgressBar)]
            if resume:
                search.resume(known_to(called))
                self.follow(run)
                for bar in bars:
                    bar.count += run.tally.resumed
            GLOBAL_SCOPE.in_tuning = True
            try:
                search.go()
            finally:
                GLOBAL_SCOPE.in_tuning = False
                for bar in bars:
                    bar.close()
            self.interrupted, self.measuring_seconds = search.interrupted, run.tally.measuring_seconds
            self.follow(run)
        if not self.interrupted:
            warn_of_nothing(run.tally, self.task.name)
            warn_of_nothing_new(run.tally)
        elif _interrupted_again():
            raise KeyboardInterrupt

    def report(self, run: Run, trial: Trial, callbacks: Sequence[Callback]) -> None:
        """Take in a trial of a run, and tell the callbacks."""
        self.follow(run)
        for called in callbacks:
            # Most callbacks would miscount anything but a trial.
            if trial.number or getattr(called, "takes_all", False):
                called(self, [trial.input], [trial.result])

    def follow(self, run: Run) -> None:
        """Take over the results of a run."""
        best = run.tally.best
        if best is not None:
            self.best_config, self.best_flops = best.input.config, best.flops
            self.best_measure_pair, self.best_iter = (best.input, best.result), run.tally.best_at
        patience = self.early_stopping or 1e9
        self.ttl = min(patience + self.best_iter, self.n_trial or 0) - run.tally.done

    def load_history(self, data_set: Iterable[Pair], min_seed_records: int = 0) -> None:
        """Take measurements of this workload, by whatever device, as advice for the start of the search.

        Nothing happens if fewer than `min_seed_records` fit.
        """
        check_counts("load_history", least=0, min_seed_records=min_seed_records)
        seen: dict[int, Seen] = {}
        for inp, result in pairs_of(data_set, "load_history"):
            index = self.space.find(inp.config) if inp.task.workload == self.task.workload else None
            if index is not None:
                seen[index] = Seen(index, flops_of(self.task.flop, result))
        if len(seen) < max(min_seed_records, 1):
            logger.warning(
                "load_history: %d measurements are of the workload %s; nothing is learned",
                len(seen),
                self.task.workload,
            )
            return
        self.strategy.advise([seen[i] for i in sorted(seen)])

    def __getattr__(self, name: str) -> NoReturn:
        if name in _MADE:
            raise UserAttributeError(
                f"{type(self).__name__} has no {name!r} yet: its __init__ does not call that of Tuner",
                primitive="tuner",
                fix="begin it with super().__init__(task)",
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.task!r}, best_flops={self.best_flops:.4g})"

    def reset(self) -> None:
        """Forget the best."""
        self.best_config, self.best_flops, self.best_measure_pair, self.best_iter = None, 0.0, None, 0

    # For scripts with their own measurements, and for subclasses to override

    @property
    def _has_own_search(self) -> bool:
        return type(self).next_batch is not Tuner.next_batch

    @property
    def visited(self) -> set[int]:
        """The indices of the configurations that were tried."""
        return set(self.strategy.tried)

    def has_next(self) -> bool:
        """Whether something is left to try."""
        return self.strategy.has_next()

    def next_batch(self, batch_size: int) -> list[Config]:
        """Configurations to measure next."""
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 0:
            raise UserError(f"a batch of {batch_size!r}", primitive="next_batch", fix="give a number of configurations")
        return [self.space.get(i) for i in self.strategy.propose(batch_size)]

    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Learn from results of configurations that `next_batch` gave."""
        lists = isinstance(inputs, (list, tuple)) and isinstance(results, (list, tuple)) and len(inputs) == len(results)
        if not lists or not all(isinstance(inp, MeasureInput) for inp in inputs):
            raise UserError(
                "the measurements are not lists of inputs and their results",
                primitive="update",
                fix="give as many MeasureInputs as MeasureResults",
            )
        known = ((inp.config.index, flops_of(self.task.flop, r)) for inp, r in zip(inputs, results, strict=True))
        seen = [Seen(index, flops) for index, flops in known if index is not None]
        self.strategy.skip([one.index for one in seen])
        self.strategy.learn(seen)


_AGAIN_SECONDS = 2.0
_last_interruption = [-_AGAIN_SECONDS]


def _interrupted_again() -> bool:
    """Note that Ctrl-C ended a run; returns whether the last one was so recent that the script itself is meant."""
    before, _last_interruption[0] = _last_interruption[0], time.monotonic()
    return _last_interruption[0] - before < _AGAIN_SECONDS


def checked_callbacks(given: Any) -> list[Callback]:
    """Return callbacks as a list; raises UserError if they are none."""
    called = list(given) if isinstance(given, Iterable) else [given]
    wrong = next((each for each in called if not callable(each)), None)
    if wrong is not None or not isinstance(given, Iterable):
        raise UserError(
            f"callbacks={given!r} is not a list of functions",
            primitive="tune",
            fix='give callbacks=[autotvm.callback.log_to_file("conv.log")]',
        )
    return called


def open_session_of(target: Any, option: Any, called: Sequence[Callback]) -> BaseSession:
    """Open the session of a `measure_option`. A fleet keeps its ledger beside the first log of the callbacks."""
    builder, runner = builder_and_runner(option)
    logs = (c.path for c in called if isinstance(c, callback.LogToFile))
    return open_session(target, builder, runner, next(filter(None, logs), None))


def known_to(called: Sequence[Callback]) -> list[Pair]:
    """Return the measurements that the logs of the callbacks hold."""
    return [pair for c in called if isinstance(c, callback.LogToFile) for pair in c.known()]


def space_of(task: Any) -> Space:
    """Return the space of a task; raises UserError if `task` is not a task."""
    if not isinstance(task, Task):
        raise UserError(
            f"the task is {task!r}, which is not a task",
            primitive="tuner",
            fix='make one: autotvm.task.create("conv2d", args, target)',
        )
    return task.config_space


def range_of(given: Any, space: Space) -> tuple[int, int | None]:
    """Return the first index of a range and the one after its last; raises UserError if it is not a range."""
    if given is None:
        return 0, None
    whole = isinstance(given, (tuple, list)) and all(isinstance(i, (int, np.integer)) for i in given)
    if not whole or len(given) != 2 or not 0 <= given[0] <= given[1] or given[0] >= space.range_length:
        raise UserError(
            f"range_idx={given!r} is not a range of the {space.range_length} indices",
            primitive="tuner",
            fix=f"give the first and the last: range_idx=(0, {space.range_length - 1})",
        )
    return given[0], given[1] + 1
