"""Predicates over knobs, tabulated over only the knobs that they read."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.own_code import calling
from .choices import Choice, SplitChoice
from .knobs import Knob

Test = Callable[[Mapping[str, Choice]], bool]

Part = Callable[[Choice], Hashable]
"""The relevant part of a choice."""


def innermost(choice: Choice) -> Hashable:
    """Let only the last extent of a split count, which one thread computes; all of any other choice."""
    return choice.sizes[-1] if isinstance(choice, SplitChoice) else repr(choice)


TABLE_LIMIT = 1 << 18
"""Largest number of tabulated combinations (a quarter of a second). Larger groups are tested point by point."""
_POINTS_DRAWN = 256


@dataclass(frozen=True)
class Predicate:
    """A condition on configurations: `test` of the choices of the knobs `names`; `reason` describes it.

    `part` returns the part of a choice that the test depends on (default: all of it): choices with equal parts share
    one test. A test of `many` takes a `KnobColumn` in place of each choice as well, and returns an array then.
    """

    test: Test
    names: tuple[str, ...]
    reason: str
    part: Part | None = None
    many: bool = False


class KnobColumn:
    """A knob's choices in many configurations: `size` or `val` of its choices, as arrays, at some `places`."""

    def __init__(self, knob: Knob, places: np.ndarray) -> None:
        choices: Sequence[Any] = knob.choices
        if isinstance(choices[0], SplitChoice):
            rows = np.array([choice.sizes for choice in choices])
            self.size = tuple(rows[places, part] for part in range(rows.shape[1]))
        else:
            self.val = np.array([choice.val for choice in choices])[places]


class _Watched(Mapping[str, Choice]):
    """Choices that note which of them were asked for."""

    def __init__(self, choices: Mapping[str, Choice], seen: set[str]) -> None:
        self._choices = choices
        self._seen = seen

    def __getitem__(self, name: str) -> Choice:
        self._seen.add(name)
        found = self._choices.get(name)
        if found is None:
            raise _undefined(name, self._choices)
        return found

    def __iter__(self) -> Iterator[str]:
        self._seen.update(self._choices)
        return iter(self._choices)

    def __len__(self) -> int:
        return len(self._choices)


def _undefined(name: str, known: Iterable[str]) -> UserError:
    return UserError(
        f"the filter reads knob {name!r}, which is not defined",
        primitive="multi_filter",
        fix=f"knobs: {', '.join(known) or 'none'}",
    )


class _UnseenError(KeyError):
    """A test reads a knob that it was not seen to read."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnseenKnobError(Exception):
    """A predicate reads a knob outside of its group, `name`: it was not seen to read it."""

    def __init__(self, predicate: Predicate, name: str) -> None:
        super().__init__(name)
        self.predicate = predicate
        self.name = name


class _Known(dict[str, Choice]):
    """The choices of the knobs that a test was seen to read."""

    def __missing__(self, name: str) -> Choice:
        raise _UnseenError(name)


def _alike(knob: Knob, part: Part | None) -> tuple[np.ndarray, list[Choice]]:
    """Return the number of each choice's kind, and one choice of each kind."""
    if part is None:
        return np.arange(len(knob)), list(knob.choices)
    numbers: dict[Hashable, int] = {}
    chosen: list[Choice] = []
    kinds = []
    for choice in knob.choices:
        kind = numbers.setdefault(part(choice), len(numbers))
        if kind == len(chosen):
            chosen.append(choice)
        kinds.append(kind)
    return np.array(kinds, dtype=np.intp), chosen


def names_read(test: Test, knobs: Sequence[Knob]) -> tuple[str, ...]:
    """The knobs that a test reads, found by watching it on random choices."""
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    with calling("the function of multi_filter"):
        for _ in range(_POINTS_DRAWN):
            test(_Watched({k.name: k.choices[int(rng.integers(len(k)))] for k in knobs}, seen))
    return tuple(k.name for k in knobs if k.name in seen)


class KnobGroup:
    """Knobs that share predicates, with their places in the space (`at`) and the predicates."""

    def __init__(self, at: tuple[int, ...], knobs: Sequence[Knob], predicates: tuple[Predicate, ...]) -> None:
        self.at = at
        self.knobs = tuple(knobs[i] for i in at)
        self.predicates = predicates
        self.shape = tuple(len(k) for k in self.knobs)
        self.tabulated = prod(self.shape) <= TABLE_LIMIT

    def holds(self, places: Iterable[int]) -> bool:
        """Whether the choices at these places of the group's knobs meet all predicates."""
        choices = _Known((k.name, k.choices[p]) for k, p in zip(self.knobs, places, strict=True))
        for predicate in self.predicates:
            try:
                if not predicate.test(choices):
                    return False
            except _UnseenError as error:
                raise UnseenKnobError(predicate, error.name) from None
        return True

    def examine(self) -> None:
        """Ask the predicates about all combinations, or many; raises UnseenKnobError if one reads further knobs."""
        _ = self.allowed if self.tabulated else self.fraction

    @cached_property
    def table(self) -> np.ndarray:
        """For every combination of places, whether it is allowed.

        The predicates of few combinations come first, and the others are asked only about the remaining ones.
        """
        allowed = np.ones(self.shape, bool)
        axes = [tuple(i for i, k in enumerate(self.knobs) if k.name in p.names) for p in self.predicates]
        for predicate, read in sorted(zip(self.predicates, axes, strict=True), key=lambda pair: self._count(pair[1])):
            try:
                self._rule_out(allowed, predicate, read)
            except _UnseenError:  # it reads more knobs than it did when it was watched
                self._rule_out_by_all(allowed, predicate)
        return allowed

    def _rule_out_by_all(self, allowed: np.ndarray, predicate: Predicate) -> None:
        try:
            self._rule_out(allowed, predicate, tuple(range(len(self.knobs))))
        except _UnseenError as error:
            raise UnseenKnobError(predicate, error.name) from None

    def _count(self, axes: tuple[int, ...]) -> int:
        return prod(self.shape[i] for i in axes)

    def _rule_out(self, allowed: np.ndarray, predicate: Predicate, axes: tuple[int, ...]) -> None:
        """Clear the entries that a predicate over the knobs `axes` forbids, in a table over all knobs."""
        if predicate.many:
            allowed &= self._of_many(predicate, np.ogrid[tuple(slice(size) for size in self.shape)])
            return
        others = tuple(i for i in range(len(self.knobs)) if i not in axes)
        alike = [_alike(self.knobs[i], predicate.part) for i in axes]
        where = np.ix_(*(kinds for kinds, _ in alike))
        holds = np.zeros([len(choices) for _, choices in alike], bool)
        np.logical_or.at(holds, where, allowed.any(axis=others))  # only these are asked about
        names = [self.knobs[i].name for i in axes]
        for places in np.argwhere(holds).tolist():
            chosen = (choices[place] for (_, choices), place in zip(alike, places, strict=True))
            holds[tuple(places)] = predicate.test(_Known(zip(names, chosen, strict=True)))
        allowed &= np.expand_dims(holds[where], others)

    def _of_many(self, predicate: Predicate, places: Iterable[np.ndarray]) -> np.ndarray:
        """Whether combinations of places meet a predicate that is asked about all of them at once."""
        columns: Any = {knob.name: KnobColumn(knob, at) for knob, at in zip(self.knobs, places, strict=True)}
        return np.asarray(predicate.test(columns))

    @cached_property
    def allowed(self) -> np.ndarray:
        """The allowed combinations of places, one per row."""
        return np.argwhere(self.table)

    @cached_property
    def fraction(self) -> float:
        """The part of the combinations that is allowed; an estimate, never 0, if they are too many to tabulate."""
        if self.tabulated:
            return len(self.allowed) / prod(self.shape)
        rng = np.random.default_rng(0)
        drawn = rng.integers(self.shape, size=(16 * _POINTS_DRAWN, len(self.shape)))
        return float(max(self.test(drawn).mean(), 1 / len(drawn)))  # 0 would end a search at once

    def test(self, places: np.ndarray) -> np.ndarray:
        """For each row of places of the group's knobs, whether it is allowed."""
        if self.tabulated:
            flags: np.ndarray = self.table[tuple(places.T)]
            return flags
        flags = np.ones(len(places), bool)
        for predicate in self.predicates:
            if predicate.many:
                flags &= self._of_many(predicate, places.T)
        if not all(predicate.many for predicate in self.predicates):
            flags[flags] = [self.holds(row) for row in places[flags].tolist()]
        return flags


def groups_of(knobs: Sequence[Knob], predicates: Sequence[Predicate]) -> tuple[KnobGroup, ...]:
    """The groups of knobs that predicates tie together; knobs under no predicate are in none.

    A test may read a knob for a few choices of others only, and so was not seen to read it: its group then grows.
    """
    known = [knob.name for knob in knobs]
    while True:
        made = group(knobs, predicates)
        try:
            for one in made:
                one.examine()
        except UnseenKnobError as error:
            if error.name not in known:
                raise _undefined(error.name, known) from None
            more = replace(error.predicate, names=(*error.predicate.names, error.name))
            predicates = [more if each is error.predicate else each for each in predicates]
        else:
            return made


def group(knobs: Sequence[Knob], predicates: Sequence[Predicate]) -> tuple[KnobGroup, ...]:
    """The groups by the knobs that predicates are known to read."""
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
    return tuple(KnobGroup(tuple(sorted(at)), knobs, tuple(own)) for at, own in sets)
