"""The run of one task: a search proposes candidates, a prefilter inspects them, and their outcomes are recorded.

search.propose ──► prefilter.inspect ──► Job ──► measurer ──► Outcome ──► results.take ──► listeners, log

`campaign.py::Campaign.go` is the loop that requests jobs and measures them, for one run or many.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ...core.log import logger
from ...measure.job import Built, Job
from ...measure.outcome import MeasureErrorNo, Outcome, Refused, WrongAnswer
from ..analysis.candidate import Inspection
from ..records.format import Pair, mean_cost
from ..records.history import applies
from ..search.search import Search, Seen
from ..space.nearest import similar_index
from ..task import Candidate, Task
from .measurers import Measurer, unrecorded
from .options import SearchOptions
from .prefilter import Prefilter
from .results import Listener, Results
from .trials import Tally, Trial, flops_of

_MOST_TRANSFERRED = 4
"""The most configurations of other workloads to try first."""
_MOST_REFUSED = 2000
"""The number of consecutive rejected candidates, by inspection or by the compiler, after which the search ends."""

_PASSING = (MeasureErrorNo.BUILD_TIMEOUT, MeasureErrorNo.RUN_TIMEOUT, MeasureErrorNo.UNKNOWN_ERROR)
"""Errors that a disturbance of the machine may cause."""


class Run:
    """The search of one task by one `Search`. The listeners of its `results` are called with each result.

    Runs that share a `total` are rivals: strategies of one layer, which uses the fastest. `first` lists the
    configurations to measure before any proposal, beginning with the default; None for the task's default.
    """

    def __init__(
        self,
        task: Task,
        search: Search,
        measurer: Measurer,
        options: SearchOptions,
        listeners: Sequence[Listener] = (),
        total: Tally | None = None,
        first: Sequence[int] | None = None,
    ) -> None:
        self.task = task
        self.search = search
        self.measurer = measurer
        self.options = options
        self.results = Results(task, measurer, options, listeners, total)
        self.tally, self.total, self.good = self.results.tally, self.results.total, self.results.good
        self.first = first
        self.known: Trial | None = None
        """The best record of the log from which the run resumes."""
        self._outstanding: list[int] = []
        """Configurations to measure before proposals of the search."""
        self._inspected: dict[int, Inspection] = {}
        """The inspections of configurations without an outcome, and of configurations that may be measured again at the
        end."""
        self._programs: dict[int, list[Built]] = {}
        """The built programs of these configurations, so that a second measurement needs no build."""
        self._contenders: list[int] = []
        """The configurations that may be measured again at the end, the best one first."""
        self._has_begun = False
        self._unfit: set[int] = set()
        """Configurations with a permanent failure."""
        self.under_way = 0
        """The number of jobs without an outcome."""
        self._unlearned: list[Seen] = []
        self._refused_by_compiler = 0  # in a row

    # Candidates

    def prefilter(self) -> Prefilter:
        """Return the prefilter of candidates; a context manager."""
        return Prefilter(self.task, self.measurer.target, self.search.feature_kind, self.measurer.processes)

    def next_jobs(self, prefilter: Prefilter, count: int, number: int = 0) -> list[Job]:
        """Return about `count` configurations to measure next, with the `number` of this run in their keys.

        The list is empty if no configuration is left to try.
        """
        if not self._has_begun:
            self._has_begun = True
            self.search.meet(self.results.attributes.name)
            self._begin()
        if self._refused_by_compiler >= _MOST_REFUSED:
            logger.warning("the compiler refuses %d configurations in a row: the search ends here", _MOST_REFUSED)
            return []
        batch, self._outstanding = self._outstanding, []
        self._inspect(prefilter, batch)
        self.under_way += len(batch)
        more = self._candidates(prefilter, min(count - len(batch), self._room)) if count > len(batch) else []
        self.under_way += len(more)
        return [self.job(i, (number, i)) for i in (*batch, *more)]

    def _begin(self) -> None:
        """Queue the default configuration, or the configurations of `first`, before any proposal."""
        first = [self.default] if self.first is None else self.first
        fresh = [i for i in first if i is not None and i not in self.search.tried]
        self.search.skip(fresh)
        self._outstanding = [*fresh, *self._outstanding]

    def _inspect(self, prefilter: Prefilter, indices: Sequence[int]) -> dict[int, Inspection]:
        """Return inspections; earlier inspections of released configurations are reused."""
        new = [index for index in indices if index not in self._inspected]
        self._inspected.update(prefilter.inspect(new))
        return {index: self._inspected[index] for index in indices}

    def _candidates(self, prefilter: Prefilter, count: int) -> list[int]:
        """Return up to `count` configurations that can run, and record the rejected ones."""
        possible: dict[int, Inspection] = {}
        refused_in_a_row = 0
        while len(possible) < (count := min(count, self._room)):  # with `count_invalid`, refusals use up the room
            # In that case, only candidates to be measured are inspected, because a rejected one costs a trial.
            wanted = count if self.options.count_invalid else self.search.overshoot(count)
            proposed = self.search.propose(wanted - len(possible))
            if not proposed:
                break
            for index, found in self._inspect(prefilter, proposed).items():
                if found.refusal is None:
                    possible[index] = found
                else:
                    self._refuse(index, replace(found.refusal, build_seconds=found.seconds))
            refused_in_a_row = 0 if possible else refused_in_a_row + len(proposed)
            if refused_in_a_row >= _MOST_REFUSED:
                logger.warning("%d configurations in a row were refused: the search ends here", refused_in_a_row)
                break
        best = self.search.rank({index: found.features for index, found in possible.items()})
        chosen = best[: min(count, self._room)]
        self.search.release(best[len(chosen) :])
        return chosen

    def job(self, index: int, key: Any) -> Job:
        """Return the job of a configuration with the caller's key; it is lowered already if it was inspected."""
        candidate = Candidate(self.task, self.task.config_space.get(index))
        found = self._inspected.get(index)
        lowered = found.lowered if found is not None else b""
        kept = self._programs.setdefault(index, [])
        return Job(candidate, key, self.measurer.target, self.task.declared.reference, lowered, kept)

    # Outcomes

    def hear(self, index: int, outcome: Outcome) -> Trial | None:
        """Record the outcome of a configuration; return its trial, or None if it does not count as one."""
        self.under_way -= 1
        if isinstance(outcome, Refused):
            self._refused_by_compiler += 1
            self._refuse(index, outcome)
            return None
        self._refused_by_compiler = 0
        trial = self._take(index, outcome)
        found = self._inspected.get(index)
        self._unlearned.append(Seen(index, trial.flops, found.features if found is not None else {}))
        self._drop_inspections(index)
        return trial

    def _refuse(self, index: int, outcome: Refused) -> None:
        self._take(index, outcome)
        self.search.learn([Seen(index, 0.0)])
        self._drop(index)

    def _drop_inspections(self, heard: int) -> None:
        """Drop the inspections and programs of configurations that `confirmation.py` will not measure again."""
        known = [*self._contenders, heard]
        good = sorted((i for i in known if i in self.good), key=lambda i: self.good[i].rank, reverse=True)
        self._contenders = good[: self.options.confirm]
        for index in {*known} - {*self._contenders, self.default}:
            self._drop(index)

    def _drop(self, index: int) -> None:
        self._inspected.pop(index, None)
        self._programs.pop(index, None)

    def _take(self, index: int, outcome: Outcome, repeated: bool = False, margin: float = 0.0) -> Trial:
        if not outcome.ok and outcome.error_no not in _PASSING:
            self._unfit.add(index)
        predicted, is_default = self.search.predicted(index), index == self.default
        return self.results.take(index, outcome, predicted, is_default, repeated, margin)

    def learn(self) -> None:
        """Let the search learn from the outcomes since the last call."""
        self.search.learn(self._unlearned)
        self._unlearned = []

    def take_confirmed(self, index: int, outcome: Outcome, margin: float = 0.0) -> None:
        """Record the result of measuring a configuration again at the end."""
        self._take(index, outcome, repeated=True, margin=margin)
        if isinstance(outcome, WrongAnswer):  # the first measurement was not checked
            self.good.pop(index, None)

    @property
    def _room(self) -> int:
        """The number of configurations that may still be measured."""
        return self.options.trials - self.tally.done - self.under_way

    # The start of a search

    @cached_property
    def default(self) -> int | None:
        """The index of the configuration of calls without measurements; None if there is none."""
        return self.task.default if self.first is None else next(iter(self.first), None)

    @property
    def confirmable_default(self) -> int | None:
        """The default configuration, even without a successful measurement; None if it fails permanently."""
        return None if self.default in self._unfit else self.default

    def resume(self, known: Iterable[Pair]) -> None:
        """Take over the records of this task in a log: they count as trials, and are not measured again.

        Records of another device or compiler are only advice. Unrecorded configurations that an earlier session sent to
        a fleet are measured first. Configurations like the best of the template's other workloads follow.
        """
        known = list(known)
        self.search.suggest(self._transferred(known))
        seen: dict[int, Seen] = {}
        advice: list[Seen] = []
        best = 0.0
        for inp, result in known:
            index = self.task.config_space.find(inp.config) if inp.task.workload == self.task.workload else None
            if index is None or inp.target.kind != self.measurer.target.kind:
                continue
            one = Seen(index, flops_of(self.task.flop, result))
            if not applies(inp.notes, str(inp.target.kind), lambda _: self.results.attributes.name):
                advice.append(one)
                continue
            if index not in seen and (not inp.notes.refused or self.options.count_invalid):
                self.tally.done += 1
                self.tally.resumed += 1
            seen[index] = one
            if one.score > best and not inp.notes.confirmed:
                best, self.tally.best_at = one.score, self.tally.done  # early stopping continues from its state
            if not one.score and result.error_no not in _PASSING:
                self._unfit.add(index)
            self.results.take_known(index, inp.notes, result, index == self.default)
        self.search.skip(list(seen))
        self.search.advise(advice)
        self.search.learn([seen[i] for i in sorted(seen)])
        self.results.choose_best()
        self.known = self.tally.best
        if self.total is not self.tally:
            self.total.add_resumed(self.tally)
        self._ask_again(unrecorded(self.measurer, self.task, self.search))

    def _ask_again(self, indices: Iterable[int]) -> None:
        valid = filter(self.task.config_space.is_index_valid, dict.fromkeys(indices))  # in the space as it is now
        self._outstanding = [index for index in valid if index not in self.search.tried]
        self.search.skip(self._outstanding)

    def _transferred(self, known: Sequence[Pair]) -> list[int]:
        """Return configurations like the best of the template's other workloads, workloads with the most operations
        first."""
        best: dict[Any, Pair] = {}
        for pair in known:
            task, notes = pair[0].task, pair[0].notes
            other = task.name == self.task.name and task.workload != self.task.workload
            if other and pair[1].error_no == MeasureErrorNo.NO_ERROR and notes.checked:
                held = best.get(task.workload)
                if held is None or mean_cost(pair[1]) < mean_cost(held[1]):
                    best[task.workload] = pair
        near = sorted(best.values(), key=lambda pair: -pair[0].notes.flop)
        found = (similar_index(self.task.config_space, pair[0].config) for pair in near)
        return list(dict.fromkeys(i for i in found if i is not None))[:_MOST_TRANSFERRED]
