"""Room for deep programs: entry points raise Python's recursion limit while they run.

Walks over expressions and statements are recursive functions, and a program may be 10,000 levels deep. Since
Python 3.11, a call from one Python function to another takes no C stack, so that the limit alone stands in the way.
Two rules follow for every function that recurses along a program:

* It recurses from a `for` loop or a list comprehension. A generator expression, `map`, or an object with `__call__`
  puts a C frame between the levels. Python 3.11 then overflows the C stack, and Python 3.12 and later stop at a limit
  of their own, which cannot be raised.
* It is reached only through an entry point that is `deep`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from threading import local
from typing import ParamSpec, TypeVar

from .errors import UserError
from .forking import new_lock

FRAMES = 400_000
"""Frames that an entry point may stack: every walk takes fewer than 20 per level of a program 20,000 levels deep."""

P = ParamSpec("P")
R = TypeVar("R")


class _Here(local):
    rooms = 0
    """The contexts of `ROOM` that this thread is inside of."""


HERE = _Here()


class _Room:
    """A context in which the recursion limit is at least `FRAMES`; contexts nest, and threads may overlap.

    Contexts inside another context of the same thread take no lock; lowering has hundreds of them.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        self._inside = 0
        self._before = 0

    def __enter__(self) -> None:
        HERE.rooms += 1
        if HERE.rooms > 1:
            return
        with self._lock:
            if not self._inside:
                self._before = sys.getrecursionlimit()
                if self._before < FRAMES:
                    sys.setrecursionlimit(FRAMES)
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        HERE.rooms -= 1
        if HERE.rooms:
            return
        with self._lock:
            self._inside -= 1
            # Whoever changed the limit meanwhile has the last word.
            if not self._inside and sys.getrecursionlimit() == FRAMES:
                sys.setrecursionlimit(self._before)


ROOM = _Room()


T = TypeVar("T")


def with_room(walk: Callable[[T], R], root: T) -> R:
    """Call a walk that may be repeated: again, with a larger stack, if the first time shows the need."""
    try:
        return walk(root)
    except RecursionError:
        with ROOM:
            return walk(root)


def deep(function: Callable[P, R]) -> Callable[P, R]:
    """Make a function an entry point for deep programs. A program that is still too deep is a UserError."""

    @wraps(function)
    def entry(*args: P.args, **named: P.kwargs) -> R:
        with ROOM:
            try:
                return function(*args, **named)
            except RecursionError:
                raise _too_deep(function.__name__) from None

    return entry


def _too_deep(name: str) -> UserError:
    return UserError(
        "the program is nested too deeply: expressions, loops and chains of inlined stages may be 10,000 levels deep",
        primitive=name.strip("_"),
        fix="compute parts of it as stages of their own, which are not inlined",
    )
