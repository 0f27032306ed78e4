"""Predicates over knobs: what they rule out, tabulated over just the knobs that they read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from ...core.errors import UserError
from ...core.own_code import calling
from .choices import Choice
from .knobs import Knob

Test = Callable[[Mapping[str, Choice]], bool]

TABLE_LIMIT = 1 << 18
"""Largest number of tabulated combinations (a quarter of a second). Larger groups are tested point by point."""
_SAMPLES = 256


@dataclass(frozen=True)
class Predicate:
    """What a configuration must meet: `test` of the choices of the knobs `names`; `reason` says what it is about."""

    test: Test
    names: tuple[str, ...]
    reason: str


class _Watched(Mapping[str, Choice]):
    """Choices that note which of them were asked for."""

    def __init__(self, choices: Mapping[str, Choice], seen: set[str]) -> None:
        self._choices = choices
        self._seen = seen

    def __getitem__(self, name: str) -> Choice:
        self._seen.add(name)
        found = self._choices.get(name)
        if found is None:
            known = ", ".join(self._choices) or "none"
            raise UserError(
                f"the filter reads knob {name!r}, which is not defined", primitive="multi_filter", fix=f"knobs: {known}"
            )
        return found

    def __iter__(self) -> Iterator[str]:
        self._seen.update(self._choices)
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)


def names_read(test: Test, knobs: Sequence[Knob]) -> tuple[str, ...]:
    """The knobs that a test reads, found by watching it on random choices."""
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    with calling("the function of multi_filter"):
        for _ in range(_SAMPLES):
            test(_Watched({k.name: k.choices[int(rng.integers(len(k)))] for k in knobs}, seen))
    return tuple(k.name for k in knobs if k.name in seen)


class Group:
    """Knobs that predicates tie together (`at`: their places in the space), and those predicates."""

    def __init__(self, at: tuple[int, ...], knobs: Sequence[Knob], predicates: tuple[Predicate, ...]) -> None:
        self.at = at
        self.knobs = tuple(knobs[i] for i in at)
        self.predicates = predicates
        self.shape = tuple(len(k) for k in self.knobs)
        self.tabulated = prod(self.shape) <= TABLE_LIMIT

    def holds(self, places: Iterable[int]) -> bool:
        """Whether the choices at these places of the group's knobs meet all predicates."""
        choices = {k.name: k.choices[p] for k, p in zip(self.knobs, places, strict=True)}
        return all(p.test(choices) for p in self.predicates)

    @cached_property
    def table(self) -> np.ndarray:
        """For every combination of places, whether it is allowed."""
        flags = (self.holds(places) for places in product(*map(range, self.shape)))
        return np.fromiter(flags, bool, prod(self.shape)).reshape(self.shape)

    @cached_property
    def allowed(self) -> np.ndarray:
        """The allowed combinations of places, one per row."""
        return np.argwhere(self.table)

    @cached_property
    def fraction(self) -> float:
        """The part of the combinations that is allowed; an estimate where they are too many to tabulate."""
        if self.tabulated:
            return len(self.allowed) / prod(self.shape)
        rng = np.random.default_rng(0)
        drawn = rng.integers(self.shape, size=(16 * _SAMPLES, len(self.shape)))
        return float(self.test(drawn).mean())

    def test(self, places: np.ndarray) -> np.ndarray:
        """For each row of places of the group's knobs, whether it is allowed."""
        if self.tabulated:
            flags: np.ndarray = self.table[tuple(places.T)]
            return flags
        return np.fromiter((self.holds(row) for row in places.tolist()), bool, len(places))


def group(knobs: Sequence[Knob], predicates: Sequence[Predicate]) -> tuple[Group, ...]:
    """The groups of knobs that predicates tie together; knobs under no predicate are in none."""
    place = {knob.name: i for i, knob in enumerate(knobs)}
    sets: list[tuple[set[int], list[Predicate]]] = []
    for predicate in predicates:
        at, own = {place[name] for name in predicate.names}, [predicate]
        apart = []
        for other, theirs in sets:
            if other & at:
                at, own = at | other, theirs + own
            else:
                apart.append((other, theirs))
        sets = [*apart, (at, own)]
    return tuple(Group(tuple(sorted(at)), knobs, tuple(own)) for at, own in sets)
