"""Sets of integers under the legacy API's names: intervals with symbolic ends, and the values that an expression
sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...arith.affine import Affine
from ...arith.engine import linear, merged
from ...arith.facts import EMPTY, Facts, Range, is_index
from ...arith.interval import bounds
from ...arith.region import extremes
from ...arith.simplify import prove, simplify
from ...arith.write import write
from ...core.dtype import INT64, DType
from ...core.errors import UserError
from ...expr.nodes import Expr, FloorDiv, IntImm, Max, Min, Mul, Ramp, Var
from ...expr.operators import add, as_expr, maximum, minimum, multiply, subtract
from ...expr.traverse import uses_any

POSITIVE_INFINITY = Var("pos_inf", "handle")
NEGATIVE_INFINITY = Var("neg_inf", "handle")
INFINITIES = frozenset((POSITIVE_INFINITY, NEGATIVE_INFINITY))
_LARGEST = DType("uint64")


def pos_inf() -> Var:
    """The upper end of a set that has none."""
    return POSITIVE_INFINITY


def neg_inf() -> Var:
    """The lower end of a set that has none."""
    return NEGATIVE_INFINITY


class IntSet:
    """A set of integers; made by `single_point`, `vector`, `IntervalSet`."""

    __slots__ = ()

    @staticmethod
    def single_point(point: Any) -> IntervalSet:
        """The set of one value."""
        return IntervalSet(point, point)

    @staticmethod
    def vector(vec: Any) -> IntervalSet:
        """An interval that holds the lanes of a vector: all values from the first lane to the last."""
        e = as_expr(vec)
        if not isinstance(e, Ramp):
            return IntervalSet(e, e)
        first, last = simplify(e.base), simplify(add(e.base, multiply(e.stride, e.lanes - 1)))
        falls = isinstance(e.stride, IntImm) and e.stride.value < 0
        return IntervalSet(last, first) if falls else IntervalSet(first, last)


class IntervalSet(IntSet):
    """The integers from `min_value` to `max_value`, both included.

    Parameters
    ----------
    min_value, max_value
        Integers or expressions; `neg_inf()` and `pos_inf()` if there is no end.
    """

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: Any, max_value: Any) -> None:
        ends = []
        for what, given in (("min_value", min_value), ("max_value", max_value)):
            e = as_expr(given)
            if not e.dtype.is_int and e not in INFINITIES:
                raise UserError(
                    f"{what}={given!r} is not an integer",
                    primitive="IntervalSet",
                    fix="give an int, an integer expression, or arith.int_set.pos_inf()",
                )
            ends.append(e)
        self.min_value, self.max_value = ends

    def is_nothing(self) -> bool:
        """Whether the set is known to be empty."""
        low, high = self.min_value, self.max_value
        if low is POSITIVE_INFINITY or high is NEGATIVE_INFINITY:
            return True
        return low is not NEGATIVE_INFINITY and high is not POSITIVE_INFINITY and prove(low > high)

    def is_everything(self) -> bool:
        """Whether no integer is left out."""
        return self.min_value is NEGATIVE_INFINITY and self.max_value is POSITIVE_INFINITY

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are finite."""
        return self.min_value not in INFINITIES and self.max_value not in INFINITIES

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self.min_value is other.min_value and self.max_value is other.max_value

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        return f"IntervalSet[{self.min_value}, {self.max_value}]"


NOTHING = IntervalSet(POSITIVE_INFINITY, NEGATIVE_INFINITY)
EVERYTHING = IntervalSet(NEGATIVE_INFINITY, POSITIVE_INFINITY)


def as_set(given: Any, var: Any, primitive: str) -> IntervalSet:
    """An interval, a range, or a pair of ends, as an interval."""
    if isinstance(given, IntervalSet):
        return given
    low, extent = getattr(given, "min", None), getattr(given, "extent", None)
    if low is not None and extent is not None:
        return IntervalSet(low, simplify(subtract(add(low, extent), 1)))
    if isinstance(given, tuple) and len(given) == 2:
        return IntervalSet(*given)
    raise UserError(
        f"{given!r} is not a set of values for {var}", primitive=primitive, fix="give arith.IntervalSet(low, high)"
    )


def as_domains(given: Any, primitive: str) -> dict[Var, IntervalSet]:
    """A mapping from variables (or axes) to their sets."""
    if not isinstance(given, Mapping):
        raise UserError(f"{given!r} is not a mapping", primitive=primitive, fix="give {var: arith.IntervalSet(0, 7)}")
    found: dict[Var, IntervalSet] = {}
    for key, value in given.items():
        var = as_expr(key)
        if not isinstance(var, Var):
            fix = "give {var: arith.IntervalSet(0, 7)}"
            raise UserError(f"`{var}` is not a variable", primitive=primitive, fix=fix)
        found[var] = as_set(value, var.name, primitive)
    return found


def facts_of(domains: Mapping[Var, IntervalSet], facts: Facts = EMPTY) -> Facts:
    """The facts, and that each variable lies in its set."""
    for var, held in domains.items():
        known = _range_of(held, facts)
        if known is not None:
            facts = facts.bind(var, *known)
            continue
        if held.min_value not in INFINITIES:
            facts = facts.assume(var >= held.min_value)
        if held.max_value not in INFINITIES:
            facts = facts.assume(var <= held.max_value)
    return facts


def set_of(low: Expr, extent: Expr) -> IntervalSet:
    """The values of a range."""
    if isinstance(low, IntImm) and isinstance(extent, IntImm):
        last = low.value + extent.value - 1
        fits = next((dtype for dtype in (low.dtype, INT64) if dtype.min_value <= last <= dtype.max_value), _LARGEST)
        return IntervalSet(low, IntImm(last, fits))
    return IntervalSet(low, simplify(low + extent - 1))


def _range_of(held: IntervalSet, facts: Facts) -> Range | None:
    """The least value and the number of values of a set with both ends; None if no type holds that number."""
    low, high = held.min_value, held.max_value
    if not held.is_bounded:
        return None
    if isinstance(low, IntImm) and isinstance(high, IntImm):
        extent = high.value - low.value + 1
        for dtype in (low.dtype, INT64, _LARGEST):
            if dtype.min_value <= extent <= dtype.max_value:
                return low, IntImm(extent, dtype)
        return None
    if not (is_index(low.dtype) and is_index(high.dtype)):  # the number may wrap
        return None
    return low, simplify(subtract(add(high, 1), low), facts)


def swept(e: Expr, domains: Mapping[Var, IntervalSet], facts: Facts = EMPTY) -> IntervalSet:
    """An interval that holds every value of `e` while each variable of `domains` takes every value of its set.

    Other variables stay symbolic. The tightest interval found; everything if none is found.
    """
    relaxed = {var: held for var, held in domains.items() if uses_any(e, [var]) or not held.is_bounded}
    if not any(uses_any(e, [var]) for var in relaxed):
        point = simplify(e, facts)
        return IntervalSet(point, point)
    known = {var: _range_of(held, facts) for var, held in domains.items()}
    ranges = {var: found for var, found in known.items() if found is not None}
    if relaxed.keys() <= ranges.keys():
        with suppress(OverflowError):  # an end that does not fit the type
            found = extremes(e, ranges, facts)
            if found is not None:
                return IntervalSet(simplify(found.lo, facts), simplify(found.hi, facts))
    made = _combined(e, domains, facts)
    return IntervalSet(*(simplify(end, facts) if end not in INFINITIES else end for end in made))


Ends = tuple[Expr, Expr]


def _combined(e: Expr, domains: Mapping[Var, IntervalSet], facts: Facts) -> Ends:
    """Ends by interval arithmetic, operator by operator: for sets without an end, and operators that `extremes` does
    not know."""
    if isinstance(e, Var) and e in domains:
        return domains[e].min_value, domains[e].max_value
    if not uses_any(e, domains):
        return e, e
    form = linear(e, facts)
    if len(form.terms) > 1 or form.const or (form.terms and next(iter(form.terms.values())) != 1):
        return _sum(form, domains, facts)
    if isinstance(e, (Min, Max)):
        a, b = _combined(e.a, domains, facts), _combined(e.b, domains, facts)
        return _extreme(type(e), a[0], b[0]), _extreme(type(e), a[1], b[1])
    if isinstance(e, FloorDiv) and isinstance(e.b, IntImm) and e.b.value > 0:
        low, high = _combined(e.a, domains, facts)
        return low if low in INFINITIES else low // e.b, high if high in INFINITIES else high // e.b
    if isinstance(e, Mul) and is_index(e.dtype) and (made := _scaled(e, domains, facts)) is not None:
        return made
    low_bound, high_bound = bounds(e, facts_of(domains, facts))
    least, most = e.dtype.min_value, e.dtype.max_value
    return (
        IntImm(int(low_bound), e.dtype) if least <= low_bound <= most else NEGATIVE_INFINITY,
        IntImm(int(high_bound), e.dtype) if least <= high_bound <= most else POSITIVE_INFINITY,
    )


def _scaled(e: Mul, domains: Mapping[Var, IntervalSet], facts: Facts) -> Ends | None:
    """The ends of a product with one symbolic factor of any sign."""
    held, factor = (e.a, e.b) if uses_any(e.a, domains) else (e.b, e.a)
    if uses_any(factor, domains):
        return None
    ends = _combined(held, domains, facts)
    if not INFINITIES.isdisjoint(ends):
        return None
    low, high = (simplify(Mul(end, factor), facts) for end in ends)
    return minimum(low, high), maximum(low, high)


def _sum(form: Affine, domains: Mapping[Var, IntervalSet], facts: Facts) -> Ends:
    parts = {atom: _combined(atom, domains, facts) for atom in form.terms}

    def total(side: int) -> Expr:
        made = Affine({}, form.const, form.dtype)
        for atom, k in form.terms.items():
            end = parts[atom][side if k > 0 else 1 - side]
            if end in INFINITIES:
                raise OverflowError
            made = made.plus(linear(end, facts), k)
        return write(merged(made, facts), facts)

    ends: list[Expr] = []
    for side, infinity in enumerate((NEGATIVE_INFINITY, POSITIVE_INFINITY)):
        try:
            ends.append(total(side))
        except OverflowError:  # the end does not fit the type, so no value gets there
            ends.append(infinity)
    return ends[0], ends[1]


def _extreme(kind: type, a: Expr, b: Expr) -> Expr:
    winner = POSITIVE_INFINITY if kind is Max else NEGATIVE_INFINITY
    if a is winner or b is winner:
        return winner
    if a in INFINITIES or b in INFINITIES:
        return b if a in INFINITIES else a
    return maximum(a, b) if kind is Max else minimum(a, b)


def union_lower_bound(sets: Any) -> IntervalSet:
    """Return an interval within the union of intervals: the part covered by the first one and the intervals that touch
    it.

    Parameters
    ----------
    sets
        A list of intervals, which may lack ends.
    """
    if not isinstance(sets, (list, tuple)):
        raise UserError(f"{sets!r} is not a list", primitive="union_lower_bound", fix="give [arith.IntervalSet(0, 7)]")
    found: IntervalSet | None = None
    for each in sets:
        held = as_set(each, "the union", "union_lower_bound")
        if found is None or found.is_nothing():
            found = held
        elif _touches(held.min_value, found.max_value) and _touches(found.min_value, held.max_value):
            low = _outer(found.min_value, held.min_value, NEGATIVE_INFINITY, minimum)
            high = _outer(found.max_value, held.max_value, POSITIVE_INFINITY, maximum)
            found = IntervalSet(low, high)
    return NOTHING if found is None else found


def _touches(low: Expr, high: Expr) -> bool:
    """Whether an interval that begins at `low` leaves no gap behind one that ends at `high`."""
    if low is NEGATIVE_INFINITY or high is POSITIVE_INFINITY:
        return True
    return low not in INFINITIES and high not in INFINITIES and prove(low <= add(high, 1))


def _outer(a: Expr, b: Expr, infinity: Expr, pick: Any) -> Expr:
    return infinity if a is infinity or b is infinity else simplify(pick(a, b))
