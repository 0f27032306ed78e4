"""Strategies by matrix instructions whose configurations say what a block of warps computes, ranked by its cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf
from typing import Any, Protocol

from ...schedule.handle import ScheduleHandle
from ...tensor.tensor import Tensor
from ...tune.space.config import Config
from ...tune.space.space import Space
from ...tune.task import Expectation
from .bias import is_added_last
from .gpu import USUAL, Gpu
from .matrix_units import modelled
from .template import ScheduleStrategy, W
from .tensors import Tensors


class Block(Protocol):
    """What a block of warps computes of a workload."""

    @property
    def warps(self) -> int:
        """How many warps it has."""

    def blocks(self, of: Any) -> int:
        """How many blocks the grid has."""

    def cycles(self, of: Any, gpu: Gpu) -> float:
        """Return what the kernel takes, in cycles of a multiprocessor."""

    def wanted(self) -> dict[str, Any]:
        """Return the choices of the knobs."""


def as_counted(of: Any, cycles: float) -> float:
    """The cycles of a block as its model counts them."""
    return cycles


def ranked_by_blocks(
    space: Callable[[W], Space],
    schedule: Callable[[W, Config, ScheduleHandle, Tensors], None],
    declare: Callable[..., Tensor],
    covers: Callable[[W], bool],
    blocks: Callable[[W], Sequence[Block]],
    block_of: Callable[[Mapping[str, Any]], Block],
    *,
    cost: Callable[[W, float], float] = as_counted,
    starts_at_bias: bool = False,
    timed: bool = True,
) -> ScheduleStrategy[W]:
    """Return a strategy with the model of its blocks: the usual choices are those that cost least.

    Parameters
    ----------
    space, schedule, declare, covers, starts_at_bias, timed
        As in `ScheduleStrategy`. A strategy that is not timed has no cost: its cycles are not to be compared with those
        of others.
    blocks : callable
        Returns all blocks that are possible for a workload.
    block_of : callable
        Returns the block that a configuration's choices make.
    cost : callable
        Returns what to compare with the cycles of others, of a workload and the cycles of its best block.
    """

    @lru_cache(maxsize=64)
    def ranked(of: W, gpu: Gpu) -> tuple[Block, ...]:
        return tuple(sorted(blocks(of), key=lambda block: block.cycles(of, gpu)))

    def usual(of: W, gpu: Gpu = USUAL) -> dict[str, Any]:
        return ranked(of, gpu)[0].wanted()

    def order(of: W, gpu: Gpu) -> list[dict[str, Any]]:
        return [block.wanted() for block in ranked(of, gpu)]

    def cost_of(of: W, gpu: Gpu) -> float:
        found = ranked(of, gpu) if timed else ()
        return cost(of, found[0].cycles(of, gpu)) if found else inf

    def expected(of: W, choices: Mapping[str, Any], gpu: Gpu) -> Expectation:
        block = block_of(choices)
        return Expectation(block.cycles(of, gpu), block.warps * gpu.hardware.warp, block.blocks(of))

    made = ScheduleStrategy(space, schedule, usual, declare, covers, starts_at_bias=starts_at_bias, timed=timed)
    made = replace(made, adds_bias_last=is_added_last)
    return modelled(made, usual=usual, order=order, cost=cost_of, expected=expected)
