"""Facts in the context of an expression: ranges of variables and conditions that hold.

A `Facts` is an immutable map from variables to (minimum, extent), plus assumed conditions. It is interned: binding the
same things gives the same object. So all queries in one place share the memo tables that the simplifier keeps on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd
from typing import Any
from weakref import WeakValueDictionary

from ..core.dtype import INT32, INT64, DType
from ..expr.nodes import (
    EQ,
    FALSE,
    GE,
    GT,
    LE,
    LT,
    NE,
    TRUE,
    And,
    Call,
    Compare,
    Expr,
    FloorMod,
    IntImm,
    Mod,
    Not,
    Or,
    Var,
)
from ..expr.traverse import loads
from .affine import Affine

Range = tuple[Expr, Expr]
Bound = int | float  # a whole number, or plus or minus infinity

_MEMO_LIMIT = 50_000


class Facts:
    """Ranges of variables and conditions that hold. Make one from `EMPTY` with `bind`, `bind_all`, `assume`.

    `low`, `high` bound atoms, `nonneg` lists forms known to be >= 0, `residue` maps atoms to (modulus, remainder),
    `truth` maps conditions to their known value. The tables below them are memos that the simplifier fills.
    """

    __slots__ = (
        "__weakref__",
        "bounds",
        "conditions",
        "decidable",
        "forms",
        "high",
        "lanes",
        "limits",
        "low",
        "memo",
        "modular",
        "nonneg",
        "opaque",
        "order",
        "prepared",
        "ranges",
        "residue",
        "shares",
        "split_atoms",
        "splits",
        "symbolic",
        "truth",
    )

    def __init__(self, ranges: dict[Var, Range], conditions: tuple[Expr, ...]) -> None:
        self.ranges = ranges
        self.conditions = conditions
        self.symbolic = [
            var for var, (low, extent) in ranges.items() if not (isinstance(low, IntImm) and isinstance(extent, IntImm))
        ]
        self.low: dict[Expr, int] = {}
        self.high: dict[Expr, int] = {}
        self.nonneg: list[Affine] = []
        self.residue: dict[Expr, tuple[int, int]] = {}
        self.truth: dict[Expr, Expr] = {}
        self.prepared = not conditions
        self.forget()
        for cond in conditions:
            self.learn(cond)

    def forget(self) -> None:
        """Drop the memo tables."""
        self.memo: dict[Expr, Expr] = {}
        self.forms: dict[Expr, Affine] = {}
        self.bounds: dict[Expr, tuple[Bound, Bound]] = {}
        self.limits: dict[Expr, tuple[Bound, Bound]] = {}
        self.modular: dict[Expr, tuple[int, int]] = {}
        self.splits: dict[Expr, Any] = {}
        self.split_atoms: dict[tuple[object, ...], Expr] = {}
        self.shares: dict[Expr, Any] = {}
        self.order: dict[Expr, tuple[int, str, int]] = {}
        self.decidable: dict[Expr, frozenset[Var]] = {}
        self.lanes: dict[int, Facts] = {}
        self.opaque: set[Expr] = set()

    def trim(self) -> None:
        """Drop the memo tables if they are too large, as of facts that live long, such as `EMPTY`."""
        if len(self.memo) > _MEMO_LIMIT or len(self.bounds) > _MEMO_LIMIT:
            self.forget()

    def bind(self, var: Var, min: Expr, extent: Expr) -> Facts:
        """These facts, and var in [min, min + extent)."""
        return self.bind_all({var: (min, extent)})

    def bind_all(self, ranges: Mapping[Var, Range]) -> Facts:
        """Return the facts with (min, extent) ranges that replace earlier facts about their variables."""
        own = self.ranges
        for var, (low, extent) in ranges.items():
            held = own.get(var)
            if held is None or held[0] is not low or held[1] is not extent:
                return _interned({**own, **ranges}, self.conditions)
        return self

    def assume(self, cond: Expr, *, memory: bool = False) -> Facts:
        """These facts, and that `cond` holds.

        Statements about elements of memory are left out, since a store may change them. `memory` keeps them, for uses
        without stores.
        """
        found = _ASSUMED.get((self, cond, memory))
        if found is not None:
            return found
        known = dict.fromkeys(self.conditions)
        new = [part for part in conjuncts(cond) if part not in known and not isinstance(part, IntImm)]
        if not memory:
            new = [part for part in new if not loads(part)]
        if not new:
            return self
        made = _ASSUMED[self, cond, memory] = _interned(self.ranges, (*self.conditions, *dict.fromkeys(new)))
        return made

    def without_conditions(self) -> Facts:
        """The ranges alone."""
        return _interned(self.ranges, ())

    def range_of(self, var: Var) -> Range | None:
        """The (min, extent) bound to `var`, or None."""
        return self.ranges.get(var)

    def __contains__(self, var: Var) -> bool:
        return var in self.ranges

    def __repr__(self) -> str:
        parts = [f"{var.name} in [{low}, +{extent})" for var, (low, extent) in self.ranges.items()]
        return f"Facts({', '.join([*parts, *map(repr, self.conditions)])})"

    def learn(self, cond: Expr) -> None:
        """Note the consequences of a condition for linear forms. It is called only while the facts are constructed."""
        self.truth[cond] = TRUE
        holds = True
        if isinstance(cond, Not):
            self.truth[cond.a] = FALSE
            cond, holds = cond.a, False
        if isinstance(cond, Or) and not holds:
            for part in (cond.a, cond.b):
                self.learn(Not(part))
        elif isinstance(cond, Compare) and is_index(cond.a.dtype):
            self.learn_form(type(cond) if holds else NEGATED[type(cond)], Affine.of(cond.a) - Affine.of(cond.b))
        elif isinstance(cond, Compare) and cond.a.dtype.is_int and cond.a.dtype.lanes == 1:
            self._learn_limit(type(cond) if holds else NEGATED[type(cond)], cond.a, cond.b)

    def learn_form(self, relation: type[Compare], form: Affine) -> None:
        """Note that `form relation 0` holds."""
        if relation is LT or relation is LE:
            self._learn_nonneg(form.scale(-1).shift(-1 if relation is LT else 0))
        elif relation is GT or relation is GE:
            self._learn_nonneg(form.shift(-1 if relation is GT else 0))
        elif relation is EQ:
            self._learn_nonneg(form)
            self._learn_nonneg(form.scale(-1))
            self._learn_residue(form)
        elif relation is NE and len(form.terms) == 1:
            ((atom, k),) = form.terms.items()
            if form.const % k == 0:
                value = -form.const // k
                if self.low.get(atom) == value:
                    self.low[atom] = value + 1
                if self.high.get(atom) == value:
                    self.high[atom] = value - 1

    def _learn_limit(self, relation: type[Compare], a: Expr, b: Expr) -> None:
        """Note the limit of an integer that wraps, if it is compared with a constant."""
        if isinstance(a, IntImm):
            a, b, relation = b, a, _MIRRORED[relation]
        if isinstance(b, IntImm):
            self.learn_form(relation, Affine({a: 1}, -b.value, a.dtype))

    def _learn_nonneg(self, form: Affine) -> None:
        if not form.terms:
            return
        divisor = gcd(*form.terms.values())
        form = form.divided(divisor)
        if len(form.terms) > 1:
            self.nonneg.append(form)
            return
        ((atom, k),) = form.terms.items()
        if k > 0:
            self.low[atom] = max(-form.const, self.low.get(atom, -form.const))
        else:
            self.high[atom] = min(form.const, self.high.get(atom, form.const))

    def _learn_residue(self, form: Affine) -> None:
        """Note that x is r modulo c, since x rem c == r with either rounding."""
        if len(form.terms) != 1:
            return
        ((atom, k),) = form.terms.items()
        if (
            isinstance(atom, (FloorMod, Mod))
            and isinstance(atom.b, IntImm)
            and atom.b.value > 0
            and form.const % k == 0
        ):
            base, modulus = Affine.of(atom.a), atom.b.value
            if len(base.terms) == 1:
                ((inner, scale),) = base.terms.items()
                if scale in (1, -1):
                    said = modulus, (-form.const // k - base.const) * scale % modulus
                    known = self.residue.get(inner)
                    self.residue[inner] = said if known is None else common_residues(known, said)


_INDEX = frozenset({INT32, INT64})
_MIRRORED: dict[type[Compare], type[Compare]] = {LT: GT, GT: LT, LE: GE, GE: LE, EQ: EQ, NE: NE}
NEGATED: dict[type[Compare], type[Compare]] = {LT: GE, GE: LT, LE: GT, GT: LE, EQ: NE, NE: EQ}
_TABLE: WeakValueDictionary[tuple[object, ...], Facts] = WeakValueDictionary()
_ASSUMED: WeakValueDictionary[tuple[Facts, Expr, bool], Facts] = WeakValueDictionary()


def common_residues(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    """The combination of both pairs (`base` modulo `coeff`) by the Chinese remainder theorem; the first pair if there
    is none."""
    if a[0] == 0 or b[0] == 0:
        return a if a[0] == 0 else b
    if b[0] % a[0] == 0:
        return b
    if a[0] % b[0] == 0:
        return a
    divisor = gcd(a[0], b[0])
    if (b[1] - a[1]) % divisor:
        return a
    step = (b[1] - a[1]) // divisor * pow(a[0] // divisor, -1, b[0] // divisor)
    coeff = a[0] // divisor * b[0]
    return coeff, (a[1] + a[0] * step) % coeff


def is_index(dtype: DType) -> bool:
    """Whether the type is one that indices are computed in: a signed scalar of 32 bits or more.

    Such integers are taken not to overflow; narrower and unsigned ones wrap.
    """
    return dtype in _INDEX


def conjuncts(cond: Expr) -> Iterator[Expr]:
    """The conditions that all have to hold for `cond`."""
    if isinstance(cond, And):
        yield from conjuncts(cond.a)
        yield from conjuncts(cond.b)
    elif isinstance(cond, Call) and cond.name == "likely":
        yield from conjuncts(cond.args[0])
    else:
        yield cond


def _interned(ranges: dict[Var, Range], conditions: tuple[Expr, ...]) -> Facts:
    key = (frozenset(ranges.items()), frozenset(conditions))
    found = _TABLE.get(key)
    if found is None:
        found = _TABLE[key] = Facts(ranges, conditions)
    return found


EMPTY = _interned({}, ())
