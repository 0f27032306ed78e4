"""The simplifier's core: one memoised descent, with a table of handlers by node type.

Integer indices are simplified as linear forms (`FORMS`), everything else node by node (`HANDLERS`). Both tables are
filled by the modules that know the operators; expressions without an entry are opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from ..expr.effects import SEEN, contains_effects
from ..expr.nodes import Add, Expr, IntImm, Mul, Sub
from .affine import Affine, drop_zeros, leaves
from .facts import Facts, is_index
from .merge import merge
from .write import write

Handler = Callable[[Any, Facts], Expr]
FormHandler = Callable[[Any, Facts], Affine]
NodeKind = TypeVar("NodeKind", bound=Expr)

HANDLERS: dict[type, Handler] = {}
FORMS: dict[type, FormHandler] = {}


def visit(e: Expr, facts: Facts) -> Expr:
    """The simplest form of `e` under the facts, memoised."""
    memo = facts.memo
    found = memo.get(e)
    if found is None:
        if SEEN and contains_effects(e):  # two calls with an effect are two, and 0 times a call is a call
            found = with_simple_children(e, facts)
        elif is_index(e.dtype):
            found = _index(e, facts)
        elif e in facts.truth:
            found = facts.truth[e]
        else:
            found = HANDLERS.get(type(e), with_simple_children)(e, facts)
            found = facts.truth.get(found, found)
        memo[e] = found
        memo.setdefault(found, found)
    return found


def _index(e: Expr, facts: Facts) -> Expr:
    try:
        return write(linear(e, facts), facts)
    except OverflowError:
        _keep_overflowing(e, facts)
        return write(linear(e, facts), facts)


def _keep_overflowing(root: Expr, facts: Facts) -> None:
    """Make sums at and below `root` opaque if their folded constants do not fit: overflowing sums stay as written.

    Inner sums come first, because an outer sum may fit once an inner one is opaque.
    """
    for e in _sums(root):
        facts.forms.pop(e, None)  # the form may contain expressions that are opaque by now
        try:
            write(linear(e, facts), facts)
        except OverflowError:
            facts.opaque.add(e)
            facts.forms[e] = opaque_atom(e, facts)


def _sums(root: Expr) -> Iterator[Expr]:
    """The sums and products that `root` is made of, and `root` itself, inner ones first."""
    order: dict[Expr, None] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        at, ready = stack.pop()
        if ready:
            order[at] = None
        elif at not in order and (type(at) in _SUMS or at is root):
            stack.append((at, True))
            stack.extend((child, False) for child in at.children() if type(child) in _SUMS)
    return iter(order)


def linear(e: Expr, facts: Facts) -> Affine:
    """The simplified linear form of an index expression, memoised."""
    found = facts.forms.get(e)
    if found is None:
        if SEEN and contains_effects(e):
            found = opaque_atom(e, facts)
        elif not is_index(e.dtype):  # sums of this type wrap
            found = atom(visit(e, facts))
        else:
            found = _sum(e, facts) if type(e) in _SUMS else _leaf(e, facts)
        facts.forms[e] = found
    return found


def _leaf(e: Expr, facts: Facts) -> Affine:
    """The form of an expression that is not a sum."""
    try:
        return FORMS.get(type(e), opaque_atom)(e, facts)
    except OverflowError:  # a folded constant does not fit: an expression that overflows at run time stays as written
        return opaque_atom(e, facts)


def atom(e: Expr) -> Affine:
    """The form of an expression that is an atom, or a constant."""
    return Affine({}, e.value, e.dtype) if isinstance(e, IntImm) else Affine({e: 1}, 0, e.dtype)


def with_simple_children(e: NodeKind, facts: Facts) -> NodeKind:
    """The expression with its children simplified. Arithmetic does nothing else to a node that a higher package
    defines.
    """
    made: NodeKind = e.map_children(lambda child: visit(child, facts))
    return made


def opaque_atom(e: Expr, facts: Facts) -> Affine:
    """The form of an operator as it stands, with its arguments simplified."""
    return atom(with_simple_children(e, facts))


def _sum(e: Expr, facts: Facts) -> Affine:
    terms: dict[Expr, int] = {}
    const = 0
    for leaf, scale in leaves(e, facts.opaque):
        if type(leaf) is IntImm:
            const += scale * leaf.value
            continue
        form = facts.forms.get(leaf)
        if form is None:
            try:
                form = FORMS.get(type(leaf), opaque_atom)(leaf, facts)
            except OverflowError:  # the same as in `_leaf`, without the call
                form = opaque_atom(leaf, facts)
            facts.forms[leaf] = form
        for part, k in form.terms.items():
            terms[part] = terms.get(part, 0) + k * scale
        const += scale * form.const
    return merged(Affine(drop_zeros(terms), const, e.dtype), facts)


def merged(form: Affine, facts: Facts) -> Affine:
    """`form` with matching quotients and remainders combined."""
    if len(form.terms) > 1 and not (
        facts.splits.keys().isdisjoint(form.terms) and facts.shares.keys().isdisjoint(form.terms)
    ):
        return merge(form, facts)
    return form


def difference(a: Expr, b: Expr, facts: Facts) -> Affine:
    """The simplified form of a - b."""
    return merged(linear(a, facts) - linear(b, facts), facts)


_SUMS = (Add, Sub, Mul)
