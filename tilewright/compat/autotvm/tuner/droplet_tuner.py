"""Coordinate descent from one configuration."""

from __future__ import annotations

from ....tune.search.droplet import AROUND, DropletSearch
from ....tune.task import Task
from .tuner import Tuner, space_of


class DropletTuner(Tuner):
    """Coordinate descent: from a start to whichever neighbour is fastest, until none is faster.

    Parameters
    ----------
    task : Task
        The task to tune.
    start_position : list of int, optional
        The place of each knob's choice at which the descent begins; by default the first configuration.
    pvalue : float
        Accepted for old scripts, and not used: the best few are measured again at the end, beside each other.
    seed : int, optional
        Not used: the descent draws no random numbers.
    """

    def __init__(
        self, task: Task, start_position: list[int] | None = None, pvalue: float = 0.05, *, seed: int | None = None
    ) -> None:
        self._search = DropletSearch(space_of(task), start_position, seed)
        self.pvalue = pvalue
        self.start_position = list(self._search.start)
        super().__init__(task, self._search)

    @property
    def dims(self) -> list[int]:
        """The number of choices of each knob."""
        return self.space.dims

    @property
    def step(self) -> int:
        """How far, in places of a knob's choices, the neighbours are that are measured next."""
        return self._search.step

    @property
    def batch(self) -> int:
        """The least number of configurations that are looked at around the best."""
        return AROUND

    @property
    def total_execution(self) -> int:
        """How far the step can grow: the largest number of choices of a knob."""
        return max(self.dims, default=0)

    @property
    def best_choice(self) -> tuple[int, list[int], float]:
        """The best configuration so far: its index, the places of its choices, and its speed in FLOP/s."""
        point, score = self._search.best
        return self.space.index(point), list(point), score

    @property
    def visited(self) -> set[int]:
        """The indices of the configurations that were tried; before the first batch, of the ones to try."""
        return set(self._search.tried or self._search.around)

    @property
    def next(self) -> list[int]:
        """The indices of the configurations to measure next."""
        return self._search.around
