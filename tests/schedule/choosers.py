"""Where the choices of a random program come from: Hypothesis, which shrinks them, or a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Chooser(Protocol):
    """Makes choices; the first option is the simplest one."""

    def pick(self, options: Sequence[T]) -> T: ...
    def between(self, low: int, high: int) -> int: ...
    def permuted(self, options: Sequence[T]) -> list[T]: ...


class Drawn:
    """Choices drawn by Hypothesis."""

    def __init__(self, draw: Callable[[Any], Any]) -> None:
        from hypothesis import strategies as st  # a machine with a GPU may have pytest alone

        self.draw, self.strategies = draw, st

    def pick(self, options: Sequence[T]) -> T:
        chosen: T = self.draw(self.strategies.sampled_from(options))
        return chosen

    def between(self, low: int, high: int) -> int:
        return int(self.draw(self.strategies.integers(low, high)))

    def permuted(self, options: Sequence[T]) -> list[T]:
        return list(self.draw(self.strategies.permutations(options)))


class Seeded:
    """Choices that a seed determines."""

    def __init__(self, seed: Any) -> None:
        self.random = random.Random(f"{seed}")

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def permuted(self, options: Sequence[T]) -> list[T]:
        return self.random.sample(list(options), len(options))


class Finished:
    """No choices: the program is known."""

    def _none(self, *given: Any) -> Any:
        raise AssertionError(f"{given} is chosen from, but the program is finished")

    pick = between = permuted = _none
