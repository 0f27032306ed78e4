"""The searches by the names that `tilewright tune --tuner` and `autotvm.tune_tasks` give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ..task import Task
from .annealing import AnnealingSearch
from .genetic import GeneticSearch
from .guided import automatic
from .search import Search
from .simple import GridSearch, RandomSearch

SEARCHES: Mapping[str, Callable[[Task, int | None, float], Search]] = MappingProxyType(
    {
        "auto": automatic,
        "xgb": lambda task, seed, _: AnnealingSearch(task.config_space, seed=seed),
        "ga": lambda task, seed, _: GeneticSearch(task.config_space, seed=seed),
        "random": lambda task, seed, _: RandomSearch(task.config_space, seed),
        "gridsearch": lambda task, *_: GridSearch(task.config_space),
    }
)
"""Functions of a task, a seed and the least gain, which only "auto" reads."""
