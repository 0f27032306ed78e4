"""`subspace_divide`: the outer and the inner index of each binding of an iterator map."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import reduce
from math import prod
from typing import Any

from ...arith.iter_map import detect_iter_map
from ...arith.iter_marks import (
    IterMapLevel,
    IterMark,
    IterSplitExpr,
    IterSumExpr,
    normalize_iter_map_to_expr,
    split_of,
)
from ...arith.sizes import number, written
from ...expr.nodes import TRUE, Expr, Var
from ...expr.operators import as_expr, const, logical_and
from ...expr.traverse import uses_any


def subspace_divide(
    bindings: Sequence[Any],
    input_iters: Mapping[Var, Any],
    sub_iters: Sequence[Var],
    predicate: Any = True,
    check_level: IterMapLevel = IterMapLevel.Surjective,
    simplify_trivial_iterators: bool = True,
) -> list[list[IterMark]]:
    """Part each binding in an outer index and an inner one, of the iterators in `sub_iters`.

    Returns
    -------
    list of [outer, inner]
        Two `IterMark` for each binding, which is `outer * inner.extent + inner`. The extents of the last two, which
        follow the bindings, are the predicates of the outer and the inner iterators. The list is empty if a binding
        has no such parts, or if a part of the predicate depends on iterators of both kinds.
    """
    found = detect_iter_map(bindings, input_iters, predicate, check_level, simplify_trivial_iterators)
    if len(found.indices) != len(bindings):
        return []
    inside = {var for each in sub_iters if isinstance(var := as_expr(each), Var)}
    others = set(input_iters) - inside
    made = [_divided(index, inside, others) for index in found.indices]
    bounds = _bounds(found.indices)
    mixed = any(uses_any(bound, inside) and uses_any(bound, others) for bound in bounds)
    if mixed or any(parts is None for parts in made):
        return []
    zero = const(0, "int32")
    predicates = [_all(bound for bound in bounds if uses_any(bound, kind)) for kind in (others, inside)]
    return [*(parts for parts in made if parts), [IterMark(zero, each) for each in predicates]]


def _divided(index: IterSumExpr, inside: Set[Var], others: Set[Var]) -> list[IterMark] | None:
    """The outer and the inner part of an index; None if its digits are not in that order."""
    parts = [part for arg in index.args for part in _digits_of(arg, inside, others)]
    inner = [part for part in parts if _uses(part, inside)]
    outer = [part for part in parts if part not in inner]
    size = prod(number(part.extent) for part in inner)
    if any(_uses(part, others) for part in inner) or any(number(part.scale) % size for part in outer):
        return None
    if not all(number(part.scale) < size for part in inner):
        return None
    zero, dtype = const(0, index.base.dtype), index.base.dtype
    scaled = (
        split_of(part.source, number(part.lower_factor), number(part.extent), number(part.scale) // size)
        for part in outer
    )
    above = written(prod(number(part.extent) for part in outer), dtype)
    return [
        IterMark(IterSumExpr(tuple(scaled), zero), above),
        IterMark(IterSumExpr(tuple(inner), index.base), written(size, dtype)),
    ]


def _uses(part: IterSplitExpr, names: Set[Var]) -> bool:
    return uses_any(normalize_iter_map_to_expr(part), names)


def _digits_of(split: IterSplitExpr, inside: Set[Var], others: Set[Var]) -> list[IterSplitExpr]:
    """Return the splits of a fused iterator, if `split` covers one that mixes both kinds of variables; else `split`."""
    source = split.source.source
    if not isinstance(source, IterSumExpr) or number(split.extent) != number(split.source.extent):
        return [split]
    if len(source.args) == 1 or (_is_bounded(split.source) and not (_uses(split, inside) and _uses(split, others))):
        return [split]
    made = []
    for arg in source.args:
        scale = number(arg.scale) * number(split.scale)
        part = split_of(arg.source, number(arg.lower_factor), number(arg.extent), scale)
        made += _digits_of(part, inside, others)
    return made


def _is_bounded(mark: IterMark) -> bool:
    """Whether the predicate leaves out values of a sum."""
    assert isinstance(mark.source, IterSumExpr)
    return number(mark.extent) != prod(number(arg.extent) for arg in mark.source.args)


def _bounds(indices: Sequence[IterSumExpr]) -> list[Expr]:
    """The conditions that restrict the values of sums: a sum's parts before the sum."""
    found: dict[Expr, None] = {}

    def collect(mark: IterMark) -> None:
        if not isinstance(mark.source, IterSumExpr):
            return
        for arg in mark.source.args:
            collect(arg.source)
        if _is_bounded(mark):
            found[normalize_iter_map_to_expr(mark.source) < mark.extent] = None

    for index in indices:
        for arg in index.args:
            collect(arg.source)
    return list(found)


def _all(conditions: Iterator[Expr]) -> Expr:
    always: Expr = TRUE
    return reduce(logical_and, conditions, always)
