"""Proving that linear forms are not negative: by bounds, by symbolic ranges, by assumed conditions."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from operator import itemgetter

from ..expr.nodes import Call, Cast, Expr, IntImm, Load, Max, Min, Mul, SizeVar, Var
from ..expr.traverse import uses_any, variables
from .affine import Affine
from .engine import linear, merged
from .facts import Facts
from .interval import form_bounds
from .products import factors, product, times, without

_DEPTH = 2
_MOST_CHOICES = 16


def nonneg(form: Affine, facts: Facts) -> bool:
    """Whether the form is provably at least 0."""
    if form_bounds(form, facts)[0] >= 0:
        return True
    if (facts.symbolic or facts.nonneg) and form.terms and _search(form, facts, _DEPTH):
        return True
    return _by_arguments(form, facts, _MOST_CHOICES)


def _by_arguments(form: Affine, facts: Facts, budget: int) -> bool:
    """Prove by cases, with one Min or Max replaced by its arguments.

    For a Min that is added, the proof must succeed with each argument; for a Max, with one.
    """
    found = in_terms_of_arguments(form, facts, Min) if budget > 1 else None
    if found is None:
        return False
    every, forms = found
    outcomes = (_nonneg_by_arguments(part, facts, budget // 2) for part in forms)
    return all(outcomes) if every else any(outcomes)


def in_terms_of_arguments(
    form: Affine, facts: Facts, extreme: type[Min] | type[Max]
) -> tuple[bool, Iterator[Affine]] | None:
    """Return the form with each argument of one Min or Max in its place; None if the form contains neither.

    For the least value of the form (`extreme` is Min), or for its largest (Max): if True, the value is the extreme of
    all results. Otherwise each result bounds it.
    """
    choices = [atom for atom in form.terms if isinstance(atom, (Min, Max))]
    if not choices:
        return None
    # Prefer a choice that needs all results: each result may then need other arguments of the other choices.
    every, choice = max(((isinstance(at, extreme) == (form.terms[at] > 0), at) for at in choices), key=itemgetter(0))
    k = form.terms[choice]
    rest = form.plus(Affine({choice: 1}, 0, form.dtype), -k)
    return every, (merged(rest.plus(linear(part, facts), k), facts) for part in (choice.a, choice.b))


def _nonneg_by_arguments(form: Affine, facts: Facts, budget: int) -> bool:
    if form_bounds(form, facts)[0] >= 0:
        return True
    if (facts.symbolic or facts.nonneg) and form.terms and _search(form, facts, 1):
        return True
    return _by_arguments(form, facts, budget)


def _search(form: Affine, facts: Facts, depth: int) -> bool:
    if form_bounds(form, facts)[0] >= 0:
        return True
    if facts.symbolic:
        lowered = _lowest(form, facts)
        if lowered is not None:
            if form_bounds(lowered, facts)[0] >= 0:
                return True
            if depth and facts.nonneg and _by_conditions(lowered, facts, depth):
                return True
    return depth > 0 and bool(facts.nonneg) and _by_conditions(form, facts, depth)


def _by_conditions(form: Affine, facts: Facts, depth: int) -> bool:
    """Prove by a known condition: a multiple of it is subtracted from the form, to cancel one term."""
    for known in facts.nonneg:
        tried: set[tuple[int, int]] = set()
        for atom, k in known.terms.items():
            own = form.terms.get(atom, 0)
            if own * k <= 0:
                continue
            common = gcd(own, k)
            ratio = abs(k) // common, abs(own) // common
            if ratio not in tried:
                tried.add(ratio)
                if _search(form.scale(ratio[0]).plus(known, -ratio[1]), facts, depth - 1):
                    return True
    return False


def _lowest(form: Affine, facts: Facts) -> Affine | None:
    """The form with its variables, latest first, at the end of their range that makes it least.

    Only variables with a symbolic range, or in products with other variables, are replaced: their constant bounds are
    weak.
    """
    changed = False
    products = any(type(atom) is Mul for atom in form.terms)
    for var in reversed(list(facts.ranges) if products else facts.symbolic):
        atom = var if var.dtype == form.dtype else Cast(form.dtype, var)  # loops of 32 bits in indices of 64
        factor, rest = _collected(form, atom, facts) if products else _coefficient(form, atom)
        if factor is None or (not factor.terms and factor.const == 0):
            continue
        sign = 1 if form_bounds(factor, facts)[0] >= 0 else -1
        if sign < 0 and form_bounds(factor, facts)[1] > 0:
            continue
        low, extent = facts.ranges[var]
        end = linear(low, facts)
        if sign < 0:
            end = end.plus(linear(extent, facts), 1).shift(-1)
        if var in end.terms or atom in end.terms:
            continue
        form = merged(rest + times(factor, end, facts), facts)
        changed = True
    return form if changed else None


def _coefficient(form: Affine, var: Expr) -> tuple[Affine | None, Affine]:
    """(k, r) with form = k * var + r."""
    k = form.terms.get(var)
    if k is None:
        return None, form
    rest = {atom: j for atom, j in form.terms.items() if atom is not var}
    return Affine({}, k, form.dtype), Affine(rest, form.const, form.dtype)


def _collected(form: Affine, var: Expr, facts: Facts) -> tuple[Affine | None, Affine]:
    """(f, r) with form = f * var + r, with f and r free of var; (None, form) if there are none."""
    factor: dict[Expr, int] = {}
    const = 0
    rest: dict[Expr, int] = {}
    for atom, k in form.terms.items():
        parts = without(factors(atom), [var])
        if parts is None:
            rest[atom] = k
        elif (left := product(parts, facts)) is None:
            const += k
        else:
            factor[left] = factor.get(left, 0) + k
    if uses_any_of(factor, var) or uses_any_of(rest, var):
        return None, form
    return Affine(factor, const, form.dtype), Affine(rest, form.const, form.dtype)


def uses_any_of(terms: dict[Expr, int], var: Expr) -> bool:
    """Whether the variable occurs in one of the atoms."""
    return any(uses_any(atom, variables(var)) for atom in terms)


def is_size(e: Expr) -> bool:
    """Whether only sizes and constants occur in an expression."""
    kind = type(e)
    if kind is SizeVar or kind is IntImm:
        return True
    children = () if kind is Var or kind is Load or kind is Call else e.children()
    return bool(children) and all([is_size(child) for child in children])
