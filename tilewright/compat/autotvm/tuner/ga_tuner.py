"""The genetic search."""

from __future__ import annotations

from ....tune.search.genetic import GeneticSearch
from ....tune.task import Task
from .tuner import Tuner, space_of


class GATuner(Tuner):
    """A genetic search: the better of `pop_size` configurations are crossed and mutated."""

    def __init__(
        self,
        task: Task,
        pop_size: int = 100,
        elite_num: int = 3,
        mutation_prob: float = 0.1,
        *,
        seed: int | None = None,
    ) -> None:
        self._search = GeneticSearch(space_of(task), pop_size, elite_num, mutation_prob, seed)
        super().__init__(task, self._search)

    @property
    def pop_size(self) -> int:
        """Size of a generation; never more than the space has."""
        return self._search.pop_size

    @property
    def genes(self) -> list[list[int]]:
        """The first generation: for each configuration, the places of its choices."""
        return [list(self.space.point(index)) for index in self._search.first_generation]

    @property
    def visited(self) -> set[int]:
        return self._search.tried.union(self._search.first_generation)
