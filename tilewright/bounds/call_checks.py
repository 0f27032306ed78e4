"""Reads that stay inside their tensor only for some arguments of a call: the comparisons that host code makes first.

The ends of an index are stated if they are linear in the axes: each is an expression of the call's arguments.
Otherwise, and under conditions, points are stated at which the read certainly happens: with the axes at their ends, as
far as the conditions allow. Proven reads are not checked at the call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, product

from ..arith.affine import Affine
from ..arith.facts import EMPTY, Facts, is_index
from ..arith.simplify import prove, simplify
from ..core.dtype import INT64
from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr, IntImm, Var
from ..expr.operators import (
    const,
    floordiv,
    greater_equal,
    less,
    less_equal,
    logical_or,
    maximum,
    minimum,
    negate,
    not_equal,
    subtract,
)
from ..expr.traverse import post_order, substitute, variables
from .witnesses import GuardedRead, positive_forms

Ends = tuple[Expr, Expr]
"""The least and the largest value of an axis."""

_MOST_POINTS = 8
_EVALUATED = (
    n.Var, n.IntImm, n.FloatImm, n.Cast, n.Add, n.Sub, n.Mul, n.Div, n.Mod, n.FloorDiv, n.FloorMod, n.Min, n.Max,
    n.EQ, n.NE, n.LT, n.LE, n.GT, n.GE, n.And, n.Or, n.Not, n.Select, n.IfThenElse,
)  # fmt: skip
"""Expressions that host code evaluates."""
_DIVISIONS = (n.Div, n.Mod, n.FloorDiv, n.FloorMod)
_SHIFTS = ("shift_left", "shift_right")
_CALLED = ("likely", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", *_SHIFTS)


@dataclass(frozen=True)
class ReadCheck:
    """An index that leaves its tensor for some arguments of a call.

    It runs from `low` to `high` if all of `when` hold, and leaves the tensor if `outside` holds. At a `point`, which
    has the values of axes by name, both ends are the index.
    """

    stage: str
    tensor: str
    read: str
    dimension: int
    low: Expr
    high: Expr
    extent: Expr
    outside: Expr
    when: tuple[Expr, ...]
    point: tuple[tuple[str, Expr], ...] = ()

    @property
    def arguments(self) -> tuple[Var, ...]:
        """The variables that the check depends on."""
        values = (value for _, value in self.point)
        return variables(self.low, self.high, self.extent, *self.when, *values)


def range_check(
    stage: str, read: GuardedRead, dimension: int, ends: Ends, occurs: frozenset[Expr]
) -> Iterator[ReadCheck]:
    """Yield the check of an index that reaches its ends if the extents `occurs` are positive."""
    if not _can_evaluate(*ends):
        return
    when = tuple(less(const(0, extent.dtype), extent) for extent in sorted(occurs, key=str))
    yield from _check(stage, read, dimension, ends, when, ())


def point_checks(
    stage: str,
    read: GuardedRead,
    dimension: int,
    spans: Mapping[Var, Ends],
    occurs: frozenset[Expr],
) -> Iterator[ReadCheck]:
    """Yield the checks of an index at points of the axes' values, unless it is proven to stay inside."""
    index, conditions = read.load.indices[dimension], read.stated
    if not _can_evaluate(index, *conditions):
        return
    extent = read.source.shape[dimension]
    facts = EMPTY.bind_all({var: (low, simplify(subtract(high, low) + 1)) for var, (low, high) in spans.items()})
    for condition in conditions:
        facts = facts.assume(condition)
    if prove(greater_equal(index, 0), facts) and prove(less(index, extent), facts):
        return
    yield from _wrapping(stage, read, dimension, spans, occurs)
    reached, inhabited = _under(read, spans)
    defined = _defined(index, *conditions)
    inhabited += [less(const(0, e.dtype), e) for e in sorted(occurs, key=str)]
    corners = product(*(dict.fromkeys((high, low)) for low, high in reached.values()))
    for corner in islice(corners, _MOST_POINTS):
        point = dict(zip(reached, corner, strict=True))
        when = tuple(simplify(substitute(condition, point)) for condition in (*defined, *conditions, *inhabited))
        if FALSE in when:
            continue
        at = simplify(substitute(index, point))
        named = tuple((var.name, value) for var, value in point.items())
        yield from _check(stage, read, dimension, (at, at), tuple(w for w in when if w is not TRUE), named)


def _check(
    stage: str,
    read: GuardedRead,
    dimension: int,
    ends: Ends,
    when: tuple[Expr, ...],
    point: tuple[tuple[str, Expr], ...],
) -> Iterator[ReadCheck]:
    facts = EMPTY
    for condition in when:
        facts = facts.assume(condition)
    extent = read.source.shape[dimension]
    sides = [_unless(greater_equal(ends[0], 0), less(ends[0], 0), facts)]
    sides.append(_unless(less(ends[1], extent), greater_equal(ends[1], extent), facts))
    outside = [side for side in sides if side is not FALSE]
    if outside:
        failing = outside[0] if len(outside) == 1 else logical_or(*outside)
        yield ReadCheck(stage, read.source.name, str(read.load), dimension, *ends, extent, failing, when, point)


def _wrapping(
    stage: str, read: GuardedRead, dimension: int, spans: Mapping[Var, Ends], occurs: frozenset[Expr]
) -> Iterator[ReadCheck]:
    """Yield the checks of an index that may overflow its type and is compared by the first condition around its read.

    That condition does not protect the read: a value that has wrapped passes a comparison with one end.
    """
    index = read.load.indices[dimension]
    first = read.conditions[0].expr if read.conditions else None
    computed = isinstance(index, (n.Add, n.Sub, n.Mul)) and index.dtype.bits == 32
    if not (computed and isinstance(first, n.Compare) and index in (first.a, first.b)):
        return
    when = tuple(less(const(0, extent.dtype), extent) for extent in sorted(occurs, key=str))
    for side in (1, 0):
        point = {var: ends[side] for var, ends in spans.items()}
        at = simplify(_in_64_bits(substitute(index, point)))
        least, most = const(index.dtype.min_value, INT64), const(index.dtype.max_value, INT64)
        outside = simplify(logical_or(less(at, least), less(most, at)))
        if outside is not FALSE:
            named = tuple((var.name, value) for var, value in point.items())
            extent = read.source.shape[dimension]
            yield ReadCheck(stage, read.source.name, str(read.load), dimension, at, at, extent, outside, when, named)


def _in_64_bits(e: Expr) -> Expr:
    """A sum or product of integers, computed in 64 bits."""
    if isinstance(e, (n.Add, n.Sub, n.Mul)):
        return type(e)(_in_64_bits(e.a), _in_64_bits(e.b))
    return const(e.value, INT64) if isinstance(e, IntImm) else n.Cast(INT64, e)


def _unless(inside: Expr, outside: Expr, facts: Facts) -> Expr:
    return FALSE if prove(inside, facts) else simplify(outside)


def _under(read: GuardedRead, spans: Mapping[Var, Ends]) -> tuple[dict[Var, Ends], list[Expr]]:
    """Return the range of each axis under the conditions that bound it alone, and the conditions that keep it from
    being empty."""
    reached = dict(spans)
    for form in positive_forms(read.conditions):  # form >= 0
        inside = [atom for atom in form.terms if any(var in spans for var in variables(atom))]
        axis = inside[0] if len(inside) == 1 else None
        if not isinstance(axis, Var):
            continue
        k = form.terms[axis]
        rest = Affine({atom: j for atom, j in form.terms.items() if atom is not axis}, form.const, form.dtype).to_expr()
        low, high = reached[axis]
        bound = floordiv(rest, abs(k)) if abs(k) > 1 else rest
        if k > 0:
            reached[axis] = simplify(maximum(low, negate(bound))), high
        else:
            reached[axis] = low, simplify(minimum(high, bound))
    inhabited = [less_equal(*reached[axis]) for axis in spans if reached[axis] != spans[axis]]
    return reached, inhabited


def _defined(*parts: Expr) -> list[Expr]:
    """Return the conditions under which expressions have a value: no division by zero, no shift beyond the word."""
    found: list[Expr] = []
    for e in post_order(*parts):
        if isinstance(e, _DIVISIONS) and not isinstance(e.b, IntImm):
            found.append(not_equal(e.b, const(0, e.b.dtype)))
        elif isinstance(e, n.Call) and e.name in _SHIFTS and not isinstance(e.args[1], IntImm):
            by = e.args[1]
            found += [less_equal(const(0, by.dtype), by), less(by, const(e.dtype.bits, by.dtype))]
    return found


def _can_evaluate(*parts: Expr) -> bool:
    """Whether host code can compute expressions as the device does: integers that wrap are left out."""
    for e in post_order(*parts):
        if isinstance(e, n.Call):
            if e.name not in _CALLED:
                return False
        elif not isinstance(e, _EVALUATED):
            return False
        wraps = e.dtype.is_int and not is_index(e.dtype)
        if e.dtype.lanes > 1 or (wraps and not isinstance(e, (Var, IntImm))):
            return False
    return True
