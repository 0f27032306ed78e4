"""Reads that certainly leave their tensor: found before anything runs, whatever the schedule.

Only what is certain is refused: an index whose extreme value is reached at a point that is computed, or one that
leaves its tensor at a point where the conditions around it hold (`witnesses.py`). Indices that depend on values are
left alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ..arith.region import extremes
from ..arith.simplify import prove, simplify
from ..core.errors import UserError
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import const, greater_equal, less, subtract
from ..expr.traverse import variables
from ..tensor.reduction import Reduce
from ..tensor.tensor import Operation, PlaceholderOp, Tensor, topological
from .witnesses import check_witness, guarded_reads

End = int | Expr
"""An end of the values of an axis or an index; an expression only where it is not constant."""


class ExactRange(NamedTuple):
    """The least and the largest value of an axis or an index, both of them reached."""

    lo: End
    hi: End


Spans = dict[Var, ExactRange]


def check_reads(outputs: Sequence[Operation]) -> None:
    """Raise UserError where a computation that `outputs` need certainly reads beyond the ends of a tensor."""
    needed: dict[Operation, list[ExactRange | None]] = {op: [_whole(extent) for extent in op.shape] for op in outputs}
    graph = topological(outputs)
    for op in reversed(graph):
        if isinstance(op, PlaceholderOp) or _computes_nothing(op):
            continue
        reader = _Reader(op, _spans(op, needed.get(op, [])), together=op in outputs, graph=graph)
        for load in dict.fromkeys(_certain_loads(op)):
            if isinstance(load.source, Tensor):
                found = [reader.span(e) for e in load.indices]
                _check(op, load, found)
                _need(needed, load.source.op, found)
        _check_points(op, reader)


def _check_points(op: Operation, reader: _Reader) -> None:
    """Look for points at which reads under conditions, and those of indices that are not linear, leave a tensor."""
    ends = {v: (s.lo, s.hi) for v, s in reader.spans.items() if isinstance(s.lo, int) and isinstance(s.hi, int)}
    for read in guarded_reads(op):
        used = frozenset(variables(*read.load.indices, *read.conditions))
        if not reader.occur_together(used):
            continue
        for d, index in enumerate(read.load.indices):
            if read.conditions or _constant_span(index, reader.spans) is None:
                check_witness(op, read, d, ends)


def _whole(extent: Expr) -> ExactRange:
    return ExactRange(0, extent.value - 1) if isinstance(extent, IntImm) else ExactRange(0, subtract(extent, 1))


def _computes_nothing(op: Operation) -> bool:
    axes = (*op.axis, *op.reduce_axis)
    return any(a.dom is None or (isinstance(a.dom.extent, IntImm) and a.dom.extent.value < 1) for a in axes)


def _spans(op: Operation, needed: Sequence[ExactRange | None]) -> Spans:
    """The values that are known to occur, of each axis of which any are."""
    spans = {axis.var: span for axis, span in zip(op.axis, needed, strict=False) if span is not None}
    for axis in op.reduce_axis:
        if axis.dom is not None:
            low, extent = axis.dom.min, axis.dom.extent
            if isinstance(low, IntImm) and isinstance(extent, IntImm):
                spans[axis.var] = ExactRange(low.value, low.value + extent.value - 1)
            else:
                spans[axis.var] = ExactRange(low, subtract(low + extent, 1))
    return spans


def _need(
    needed: dict[Operation, list[ExactRange | None]], producer: Operation, found: Sequence[ExactRange | None]
) -> None:
    """Add what one read asks of a tensor, a dimension at a time, to what others ask."""
    if isinstance(producer, PlaceholderOp):
        return
    known = needed.setdefault(producer, list(found))
    for d, (a, b) in enumerate(zip(known, found, strict=True)):
        known[d] = _join(a, b)


def _join(a: ExactRange | None, b: ExactRange | None) -> ExactRange | None:
    """The values from the least to the largest of both; either alone where they cannot be compared."""
    if a is None or b is None:
        return a or b
    lows, highs = (a.lo, b.lo), (a.hi, b.hi)
    if not all(isinstance(end, int) for end in (*lows, *highs)):
        return a
    return ExactRange(min(lows, key=int), max(highs, key=int))


def _certain_loads(op: Operation) -> Iterator[Load]:
    """The reads that happen at every point that is computed."""
    stack = list(op.body)
    seen: set[Expr] = set()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Reduce):
            stack.extend((*e.source, *e.init) if e.condition is n.TRUE else e.init)
        elif isinstance(e, (n.IfThenElse, n.Select)):
            stack.append(e.condition)
        elif isinstance(e, (n.And, n.Or)):
            stack.append(e.a)
        else:
            if isinstance(e, Load):
                yield e
            stack.extend(e.children())


@dataclass
class _Reader:
    """An operation that reads, with what is known of its axes' values.

    `together`: whether all combinations of the values of its data axes occur. Of an operation that is no output, only
    single values of an axis are known to be needed, not which of them together.
    """

    op: Operation
    spans: Spans
    together: bool
    graph: Sequence[Operation]

    def span(self, index: Expr) -> ExactRange | None:
        """The least and the largest value of an index, where both are certainly reached; None where that is not known.

        An index over several axes reaches its ends only where these occur together.
        """
        numbers = _constant_span(index, self.spans)
        if numbers is not None:
            low, high, used = numbers
            wraps = low < index.dtype.min_value or high > index.dtype.max_value
            return None if wraps or not self.occur_together(used) else ExactRange(low, high)
        used = frozenset(variables(index))
        if not self.occur_together(used) or not used <= {*self.spans, *self._sizes}:
            return None
        relaxed = {v: _range(self.spans[v], v) for v in used if v in self.spans}
        found = extremes(simplify(index), relaxed)
        return ExactRange(_end(found.lo), _end(found.hi)) if found is not None and found.exact else None

    def occur_together(self, used: frozenset[Var]) -> bool:
        """Whether all combinations of the variables' values occur."""
        return self.together or sum(axis.var in used for axis in self.op.axis) < 2

    @cached_property
    def _sizes(self) -> tuple[Var, ...]:
        return variables(*(extent for op in self.graph for extent in op.shape))


def _range(span: ExactRange, var: Var) -> tuple[Expr, Expr]:
    low, high = (const(e, var.dtype) if isinstance(e, int) else e for e in span)
    return low, simplify(subtract(high, low) + 1)


def _end(e: Expr) -> End:
    made = simplify(e)
    return made.value if isinstance(made, IntImm) else made


def _constant_span(e: Expr, spans: Mapping[Var, ExactRange]) -> tuple[int, int, frozenset[Var]] | None:
    """The ends of sums of multiples of different axes, as nearly all indices are, and the axes; None for others."""
    if isinstance(e, IntImm):
        return e.value, e.value, frozenset()
    if isinstance(e, Var):
        span = spans.get(e)
        if span is None or not isinstance(span.lo, int) or not isinstance(span.hi, int):
            return None
        return span.lo, span.hi, frozenset((e,))
    if not isinstance(e, (n.Add, n.Sub, n.Mul)):
        return None
    a, b = _constant_span(e.a, spans), _constant_span(e.b, spans)
    if a is None or b is None or a[2] & b[2]:
        return None
    if isinstance(e, n.Mul):
        if a[2] and b[2]:
            return None
        ends = [x * y for x in a[:2] for y in b[:2]]
        return min(ends), max(ends), a[2] | b[2]
    if isinstance(e, n.Add):
        return a[0] + b[0], a[1] + b[1], a[2] | b[2]
    return a[0] - b[1], a[1] - b[0], a[2] | b[2]


def _check(op: Operation, load: Load, found: Sequence[ExactRange | None]) -> None:
    for d, span in enumerate(found):
        if span is not None and isinstance(load.source, Tensor):
            extent = load.source.shape[d]
            below = _certain(span.lo, extent, below=True)
            above = _certain(span.hi, extent, below=False)
            if below or above:
                raise _beyond(op, load, d, span, [">= 0"] * below + [f"< {extent}"] * above)


def _beyond(op: Operation, load: Load, dimension: int, span: ExactRange, kept: Sequence[str]) -> UserError:
    """The error for an index that leaves its tensor; `kept` says what would keep it inside."""
    name, shape, index = load.source.name, getattr(load.source, "shape", ()), load.indices[dimension]
    constant = isinstance(index, IntImm)
    runs = f"is {span.lo}" if constant else f"runs from {span.lo} to {span.hi}"
    conditions = ", ".join(f"{index} {each}" for each in kept)
    guard = conditions if len(kept) == 1 else f"te.all({conditions})"
    last = subtract(shape[dimension], 1)
    return UserError(
        f"stage {op.name!r} reads beyond the ends of {name!r}, of shape {list(shape)}: in {load}, index {dimension} "
        f"{runs}, but is to stay within 0 to {last}",
        primitive="lower",
        fix=f"give an index from 0 to {last}, the last element"
        if constant
        else f"declare shapes in which it stays inside, or read under a condition: te.if_then_else({guard}, {load}, 0)",
    )


def _certain(end: End, extent: Expr, below: bool) -> bool:
    if isinstance(end, int):
        if below:
            return end < 0
        return isinstance(extent, IntImm) and end >= extent.value
    return prove(less(end, 0) if below else greater_equal(end, extent))
