"""Conjunctions, disjunctions and negations."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

from ..expr import nodes as n
from ..expr.nodes import FALSE, TRUE, Expr
from ..expr.traverse import chain
from . import generic
from .affine import Affine
from .assume import assuming, decidable, harmless
from .engine import HANDLERS, visit, with_simple_children
from .facts import NEGATED, Facts, is_index
from .prove import nonneg
from .room import sums_have_room

MOST_COMPARED = 64
"""The most conditions that are all compared pairwise. Beyond it, each is compared with this many, for linear time."""


def negated(e: Expr, facts: Facts) -> Expr:
    """The simplest `not e` for a simplified e."""
    if e is TRUE or e is FALSE:
        return FALSE if e is TRUE else TRUE
    if isinstance(e, n.Not):
        return e.a
    if isinstance(e, n.Compare) and (not e.a.dtype.is_float or isinstance(e, (n.EQ, n.NE))):
        return visit(NEGATED[type(e)](e.a, e.b), facts)  # type: ignore[call-arg]
    if isinstance(e, n.And):
        return visit(n.Or(n.Not(e.a), n.Not(e.b)), facts)
    if isinstance(e, n.Or):
        return visit(n.And(n.Not(e.a), n.Not(e.b)), facts)
    return n.Not(e)


def _not(e: n.Not, facts: Facts) -> Expr:
    if e.dtype.lanes > 1:
        return generic.again(with_simple_children(e, facts), facts)
    return negated(visit(e.a, facts), facts)


def _and(e: n.And, facts: Facts) -> Expr:
    return _joined(e, n.And, TRUE, FALSE, facts)


def _or(e: n.Or, facts: Facts) -> Expr:
    return _joined(e, n.Or, FALSE, TRUE, facts)


def _joined(e: Any, kind: Any, neutral: Expr, absorbing: Expr, facts: Facts) -> Expr:
    if e.dtype.lanes > 1:
        return generic.again(with_simple_children(e, facts), facts)
    parts: dict[Expr, None] = {}
    bounding: list[Expr] = []
    for part in chain(e, kind):
        simple = visit(part, facts)
        if bounding and any(decidable(side, facts) for side in simple.children()):
            for earlier in bounding:
                simple = assuming(simple, earlier if kind is n.And else negated(earlier, facts), facts)
        if simple is absorbing:
            return absorbing
        if simple is not neutral and simple not in parts:
            new = chain(simple, kind)
            parts.update(dict.fromkeys(new))
            bounding += [one for one in new if _bounds_variables(one)][: MOST_COMPARED - len(bounding)]
    kept = _without_implied(list(parts), kind is n.And, facts)
    if kept is None:
        return absorbing
    if not kept:
        return neutral
    result = kept[0]
    for part in kept[1:]:
        result = kind(result, part)
    return result


def _bounds_variables(e: Expr) -> bool:
    """Whether a condition compares sums of plain variables: it may then help to simplify other conditions."""
    form = as_nonneg(e)
    return form is not None and all(isinstance(atom, n.Var) for atom in form.terms)


def _without_implied(parts: list[Expr], conjunction: bool, facts: Facts) -> list[Expr] | None:
    """The parts that no other part implies; None if together they decide the whole. In a conjunction, a part that
    another part implies is dropped. A disjunction is treated as the negated conjunction of its negated parts.
    """
    if len(parts) < 2:
        return parts
    forms = [as_nonneg(part, conjunction) for part in parts]
    everything = range(len(forms))
    near = None if len(forms) <= MOST_COMPARED else _alike(forms)
    dead: set[int] = set()
    for i, form in enumerate(forms):
        if form is None or i in dead:
            continue
        for j in everything if near is None else near(i):
            other = forms[j]
            if j == i or j in dead or other is None or form.terms.keys().isdisjoint(other.terms):
                continue
            if _follows(other, form, facts):  # other >= 0 comes from form >= 0
                if j > i or (
                    harmless(parts[i]) and sums_have_room(parts[i], facts)
                ):  # an earlier condition may guard a later one
                    dead.add(j)
            elif j > i and _follows(other.scale(-1).shift(-1), form, facts):
                return None
    together = set(parts)
    if any(isinstance(part, n.Not) and part.a in together for part in parts):
        return None
    return [part for i, part in enumerate(parts) if i not in dead]


def _alike(forms: Sequence[Affine | None]) -> Callable[[int], Sequence[int]]:
    """For very many forms: the few forms, with the same atoms, with which each form is compared."""
    groups: dict[frozenset[Expr], list[int]] = {}
    for i, form in enumerate(forms):
        if form is not None:
            groups.setdefault(frozenset(form.terms), []).append(i)

    def near(i: int) -> Sequence[int]:
        form = forms[i]
        same = [] if form is None else groups[frozenset(form.terms)]
        at = bisect_left(same, i)
        return same[max(0, at - MOST_COMPARED // 2) : at + MOST_COMPARED // 2]

    return near


def _follows(wanted: Affine, given: Affine, facts: Facts) -> bool:
    """Whether wanted - m * given is provably >= 0; m > 0 is chosen to cancel their first shared term."""
    for atom, k in given.terms.items():
        own = wanted.terms.get(atom, 0)
        if own * k > 0 and own % k == 0:
            return nonneg(wanted.plus(given, -(own // k)), facts)
        if own * k < 0:
            return False
    return False


def as_nonneg(e: Expr, holds: bool = True) -> Affine | None:
    """The form that is >= 0 exactly if the ordering `e` holds (or fails); None for other conditions."""
    if isinstance(e, n.Call) and e.name == "likely":
        return as_nonneg(e.args[0], holds)
    if not isinstance(e, (n.LT, n.LE, n.GT, n.GE)) or not is_index(e.a.dtype):
        return None
    form = Affine.of(e.a) - Affine.of(e.b)
    kind = type(e) if holds else NEGATED[type(e)]
    if kind is n.LT or kind is n.LE:
        form = form.scale(-1)
    return form.shift(-1) if kind is n.LT or kind is n.GT else form


HANDLERS[n.And] = _and
HANDLERS[n.Or] = _or
HANDLERS[n.Not] = _not
