"""A problem to solve, and the judge of answers: the same for our kernels, NumPy's and PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np

from ..core.dtype import DType


class ConvolutionSize(Protocol):
    """A convolution at one size: a ladder's, or a packaged template's."""

    @property
    def terms(self) -> int:
        """How many products one result sums."""

    @property
    def accumulator(self) -> str:
        """The type in which they are summed."""

    @property
    def result(self) -> str:
        """The type of the result."""

    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Random data and weights."""

    def numpy(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        """The result by NumPy, in the type of its arguments."""

    def torch(self, data: Any, weight: Any) -> list[tuple[str, Callable[[], Any]]]:
        """PyTorch's ways to compute it from two tensors: (how, call)."""


@dataclass(frozen=True)
class CheckedProblem:
    """One problem to solve: its input, the right answer in float64, and how far from it an answer may lie.

    `rounding` is how much of themselves operands may lose before they are multiplied, as tf32 makes them.
    """

    problem: ConvolutionSize
    data: np.ndarray
    weight: np.ndarray
    answer: np.ndarray
    allowed: np.ndarray
    rounding: float = 0.0

    @classmethod
    def of(cls, problem: ConvolutionSize, seed: int = 0, rounding: float = 0.0) -> CheckedProblem:
        """A trial on random input."""
        data, weight = problem.inputs(np.random.default_rng(seed))
        exact = [values.astype("float64") for values in (data, weight)]
        answer = problem.numpy(*exact)
        # In any order of summation, n products and sums err by at most n·ε·Σ|a·w|, in the type of the sums. Then the
        # store rounds to the type of the result. A product of two operands that were rounded errs by both.
        unit = (problem.terms + 2) * _epsilon(problem.accumulator) + rounding
        allowed = unit * problem.numpy(*map(np.abs, exact)) + _epsilon(problem.result) * np.abs(answer)
        return cls(problem, data, weight, answer, allowed, rounding)

    def unwritten(self) -> np.ndarray:
        """A place for an answer, filled with a value that no answer has: NaN, or the least integer."""
        kind = DType(self.problem.result)
        nothing = np.nan if kind.is_float else np.iinfo(kind.numpy).min
        return np.full(self.answer.shape, nothing, kind.numpy)

    def of_host(self) -> tuple[np.ndarray, np.ndarray]:
        """Data and weights in the type of the sums: NumPy has no products of 16 bits that are summed in 32."""
        data, weight = (values.astype(self.problem.accumulator) for values in (self.data, self.weight))
        return data, weight

    def check(self, out: np.ndarray) -> tuple[float, str]:
        """The largest error of an answer, and its fault; "" if there is none."""
        if out.shape != self.answer.shape:
            return float("inf"), f"the answer has shape {out.shape} instead of {self.answer.shape}"
        empty = np.isnan(out)
        if empty.any():
            where = tuple(int(i) for i in np.argwhere(empty)[0])
            return float("inf"), f"{int(empty.sum())} of {out.size} results hold no number, the first at {where}"
        error = np.abs(out.astype(np.float64) - self.answer)
        worst = tuple(int(i) for i in np.unravel_index(np.argmax(error - self.allowed), error.shape))
        if error[worst] > self.allowed[worst]:
            return float(error.max()), f"wrong: {out[worst]} at {worst} instead of {self.answer[worst]}"
        return float(error.max()), ""


def _epsilon(dtype: str) -> float:
    """The distance from 1 to the next number of the type; 0 for integers, which are exact."""
    kind = DType(dtype)
    return float(ml_dtypes.finfo(kind.numpy).eps) if kind.is_float else 0.0  # type: ignore[no-untyped-call]
