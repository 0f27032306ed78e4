"""The legacy module of this name for scripts: ranks, curves of trials, and constants as Python's numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import sample as _sample
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...topi.utils import get_const_int as get_const_int
from ...topi.utils import get_const_tuple as get_const_tuple


def get_rank(values: Sequence[float]) -> np.ndarray:
    """Return the rank of each value, 0 for the largest; of equal ones the earlier comes first."""
    order = np.argsort(-_numbers(values, "get_rank"), kind="stable")
    ranks: np.ndarray = np.argsort(order, kind="stable")
    return ranks


def max_curve(trial_scores: Sequence[float]) -> np.ndarray:
    """Return the best score up to each trial."""
    found: np.ndarray = np.maximum.accumulate(_numbers(trial_scores, "max_curve"))
    return found


def mean_curve(trial_scores: Sequence[float]) -> np.ndarray:
    """Return the mean score up to each trial."""
    scores = _numbers(trial_scores, "mean_curve")
    found: np.ndarray = np.cumsum(scores) / np.arange(1, len(scores) + 1)
    return found


def sample_ints(low: int, high: int, m: int) -> list[int]:
    """Return `m` different random integers from `low` up to, but not including, `high`."""
    whole = all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in (low, high, m))
    if not whole or not 0 <= m <= high - low:
        raise UserError(
            f"{m!r} numbers from {low!r} to {high!r}",
            primitive="sample_ints",
            fix="give whole numbers, and at most as many as there are: sample_ints(0, 10, 3)",
        )
    return _sample(range(int(low), int(high)), int(m))


def get_func_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a callable object."""
    return str(getattr(func, "func_name", None) or getattr(func, "__qualname__", None) or type(func).__name__)


def _numbers(given: Any, primitive: str) -> np.ndarray:
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"{given!r} are not numbers", primitive=primitive, fix="give a list: [1.5, 2.0]") from error
    if found.ndim != 1:
        raise UserError(f"{given!r} is not a list of numbers", primitive=primitive, fix="give a list: [1.5, 2.0]")
    return found


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
