"""The model of strategies with configurations that name a tile: it ranks tiles by their cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from ...tune.model.machine import Machine
from ...tune.task import Expectation
from .many import Made
from .strategy import OwnModel
from .workload import Convolution

W = TypeVar("W", bound=Convolution)


class Block(Protocol):
    """The work of a block of warps on a workload."""

    @property
    def warps(self) -> int:
        """How many warps it has."""

    def blocks(self, of: Any) -> int:
        """How many blocks the grid has."""

    def cycles(self, of: Any, machine: Machine) -> float:
        """Return the cycles of the kernel."""


def expectation(of: Any, block: Block, machine: Machine) -> Expectation:
    """Return the cycles, threads and blocks of a kernel."""
    return Expectation(block.cycles(of, machine), block.warps * machine.hardware.warp, block.blocks(of))


def by_cycles(blocks: Callable[[W], Sequence[Any]]) -> Callable[[W, Machine], Sequence[Any]]:
    """Return a function that ranks all blocks of a workload on a machine, the fastest first."""

    @lru_cache(maxsize=64)
    def ranked(of: W, machine: Machine) -> tuple[Any, ...]:
        return tuple(sorted(blocks(of), key=lambda block: float(block.cycles(of, machine))))

    return ranked


def as_counted(of: Any, cycles: float) -> float:
    """Return the cycles of a tile as its model counts them."""
    return cycles


@dataclass(frozen=True)
class TileModel(Generic[W]):
    """The model of a strategy; its fastest tile is the default.

    Attributes
    ----------
    tiles : callable
        Returns the tiles of a workload on a machine, the fastest first.
    tile_of : callable
        Returns the tile that a configuration's choices name.
    predict : callable
        Returns the cycles, threads and blocks of a tile.
    compared : callable
        Returns the cycles to compare with other strategies, from a workload and the cycles of its fastest tile.
    """

    tiles: Callable[[W, Machine], Sequence[Any]]
    tile_of: Callable[[Mapping[str, Any]], Any]
    predict: Callable[[W, Any, Machine], Expectation] = expectation
    compared: Callable[[W, float], float] = as_counted

    @property
    def model(self) -> OwnModel[W]:
        """The model as strategies take it."""
        return OwnModel(self.rank, self.expected, self.cost)

    def default(self, of: W, machine: Machine) -> dict[str, Any]:
        """Return the choices of the fastest tile."""
        found: dict[str, Any] = self.rank(of, machine)[0]
        return found

    def rank(self, of: W, machine: Machine) -> Sequence[dict[str, Any]]:
        """Return the choices of all tiles, the fastest first."""
        return Made(self.tiles(of, machine), lambda tile: tile.wanted())

    def cost(self, of: W, machine: Machine) -> float:
        """Return the cycles of the fastest tile, to be compared with other strategies."""
        found = self.tiles(of, machine)
        return self.compared(of, self.predict(of, found[0], machine).cycles) if found else inf

    def expected(self, of: W, choices: Mapping[str, Any], machine: Machine) -> Expectation:
        """Return the cycles, threads and blocks of a configuration."""
        return self.predict(of, self.tile_of(choices), machine)
