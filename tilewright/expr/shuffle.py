"""Vectors of chosen lanes: `tir.Shuffle`, built from existing nodes."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError
from . import nodes as n
from .operators import add, as_expr, const, multiply


def shuffle(vectors: Any, indices: Any, span: Any = None) -> n.Expr:
    """Return a vector of lanes of others.

    Parameters
    ----------
    vectors
        Vectors or scalars of one type; their lanes are numbered consecutively.
    indices
        The number of each lane of the result, as ints; one index gives a scalar.

    Returns
    -------
    A scalar, a vector that was given, a `Broadcast`, or one choice per lane.

    Raises
    ------
    UserError
        For vectors of several types, for indices that no lane has, and for elements that are vectors.
    """
    given = [as_expr(v) for v in (vectors if isinstance(vectors, (tuple, list)) else [vectors])]
    kinds = sorted({str(v.dtype.scalar) for v in given})
    if len(kinds) != 1:
        raise UserError(
            f"the vectors have types {', '.join(kinds)}" if given else "no vector is given",
            primitive="Shuffle",
            fix="give vectors of one type: tir.Shuffle([a, b], [0, 2, 1, 3])",
        )
    lanes = [lane(v, i) for v in given for i in range(v.dtype.lanes)]
    numbers: list[Any] = [
        getattr(i, "value", i) for i in (indices if isinstance(indices, (tuple, list)) else [indices])
    ]
    wrong = next((i for i in numbers if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < len(lanes)), None)
    if wrong is not None or not numbers:
        raise UserError(
            f"the lane {wrong!r} is asked for" if numbers else "no lane is asked for",
            primitive="Shuffle",
            fix=f"give ints from 0 to {len(lanes) - 1}",
        )
    if len(given) == 1 and numbers == list(range(len(lanes))):
        return given[0]
    chosen: list[n.Expr] = [lanes[i] for i in numbers]
    if len(chosen) == 1:
        return chosen[0]
    made: n.Expr = n.Broadcast(chosen[-1], len(chosen))
    if all(e is chosen[0] for e in chosen):
        return made
    zero, one = const(0, "int32"), const(1, "int32")
    place = n.Ramp(zero, one, len(chosen))
    for i in reversed(range(len(chosen) - 1)):
        here = n.EQ(place, n.Broadcast(const(i, "int32"), len(chosen)))
        made = n.Select(here, n.Broadcast(chosen[i], len(chosen)), made)
    return made


def lane(e: n.Expr, i: int) -> n.Expr:
    """Lane `i` of a vector, as a scalar expression. Raises UserError for elements of a buffer that holds vectors."""
    if e.dtype.lanes == 1:
        return e
    if isinstance(e, n.Load) and e.source.dtype.lanes != 1:
        raise UserError(
            f"{e} is one element of type {e.dtype}, and its lanes cannot be accessed alone",
            fix=f"declare a tensor of {e.dtype.scalar} with one more dimension, of {e.dtype.lanes}",
        )
    if isinstance(e, n.Ramp):
        return add(e.base, multiply(e.stride, const(i, e.stride.dtype)))
    if isinstance(e, n.Broadcast):
        return e.value
    if isinstance(e, (n.Cast, n.Call)):
        parts = [lane(child, i) for child in e.children()]
        return n.Cast(e.dtype.scalar, *parts) if isinstance(e, n.Cast) else n.Call(e.name, tuple(parts), e.dtype.scalar)
    made: n.Expr = e.map_children(lambda child: lane(child, i))
    return made
