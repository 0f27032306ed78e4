"""The common part of ladders: rungs that make programs, random input, and an expected answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..core.errors import UserError
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import Tensor

DTYPES = ("float32", "float64")
"""The types that a ladder computes in."""


@dataclass(frozen=True)
class RungProgram:
    """A schedule and the tensors of its kernel, in order; the last tensor is the output."""

    schedule: ScheduleHandle
    args: tuple[Tensor, ...]


@dataclass(frozen=True)
class Rung:
    """A variant: its name, a short description, and the function that makes its program."""

    name: str
    does: str
    make: Callable[[Any], RungProgram]
    """Returns a fresh program for the ladder (its sizes)."""


@dataclass(frozen=True, kw_only=True)
class Ladder(ABC):
    """A convolution at one size, with the rungs that compute it; subclasses add the sizes as fields."""

    dtype: str = "float32"

    title: ClassVar[str]
    rungs: ClassVar[tuple[Rung, ...]]

    @abstractmethod
    def sizes(self) -> str:
        """The sizes and the type, for people: "M=16384 N=32 float32"."""

    @abstractmethod
    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random data and weights, in the order and shapes that the programs take them."""

    @property
    @abstractmethod
    def terms(self) -> int:
        """How many products one output element sums."""

    @property
    def accumulator(self) -> str:
        """The type in which the programs sum: that of their arguments."""
        return self.dtype

    @property
    def result(self) -> str:
        """The type of the result."""
        return self.dtype

    @abstractmethod
    def numpy(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The convolution as a NumPy user writes it, in the type of its arguments."""

    @abstractmethod
    def torch(self, data: Any, weight: Any) -> list[tuple[str, Callable[[], Any]]]:
        """PyTorch's ways to compute it from two tensors: (how, call); the output keeps the documents' order."""

    def choose(self, names: list[str]) -> tuple[Rung, ...]:
        """The rungs of those names in the ladder's order, all if none is named; raises UserError for a wrong name."""
        known = [rung.name for rung in self.rungs]
        for name in names:
            if name not in known:
                raise UserError(
                    f"there is no variant {name!r} of {self.title}",
                    fix=f"choose from {', '.join(known)}",
                    where="",
                )
        return tuple(rung for rung in self.rungs if not names or rung.name in names)


def check_sizes(dtype: str, **sizes: int) -> None:
    """Raise UserError if a size is not positive or the type is not one of DTYPES."""
    for name, size in sizes.items():
        if size < 1:
            raise UserError(f"{name}={size}: sizes are at least 1", fix=f"{name}=64", where="")
    if dtype not in DTYPES:
        raise UserError(f"dtype {dtype!r} is not covered", fix=f"use {' or '.join(DTYPES)}", where="")


def random(rng: np.random.Generator, dtype: str, *shape: int) -> np.ndarray:
    """Values in [-1, 1): of both signs, so that a wrong sign or a lost term cannot hide."""
    return rng.uniform(-1, 1, shape).astype(dtype)
