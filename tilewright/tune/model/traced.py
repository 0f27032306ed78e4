"""Traced numbers record their derivation from a configuration's numbers, so that one schedule represents many.

A template runs once on traced numbers. Numbers computed from them remain functions of the configuration. If the
template needs a value (in a comparison, an index, a loop), the outcome becomes a guard. Configurations with the same
outcomes have the same schedule, except for its numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...expr.nodes import Expr
from ...expr.operand import Operand
from ...expr.operators import const
from ...schedule.steps import RecordedNumber
from ..space.choices import Choice, SplitChoice, ValueChoice
from ..space.config import Config
from ..space.space import Space

Number = Any
"""An int, or an array of one int64 per configuration."""


class Columns:
    """The numbers of many configurations: one array per knob and part of its choice."""

    def __init__(self, tables: Sequence[np.ndarray], points: np.ndarray) -> None:
        self._tables = tables
        self._points = points
        self._made: dict[tuple[int, int], np.ndarray] = {}

    def __len__(self) -> int:
        return len(self._points)

    def part(self, knob: int, part: int) -> np.ndarray:
        """Return one number of a knob's choice per configuration."""
        found = self._made.get((knob, part))
        if found is None:
            found = self._made[knob, part] = self._tables[knob][self._points[:, knob], part]
        return found


def part_of(knob: int, part: int) -> Callable[[Columns], Number]:
    """Return a function that reads one number of a knob's choice."""
    return lambda columns: columns.part(knob, part)


@dataclass
class Trace:
    """The guards of a trace: tests of columns with their outcomes."""

    guards: list[tuple[Callable[[Columns], Number], Any]] = field(default_factory=list)

    def admits(self, columns: Columns) -> np.ndarray:
        """Return, for each configuration, whether it passes all guards."""
        flags = np.ones(len(columns), bool)
        for test, answer in self.guards:
            flags &= test(columns) == answer
        return flags


class TracedNumber(Operand, RecordedNumber):
    """An integer of a configuration: its value in the traced configuration, and a function for other configurations."""

    __slots__ = ("make", "trace", "value")

    def __init__(self, value: int, make: Callable[[Columns], Number], trace: Trace) -> None:
        self.value = value
        self.make = make
        self.trace = trace

    def _pinned(self) -> int:
        """Return the value, and add a guard that other configurations have the same value."""
        self.trace.guards.append((self.make, self.value))
        return self.value

    def _ask(self, other: Any, compare: Callable[[Any, Any], Any]) -> bool:
        value, make = _parts(other)
        mine = self.make
        answer = bool(compare(self.value, value))
        self.trace.guards.append((lambda c: compare(mine(c), make(c)), answer))
        return answer

    def _with(self, other: Any, function: Callable[[Any, Any], Any], swapped: bool = False) -> Any:
        if not isinstance(other, (int, np.integer, TracedNumber)):
            return function(other, self._pinned()) if swapped else function(self._pinned(), other)
        (a, b), mine, theirs = (self.value, _parts(other)[0]), self.make, _parts(other)[1]
        if swapped:
            return TracedNumber(function(b, a), lambda c: function(theirs(c), mine(c)), self.trace)
        return TracedNumber(function(a, b), lambda c: function(mine(c), theirs(c)), self.trace)

    def as_expr(self) -> Expr:
        return const(self._pinned(), "int32")

    def spelled(self) -> str:
        return str(self.value)

    def __index__(self) -> int:
        return self._pinned()

    def __int__(self) -> int:
        return self._pinned()

    def __float__(self) -> float:
        return float(self._pinned())

    def __bool__(self) -> bool:
        return self._ask(0, operator.ne)

    def __hash__(self) -> int:
        return hash(self._pinned())

    def __repr__(self) -> str:
        return repr(self._pinned())

    def __neg__(self) -> Any:
        return self._with(-1, operator.mul)

    def __truediv__(self, other: Any) -> Any:
        return self._pinned() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._pinned()

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        return self._pinned() ** other

    def __eq__(self, other: object) -> Any:
        return isinstance(other, (int, np.integer, TracedNumber)) and self._ask(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return not self == other


def _parts(other: Any) -> tuple[int, Callable[[Columns], Number]]:
    if isinstance(other, TracedNumber):
        return other.value, other.make
    return other, lambda _: other


def _arithmetic(name: str) -> None:
    function = getattr(operator, name)
    setattr(TracedNumber, f"__{name}__", lambda a, b: a._with(b, function))
    setattr(TracedNumber, f"__r{name}__", lambda a, b: a._with(b, function, swapped=True))


def _comparison(name: str) -> None:
    function = getattr(operator, name)
    setattr(TracedNumber, f"__{name}__", lambda a, b: a._ask(b, function))


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    _arithmetic(_name)
for _name in ("lt", "le", "gt", "ge"):
    _comparison(_name)


class _TracedSplit(SplitChoice):
    """A split with traced sizes."""

    def __init__(self, sizes: Sequence[Any]) -> None:
        object.__setattr__(self, "sizes", tuple(sizes))


def numbers_of(choice: Choice) -> list[int] | None:
    """Return the integers of a choice that can be traced; None for text, orders and annotations."""
    if isinstance(choice, SplitChoice):
        return list(choice.sizes)
    if isinstance(choice, ValueChoice) and isinstance(choice.val, (int, np.integer)):
        return [int(choice.val)]
    return None


def traced_config(space: Space, point: Sequence[int], trace: Trace) -> Config:
    """Return the configuration at a point with traced numbers; knobs without numbers are unchanged."""
    choices: dict[str, Choice] = {}
    for k, (knob, place) in enumerate(zip(space.knobs, point, strict=True)):
        choice = knob.choices[place]
        values = numbers_of(choice)
        if values is None:
            choices[knob.name] = choice
            continue
        parts = [value if value < 0 else TracedNumber(value, part_of(k, p), trace) for p, value in enumerate(values)]
        choices[knob.name] = _TracedSplit(parts) if isinstance(choice, SplitChoice) else ValueChoice(parts[0])
    return Config(choices, space.index(point))


def tables_of(space: Space) -> list[np.ndarray]:
    """Return the numbers of each knob's choices, one row per choice; none for knobs of words. UserError for too many
    choices."""
    made = []
    for knob in space.knobs:
        if not isinstance(knob.choices, tuple):
            raise UserError(
                f"knob {knob.name!r} has {len(knob):,} choices, too many to rank",
                primitive="rank",
                fix="divide it into several knobs of fewer choices, or search without the machine model",
            )
        rows = [numbers_of(choice) for choice in knob.choices]
        known = [row for row in rows if row is not None]
        whole = len(known) == len(rows) and len({len(row) for row in known}) == 1
        made.append(np.array(known, dtype=np.int64) if whole else np.zeros((len(rows), 0), dtype=np.int64))
    return made
