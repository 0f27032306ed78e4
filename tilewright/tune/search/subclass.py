"""The search of a user's tuner: a subclass that overrides `next_batch` and `update`, in the legacy style."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Protocol

from ...core.errors import UserError
from ...measure.outcome import MeasureErrorNo, MeasureResult
from ..records.format import MeasureInput
from ..space.config import Config
from ..task import Task
from .search import Search, Seen

_LONGEST_BATCH_FACTOR = 64
"""The largest length of a batch, as a multiple of the requested length."""
_MOST_BATCHES_WITHOUT_NEW = 1000
"""The number of consecutive batches without new configurations after which the search ends."""


class Searching(Protocol):
    """The methods of a tuner that proposes its own batches."""

    task: Task

    def has_next(self) -> bool: ...
    def next_batch(self, batch_size: int) -> list[Config]: ...
    def update(self, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None: ...


class SubclassSearch(Search):
    """Asks a tuner for configurations, and reports results in the order of its proposals, on which it may rely.

    A repeated candidate is measured once, and reported twice.
    """

    def __init__(self, tuner: Searching) -> None:
        super().__init__(tuner.task.config_space)
        self._tuner = tuner
        self._given: deque[int] = deque()  # in order; `update` has not heard of them
        self._known: dict[int, float] = {}

    def propose(self, count: int) -> list[int]:
        for _ in range(_MOST_BATCHES_WITHOUT_NEW):
            given = [self._index(config) for config in self._batch(count)] if self._tuner.has_next() else []
            if not given:
                return []
            self._given += given
            if new := self._new(given, len(given)):
                return new
            self._tell()
        return []

    def _batch(self, count: int) -> list[Config]:
        """Return the next batch of the tuner; raise UserError if it is not a batch, or is endless."""
        most = _LONGEST_BATCH_FACTOR * count + _LONGEST_BATCH_FACTOR
        given: Any = self._tuner.next_batch(count)
        batch = list(islice(given, most + 1)) if isinstance(given, Iterable) else None
        if batch is None or len(batch) > most:
            what = repr(given) if batch is None else f"more than {most:,} configurations"
            raise UserError(
                f"{type(self._tuner).__name__}.next_batch({count}) returns {what}",
                primitive="tune",
                fix="let it return a list of batch_size configurations; an empty one ends the search",
            )
        return batch

    def learn(self, results: Sequence[Seen]) -> None:
        self._known.update((seen.index, seen.score) for seen in results)
        self._tell()

    def release(self, indices: Sequence[int]) -> None:
        super().release(indices)
        self._given = deque(index for index in self._given if index not in set(indices))

    def _tell(self) -> None:
        told = []
        while self._given and self._given[0] in self._known:
            told.append(self._given.popleft())
        if told:
            task = self._tuner.task
            target: Any = task.target  # not None, because candidates of this task were measured
            inputs = [MeasureInput(target, task, self.space.get(index)) for index in told]
            self._tuner.update(inputs, [self._result(self._known[index]) for index in told])

    def _result(self, score: float) -> MeasureResult:
        if score > 0:
            return MeasureResult((self._tuner.task.flop / score,), MeasureErrorNo.NO_ERROR, 0.0, 0.0)
        return MeasureResult((RuntimeError("it cannot run, or failed"),), MeasureErrorNo.UNKNOWN_ERROR, 0.0, 0.0)

    def _index(self, config: Any) -> int:
        if isinstance(config, Config) and config.index is not None:
            return config.index
        raise UserError(
            f"{type(self._tuner).__name__}.next_batch returns {config!r}",
            primitive="tune",
            fix="let it return configurations of the task: self.task.config_space.get(0)",
        )
