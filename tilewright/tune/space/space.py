"""Spaces: the configurations that knobs span, except the ones that predicates rule out.

A configuration's index counts the places of its choices as digits, the first knob varying fastest. Predicates
rule out some indices and leave the others as they are, so a log keeps its meaning when a predicate is added.
Searches (`tune/search/search.py`) propose indices; `Space.get` returns the configuration of an index.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from ...core.errors import UserError
from .choices import Choice
from .config import Config
from .indices import Indices
from .knobs import Knob
from .predicates import KnobGroup, Part, Predicate, Test, UnseenKnobError, groups_of, names_read

_MOST_IN_64_BITS = 1 << 62
_MOST_REDRAWS = 64  # rounds of redrawing points ruled out by a predicate too large to tabulate


class Space(Indices):
    """Knobs in order of declaration, and predicates over them; `with_knob` and `where` return a new space.

    A *point* is the tuple of the indices of choices, one per knob.
    """

    def __init__(self, knobs: Sequence[Knob] = (), predicates: Sequence[Predicate] = ()) -> None:
        self.knobs = tuple(knobs)
        self.predicates = tuple(predicates)

    def with_knob(self, knob: Knob) -> Space:
        """Return this space with one more knob; a knob of the same name is replaced."""
        if knob.name in self.space_map:
            return Space([knob if k.name == knob.name else k for k in self.knobs], self.predicates)
        return Space((*self.knobs, knob), self.predicates)

    def where(
        self, test: Test, names: Sequence[str] = (), reason: str = "", part: Part | None = None, many: bool = False
    ) -> Space:
        """Return this space without the configurations that fail `test`, which is called with the choices by name.

        `names`: the knobs that the test reads; by default, they are found by watching the test. `reason`: the message
        for configurations that fail. `part`: returns the part of a choice on which the test depends, by default the
        whole choice. `many`: whether the test also accepts a `predicates.KnobColumn` instead of each choice.
        """
        if not callable(test):
            raise UserError(
                f"the filter is {test!r}, which is not a function",
                primitive="multi_filter",
                fix='give a function of the choices: lambda e: e["tile_x"].size[-1] * e["tile_y"].size[-1] <= 1024',
            )
        if isinstance(names, str) or not isinstance(names, (list, tuple)):
            raise UserError(
                f"names={names!r} is not a list of knobs", primitive="multi_filter", fix='give ["tile_x", "tile_y"]'
            )
        for name in names:
            self[name]
        used = tuple(names) or names_read(test, self.knobs)
        predicate = Predicate(test, used, reason or f"a predicate of {', '.join(used)}", part, many)
        return Space(self.knobs, (*self.predicates, predicate))

    def multi_filter(self, filter: Test, names: Sequence[str] = (), reason: str = "") -> None:
        """Rule out the configurations that fail `filter`, in place: for the space of a task, before it is tuned.

        `where` describes the arguments.
        """
        self.predicates = self.where(filter, names, reason).predicates
        self._forget_counts()

    def _forget_counts(self) -> None:
        for counted in ("size", "_groups"):
            self.__dict__.pop(counted, None)

    def __getitem__(self, name: str) -> Knob:
        found = self.space_map.get(name) if isinstance(name, str) else None
        if found is None:
            known = ", ".join(self.space_map) or "none"
            raise UserError(f"the space has no knob {name!r}", primitive="config_space", fix=f"its knobs: {known}")
        return found

    @cached_property
    def space_map(self) -> Mapping[str, Knob]:
        """The knobs by name."""
        return {knob.name: knob for knob in self.knobs}

    @cached_property
    def dims(self) -> list[int]:
        """The number of choices of each knob."""
        return [len(knob) for knob in self.knobs]

    @cached_property
    def range_length(self) -> int:
        """The number of indices: the product of the numbers of choices."""
        return prod(self.dims)

    def __len__(self) -> int:
        """Return `size`; unlike `len`, `size` has no limit."""
        if self.size > sys.maxsize:
            raise UserError(
                f"the space has {self.size:.2e} configurations, more than len() can say",
                primitive="config_space",
                fix="take task.config_space.size",
            )
        return self.size

    def __bool__(self) -> bool:
        return self.size > 0

    @cached_property
    def size(self) -> int:
        """The number of configurations; an estimate if predicates share too many knobs to count."""
        left = self.range_length
        for one in self._groups:
            total = prod(one.shape)
            left = left // total * len(one.allowed) if one.tabulated else int(left * one.fraction)
        return left

    @cached_property
    def _groups(self) -> tuple[KnobGroup, ...]:
        return groups_of(self.knobs, self.predicates)

    def __repr__(self) -> str:
        size = f"len={self.size}"
        if self.predicates:
            size += f", range_length={self.range_length}"
        lines = [f"  {i:2d} {name}: {knob}\n" for i, (name, knob) in enumerate(self.space_map.items())]
        return f"ConfigSpace ({size}, space_map=\n{''.join(lines)})"

    # Indices and points

    def point(self, index: int) -> tuple[int, ...]:
        """Return the point of an index."""
        if not 0 <= index < self.range_length:
            raise UserError(
                f"index {index} is outside the space of {self.range_length} indices",
                primitive="config_space.get",
                fix=f"give an index from 0 to {self.range_length - 1}",
            )
        places = []
        for size in self.dims:
            index, place = divmod(index, size)
            places.append(place)
        return tuple(places)

    def index(self, point: Sequence[int]) -> int:
        """Return the index of a point."""
        total = 0
        for place, size in zip(reversed(point), reversed(self.dims), strict=True):
            total = total * size + int(place)
        return total

    def get(self, index: int) -> Config:
        """Return the configuration of an index; raise UserError if it is out of range, or a predicate rules it out."""
        index = getattr(index, "value", index)  # a constant holds the number
        if isinstance(index, bool) or not isinstance(index, (int, np.integer)):
            raise UserError(
                f"the index is {index!r}, which is not a whole number",
                primitive="config_space.get",
                fix=f"give an index from 0 to {self.range_length - 1}; a knob by name is space[name]",
            )
        index = int(index)
        choices = self._choices(self.point(index))
        broken = next((p for p in self.predicates if not p.test(choices)), None)
        if broken is not None:
            raise UserError(
                f"index {index} is ruled out by {broken.reason}",
                primitive="config_space.get",
                fix="take one of the configurations that the space iterates over: next(iter(space))",
            )
        return Config(choices, index)

    def _choices(self, point: Sequence[int]) -> dict[str, Choice]:
        return {knob.name: knob.choices[place] for knob, place in zip(self.knobs, point, strict=True)}

    def find(self, config: Mapping[str, Choice]) -> int | None:
        """Return the index of a configuration, by its choices; None if it is not in the space."""
        if set(config) != set(self.space_map):
            return None
        places = [place for knob in self.knobs if (place := knob.place_of(config[knob.name])) is not None]
        if len(places) < len(self.knobs):
            return None
        found = self.index(places)
        return found if self.is_index_valid(found) else None

    def is_index_valid(self, index: int) -> bool:
        """Return whether an index is in range and no predicate rules it out."""
        return 0 <= index < self.range_length and (not self.predicates or self.admits(self.point(index)))

    def admits(self, point: Sequence[int]) -> bool:
        """Return whether no predicate rules out a point."""
        choices = self._choices(point)
        return all(p.test(choices) for p in self.predicates)

    def __iter__(self) -> Iterator[int]:
        """Yield the valid indices, ascending."""
        return (i for i in range(self.range_length) if self.is_index_valid(i))

    def check(self) -> None:
        """Raise UserError if predicates are known to rule out every configuration."""
        for one in self._groups:
            if one.tabulated and not len(one.allowed):
                reasons = "; ".join(p.reason for p in one.predicates)
                raise UserError(
                    f"predicates rule out every configuration: {reasons}",
                    primitive="config_space",
                    fix="loosen one of them (cfg.multi_filter)",
                )

    # Many points at once, one per row

    def admitted(self, points: np.ndarray) -> np.ndarray:
        """Return, for each row, whether no predicate rules it out."""
        flags = np.ones(len(points), bool)
        for one in self._groups:
            try:
                flags[flags] = one.test(points[flags][:, one.at])
            except UnseenKnobError as error:
                self._regroup(error)
                return self.admitted(points)
        return flags

    def draw(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Return `count` uniformly random points; in a sparse space there may be fewer."""
        try:
            return self._drawn(rng, count)
        except UnseenKnobError as error:
            self._regroup(error)
            return self.draw(rng, count)

    def _regroup(self, error: UnseenKnobError) -> None:
        """Add a knob to a predicate's group: too many combinations to test had hidden that it reads the knob."""
        self.predicates = tuple(
            replace(each, names=(*each.names, error.name)) if each.test is error.predicate.test else each
            for each in self.predicates
        )
        self._forget_counts()

    def _drawn(self, rng: np.random.Generator, count: int) -> np.ndarray:
        points = rng.integers(self.dims, size=(count, len(self.dims)))
        self.check()
        for one in self._groups:
            if one.tabulated:
                points[:, one.at] = one.allowed[rng.integers(len(one.allowed), size=count)]
                continue
            at = list(one.at)
            good = one.test(points[:, at])
            for _ in range(_MOST_REDRAWS):
                missing = np.flatnonzero(~good)
                if not len(missing):
                    break
                drawn = rng.integers(one.shape, size=(len(missing), len(at)))
                points[missing[:, None], at] = drawn
                good[missing] = one.test(drawn)
            points = points[good]
            count = len(points)
        return points

    def indices(self, points: np.ndarray) -> list[int]:
        """Return the index of each row."""
        if self.range_length > _MOST_IN_64_BITS:
            return [self.index(row) for row in points.tolist()]
        found: list[int] = (points @ np.cumprod([1, *self.dims])[:-1]).tolist()
        return found
