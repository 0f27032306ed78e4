"""A problem to solve, and the judge of answers: the same for our kernels, NumPy's and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class Problem(Protocol):
    """A convolution at one size: a ladder's, or a packaged template's."""

    @property
    def terms(self) -> int:
        """How many products one result sums."""

    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random data and weights."""

    def numpy(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The result by NumPy, in the type of its arguments."""

    def torch(self, data: Any, weight: Any) -> list[tuple[str, Callable[[], Any]]]:
        """PyTorch's ways to compute it from two tensors: (how, call)."""


@dataclass(frozen=True)
class Trial:
    """One problem to solve: its input, the right answer in float64, and how far from it an answer may lie."""

    problem: Problem
    data: np.ndarray
    weight: np.ndarray
    answer: np.ndarray
    allowed: np.ndarray

    @classmethod
    def of(cls, problem: Problem, seed: int = 0) -> Trial:
        """A trial on random input."""
        data, weight = problem.inputs(np.random.default_rng(seed))
        exact = [values.astype("float64") for values in (data, weight)]
        # Whatever the order of summation, n products and sums err by at most n·ε·Σ|a·w|, and some for the store.
        magnitude = problem.numpy(*map(np.abs, exact))
        allowed = (problem.terms + 2) * np.finfo(data.dtype).eps * magnitude
        return cls(problem, data, weight, problem.numpy(*exact), allowed)

    def check(self, out: np.ndarray) -> tuple[float, str]:
        """The largest error of an answer, and what is wrong with it; "" where nothing is."""
        if out.shape != self.answer.shape:
            return float("inf"), f"the answer has shape {out.shape} instead of {self.answer.shape}"
        empty = np.isnan(out)
        if empty.any():
            where = tuple(int(i) for i in np.argwhere(empty)[0])
            return float("inf"), f"{int(empty.sum())} of {out.size} results hold no number, the first at {where}"
        error = np.abs(out - self.answer)
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(error - self.allowed), error.shape))
        if error[worst] > self.allowed[worst]:
            return float(error.max()), f"wrong: {out[worst]} at {worst} instead of {self.answer[worst]}"
        return float(error.max()), ""
