"""Simplifying, bounding and proving under the legacy API's names, for expressions that users hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, NoReturn

from ...arith.facts import EMPTY, Bound, is_index
from ...arith.interval import bounds
from ...arith.modular import residues
from ...arith.simplify import prove, prove_equal, simplify
from ...arith.sizes import weight
from ...arith.truncated import as_written
from ...core.dtype import DType
from ...core.errors import UserError
from ...core.refusals import missing
from ...expr.nodes import TRUE, Broadcast, Div, Expr, FloorDiv, FloorMod, IntImm, Mod, SizeVar, Var
from ...expr.operators import as_expr, condition, const
from ...expr.traverse import post_order, substitute, uses_any, variables
from ...tensor.reduction import Reduce
from .int_set import IntervalSet, as_domains, as_set, facts_of, neg_inf, pos_inf, set_of, swept
from .narrowing import narrowed_apart
from .rearrange import rearrange
from .reductions import Simplifier, simplify_reduction

_INFINITY = 2**63 - 1
_NEGATIVE_INFINITY = -(2**63)


@dataclass(frozen=True)
class ConstIntBound:
    """The values from `min_value` to `max_value`, both included.

    `NEG_INF` and `POS_INF`, the ends of int64, stand for no end; values of uint64 go up to 2**64 - 1.
    """

    POS_INF: ClassVar[int] = _INFINITY
    NEG_INF: ClassVar[int] = _NEGATIVE_INFINITY
    min_value: int
    max_value: int


@dataclass
class ModularSet:
    """The values coeff * k + base for whole numbers k; with a `coeff` of 0, `base` alone."""

    coeff: int
    base: int


class Analyzer:
    """Facts about variables, and their consequences.

    analyzer.bind(i, te.Range(0, 8)); analyzer.simplify(i // 8); analyzer.can_prove(i < 8)
    """

    def __init__(self) -> None:
        self._facts = EMPTY
        self._values: dict[Var, Expr] = {}
        self._endless: set[Var] = set()
        """Variables for which an end was said to be infinite."""

    def bind(self, var: Any, expr: Any, allow_override: bool = False) -> None:
        """`var`, a variable or an axis, is in the range `expr`, or is the value `expr`."""
        bound = self._variable(var, "bind")
        low, extent = getattr(expr, "min", None), getattr(expr, "extent", None)
        if low is None or extent is None:
            self._values[bound] = self._known(expr)
        else:
            self._facts = self._facts.bind(bound, self._known(low), self._known(extent))

    def update(self, var: Any, info: Any, override: bool = False) -> None:
        """Add a fact about a variable; with `override`, replace the earlier facts.

        Parameters
        ----------
        var
            A variable or an axis.
        info
            A `ConstIntBound`, `ModularSet`, `IntervalSet` or range.
        override
            Whether a range that was known before is forgotten.
        """
        bound = self._variable(var, "update")
        if isinstance(info, ModularSet):
            if info.coeff == 0:
                self._values[bound] = const(info.base, bound.dtype)
            else:
                self._facts = self._facts.assume((bound % info.coeff).equal(info.base % info.coeff))
            return
        self._endless.discard(bound)
        if isinstance(info, ConstIntBound):
            if info.min_value <= _NEGATIVE_INFINITY or info.max_value >= _INFINITY:
                self._endless.add(bound)
            low, high = _of_type(bound.dtype)
            info = IntervalSet(
                const(max(info.min_value, low), bound.dtype) if info.min_value > -_INFINITY else neg_inf(),
                const(min(info.max_value, high), bound.dtype) if info.max_value < _INFINITY else pos_inf(),
            )
        held = as_set(info, bound.name, "update")
        if override:
            self._forget(bound)
        if bound in self._facts and held.is_bounded:
            self._facts = self._facts.assume(bound >= held.min_value).assume(bound <= held.max_value)
        else:
            self._facts = facts_of({bound: held}, self._facts)

    def _forget(self, var: Var) -> None:
        """Drop all facts about a variable, including facts that relate it to other variables."""
        known = self._facts
        self._facts = EMPTY.bind_all({v: held for v, held in known.ranges.items() if v is not var})
        for each in known.conditions:
            if not uses_any(each, [var]):
                self._facts = self._facts.assume(each, memory=True)

    @contextmanager
    def constraint_scope(self, constraint: Any) -> Iterator[None]:
        """Let a condition hold within the `with` block."""
        before = self._facts
        self._facts = before.assume(self._known(condition(constraint, "constraint_scope")), memory=True)
        try:
            yield
        finally:
            self._facts = before

    def const_int_bound(self, expr: Any) -> ConstIntBound:
        """Return constant bounds of an integer expression: `min_value` and `max_value`.

        An unknown end is that of the type. If it depends on a size or on a variable with bounds that were given to be
        infinite, it is infinite.
        """
        e = self._integer(expr, "const_int_bound")
        simpler = simplify(e, self._facts)
        (low, high), (least, most) = bounds(e, self._facts), bounds(simpler, self._facts)
        ends = max(low, least), min(high, most)
        endless = is_index(e.dtype) and any(var in self._endless or isinstance(var, SizeVar) for var in variables(e))
        least, most = (_number(end, e.dtype, side) for side, end in enumerate(ends))
        if endless:
            least = _NEGATIVE_INFINITY if ends[0] == -inf else least
            most = _INFINITY if ends[1] == inf else most
        return ConstIntBound(least, most)

    def modular_set(self, expr: Any) -> ModularSet:
        """Return `coeff` and `base` such that an integer expression is coeff * k + base for some integer k."""
        e = self._integer(expr, "modular_set")
        found = residues(e, self._facts)
        simpler = residues(simplify(e, self._facts), self._facts)
        coeff, base = simpler if simpler[0] == 0 or (found[0] and simpler[0] > found[0]) else found
        return ModularSet(coeff, base)

    def int_set(self, expr: Any, dom_map: Any = None) -> IntervalSet:
        """Return an interval of all values that an expression takes.

        Parameters
        ----------
        expr
            An integer expression.
        dom_map
            The variables that take all values of a set, as {variable: IntervalSet}; the others stay symbolic. Without
            it: the variables that are bound to ranges.
        """
        e = self._integer(expr, "int_set")
        if dom_map is None:
            dom_map = {var: set_of(*held) for var, held in self._facts.ranges.items()}
        return swept(e, as_domains(dom_map, "int_set"), self._facts)

    def simplify(self, expr: Any, steps: int = 2) -> Expr:
        """Return the shortest expression found of the same value; `steps` is accepted for old scripts."""
        return self._whole(expr, lambda known: rearrange(self._simplest(known), self._facts))

    rewrite_simplify = simplify

    def canonical_simplify(self, expr: Any, steps: int = 2) -> Expr:
        """Return an expression of the same value in the form that lowering gives it: sums, multiplied out."""
        return self._whole(expr, self._simplest)

    def _whole(self, expr: Any, simplest: Simplifier) -> Expr:
        known = _divisible(self._known(expr))
        if isinstance(known, Reduce):
            for axis in known.axes if not known.ends else ():  # the analyzer knows their ranges from then on
                if axis.dom is not None:
                    self.bind(axis.var, axis.dom)
            return simplify_reduction(known, lambda part: self._whole(part, simplest))
        return as_written(simplest(known), known, self._facts)

    def _simplest(self, known: Expr) -> Expr:
        found = simplify(known, self._facts)
        apart = narrowed_apart(known, self._facts)
        if apart is known:
            return found
        return min(found, simplify(apart, self._facts), key=weight)

    def can_prove(self, expr: Any, strength: int = 0) -> bool:
        """Whether the condition provably holds; `strength` is accepted for old scripts."""
        simpler = simplify(self._known(condition(expr, "can_prove")), self._facts)
        return simpler is TRUE or rearrange(simpler, self._facts) is TRUE

    def can_prove_equal(self, lhs: Any, rhs: Any) -> bool:
        """Whether two expressions provably have one value."""
        return prove_equal(self._known(lhs), self._known(rhs), self._facts)

    def can_prove_greater_equal(self, expr: Any, lower_bound: int) -> bool:
        """Whether an expression is provably at least that number."""
        known = self._known(expr)
        return prove(known >= const(lower_bound, known.dtype), self._facts)

    def can_prove_less(self, expr: Any, upper_bound: int) -> bool:
        """Whether an expression is provably less than that number."""
        known = self._known(expr)
        return prove(known < const(upper_bound, known.dtype), self._facts)

    def _variable(self, var: Any, primitive: str) -> Var:
        found = as_expr(var)
        if not isinstance(found, Var):
            raise UserError(
                f"`{found}` is not a variable", primitive=primitive, fix='give one: te.var("n"), or an axis'
            )
        return found

    def _integer(self, expr: Any, primitive: str) -> Expr:
        e = self._known(expr)
        if not (e.dtype.is_int or e.dtype.is_bool):
            raise UserError(f"`{e}` is of type {e.dtype}", primitive=primitive, fix="give an expression of integers")
        return e

    def _known(self, expr: Any) -> Expr:
        known: Expr = substitute(as_expr(expr), self._values)
        return known

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("the analyzer", name, dir(type(self)), self)


def _divisible(e: Expr) -> Expr:
    """The expression; UserError if it divides by the constant zero."""
    for at in post_order(e):
        if isinstance(at, (FloorDiv, FloorMod, Div, Mod)):
            divisor = at.b.value if isinstance(at.b, Broadcast) else at.b
            if isinstance(divisor, IntImm) and divisor.value == 0:
                fix = "simplify only reachable expressions, or guard with te.if_then_else and a variable divisor"
                raise UserError(f"division by zero in `{at}`", primitive="simplify", fix=fix)
    return e


def _of_type(dtype: DType) -> tuple[int, int]:
    return int(dtype.min_value), int(dtype.max_value)


def _number(bound: Bound, dtype: DType, side: int) -> int:
    """A bound as a number; if there is none within the type, the end of the type."""
    low, high = _of_type(dtype.scalar)
    if bound in (inf, -inf):
        return (low, high)[side]
    return max(low, min(high, int(bound)))
