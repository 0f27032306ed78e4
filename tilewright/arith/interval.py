"""Constant bounds of integer expressions."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

from ..core.dtype import DType
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm
from .affine import Affine
from .facts import EMPTY, Bound, Facts, is_index

Pair = tuple[Bound, Bound]
_ALL: Pair = (-inf, inf)


class Interval(NamedTuple):
    """All values lie in [lo, hi]; a missing bound is an infinity."""

    lo: Bound
    hi: Bound


def interval(e: Expr, facts: Facts = EMPTY) -> Interval:
    """Bounds of an integer or boolean (0, 1) expression under the facts."""
    return Interval(*bounds(e, facts))


def bounds(e: Expr, facts: Facts) -> Pair:
    """`interval` as a plain pair, memoised."""
    found = facts.bounds.get(e)
    if found is not None:
        return found
    facts.bounds[e] = _of_dtype(e.dtype)  # stands while ranges that refer to each other are looked at
    lo, hi = _BOUNDS.get(type(e), _by_dtype)(e, facts)
    known_low, known_high = facts.low.get(e), facts.high.get(e)
    if known_low is not None and known_low > lo:
        lo = known_low
    if known_high is not None and known_high < hi:
        hi = known_high
    if lo > hi:  # contradicting facts: code under them never runs
        hi = lo
    facts.bounds[e] = lo, hi
    return lo, hi


def form_bounds(form: Affine, facts: Facts) -> Pair:
    """Bounds of a linear form."""
    return terms_bounds(form.terms.items(), form.const, facts)


def terms_bounds(items: Any, const: int, facts: Facts) -> Pair:
    """Bounds of the sum of (atom, coefficient) items and a constant."""
    lo: Bound = const
    hi: Bound = const
    table = facts.bounds
    for atom, k in items:
        found = table.get(atom)
        low, high = found if found is not None else bounds(atom, facts)
        if k > 0:
            lo += k * low
            hi += k * high
        else:
            lo += k * high
            hi += k * low
    return lo, hi


def _of_dtype(dtype: DType) -> Pair:
    """Bounds by the type alone; signed integers of 32 bits or more count as unbounded."""
    if dtype.is_bool:
        return 0, 1
    if dtype.kind == "uint":
        return 0, dtype.max_value
    if dtype.kind == "int" and dtype.bits < 32:
        return dtype.min_value, dtype.max_value
    return _ALL


def _by_dtype(e: Expr, facts: Facts) -> Pair:
    return _of_dtype(e.dtype)


def _within(pair: Pair, dtype: DType) -> Pair:
    """Bounds of a computed value: the bounds found, or the type's own if the result may have wrapped."""
    limit = _of_dtype(dtype)
    return pair if limit[0] <= pair[0] and pair[1] <= limit[1] else limit


def _constant(e: IntImm, facts: Facts) -> Pair:
    return e.value, e.value


def _variable(e: n.Var, facts: Facts) -> Pair:
    held = facts.ranges.get(e)
    lo, hi = _of_dtype(e.dtype)
    if e.known is not n.ANYTHING:
        least, most, _ = e.known
        lo, hi = lo if least is None else max(lo, least), hi if most is None else min(hi, most)
    if held is None:
        return lo, hi
    low, extent = held
    first = low.value if isinstance(low, IntImm) else bounds(low, facts)[0]
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        last: Bound = low.value + extent.value - 1
    elif not (is_index(low.dtype) and is_index(extent.dtype)):  # sums of this type wrap, so the end may, too
        last = bounds(low, facts)[1] + bounds(extent, facts)[1] - 1
    else:
        last = form_bounds(Affine.of(low) + Affine.of(extent), facts)[1] - 1
    return max(lo, first), min(hi, last)


def _linear(e: Expr, facts: Facts) -> Pair:
    """Bounds of Add, Sub and Mul, seeing terms that cancel."""
    if not is_index(e.dtype):
        return _wrapping(e, facts)
    form = Affine.of(e)
    if len(form.terms) == 1 and e in form.terms:
        return _product(e, facts)
    return form_bounds(form, facts)


def _wrapping(e: Any, facts: Facts) -> Pair:
    if not e.dtype.is_int:
        return _of_dtype(e.dtype)
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    if isinstance(e, n.Add):
        return _within((a + c, b + d), e.dtype)
    if isinstance(e, n.Sub):
        return _within((a - d, b - c), e.dtype)
    return _within(_product(e, facts), e.dtype)


def times(a: Bound, b: Bound) -> Bound:
    """a * b, with 0 times infinity equal to 0."""
    return 0 if a == 0 or b == 0 else a * b


def _product(e: Any, facts: Facts) -> Pair:
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    if e.a is e.b:
        largest = max(times(a, a), times(b, b))
        return (0 if a <= 0 <= b else min(times(a, a), times(b, b))), largest
    corners = times(a, c), times(a, d), times(b, c), times(b, d)
    return min(corners), max(corners)


def floor_quotient(a: Bound, b: Bound) -> Bound:
    """a // b for b != 0, with infinities."""
    if a in (inf, -inf):
        return a if b > 0 else -a
    if b in (inf, -inf):
        return 0 if (a >= 0) == (b > 0) or a == 0 else -1
    return a // b


def _floordiv(e: Any, facts: Facts) -> Pair:
    """The least integer divided by -1 wraps."""
    return _within(_floor_quotients(bounds(e.a, facts), bounds(e.b, facts)), e.dtype)


def _floor_quotients(dividend: Pair, divisor: Pair) -> Pair:
    (a, b), (c, d) = dividend, divisor
    if c == d and c > 0:
        return floor_quotient(a, c), floor_quotient(b, c)
    if c == d == 0:
        return _ALL
    c, d = _without_zero(c, d)
    if c < 0 < d:
        largest = max(abs(a), abs(b))
        return -largest, largest
    corners = [floor_quotient(x, y) for x in (a, b) for y in (c, d)]
    return min(corners), max(corners)


def _without_zero(c: Bound, d: Bound) -> Pair:
    """Bounds of a divisor, which is never zero."""
    return (1 if c == 0 < d else c), (-1 if c < 0 == d else d)


def _floormod(e: Any, facts: Facts) -> Pair:
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    if c == d and c > 0 and floor_quotient(a, c) == floor_quotient(b, c) and a != -inf and b != inf:
        return a % c, b % c
    if a >= 0 and c > 0 and b < c:
        return a, b
    lo: Bound = 0 if c >= 0 else c + 1
    hi: Bound = 0 if d <= 0 else d - 1
    return (lo, min(hi, b) if a >= 0 and c > 0 else hi)


def _truncdiv(e: Any, facts: Facts) -> Pair:
    if not e.dtype.is_int:
        return _of_dtype(e.dtype)
    return _within(_truncated_quotients(bounds(e.a, facts), bounds(e.b, facts)), e.dtype)


def _truncated_quotients(dividend: Pair, divisor: Pair) -> Pair:
    (a, b), (c, d) = dividend, divisor
    if a >= 0 and c >= 0:
        return _floor_quotients(dividend, divisor)
    c, d = _without_zero(c, d)
    if c == d and c > 0 and a != -inf and b != inf:
        return _trunc(a, c), _trunc(b, c)
    if (c > 0 or d < 0) and inf not in (-a, b, -c, d):
        corners = [_trunc(x, y) for x in (a, b) for y in (c, d)]
        return min(corners), max(corners)
    largest = max(abs(a), abs(b))
    return (-largest if a < 0 or c < 0 else 0), largest


def _trunc(a: Bound, c: Bound) -> Bound:
    size = abs(a) // abs(c)
    return size if (a >= 0) == (c > 0) else -size


def _truncmod(e: Any, facts: Facts) -> Pair:
    if not e.dtype.is_int:
        return _of_dtype(e.dtype)
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    largest = max(abs(c), abs(d)) - 1
    return (0 if a >= 0 else max(a, -largest)), (0 if b <= 0 else min(b, largest))


def _min(e: Any, facts: Facts) -> Pair:
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    return min(a, c), min(b, d)


def _max(e: Any, facts: Facts) -> Pair:
    (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
    return max(a, c), max(b, d)


def _choice(e: Any, facts: Facts) -> Pair:
    lo, hi = bounds(e.condition, facts)
    if lo == 1:
        return bounds(e.true_value, facts)
    if hi == 0:
        return bounds(e.false_value, facts)
    (a, b), (c, d) = bounds(e.true_value, facts), bounds(e.false_value, facts)
    return min(a, c), max(b, d)


def _cast(e: n.Cast, facts: Facts) -> Pair:
    if e.value.dtype.is_int or e.value.dtype.is_bool:
        lo, hi = bounds(e.value, facts)
        if e.dtype.is_bool:
            return int(lo > 0 or hi < 0), int(not lo == hi == 0)
        source, target = e.value.dtype, e.dtype
        widens = target.kind == "int" and source.kind == "int" and target.bits >= source.bits
        if widens or (target.min_value <= lo and hi <= target.max_value):
            return lo, hi
    return _of_dtype(e.dtype)


def _comparison(e: Any, facts: Facts) -> Pair:
    known = facts.truth.get(e)
    if known is not None:
        return known.value, known.value  # type: ignore[attr-defined]
    if is_index(e.a.dtype):
        lo, hi = form_bounds(Affine.of(e.a) - Affine.of(e.b), facts)
    elif e.a.dtype.is_int:
        (a, b), (c, d) = bounds(e.a, facts), bounds(e.b, facts)
        lo, hi = a - d, b - c
    else:
        return 0, 1
    decided = DECIDE[type(e)](lo, hi)
    return (0, 1) if decided is None else (int(decided), int(decided))


DECIDE: dict[type, Callable[[Bound, Bound], bool | None]] = {
    n.LT: lambda lo, hi: True if hi < 0 else False if lo >= 0 else None,
    n.LE: lambda lo, hi: True if hi <= 0 else False if lo > 0 else None,
    n.GT: lambda lo, hi: True if lo > 0 else False if hi <= 0 else None,
    n.GE: lambda lo, hi: True if lo >= 0 else False if hi < 0 else None,
    n.EQ: lambda lo, hi: True if lo == hi == 0 else False if lo > 0 or hi < 0 else None,
    n.NE: lambda lo, hi: False if lo == hi == 0 else True if lo > 0 or hi < 0 else None,
}


def _and(e: Any, facts: Facts) -> Pair:
    return _min(e, facts)


def _or(e: Any, facts: Facts) -> Pair:
    return _max(e, facts)


def _not(e: n.Not, facts: Facts) -> Pair:
    lo, hi = bounds(e.a, facts)
    return 1 - hi, 1 - lo


def _ramp(e: n.Ramp, facts: Facts) -> Pair:
    (a, b), (c, d) = bounds(e.base, facts), bounds(e.stride, facts)
    last = e.lanes - 1
    return _within((a + min(0, times(c, last)), b + max(0, times(d, last))), e.dtype.scalar)


def _broadcast(e: n.Broadcast, facts: Facts) -> Pair:
    return bounds(e.value, facts)


def _call(e: n.Call, facts: Facts) -> Pair:
    if e.name == "likely":
        return bounds(e.args[0], facts)
    whole = _of_dtype(e.dtype)
    if e.name not in _BITS or not e.dtype.is_int:
        return whole
    found = _BITS[e.name](bounds(e.args[0], facts), bounds(e.args[1], facts))
    fits = found is not None and e.dtype.min_value <= found[0] and found[1] <= e.dtype.max_value
    return found if found is not None and fits else whole  # bits shifted out of an index are lost, too


def _shifted_left(a: Pair, b: Pair) -> Pair | None:
    if not (a[0] >= 0 and b[0] >= 0 and b[1] < _MOST_SHIFTED):
        return None
    return times(a[0], 1 << int(b[0])), times(a[1], 1 << int(b[1]))


def _shifted_right(a: Pair, b: Pair) -> Pair | None:
    if not (b[0] >= 0 and b[1] < _MOST_SHIFTED):
        return None
    by = [1 << int(k) for k in b]
    low, high = ([floor_quotient(end, k) for k in by] for end in a)
    return min(low), max(high)


def _bitwise_and(a: Pair, b: Pair) -> Pair | None:
    """Bounds from an operand that is not negative: the result has no bits that this operand lacks."""
    most = [high for low, high in (a, b) if low >= 0]
    return (0, min(most)) if most else None


_MOST_SHIFTED = 64
_BITS: dict[str, Callable[[Pair, Pair], Pair | None]] = {
    "shift_left": _shifted_left,
    "shift_right": _shifted_right,
    "bitwise_and": _bitwise_and,
}


_BOUNDS: dict[type, Callable[[Any, Facts], Pair]] = {
    IntImm: _constant,
    n.Var: _variable,
    n.SizeVar: _variable,
    n.Add: _linear,
    n.Sub: _linear,
    n.Mul: _linear,
    n.FloorDiv: _floordiv,
    n.FloorMod: _floormod,
    n.Div: _truncdiv,
    n.Mod: _truncmod,
    n.Min: _min,
    n.Max: _max,
    n.Select: _choice,
    n.IfThenElse: _choice,
    n.Cast: _cast,
    **dict.fromkeys((n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE), _comparison),
    n.And: _and,
    n.Or: _or,
    n.Not: _not,
    n.Ramp: _ramp,
    n.Broadcast: _broadcast,
    n.Call: _call,
}
