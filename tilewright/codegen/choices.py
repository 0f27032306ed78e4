"""Code hoisting of choices: an expression that both branches of a choice compute is computed before it (a very busy
expression).

Code of a branch runs under a condition, and its values are not known outside of it. In a chain, each choice may read
the next lower choice in both of its branches. Without hoisting, the lowest choice would be written twice per level, 2
** depth times in all.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..expr import nodes as n

Choice = n.Select | n.IfThenElse


def made_by_both(e: Choice) -> list[Choice]:
    """Return the choices that both branches of `e` make."""
    first = set(_certain(e.true_value))
    return [choice for choice in _certain(e.false_value) if choice in first] if first else []


def _certain(e: n.Expr) -> Iterator[Choice]:
    """The outermost choices that every evaluation of `e` makes."""
    seen, waiting = {e}, [e]
    while waiting:
        at = waiting.pop()
        if isinstance(at, (n.Select, n.IfThenElse)):
            yield at
            continue
        below = at.children()[:1] if isinstance(at, (n.And, n.Or)) else at.children()
        fresh = [child for child in below if isinstance(child, n.Expr) and child not in seen]
        seen.update(fresh)
        waiting += fresh
