"""The direct strategy with a cost, which selection compares with a competing strategy by matrix instructions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import inf, isfinite
from typing import Any

from ...tune.model.machine import Machine
from . import direct, direct_tiles
from .strategy import OwnModel, ScheduleStrategy, unknown


def direct_beside(
    competitor: ScheduleStrategy[Any], known: Callable[[Any, Machine], float] = unknown
) -> ScheduleStrategy[Any]:
    """Return the direct strategy with a cost for the workloads that a competitor covers.

    The cost is `known` if that is finite, else the cycles that the model of the direct strategy counts.
    """

    @lru_cache(maxsize=64)
    def cycles(of: Any, machine: Machine) -> float:
        fitted = known(of, machine)
        if isfinite(fitted) or not competitor.covers(of):
            return fitted
        counted = (direct_tiles.cycles(of, tile, block, machine) for tile, block in direct_tiles.candidates(of))
        return min(counted, default=inf)  # windows of hundreds of columns fit no tile

    return replace(direct.ON_GPU, model=OwnModel(direct_tiles.rank, direct.expected, cycles))
