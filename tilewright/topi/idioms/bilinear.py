"""Sums of products of two tensors as relations between indices, by enumeration.

A term multiplies an element of one tensor by an element of another one, and adds it to an element of the result. Loops
without a common index or condition are independent, so that the terms are all combinations of the rows of small tables.
Two sums with the same tables are the same function, in any form of their indices and conditions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm, Load, Var
from ...expr.numerics import convert
from ...expr.traverse import conjuncts, fold, loads, post_order, substitute, variables
from ...loops.interpret.values import BINARY
from ...tensor.axis import IterVar
from ...tensor.reduction import Reduce, adds_from_zero
from ...tensor.tensor import ComputeOp, Tensor

_MOST_ROWS = 1 << 22
_LOGIC: Mapping[type, Any] = {n.And: np.logical_and, n.Or: np.logical_or}
_ENUMERABLE = (IntImm, n.Not, n.Select, n.IfThenElse, n.Cast, *_LOGIC, *BINARY)


@dataclass(frozen=True)
class IndexTable:
    """Indices that occur together: for the result and both factors, dimensions and the values of their indices.

    `columns` has an array for each of `dims`; all arrays have one element per combination.
    """

    dims: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[np.ndarray, ...], ...]

    @property
    def length(self) -> int:
        """The number of combinations."""
        return len(next(column for each in self.columns for column in each))


@dataclass(frozen=True)
class Bilinear:
    """A sum of products: the two factors, the extents of the result and of both factors, and the tables of terms."""

    factors: tuple[Tensor, Tensor]
    shapes: tuple[tuple[int, ...], ...]
    tables: tuple[IndexTable, ...]


@lru_cache(maxsize=32)
def bilinear(op: ComputeOp) -> Bilinear | None:
    """Return an operation as a sum of products; None if it is none, or if its tables are too long.

    Stages between the sum and its factors that only pad, select or widen elements are parts of the sum.
    """
    body = op.body[0] if op.call is None and len(op.body) == 1 else None
    if not isinstance(body, Reduce) or not adds_from_zero(body.combiner) or body.init:
        return None
    extents = {axis.var: _extent(axis) for axis in op.loop_axes}
    found = _factors(body.source[0])
    if found is None or None in extents.values() or len(found[0]) != 2:
        return None
    (first, second), conditions = found
    conditions = [*conditions, *conjuncts(body.condition)]
    factors: Any = (first.source, second.source)
    if any(loads(*load.indices) for load in (first, second)) or loads(*conditions) or factors[0] is factors[1]:
        return None
    shapes = tuple(tuple(e.value if isinstance(e, IntImm) else 0 for e in t.shape) for t in (op.output(0), *factors))
    indices = (tuple(axis.var for axis in op.axis), first.indices, second.indices)
    known = {var: extent for var, extent in extents.items() if extent is not None}
    if not _is_enumerable(known, *first.indices, *second.indices, *conditions):
        return None
    tables = _tables(known, shapes, indices, [c for c in conditions if c is not n.TRUE])
    return None if tables is None or any(0 in shape for shape in shapes) else Bilinear(factors, shapes, tables)


def _extent(axis: IterVar) -> int | None:
    dom = axis.dom
    plain = dom is not None and isinstance(dom.min, IntImm) and dom.min.value == 0 and isinstance(dom.extent, IntImm)
    return dom.extent.value if plain and dom is not None and isinstance(dom.extent, IntImm) else None


def _factors(e: Expr) -> tuple[list[Load], list[Expr]] | None:
    """The factors of a product, and the conditions for it not to be 0; None for other expressions."""
    if isinstance(e, (n.IfThenElse, n.Select)):
        zero, inner = e.false_value, _factors(e.true_value)
        is_zero = isinstance(zero, n.FloatImm) and zero.value == 0
        return (inner[0], [*conjuncts(e.condition), *inner[1]]) if inner is not None and is_zero else None
    if isinstance(e, n.Cast):
        wider = e.value.dtype.is_float and e.dtype.is_float and e.dtype.bits > e.value.dtype.bits
        return _factors(e.value) if wider else None
    if isinstance(e, n.Mul):
        left, right = _factors(e.a), _factors(e.b)
        return None if left is None or right is None else (left[0] + right[0], left[1] + right[1])
    if isinstance(e, n.FloatImm) and e.value == 1:
        return [], []
    if not isinstance(e, Load) or not isinstance(e.source, Tensor):
        return None
    op = e.source.op
    if isinstance(op, ComputeOp) and op.call is None and len(op.body) == 1 and not isinstance(op.body[0], Reduce):
        there = {axis.var: index for axis, index in zip(op.axis, e.indices, strict=True)}
        inner = _factors(substitute(op.body[0], there))
        if inner is not None and len(inner[0]) == 1:
            return inner
    return [e], []


def _tables(
    extents: dict[Var, int], shapes: tuple[tuple[int, ...], ...], indices: tuple[Any, ...], conditions: list[Expr]
) -> tuple[IndexTable, ...] | None:
    """The tables of independent loops; None if an index or a condition is constant, or a table is too long."""
    loops = {var: extent for var, extent in extents.items() if extent != 1}
    parts = [[var for var in variables(e) if var in loops] for each in indices for e in each]
    parts += [[var for var in variables(c) if var in loops] for c in conditions]
    found = []
    for group in _connected(loops, parts):
        count = prod(loops[var] for var in group)
        if count > _MOST_ROWS:
            return None
        axes = np.indices([loops[var] for var in group], np.int32).reshape(len(group), -1)
        values: dict[Any, Any] = dict.fromkeys(extents, np.int32(0)) | dict(zip(group, axes, strict=True))
        inside = np.ones(count, bool)
        for condition in conditions:
            if not set(group).isdisjoint(variables(condition)):
                inside &= _values(condition, values)
        dims = tuple(
            tuple(d for d, e in enumerate(each) if not set(group).isdisjoint(variables(e))) for each in indices
        )
        if not any(dims):
            return None  # each term is added several times
        columns = tuple(
            tuple(np.broadcast_to(_values(each[d], values), (count,))[inside] for d in own)
            for each, own in zip(indices, dims, strict=True)
        )
        found.append(IndexTable(dims, columns))
    rest = [
        (shape[d], e)
        for each, shape in zip(indices, shapes, strict=True)
        for d, e in enumerate(each)
        if not any(var in loops for var in variables(e))
    ]
    still: dict[Any, Any] = dict.fromkeys(extents, np.int32(0))
    one = all(extent == 1 for extent, _ in rest)
    fixed = [c for c in conditions if not any(var in loops for var in variables(c))]
    return tuple(found) if one and all(_values(c, still) for c in fixed) else None


def _connected(loops: Iterable[Var], parts: Iterable[list[Var]]) -> list[list[Var]]:
    """The loops in groups: loops of one of `parts` are in the same group."""
    group = {var: [var] for var in loops}
    for part in parts:
        for other in part[1:]:
            if group[other] is not group[part[0]]:
                group[part[0]] += group[other]
                for var in group[other]:
                    group[var] = group[part[0]]
    return list({id(each): each for each in group.values()}.values())


def _is_enumerable(loops: Mapping[Var, int], *roots: Expr) -> bool:
    """Whether `_values` knows the values of expressions: integers and conditions of loops."""
    for at in post_order(*roots):
        known = at.name == "likely" if isinstance(at, n.Call) else isinstance(at, _ENUMERABLE) or at in loops
        if not known or at.dtype.is_float:
            return False
    return True


def _values(e: Expr, known: dict[Any, Any]) -> Any:
    """The values of an expression of integers for arrays of values of its variables."""

    def combine(at: Any, below: list[Any]) -> Any:
        if isinstance(at, IntImm):
            return at.dtype.numpy.type(at.value)
        if isinstance(at, n.Not):
            return np.logical_not(below[0])
        if isinstance(at, (n.Select, n.IfThenElse)):
            return np.where(*below)
        if isinstance(at, n.Cast):
            return convert(below[0], at.dtype)
        if isinstance(at, n.Call):  # `likely`
            return below[0]
        return (_LOGIC.get(type(at)) or BINARY[type(at)])(*below)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # a choice may guard such values
        return fold(e, dict(known), combine)
