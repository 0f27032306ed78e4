"""Reads that certainly leave their tensor, shown by a point: for indices that are not linear, and under conditions.

A point at which every condition around a read holds, and an index is beyond the ends, is proof. Points are tried at the
turning points of indices and conditions: at the ends of each axis, and around each constant. Finding none proves
nothing.
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
from ..expr.operators import const, logical_not, subtract
from ..expr.traverse import post_order, variables
from ..tensor.reduction import Reduce
from ..tensor.tensor import Operation, Tensor

MOST_CONDITIONS = 8
MOST_POINTS = 64
_ALL_OF = 16
"""The most values of an axis that are all tried."""


class Condition(NamedTuple):
    """A condition that holds, or fails, at a read."""

    expr: Expr
    holds: bool

    @property
    def stated(self) -> Expr:
        """The condition as one that holds."""
        return self.expr if self.holds else logical_not(self.expr)


Conditions = tuple[Condition, ...]


class GuardedRead(NamedTuple):
    """A read, and the conditions under which it happens: none if it happens at every computed point."""

    load: Load
    source: Tensor
    conditions: Conditions

    @property
    def stated(self) -> tuple[Expr, ...]:
        """The conditions as expressions that hold."""
        return tuple(condition.stated for condition in self.conditions)


def guarded_reads(op: Operation) -> Iterator[GuardedRead]:
    """The reads of an operation: unconditional ones first, then the others under the first conditions that lead to
    them."""
    stack: list[tuple[Expr, Conditions]] = [(e, ()) for e in op.values]
    later: list[tuple[Expr, Conditions]] = []
    seen: set[Expr] = set()
    while stack or later:
        if not stack:
            stack, later = later[::-1], []
        e, conditions = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Load) and isinstance(e.source, Tensor):
            yield GuardedRead(e, e.source, conditions)
        if not isinstance(e, _BRANCHING):
            stack += [(child, conditions) for child in e.children()]
            continue
        for child, condition in _parts(e):
            if condition is None:
                stack.append((child, conditions))
            elif len(conditions) < MOST_CONDITIONS:
                (stack if conditions else later).append((child, (*conditions, condition)))


_BRANCHING = (Reduce, n.IfThenElse, n.Select, n.And, n.Or)


def _parts(e: Expr) -> Iterator[tuple[Expr, Condition | None]]:
    """The parts of a branching expression, each with the condition under which it is evaluated, if there is one."""
    if isinstance(e, Reduce):
        under = None if e.condition is n.TRUE else Condition(e.condition, True)
        yield from ((part, under) for part in e.source)
        yield from ((part, None) for part in (*e.init, e.condition))
    elif isinstance(e, (n.IfThenElse, n.Select)):
        yield e.false_value, Condition(e.condition, False)
        yield e.true_value, Condition(e.condition, True)
        yield e.condition, None
    elif isinstance(e, (n.And, n.Or)):
        yield e.b, Condition(e.a, isinstance(e, n.And))
        yield e.a, None


def check_witness(op: Operation, read: GuardedRead, dimension: int, ends: Mapping[Var, tuple[int, int]]) -> None:
    """Raise UserError if a point of the axes' values shows that an index of the read leaves its tensor.

    `ends` has the values of every variable of the index and of the conditions.
    """
    found = witness(read.load.indices[dimension], int(read.source.shape[dimension]), read.conditions, ends)
    if found is not None:
        values, at = found
        where = ", ".join(f"{var.name} = {value}" for var, value in values.items())
        kept = f"{read.load.indices[dimension]} <= {int(read.source.shape[dimension]) - 1}"
        raise reads_beyond(op, read, dimension, f"is {at} at {where}", kept)


def witness(
    index: Expr, extent: int, conditions: Conditions, ends: Mapping[Var, tuple[int, int]]
) -> tuple[dict[Var, int], int] | None:
    """A point at which the conditions hold and an index is beyond an extent, and the index there; None if there is
    none.

    `ends` has the values of every variable of the index and of the conditions.
    """
    stated = tuple(condition.stated for condition in conditions)
    if is_guarded(index, extent, ends, tuple(positive_forms(conditions))) or _inside(index, extent, ends, stated):
        return None
    used = variables(index, *stated)
    for values in _points(used, (index, *stated), ends, extent):
        try:
            if all(evaluate(cond, values) for cond in stated):
                at = int(evaluate(index, values))
                if not 0 <= at < extent:
                    return values, at
        except UndefinedValueError:
            continue
    return None


def is_guarded(index: Expr, extent: int, ends: Mapping[Var, tuple[int, int]], known: Sequence[Affine]) -> bool:
    """Return whether bounds of the index itself, as conditions of padding have, keep it inside.

    The forms that are `known` to be at least 0 suffice (`positive_forms` of the conditions), without a prover.
    """
    form = Affine.of(index)
    lowest = highest = form.const
    for atom, scale in form.terms.items():
        span = ends.get(atom) if isinstance(atom, Var) else None
        if span is None:
            return False
        lowest += scale * span[scale < 0]
        highest += scale * span[scale > 0]
    opposite = form.scale(-1)
    for bound in known:
        if bound.terms == form.terms:
            lowest = max(lowest, form.const - bound.const)
        elif bound.terms == opposite.terms:
            highest = min(highest, form.const + bound.const)
    return lowest >= 0 and highest < extent


def positive_forms(conditions: Sequence[tuple[Expr, bool]]) -> Iterator[Affine]:
    """Linear forms that are at least 0 if the conditions hold (or, negated, if they fail)."""
    stack = list(conditions)
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


def reads_beyond(op: Operation, read: GuardedRead, dimension: int, runs: str, kept: str) -> UserError:
    """The error for an index that leaves its tensor: `runs` has its values, and `kept` the condition that helps.

    Without a condition, the index is a constant.
    """
    load, source, last = read.load, read.source, subtract(read.source.shape[dimension], 1)
    return UserError(
        f"stage {op.name!r} reads beyond the ends of {source.name!r}, of shape {list(source.shape)}: in {load}, "
        f"index {dimension} {runs}, but must stay within 0 to {last}",
        primitive="lower",
        fix=f"declare shapes in which it stays inside, or read under a condition: te.if_then_else({kept}, {load}, 0)"
        if kept
        else f"give an index from 0 to {last}, the last element",
    )
