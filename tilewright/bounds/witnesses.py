"""Reads that certainly leave their tensor, shown by a point: for indices that are not linear, and under conditions.

A point at which every condition around a read holds, and an index is beyond the ends, is proof. Points are tried where
indices and conditions turn: at the ends of each axis, and around each constant. Finding none proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from ..arith.affine import Affine
from ..arith.facts import EMPTY
from ..arith.interval import interval
from ..core.errors import UserError
from ..expr import nodes as n
from ..expr.evaluate import UndefinedValueError, evaluate
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import const, logical_not
from ..expr.traverse import loads, post_order, variables
from ..tensor.reduction import Reduce
from ..tensor.tensor import Operation, Tensor

MOST_CONDITIONS = 8
MOST_POINTS = 64
_ALL_OF = 16
"""Values of an axis up to which each is tried."""


class GuardedRead(NamedTuple):
    """A read, and the conditions under which it happens."""

    load: Load
    conditions: tuple[Expr, ...]


def guarded_reads(op: Operation) -> Iterator[GuardedRead]:
    """The reads of an operation, each under the first conditions that lead to it."""
    stack: list[tuple[Expr, tuple[Expr, ...]]] = [(e, ()) for e in op.body]
    seen: set[Expr] = set()
    while stack:
        e, conditions = stack.pop()
        if e in seen or len(conditions) > MOST_CONDITIONS:
            continue
        seen.add(e)
        if isinstance(e, Reduce):
            inside = conditions if e.condition is n.TRUE else (*conditions, e.condition)
            stack.extend((part, inside) for part in e.source)
            stack.extend((part, conditions) for part in (*e.init, e.condition))
        elif isinstance(e, (n.IfThenElse, n.Select)):
            stack.append((e.false_value, (*conditions, logical_not(e.condition))))
            stack.append((e.true_value, (*conditions, e.condition)))
            stack.append((e.condition, conditions))
        elif isinstance(e, (n.And, n.Or)):
            stack.append((e.b, (*conditions, e.a if isinstance(e, n.And) else logical_not(e.a))))
            stack.append((e.a, conditions))
        else:
            if isinstance(e, Load) and isinstance(e.source, Tensor):
                yield GuardedRead(e, conditions)
            stack.extend((child, conditions) for child in e.children())


def check_witness(op: Operation, read: GuardedRead, dimension: int, ends: Mapping[Var, tuple[int, int]]) -> None:
    """Raise UserError where a point of the axes' values shows that an index of the read leaves its tensor."""
    index, source = read.load.indices[dimension], read.load.source
    extent = source.shape[dimension] if isinstance(source, Tensor) else None
    if not isinstance(extent, IntImm) or loads(index, *read.conditions):
        return
    used = variables(index, *read.conditions)
    if not all(var in ends for var in used) or _guarded(index, extent.value, ends, read.conditions):
        return
    if _inside(index, extent.value, ends, read.conditions):
        return
    for values in _points(used, (index, *read.conditions), ends, extent.value):
        try:
            if all(evaluate(cond, values) for cond in read.conditions):
                at = int(evaluate(index, values))
                if not 0 <= at < extent.value:
                    raise _beyond(op, read, dimension, values, at)
        except UndefinedValueError:
            continue


def _guarded(index: Expr, extent: int, ends: Mapping[Var, tuple[int, int]], conditions: Sequence[Expr]) -> bool:
    """Whether conditions that compare the index itself keep it inside, as those of padding do; linear forms suffice."""
    form = Affine.of(index)
    lowest = highest = form.const
    for atom, scale in form.terms.items():
        span = ends.get(atom) if isinstance(atom, Var) else None
        if span is None:
            return False
        lowest += scale * span[scale < 0]
        highest += scale * span[scale > 0]
    opposite = form.scale(-1)
    for known in _positive_forms(conditions):  # known >= 0
        if known.terms == form.terms:
            lowest = max(lowest, form.const - known.const)
        elif known.terms == opposite.terms:
            highest = min(highest, form.const + known.const)
    return lowest >= 0 and highest < extent


def _positive_forms(conditions: Sequence[Expr]) -> Iterator[Affine]:
    """Linear forms that are at least 0 where the conditions hold."""
    stack = [(condition, True) for condition in conditions]
    while stack:
        e, holds = stack.pop()
        if isinstance(e, n.Not):
            stack.append((e.a, not holds))
        elif isinstance(e, n.Call) and e.name == "likely":
            stack.append((e.args[0], holds))
        elif isinstance(e, n.And if holds else n.Or):
            stack += [(e.a, holds), (e.b, holds)]
        elif isinstance(e, (n.LT, n.LE, n.GT, n.GE)) and e.a.dtype.is_int:
            ahead = Affine.of(e.a) - Affine.of(e.b)  # a - b
            if isinstance(e, (n.LT, n.LE)):
                ahead = ahead.scale(-1)
            strict = isinstance(e, (n.LT, n.GT))
            yield ahead.shift(-strict) if holds else ahead.scale(-1).shift(-(not strict))


def _inside(index: Expr, extent: int, ends: Mapping[Var, tuple[int, int]], conditions: Sequence[Expr]) -> bool:
    """Whether bounds show that the index stays inside, as they do for nearly all."""
    ranges = {var: (const(lo, var.dtype), const(hi - lo + 1, var.dtype)) for var, (lo, hi) in ends.items()}
    facts = EMPTY.bind_all(ranges)
    for condition in conditions:
        facts = facts.assume(condition)
    lo, hi = interval(index, facts)
    return lo >= 0 and hi < extent


def _points(
    used: Sequence[Var], parts: Sequence[Expr], ends: Mapping[Var, tuple[int, int]], extent: int
) -> Iterator[dict[Var, int]]:
    constants = {e.value for e in post_order(*parts) if isinstance(e, IntImm)} | {extent}
    turns = sorted({c + d for c in constants for d in (-1, 0, 1)} | {extent - c for c in constants})
    choices = []
    for var in used:
        lo, hi = ends[var]
        inner = range(lo, hi + 1) if hi - lo < _ALL_OF else [c for c in turns if lo < c < hi]
        choices.append(list(dict.fromkeys((hi, lo, *inner))))
    for values, _ in zip(product(*choices), range(MOST_POINTS), strict=False):
        yield dict(zip(used, values, strict=True))


def _beyond(op: Operation, read: GuardedRead, dimension: int, values: Mapping[Var, int], at: int) -> UserError:
    source = read.load.source
    shape = source.shape if isinstance(source, Tensor) else ()
    last = int(shape[dimension]) - 1
    where = ", ".join(f"{var.name} = {value}" for var, value in values.items())
    return UserError(
        f"stage {op.name!r} reads beyond the ends of {source.name!r}, of shape {list(shape)}: in {read.load}, index "
        f"{dimension} is {at} at {where}, but must be from 0 to {last}",
        primitive="lower",
        fix="declare shapes in which it stays inside, or read under a condition that keeps it there: "
        f"te.if_then_else({read.load.indices[dimension]} <= {last}, {read.load}, 0)",
    )
