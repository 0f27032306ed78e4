"""Partial results of a reduction: they combine to the whole only if its reducer is associative and commutative.

Its start must count once, too: parts that each start at 1 make a sum that is too large. The functions of a reducer are
tried on a few values, since a proof for all values is not possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isclose, isnan
from typing import Any

from ..core.errors import UserError
from ..expr.evaluate import UndefinedValueError, evaluate
from .reduction import CommReducer, Reduce

_SAMPLES = (2, 3, 5)
_TOLERANCE = 1e-2
"""The relative rounding error that reducers of 16-bit floats may have."""
Values = tuple[Any, ...]


def check_parts(reduce: Reduce, stage: str, primitive: str) -> None:
    """Raise UserError if partial results of a reduction do not combine to the result that a single loop computes."""
    fault = _fault(reduce.combiner)
    if fault is not None:
        raise UserError(
            f"{stage!r} would be computed in parts, but its reducer {reduce.combiner.name!r} {fault[0]}",
            primitive=primitive,
            fix=fault[1],
        )


def combines_parts(combiner: CommReducer) -> bool:
    """Return whether partial results combine to the result that a single loop computes, as far as is known."""
    return _fault(combiner) is None


@lru_cache(maxsize=64)
def _fault(combiner: CommReducer) -> tuple[str, str] | None:
    """The way a reducer changes the result if it combines parts, and the fix; None if no fault is known."""
    try:
        start = tuple(evaluate(e, {}) for e in combiner.identity)
        twice = _combined(combiner, start, start)
        # Each component of a tuple has the samples in another order, so that an index does not grow with its value.
        a, b, c = (tuple(_sample(v, i + k) for k, v in enumerate(start)) for i in range(3))
        ab, ba = _combined(combiner, a, b), _combined(combiner, b, a)
        first, then = _combined(combiner, ab, c), _combined(combiner, a, _combined(combiner, b, c))
    except UndefinedValueError:  # the values depend on the element
        return None
    if not _agree(start, twice):
        return (
            f"starts at {_text(start)}, which would count several times: combined with itself, it is {_text(twice)}",
            "return the neutral value from fidentity, and give the start of the sum: te.sum(..., axis=k, init=1)",
        )
    if not _agree(ab, ba):
        return (
            f"is not commutative: {_text(a)} and {_text(b)} give {_text(ab)}, but the other way round {_text(ba)}",
            "give a commutative fcombine, or reduce in a single loop of one thread",
        )
    if not _agree(first, then):
        return (
            f"is not associative: of {_text(a)}, {_text(b)}, {_text(c)}, the first two give {_text(first)} with the "
            f"third, but the last two give {_text(then)} with the first",
            "give an associative fcombine, or reduce in a single loop of one thread",
        )
    return None


def _sample(like: Any, index: int) -> Any:
    """Return a value of the same type; among truth values, both occur."""
    return index % 2 == 0 if isinstance(like, bool) else type(like)(_SAMPLES[index % 3])


def _combined(combiner: CommReducer, left: Values, right: Values) -> Values:
    given = dict(zip((*combiner.lhs, *combiner.rhs), (*left, *right), strict=True))
    return tuple(evaluate(e, given) for e in combiner.result)


def _agree(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether values are equal but for rounding; NaN, as of infinity - infinity, says nothing."""
    return all(
        isnan(float(a)) or isnan(float(b)) or a == b or isclose(float(a), float(b), rel_tol=_TOLERANCE)
        for a, b in zip(left, right, strict=True)
    )


def _text(values: Values) -> str:
    shown = ", ".join(f"{float(v):g}" for v in values)
    return shown if len(values) == 1 else f"({shown})"
