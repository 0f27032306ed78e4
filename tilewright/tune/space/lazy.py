"""Lazy sequences of choices, which are counted and indexed without being listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import factorial
from typing import Any, overload

from ...core.errors import UserError
from .choices import Choice

MOST_LISTED = 1 << 16
"""The most choices that are listed for quick look-ups; in longer sequences, choices are created on demand."""
_LARGEST_LENGTH = 1 << 62
"""The largest value of `len` and of NumPy's random integers."""


class Choices(Sequence[Choice]):
    """A sequence of `count` choices. `at` returns the choice at an index, `place` the index of a choice, or None."""

    def __init__(self, count: int, at: Callable[[int], Choice], place: Callable[[Choice], int | None]) -> None:
        self._count = count
        self._at = at
        self._place = place

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Choice: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Choice]: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._at(i) for i in range(*index.indices(self._count))]
        place = int(index) + self._count * (index < 0)
        if not 0 <= place < self._count:
            raise IndexError(f"choice {index} of {self._count}")
        return self._at(place)

    def __iter__(self) -> Iterator[Choice]:
        return map(self._at, range(self._count))

    def place(self, choice: Choice) -> int | None:
        """Return the index of a choice; None if it is not in the sequence."""
        return self._place(choice)


def choices_of(
    name: str,
    count: int,
    at: Callable[[int], Sequence[Any]],
    place: Callable[[Sequence[Any]], int | None],
    make: Callable[[Any], Choice],
    parts: Callable[[Any], Sequence[Any]],
) -> Sequence[Choice]:
    """Return the choices of a knob, listed if there are few.

    `at` returns the parts (sizes, indices, marks) of a choice by its index, and `place` is its inverse. `make` builds a
    choice from its parts, and `parts` is its inverse. Raises UserError if there are more choices than an index can
    represent.
    """
    if count > _LARGEST_LENGTH:
        raise UserError(
            f"knob {name!r} offers {count:.2e} choices, more than can be numbered",
            primitive="define",
            fix="give fewer outputs or loops, or several knobs",
        )
    if count <= MOST_LISTED:
        return tuple(make(at(i)) for i in range(count))

    def find(choice: Choice) -> int | None:
        if type(choice) is not type(make(at(0))):
            return None
        try:
            found = place(parts(choice))
        except (TypeError, ValueError):  # the choice has other parts
            return None
        return found if found is not None and make(at(found)) == choice else None

    return Choices(count, lambda i: make(at(i)), find)


class Splits:
    """The splits of an extent, in the order of `factors.splits`, each computed from its index.

    The last size varies slowest. `_left(k, product)` is the number of ways to choose k more sizes when the chosen sizes
    have this product. There are few products, so all counts are soon cached.
    """

    def __init__(self, extent: int, parts: int, tried: Sequence[int], no_tail: bool) -> None:
        self.extent = extent
        self.more = parts - 1
        self.tried = tuple(tried)
        self.no_tail = no_tail
        self._left = cache(self._count)

    def _next(self, product: int) -> Iterator[tuple[int, int]]:
        """Yield the possible next sizes, each with the resulting product."""
        for size in self.tried:
            total = product * size
            if total > self.extent:
                return
            if not self.no_tail or self.extent % total == 0:
                yield size, total

    def _count(self, more: int, product: int) -> int:
        if not more:
            return 1
        return sum([self._left(more - 1, total) for _, total in self._next(product)])

    @property
    def count(self) -> int:
        """The number of choices."""
        for more in range(self.more):  # in this order, recursion stays shallow
            self._left(more, 1)
        return self._left(self.more, 1)

    def at(self, place: int) -> tuple[int, ...]:
        """Return the sizes at an index, beginning with -1 for the inferred size."""
        sizes, product = [], 1
        for more in range(self.more, 0, -1):
            for size, total in self._next(product):
                ways = self._left(more - 1, total)
                if place < ways:
                    sizes.append(size)
                    product = total
                    break
                place -= ways
        return (-1, *reversed(sizes))

    def place(self, sizes: Sequence[int]) -> int | None:
        """Return the index of sizes; None if they are not such a split."""
        if len(sizes) != self.more + 1 or sizes[0] != -1:
            return None
        place, product = 0, 1
        for more, wanted in zip(range(self.more, 0, -1), reversed(sizes[1:]), strict=True):
            for size, total in self._next(product):
                if size == wanted:
                    product = total
                    break
                place += self._left(more - 1, total)
            else:
                return None
        return place


class Orders:
    """The permutations of `count` things in the lexicographic order of `itertools.permutations`."""

    def __init__(self, count: int) -> None:
        self.things = count
        self.count = factorial(min(count, 170))

    def at(self, place: int) -> tuple[int, ...]:
        """Return the permutation at an index."""
        left, order = list(range(self.things)), []
        for rest in range(self.things - 1, -1, -1):
            first, place = divmod(place, factorial(rest))
            order.append(left.pop(first))
        return tuple(order)

    def place(self, order: Sequence[int]) -> int | None:
        """Return the index of a permutation; None if it is none."""
        left, place = list(range(self.things)), 0
        for one in order:
            if one not in left:
                return None
            at = left.index(one)
            place += at * factorial(len(left) - 1)
            left.pop(at)
        return None if left else place


class Words:
    """The tuples of `count` words with at most one `once`; the last word varies fastest."""

    def __init__(self, words: Sequence[str], count: int, once: str) -> None:
        self.words = tuple(words)
        self.places = count
        self.once = once
        self.count = self._left(count, False)

    def _left(self, more: int, used: bool) -> int:
        """Return the number of tuples of `more` words, after `once` was used or not."""
        special = self.words.count(self.once)
        others = len(self.words) - special
        free: int = others**more
        return free if used or not more else free + special * more * others ** (more - 1)

    def at(self, place: int) -> tuple[str, ...]:
        """Return the words at an index."""
        found: list[str] = []
        used = False
        for more in range(self.places - 1, -1, -1):
            for word in self.words:
                if used and word == self.once:
                    continue
                ways = self._left(more, used or word == self.once)
                if place < ways:
                    found.append(word)
                    used = used or word == self.once
                    break
                place -= ways
        return tuple(found)

    def place(self, marks: Sequence[str]) -> int | None:
        """Return the index of words; None if they are not such a tuple."""
        if len(marks) != self.places:
            return None
        place, used = 0, False
        for more, wanted in zip(range(self.places - 1, -1, -1), marks, strict=True):
            for word in self.words:
                if used and word == self.once:
                    continue
                if word == wanted:
                    used = used or word == self.once
                    break
                place += self._left(more, used or word == self.once)
            else:
                return None
        return place
