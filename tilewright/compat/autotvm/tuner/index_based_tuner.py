"""Searches that do not learn: all configurations in order, and at random."""

from __future__ import annotations

from typing import Any

from ....tune.search.simple import GridSearch, RandomSearch
from ....tune.task import Task
from .tuner import Tuner, range_of, space_of


class _IndexTuner(Tuner):
    """A tuner of the indices from `index_offset` on, `range_length` of them."""

    def __init__(self, task: Task, range_idx: Any, strategy: Any) -> None:
        first, stop = range_of(range_idx, space_of(task))
        self.index_offset = first
        self.range_length = self._stop(task, stop) - first
        super().__init__(task, strategy)

    @staticmethod
    def _stop(task: Task, stop: int | None) -> int:
        length = task.config_space.range_length
        return length if stop is None else min(stop, length)

    @property
    def counter(self) -> int:
        """How many configurations were tried."""
        return len(self.strategy.tried)


class RandomTuner(_IndexTuner):
    """Configurations at random; `range_idx` = (first, last index)."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None, *, seed: int | None = None) -> None:
        space = space_of(task)
        super().__init__(task, range_idx, RandomSearch(space, seed, *range_of(range_idx, space)))


class GridSearchTuner(_IndexTuner):
    """All configurations in order; `range_idx` = (first, last index)."""

    def __init__(self, task: Task, range_idx: tuple[int, int] | None = None) -> None:
        space = space_of(task)
        super().__init__(task, range_idx, GridSearch(space, *range_of(range_idx, space)))
