"""Whether two regions of one buffer share an element, and whether one thread then makes both accesses.

Both indices are linear forms. If they are equal, a sum of terms is zero: one term for each atom that differs between
the two accesses. Terms with a sum smaller than the coefficients of the others add up to zero by themselves, as the
digits of a number do. That implies an atom that is equal on both sides, or no solution.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate
from math import gcd, inf
from typing import Any, NamedTuple

from ..arith.affine import Affine
from ..arith.facts import Bound, Facts
from ..arith.interval import bounds
from ..arith.prove import nonneg
from ..expr.nodes import Expr, FloorDiv, FloorMod, IntImm, Var
from ..expr.operators import add, subtract
from ..expr.traverse import substitute, uses_any

Range = tuple[Var, Expr, Expr]


@dataclass(frozen=True)
class AccessRegion:
    """The elements `form`, `form + step`, ... (`count` of them), for all values of the variables of `ranges`.

    There are several for a vector access, and for accesses that differ by a constant. `conditions` hold whenever the
    access is made.
    """

    form: Affine
    step: int = 1
    count: int = 1
    ranges: tuple[Range, ...] = ()
    conditions: tuple[Expr, ...] = ()

    def uses(self, var: Var) -> bool:
        """Whether the variable has a say in which elements these are."""
        parts = (*self.form.terms, *self.conditions, *(e for _, low, extent in self.ranges for e in (low, extent)))
        return any(involves(part, (var,)) for part in parts)

    @property
    def last(self) -> int:
        """The distance from the first to the last element, for given values of the variables."""
        return self.step * (self.count - 1)

    def joined(self, other: AccessRegion) -> AccessRegion:
        """A region that covers two regions; only a constant of their forms and their steps differ."""
        first, second = (self, other) if self.form.const <= other.form.const else (other, self)
        apart = second.form.const - first.form.const
        last = max(first.last, apart + second.last)
        step = gcd(apart, first.step if first.count > 1 else 0, second.step if second.count > 1 else 0)
        count = last // step + 1 if last else 1
        if count == first.count and (step == first.step or count == 1):
            return first
        return AccessRegion(first.form, step, count, first.ranges, first.conditions)


class Meeting(enum.Enum):
    """The elements that two accesses may share."""

    NEVER = "never"
    IN_ONE_THREAD = "in one thread"
    ANYWHERE = "anywhere"


class LoopDistance(NamedTuple):
    """The second access is made `distance` iterations of a loop after the first (None: any number from 1 on)."""

    var: Var
    distance: int | None


class _Term(NamedTuple):
    """coefficient * a value in [low, high]; `tag` identifies the value, `nonzero` says that it is not 0."""

    coefficient: int
    low: Bound
    high: Bound
    tag: tuple[int, Expr] | None = None
    nonzero: bool = False

    @property
    def ends(self) -> tuple[Bound, Bound]:
        """The least and the largest value of the term."""
        return min(_times(self.coefficient, self.low), _times(self.coefficient, self.high)), max(
            _times(self.coefficient, self.low), _times(self.coefficient, self.high)
        )


def meeting(
    first: AccessRegion, second: AccessRegion, threads: frozenset[Var], facts: Facts, step: LoopDistance | None = None
) -> Meeting:
    """The overlap of two regions: in no element, only in accesses of one thread, or (unless proven otherwise) anywhere.

    `threads` are the variables that tell the threads of a block apart. All other variables that are not in `ranges`
    have the same value in both, but for that of `step`. `facts` bound all of them.
    """
    return _Pair(first, second, threads, facts, step).meeting()


_BOTH = 2
"""In a tag: the value is the difference of an atom between the two sides, not its value on side 0 or 1."""


class _Pair:
    def __init__(
        self,
        first: AccessRegion,
        second: AccessRegion,
        threads: frozenset[Var],
        facts: Facts,
        step: LoopDistance | None,
    ) -> None:
        self.sides = first, second
        self.threads = threads
        self.facts = facts
        self.step = step
        self.varying = [threads | {var for var, _, _ in side.ranges} for side in self.sides]
        self.known = [_known(side, facts) for side in self.sides]
        self.equal: set[Expr] = set()
        self.values: list[dict[Expr, int]] = [{}, {}]
        self.contradicted = False

    def meeting(self) -> Meeting:
        terms, const = self._difference(self.sides[0].form, self.sides[1].form)
        for sign, side in zip((1, -1), self.sides, strict=True):
            terms += [_Term(sign * side.step, 0, side.count - 1)] if side.count > 1 else []
        if not self._solve(terms, const):
            return Meeting.NEVER
        self._combine()
        if self.contradicted:
            return Meeting.NEVER
        if all(map(self._is_same, self.threads)):
            return Meeting.IN_ONE_THREAD
        return Meeting.NEVER if self._apart_by_conditions() else Meeting.ANYWHERE

    def _difference(self, a: Affine, b: Affine) -> tuple[list[_Term], int]:
        """first - second as terms and a constant."""
        terms: list[_Term] = []
        const = a.const - b.const
        alone: list[list[tuple[Expr, int]]] = [[], []]
        rings = any(isinstance(atom, FloorMod) for form in (a, b) for atom in form.terms)
        for atom in dict.fromkeys((*a.terms, *b.terms)):
            ours, theirs = a.terms.get(atom, 0), b.terms.get(atom, 0)
            stepped = self.step is not None and involves(atom, (self.step.var,))
            fixed = not stepped and not any(involves(atom, varying) for varying in self.varying)
            if fixed and (ours == theirs or not isinstance(atom, FloorMod)):
                if ours != theirs and rings and not (ours and theirs):  # perhaps a slot without the remainder
                    alone[0 if ours else 1].append((atom, ours or theirs))
                elif ours != theirs:
                    terms.append(_Term(ours - theirs, *bounds(atom, self.facts)))
            elif ours == theirs and stepped and atom is self.step.var:  # type: ignore[union-attr]
                const, moved = self._stepped(ours, const)
                terms += moved
            elif ours == theirs and (not stepped or self._varies(atom)):
                (low, high), (least, most) = bounds(atom, self.known[0]), bounds(atom, self.known[1])
                terms.append(_Term(ours, low - most, high - least, (_BOTH, atom)))
            else:
                alone[0] += [(atom, ours)] if ours else []
                alone[1] += [(atom, theirs)] if theirs else []
        terms += self._remainders(alone) if rings else []
        for side, sign in ((0, 1), (1, -1)):
            terms += [_Term(sign * k, *bounds(atom, self.known[side]), (side, atom)) for atom, k in alone[side]]
        return terms, const

    def _varies(self, atom: Expr) -> bool:
        """Whether a value depends on variables that differ between the two accesses, beside the step."""
        return atom is not self._step_var and all(involves(atom, varying) for varying in self.varying)

    @property
    def _step_var(self) -> Var | None:
        return self.step.var if self.step is not None else None

    def _stepped(self, coefficient: int, const: int) -> tuple[int, list[_Term]]:
        """i - (i + distance), times the coefficient."""
        assert self.step is not None
        if self.step.distance is not None:
            return const - coefficient * self.step.distance, []
        low, high = bounds(self.step.var, self.facts)
        return const, [_Term(coefficient, low - high, -1)]

    def _remainders(self, alone: list[list[tuple[Expr, int]]]) -> list[_Term]:
        """Terms for remainders by one number with a known difference: the slots of a ring. They leave `alone`."""
        terms: list[_Term] = []
        for ours in list(alone[0]):
            for theirs in list(alone[1]):
                apart = self._apart(ours[0], theirs[0]) if ours[1] == theirs[1] else None
                if apart is None:
                    continue
                divisor, by = apart
                if by:
                    terms.append(_Term(ours[1], by - divisor, by, None, nonzero=True))
                alone[0].remove(ours)
                alone[1].remove(theirs)
                break
        return terms

    def _apart(self, a: Expr, b: Expr) -> tuple[int, int] | None:
        """(m, r) if a is x % m and b is y % m, and (x - y) % m is always r.

        One of the two may be less than m by itself: it is its own remainder.
        """
        size = next((e.b.value for e in (a, b) if isinstance(e, FloorMod) and isinstance(e.b, IntImm)), 0)
        if size <= 0 or any(involves(e, varying) for e, varying in zip((a, b), self.varying, strict=True)):
            return None
        first, later = (_dividend(e, size, known) for e, known in zip((a, b), self.known, strict=True))
        if first is None or later is None:
            return None
        if self.step is not None and involves(later, (self.step.var,)):
            if self.step.distance is None:
                return None
            later = substitute(later, {self.step.var: add(self.step.var, self.step.distance)})
        by = Affine.of(first) - Affine.of(later)
        if any(k % size for k in by.terms.values()):
            return None
        return size, by.const % size

    def _solve(self, terms: list[_Term], const: int) -> bool:
        """Whether the sum of the terms and the constant can be 0; notes the consequences."""
        terms = sorted((t for t in terms if t.coefficient), key=lambda t: abs(t.coefficient))
        if not terms:
            return const == 0
        divisors = list(accumulate(reversed([abs(t.coefficient) for t in terms]), gcd))[::-1]
        if const % divisors[0]:
            return False
        low: Bound = const
        high: Bound = const
        for at, term in enumerate(terms):
            if at and -inf < low and high < inf:  # the earlier terms must sum to a multiple of the divisor
                divisor = divisors[at]
                least, most = -(-low // divisor) * divisor, high // divisor * divisor
                if least > most:
                    return False
                if least == most:
                    whole = int(least)
                    # Each part may have digits that divisors of the whole do not show.
                    return self._solve(terms[:at], const - whole) and self._solve(terms[at:], whole)
            low, high = low + term.ends[0], high + term.ends[1]
        return low <= 0 <= high and self._group(terms, const)

    def _group(self, terms: list[_Term], const: int) -> bool:
        """Whether terms that no divisor separates, and the constant, can add up to 0."""
        if not terms:
            return const == 0
        if len(terms) == 1:
            (term,) = terms
            value, rest = divmod(-const, term.coefficient)
            if rest or not term.low <= value <= term.high or (term.nonzero and value == 0):
                return False
            self._note(term.tag, value)
        elif const == 0 and (all(t.ends[0] >= 0 for t in terms) or all(t.ends[1] <= 0 for t in terms)):
            if any(t.nonzero for t in terms):
                return False
            for term in terms:
                self._note(term.tag, 0)
        return True

    def _note(self, tag: tuple[int, Expr] | None, value: int) -> None:
        if tag is None:
            return
        side, atom = tag
        if side != _BOTH:
            self.values[side][atom] = value
        elif value == 0:
            self.equal.add(atom)

    def _combine(self) -> None:
        """Add the expressions that are equal on both sides because their quotients and remainders are equal."""
        pending = list(self.equal)
        while pending:
            atom = pending.pop()
            if isinstance(atom, (FloorDiv, FloorMod)):
                pending += self._recombined(atom)

    def _recombined(self, atom: FloorDiv | FloorMod) -> Iterable[Expr]:
        """The further atoms that are equal because `atom` and a matching quotient or remainder are equal."""
        before = set(self.equal)
        for quotient in [e for e in self.equal if isinstance(e, FloorDiv)]:
            for remainder in [e for e in self.equal if isinstance(e, FloorMod)]:
                if atom not in (quotient, remainder):
                    continue
                whole = _whole(quotient, remainder)
                if whole is None or whole in self.equal:
                    continue
                self.equal.add(whole)
                form = Affine.of(whole)
                if not any(term is whole for term in form.terms):
                    self.contradicted |= not self._solve(*self._difference(form, form))
        return self.equal - before

    def _is_same(self, thread: Var) -> bool:
        if thread in self.equal:
            return True
        found = []
        for side in (0, 1):
            low, high = bounds(thread, self.known[side])
            value = self.values[side].get(thread, low if low == high else None)
            found.append(value)
        return found[0] is not None and found[0] == found[1]

    def _apart_by_conditions(self) -> bool:
        """Whether the conditions of both accesses together exclude that they meet."""
        first, second = self.sides
        if not first.conditions and not second.conditions:
            return False
        inner = {var for var, _, _ in second.ranges} | self.threads
        renamed: dict[Any, Expr] = {var: Var(f"{var.name}'", var.dtype) for var in inner}
        if self.step is not None and self.step.var not in renamed:
            later = Var(f"{self.step.var.name}'", self.step.var.dtype)
            renamed[self.step.var] = later if self.step.distance is None else add(self.step.var, self.step.distance)
        facts = self.facts.bind_all({var: (low, extent) for var, low, extent in first.ranges})
        held = {**self.facts.ranges, **{var: (low, extent) for var, low, extent in second.ranges}}
        theirs = {
            new: tuple(substitute(e, renamed) for e in held[var])
            for var, new in renamed.items()
            if isinstance(new, Var) and var in held
        }
        facts = facts.bind_all(theirs)
        for condition in (*first.conditions, *(substitute(c, renamed) for c in second.conditions)):
            facts = facts.assume(condition)
        apart = Affine.of(subtract(first.form.to_expr(), substitute(second.form.to_expr(), renamed)))
        above, below = apart.shift(-second.last - 1), apart.scale(-1).shift(-first.last - 1)
        return nonneg(above, facts) or nonneg(below, facts)


def _known(side: AccessRegion, facts: Facts) -> Facts:
    """The facts in the context of an access."""
    facts = facts.bind_all({var: (low, extent) for var, low, extent in side.ranges})
    for condition in side.conditions:
        facts = facts.assume(condition)
    return facts


def _dividend(e: Expr, size: int, known: Facts) -> Expr | None:
    """Return x if e is x % size; e itself if it lies in [0, size); else None."""
    if isinstance(e, FloorMod):
        return e.a if isinstance(e.b, IntImm) and e.b.value == size else None
    low, high = bounds(e, known)
    return e if low >= 0 and high < size else None


def _whole(quotient: FloorDiv, remainder: FloorMod) -> Expr | None:
    """x for x // c and x % c; x // a for (x // a) % b and x // (a * b)."""
    if remainder.a is quotient.a and remainder.b is quotient.b:
        return quotient.a
    inner = remainder.a
    if not (isinstance(inner, FloorDiv) and inner.a is quotient.a):
        return None
    sizes = [size.value for size in (inner.b, remainder.b, quotient.b) if isinstance(size, IntImm)]
    return inner if len(sizes) == 3 and sizes[0] * sizes[1] == sizes[2] else None


def _times(k: int, value: Bound) -> Bound:
    return 0 if k == 0 else k * value


def involves(e: Expr, wanted: Collection[Var]) -> bool:
    """Whether any of the wanted variables occurs in `e`."""
    return e in wanted if isinstance(e, Var) else uses_any(e, wanted)
