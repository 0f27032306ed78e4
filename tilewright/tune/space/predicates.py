"""Predicates over knobs, tabulated over the knobs that they read."""

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
    """Return the last extent of a split, which one thread computes; for other choices, the choice itself."""
    return choice.sizes[-1] if isinstance(choice, SplitChoice) else repr(choice)


TABLE_LIMIT = 1 << 18
"""The most tabulated combinations, which take a quarter of a second. Larger groups are tested point by point."""
_POINTS_DRAWN = 256


@dataclass(frozen=True)
class Predicate:
    """A condition on configurations: `test` of the choices of the knobs `names`, described by `reason`.

    `part` returns the part of a choice on which the test depends, by default the whole choice. Choices with equal parts
    share one test. With `many`, the test also accepts a `KnobColumn` instead of each choice, and then returns an array.
    """

    test: Test
    names: tuple[str, ...]
    reason: str
    part: Part | None = None
    many: bool = False


class KnobColumn:
    """A knob's choices in many configurations: arrays of their `size` or `val`, at the indices `places`."""

    def __init__(self, knob: Knob, places: np.ndarray) -> None:
        choices: Sequence[Any] = knob.choices
        if isinstance(choices[0], SplitChoice):
            rows = np.array([choice.sizes for choice in choices])
            self.size = tuple(rows[places, part] for part in range(rows.shape[1]))
        else:
            self.val = np.array([choice.val for choice in choices])[places]


class _Watched(Mapping[str, Choice]):
    """Choices that record which of them were read."""

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
    """A test reads a knob that it did not read when it was watched."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class UnseenKnobError(Exception):
    """A predicate reads the knob `name` outside its group, which it did not read when it was watched."""

    def __init__(self, predicate: Predicate, name: str) -> None:
        super().__init__(name)
        self.predicate = predicate
        self.name = name


class _Known(dict[str, Choice]):
    """The choices of the knobs that a watched test read."""

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
    """Return the knobs that a test reads, found by watching it on random choices."""
    rng = np.random.default_rng(0)
    seen: set[str] = set()
    with calling("the function of multi_filter"):
        for _ in range(_POINTS_DRAWN):
            test(_Watched({k.name: k.choices[int(rng.integers(len(k)))] for k in knobs}, seen))
    return tuple(k.name for k in knobs if k.name in seen)


class KnobGroup:
    """Knobs that share predicates, with their indices in the space (`at`) and the predicates."""

    def __init__(self, at: tuple[int, ...], knobs: Sequence[Knob], predicates: tuple[Predicate, ...]) -> None:
        self.at = at
        self.knobs = tuple(knobs[i] for i in at)
        self.predicates = predicates
        self.shape = tuple(len(k) for k in self.knobs)
        self.tabulated = prod(self.shape) <= TABLE_LIMIT

    def holds(self, places: Iterable[int]) -> bool:
        """Return whether the choices at these indices of the group's knobs satisfy all predicates."""
        choices = _Known((k.name, k.choices[p]) for k, p in zip(self.knobs, places, strict=True))
        for predicate in self.predicates:
            try:
                if not predicate.test(choices):
                    return False
            except _UnseenError as error:
                raise UnseenKnobError(predicate, error.name) from None
        return True

    def examine(self) -> None:
        """Test the predicates on all combinations, or many; raise UnseenKnobError if one reads further knobs."""
        _ = self.allowed if self.tabulated else self.fraction

    @cached_property
    def table(self) -> np.ndarray:
        """Return, for each combination of indices, whether it is allowed.

        Predicates with few combinations are tested first; the others are tested only on the remaining combinations.
        """
        allowed = np.ones(self.shape, bool)
        axes = [tuple(i for i, k in enumerate(self.knobs) if k.name in p.names) for p in self.predicates]
        for predicate, read in sorted(zip(self.predicates, axes, strict=True), key=lambda pair: self._count(pair[1])):
            try:
                self._rule_out(allowed, predicate, read)
            except _UnseenError:  # the predicate reads more knobs than when it was watched
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
        """Clear the entries forbidden by a predicate over the knobs `axes`, in a table over all knobs."""
        if predicate.many:
            allowed &= self._of_many(predicate, np.ogrid[tuple(slice(size) for size in self.shape)])
            return
        others = tuple(i for i in range(len(self.knobs)) if i not in axes)
        alike = [_alike(self.knobs[i], predicate.part) for i in axes]
        where = np.ix_(*(kinds for kinds, _ in alike))
        holds = np.zeros([len(choices) for _, choices in alike], bool)
        np.logical_or.at(holds, where, allowed.any(axis=others))  # only these are tested
        names = [self.knobs[i].name for i in axes]
        for places in np.argwhere(holds).tolist():
            chosen = (choices[place] for (_, choices), place in zip(alike, places, strict=True))
            holds[tuple(places)] = predicate.test(_Known(zip(names, chosen, strict=True)))
        allowed &= np.expand_dims(holds[where], others)

    def _of_many(self, predicate: Predicate, places: Iterable[np.ndarray]) -> np.ndarray:
        """Return whether combinations of indices satisfy a predicate with `many`."""
        columns: Any = {knob.name: KnobColumn(knob, at) for knob, at in zip(self.knobs, places, strict=True)}
        return np.asarray(predicate.test(columns))

    @cached_property
    def allowed(self) -> np.ndarray:
        """Return the allowed combinations of indices, one per row."""
        return np.argwhere(self.table)

    @cached_property
    def fraction(self) -> float:
        """Return the fraction of allowed combinations; an estimate, never 0, if there are too many to tabulate."""
        if self.tabulated:
            return len(self.allowed) / prod(self.shape)
        rng = np.random.default_rng(0)
        drawn = rng.integers(self.shape, size=(16 * _POINTS_DRAWN, len(self.shape)))
        return float(max(self.test(drawn).mean(), 1 / len(drawn)))  # 0 would end a search at once

    def test(self, places: np.ndarray) -> np.ndarray:
        """Return, for each row of indices of the group's knobs, whether it is allowed."""
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
    """Return the groups of knobs that share predicates; knobs without a predicate are in no group.

    A test may read a knob only for a few choices of other knobs, and thus not while it is watched. Its group then
    grows.
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
    """Return the groups by the knobs that predicates are known to read."""
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
