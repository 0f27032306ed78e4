"""The model of strategies by matrix instructions that name the work of a block of warps and count its cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from ...tune.task import Expectation
from .gpu import Gpu
from .strategy import OwnModel
from .workload import Convolution

W = TypeVar("W", bound=Convolution)


class Block(Protocol):
    """The part of a workload that a block of warps computes."""

    @property
    def warps(self) -> int:
        """How many warps it has."""

    def blocks(self, of: Any) -> int:
        """How many blocks the grid has."""

    def cycles(self, of: Any, gpu: Gpu) -> float:
        """Return the kernel's time in cycles of a multiprocessor."""

    def wanted(self) -> dict[str, Any]:
        """Return the choices of the knobs."""


def as_counted(of: Any, cycles: float) -> float:
    """Return the cycles of a block as its model counts them."""
    return cycles


class BlockModel(Generic[W]):
    """The model of a strategy of which each configuration names a block; the fastest block is the default.

    Parameters
    ----------
    blocks : callable
        Returns all possible blocks of a workload.
    block_of : callable
        Returns the block that a configuration's choices name.
    compared : callable
        Returns the cycles to compare with other strategies, from a workload and the cycles of its fastest block.
    """

    def __init__(
        self,
        blocks: Callable[[W], Sequence[Block]],
        block_of: Callable[[Mapping[str, Any]], Block],
        compared: Callable[[W, float], float] = as_counted,
    ) -> None:
        @lru_cache(maxsize=64)
        def ranked(of: W, gpu: Gpu) -> tuple[Block, ...]:
            return tuple(sorted(blocks(of), key=lambda block: block.cycles(of, gpu)))

        self.ranked = ranked
        self.block_of = block_of
        self.compared = compared

    @property
    def model(self) -> OwnModel[W]:
        """The model as strategies take it."""
        return OwnModel(self.order, self.expected, self.cost)

    def default(self, of: W, gpu: Gpu) -> dict[str, Any]:
        """Return the choices of the fastest block."""
        return self.ranked(of, gpu)[0].wanted()

    def order(self, of: W, gpu: Gpu) -> list[dict[str, Any]]:
        """Return the choices of all blocks, the fastest first."""
        return [block.wanted() for block in self.ranked(of, gpu)]

    def cost(self, of: W, gpu: Gpu) -> float:
        """Return the cycles of the fastest block, to be compared with other strategies."""
        found = self.ranked(of, gpu)
        return self.compared(of, found[0].cycles(of, gpu)) if found else inf

    def expected(self, of: W, choices: Mapping[str, Any], gpu: Gpu) -> Expectation:
        """Return the cycles, threads and blocks of a configuration."""
        block = self.block_of(choices)
        return Expectation(block.cycles(of, gpu), block.warps * gpu.hardware.warp, block.blocks(of))
