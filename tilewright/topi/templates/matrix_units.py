"""What strategies by matrix instructions share: where they run, a model for each GPU, and the one they compete with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from math import inf, isfinite
from typing import Any

from ...core.atoms import atom_named
from ...core.target import Target
from ...tune.task import Expectation
from . import direct, direct_choice
from .gpu import USUAL, Gpu
from .template import ScheduleStrategy, W


def has_atoms(names: Collection[str]) -> Callable[[Target | None], bool]:
    """Return whether a target has all of these instructions; without a target, the usual GPU is asked for."""

    def runs_on(target: Target | None) -> bool:
        if target is None or target.kind != "cuda":
            return target is None
        atoms = map(atom_named, names)
        return all(atom is not None and atom.runs_on(target.hardware) for atom in atoms)

    return runs_on


def modelled(
    strategy: ScheduleStrategy[W],
    *,
    usual: Callable[[W, Gpu], dict[str, Any]],
    order: Callable[[W, Gpu], list[dict[str, Any]]],
    cost: Callable[[W, Gpu], float],
    expected: Callable[[W, Mapping[str, Any], Gpu], Expectation],
) -> ScheduleStrategy[W]:
    """Return `strategy` with a model of its own, which counts for the GPU of the target, and else for the usual one."""

    def on(gpu: Gpu) -> ScheduleStrategy[W]:
        return replace(
            strategy,
            usual=lambda of: usual(of, gpu),
            order=lambda of: order(of, gpu),
            cost=lambda of: cost(of, gpu),
            expected=lambda of, choices: expected(of, choices, gpu),
            tailored=lambda target: on(Gpu.of(target)),
        )

    return on(USUAL)


def _unknown(of: Any, gpu: Gpu) -> float:
    return inf


def direct_beside(
    covers: Callable[[Any], bool], known: Callable[[Any, Gpu], float] = _unknown
) -> ScheduleStrategy[Any]:
    """Return the direct strategy with a cost where `covers` holds, so that costs tell which of several is the choice.

    Where `known` returns a finite cost, that is taken, and else what the model of the direct strategy counts.
    """

    @lru_cache(maxsize=64)
    def cycles(of: Any, gpu: Gpu) -> float:
        fitted = known(of, gpu)
        if isfinite(fitted) or not covers(of):
            return fitted
        counted = (direct_choice.cycles(of, tile, block, gpu) for tile, block in direct_choice.candidates(of))
        return min(counted, default=inf)  # windows of hundreds of columns fit no tile

    def on(gpu: Gpu) -> ScheduleStrategy[Any]:
        made = direct.ON_GPU if gpu == USUAL else direct.tailored_to(gpu)
        return replace(made, cost=partial(cycles, gpu=gpu), tailored=lambda target: on(Gpu.of(target)))

    return on(USUAL)
