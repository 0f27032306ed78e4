"""A model of strategies with one tile per configuration: it ranks tiles by their cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from math import inf
from operator import attrgetter
from typing import Any, ClassVar, Generic, Protocol, Self

from ...core.atoms import LANES
from ...tune.model.machine import Machine
from ...tune.space.knobs import split_knob, value_knob
from ...tune.space.space import Space
from ...tune.task import Expectation
from .images import Images
from .strategy import OwnModel
from .tile_arrays import LazyResults
from .workload import W


class KnobTile:
    """A frozen dataclass; its fields are choices of knobs."""

    KNOBS: ClassVar[Mapping[str, str | tuple[str, ...]]] = {}
    """For each knob, the field that holds its choice, or the fields that hold the inner sizes of its split. By default,
    each field is a knob of the same name."""
    SIZES: ClassVar[tuple[str, ...]] = ()
    """Knobs with a field that holds all inner sizes of their split."""
    WORDS: ClassVar[Mapping[str, tuple[str, str]]] = {}
    """The two choices of knobs that are words: for False, and for True."""
    OTHERS: ClassVar[Mapping[str, Any]] = {}
    """The wanted choices of knobs without a field."""

    @classmethod
    def knobs(cls) -> Mapping[str, str | tuple[str, ...]]:
        """Return `KNOBS`, or its default."""
        made: Any = cls
        return cls.KNOBS or {field.name: field.name for field in fields(made)}

    @classmethod
    def of(cls, choices: Mapping[str, Any]) -> Self:
        """Return the tile of a configuration's choices."""
        make: Any = cls
        given: dict[str, Any] = {}
        for knob, field in cls.knobs().items():
            choice = choices[knob]
            if isinstance(field, tuple):
                given.update(zip(field, choice.size[1:], strict=True))
            elif knob in cls.WORDS:
                given[field] = choice.val == cls.WORDS[knob][1]
            else:
                given[field] = tuple(choice.size[1:]) if knob in cls.SIZES else choice.val
        made: Self = make(**given)
        return made

    def wanted(self) -> dict[str, Any]:
        """Return the choices of the tile."""
        found = {knob: self._choice(knob, attrgetter(*_fields(field))(self)) for knob, field in self.knobs().items()}
        return {**found, **self.OTHERS}

    @classmethod
    def _choice(cls, knob: str, held: Any) -> Any:
        """Return the choice of a knob, given the values of its fields."""
        if knob in cls.WORDS:
            return cls.WORDS[knob][held]
        return list(held) if isinstance(held, tuple) else held

    @classmethod
    def space(
        cls,
        choices: Mapping[str, list[Any]],
        extents: Mapping[str, int],
        possible: Callable[[Self], Any],
        others: Sequence[Any] = (),
        many: bool = False,
    ) -> Space:
        """Return the space of the possible tiles.

        `choices` lists the choices of the tile's knobs, in order. `extents` maps knobs that split to the extents that
        they split. `others` are further knobs. With `many`, fields may be arrays, and `possible` then returns an array.
        """
        knobs = [
            split_knob(name, extents[name], "candidate", candidate=values)
            if name in extents
            else value_knob(name, values)
            for name, values in choices.items()
        ]
        why = "a block that the hardware can hold"
        return Space([*knobs, *others]).where(lambda given: possible(cls.of(given)), tuple(choices), why, many=many)

    @classmethod
    def space_around(cls, of: Any, found: Sequence[Any], extents: Mapping[str, int], *others: Any) -> Space:
        """Return the space of the choices that occur in `found`, the possible tiles."""
        held = {knob: sorted(set(map(attrgetter(*_fields(field)), found))) for knob, field in cls.knobs().items()}
        choices = {
            knob: [[-1, *each] if knob in extents else cls._choice(knob, each) for each in values]
            for knob, values in held.items()
        }

        def possible(tile: Any) -> bool:
            return bool(tile.is_possible(of))

        return cls.space(choices, extents, possible, others)


class WarpTile(KnobTile):
    """A tile of a block of warps."""

    @property
    def warps(self) -> int:
        """Warps of a block."""
        raise NotImplementedError

    def threads(self, of: Any) -> int:
        """Return the threads of a block."""
        return self.warps * LANES


EIGHT = 8
"""Columns of a matrix instruction."""


def eights_of(of: Images) -> int:
    """Return the number of groups of eight columns of the result."""
    return -(-of.places[1] // EIGHT)


class EightsTile(WarpTile):
    """A tile of rows and groups of eight columns: over warps, and per warp. A row of it is `HIGH` rows of the
    result."""

    HIGH: ClassVar[int] = 1

    down: int
    rows: int
    across: int
    eights: int

    def is_outside(self, of: Images) -> bool:
        """Return whether some warps have no results."""
        outside = self.HIGH * (self.down - 1) * self.rows >= of.places[0]
        return outside or (self.across - 1) * self.eights >= eights_of(of)

    def tiles_of(self, of: Images) -> int:
        """Return the number of tiles that cover an image."""
        down, across = self.HIGH * self.down * self.rows, self.across * self.eights
        return -(-of.places[0] // down) * -(-eights_of(of) // across)


def _fields(field: str | tuple[str, ...]) -> tuple[str, ...]:
    return field if isinstance(field, tuple) else (field,)


class BlockWork(Protocol):
    """The work of a block on a workload."""

    def threads(self, of: Any) -> int:
        """Return the threads of a block."""

    def blocks(self, of: Any) -> int:
        """Return the blocks of the grid."""

    def cycles(self, of: Any, machine: Machine) -> float:
        """Return the cycles of the kernel."""


def expectation(of: Any, block: BlockWork, machine: Machine) -> Expectation:
    """Return the cycles, threads and blocks of a kernel."""
    return Expectation(block.cycles(of, machine), block.threads(of), block.blocks(of))


def by_cycles(blocks: Callable[[W], Sequence[Any]]) -> Callable[[W, Machine], Sequence[Any]]:
    """Return a function that ranks all blocks of a workload on a machine, the fastest first."""

    @lru_cache(maxsize=64)
    def ranked(of: W, machine: Machine) -> tuple[Any, ...]:
        return tuple(sorted(blocks(of), key=lambda block: float(block.cycles(of, machine))))

    return ranked


def as_counted(of: Any, cycles: float) -> float:
    """Return the cycles of a tile's model unchanged."""
    return cycles


@dataclass(frozen=True)
class TileModel(Generic[W]):
    """The model of a strategy; its fastest tile is the default."""

    tiles: Callable[[W, Machine], Sequence[Any]]
    """Returns the tiles of a workload on a machine, the fastest first."""
    tile_of: Callable[[Mapping[str, Any]], Any]
    """Returns the tile of a configuration's choices."""
    predict: Callable[[W, Any, Machine], Expectation] = expectation
    """Returns the cycles, threads and blocks of a tile."""
    compared: Callable[[W, float], float] = as_counted
    """Returns the cycles to compare with other strategies, from a workload and the cycles of its fastest tile."""

    @property
    def model(self) -> OwnModel[W]:
        """Return the model in the form that a `ScheduleStrategy` has."""
        return OwnModel(self.rank, self.expected, self.cost)

    def default(self, of: W, machine: Machine) -> dict[str, Any]:
        """Return the choices of the fastest tile."""
        found: dict[str, Any] = self.rank(of, machine)[0]
        return found

    def rank(self, of: W, machine: Machine) -> Sequence[dict[str, Any]]:
        """Return the choices of all tiles, the fastest first."""
        return LazyResults(self.tiles(of, machine), lambda tile: tile.wanted())

    def cost(self, of: W, machine: Machine) -> float:
        """Return the cycles of the fastest tile, to be compared with other strategies."""
        found = self.tiles(of, machine)
        return self.compared(of, self.predict(of, found[0], machine).cycles) if found else inf

    def expected(self, of: W, choices: Mapping[str, Any], machine: Machine) -> Expectation:
        """Return the cycles, threads and blocks of a configuration."""
        return self.predict(of, self.tile_of(choices), machine)
