"""Simplification of reductions by `Analyzer.simplify`: ranges of the axes, combiners, and components without a use."""

from __future__ import annotations

from collections.abc import Callable

from ...expr.effects import contains_effects
from ...expr.nodes import Expr
from ...expr.traverse import variables
from ...tensor.reduction import CommReducer, Reduce

Simplifier = Callable[[Expr], Expr]


def simplify_reduction(reduction: Reduce, simplest: Simplifier) -> Expr:
    """A reduction with simple parts, and with the components that its result depends on."""
    if reduction.ends:
        return reduction
    combiner = _simple(reduction.combiner, simplest)
    kept = _needed(reduction, combiner)

    def of(parts: tuple[Expr, ...]) -> tuple[Expr, ...]:
        return tuple(simplest(parts[i]) for i in kept) if parts else ()

    return Reduce(
        CommReducer(
            combiner.name,
            tuple(combiner.lhs[i] for i in kept),
            tuple(combiner.rhs[i] for i in kept),
            tuple(combiner.result[i] for i in kept),
            tuple(combiner.identity[i] for i in kept),
        ),
        of(reduction.source),
        reduction.axes,
        simplest(reduction.condition),
        kept.index(reduction.value_index),
        of(reduction.init),
        (),
    )


def _simple(combiner: CommReducer, simplest: Simplifier) -> CommReducer:
    result, identity = (tuple(map(simplest, parts)) for parts in (combiner.result, combiner.identity))
    return CommReducer(combiner.name, combiner.lhs, combiner.rhs, result, identity)


def _needed(reduction: Reduce, combiner: CommReducer) -> list[int]:
    """The components that the result depends on, and the components that calls with effects compute."""
    places = {var: i for vars in (combiner.lhs, combiner.rhs) for i, var in enumerate(vars)}
    acting = [i for i, source in enumerate(reduction.source) if contains_effects(source)]
    found, open_ = set(), {reduction.value_index, *acting}
    while open_:
        at = open_.pop()
        found.add(at)
        open_ |= {places[var] for var in variables(combiner.result[at]) if var in places} - found
    return sorted(found)
