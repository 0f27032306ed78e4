"""Reads that certainly leave their tensor: found before anything runs, for any schedule.

Only certain errors are refused. Either an extreme value of the index is reached at a computed point. Or the index
leaves its tensor at a point that satisfies the conditions around it (`witnesses.py`). Indices that depend on values are
left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

from ..arith.affine import Affine
from ..arith.region import extremes
from ..arith.simplify import prove, simplify
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Load, Var
from ..expr.operators import const, greater_equal, less, maximum, minimum, subtract
from ..expr.traverse import variables
from ..tensor.tensor import Operation, PlaceholderOp, topological
from .call_checks import ReadCheck, point_checks, range_check
from .witnesses import GuardedRead, check_witness, guarded_reads, is_guarded, positive_forms, reads_beyond

End = int | Expr
"""An end of the values of an axis or an index: a number if it is constant, else an expression."""


class ExactRange(NamedTuple):
    """The least and the largest value of an axis or an index; both values occur."""

    lo: End
    hi: End


Spans = dict[Var, ExactRange]


class _Known(NamedTuple):
    """The results of the check for some outputs."""

    others: tuple[ReferenceType[Operation], ...]
    checks: tuple[ReadCheck, ...]


_KNOWN: WeakKeyDictionary[Operation, _Known] = WeakKeyDictionary()


def check_reads(outputs: Sequence[Operation]) -> tuple[ReadCheck, ...]:
    """The checks of a call, so that no computation that `outputs` need reads beyond the ends of a tensor.

    Raises UserError if one certainly does for all arguments. The results are cached with the outputs.
    """
    first, *others = outputs
    known = _KNOWN.get(first)
    if known is None or [ref() for ref in known.others] != others:
        known = _KNOWN[first] = _Known(tuple(map(ref, others)), tuple(dict.fromkeys(_checks(outputs))))
    return known.checks


def _checks(outputs: Sequence[Operation]) -> Iterator[ReadCheck]:
    needed: dict[Operation, list[ExactRange | None]] = {op: [_whole(extent) for extent in op.shape] for op in outputs}
    happens: dict[Operation, frozenset[Expr]] = {}
    graph = topological(outputs)
    for op in reversed(graph):
        if isinstance(op, PlaceholderOp) or _computes_nothing(op):
            continue
        extents = (a.dom.extent for a in (op.loop_axes if op in outputs else op.reduce_axis) if a.dom)
        occurs = happens.get(op, frozenset()).union(e for e in extents if not isinstance(e, IntImm))
        reader = _Reader(op, _spans(op, needed.get(op, [])), op in outputs, graph, occurs)
        for read in guarded_reads(op):
            if read.conditions:
                yield from reader.points(read, range(len(read.load.indices)))
                continue
            found = [reader.span(e) for e in read.load.indices]
            yield from _check(reader, read, found)
            producer = read.source.op
            _need(needed, producer, found)
            if occurs:
                happens[producer] = happens.get(producer, frozenset()) | occurs
            unknown = [d for d, span in enumerate(found) if span is None]
            if unknown:
                yield from reader.points(read, unknown)


def _whole(extent: Expr) -> ExactRange:
    return ExactRange(0, extent.value - 1) if isinstance(extent, IntImm) else ExactRange(0, subtract(extent, 1))


def _computes_nothing(op: Operation) -> bool:
    axes = (*op.axis, *op.reduce_axis)
    return any(a.dom is None or (isinstance(a.dom.extent, IntImm) and a.dom.extent.value < 1) for a in axes)


def _spans(op: Operation, needed: Sequence[ExactRange | None]) -> Spans:
    """The values that are known to occur, for each axis with such values."""
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
    """Add the demands of one read on a tensor, dimension by dimension, to the demands of other reads."""
    if not producer.axis:  # an input, or a tensor that a statement writes as a whole
        return
    known = needed.setdefault(producer, list(found))
    for d, (a, b) in enumerate(zip(known, found, strict=True)):
        known[d] = _join(a, b)


def _join(a: ExactRange | None, b: ExactRange | None) -> ExactRange | None:
    """The range that covers two ranges; if one range is unknown, the other range."""
    if a is None or b is None:
        return a or b
    if all(isinstance(end, int) for end in (*a, *b)):
        return ExactRange(min(a.lo, b.lo, key=int), max(a.hi, b.hi, key=int))
    return ExactRange(_end(minimum(a.lo, b.lo)), _end(maximum(a.hi, b.hi)))


@dataclass
class _Reader:
    """An operation that reads, with the facts about its axes' values.

    `together`: whether all combinations of the values of its data axes occur. If the operation is not an output, single
    values of each axis are known to be needed, but not their combinations.
    """

    op: Operation
    spans: Spans
    together: bool
    graph: Sequence[Operation]
    occurs: frozenset[Expr]
    """Extents that are positive if the operation reads anything."""

    def span(self, index: Expr) -> ExactRange | None:
        """The least and the largest value of an index, if both are certainly reached; None if unknown.

        An index over several axes reaches its ends only if the axes reach theirs together.
        """
        numbers = _constant_span(index, self.spans)
        if numbers is not None:
            low, high, used = numbers
            wraps = low < index.dtype.min_value or high > index.dtype.max_value
            return None if wraps or not self.occur_together(used) else ExactRange(low, high)
        used = frozenset(variables(index))
        if self._reads(index) or not self.occur_together(used) or not self._stated(used):
            return None
        relaxed = {v: _range(self.spans[v], v) for v in used if v in self.spans}
        found = extremes(simplify(index), relaxed)
        return ExactRange(_end(found.lo), _end(found.hi)) if found is not None and found.exact else None

    def points(self, read: GuardedRead, dimensions: Iterable[int]) -> Iterator[ReadCheck]:
        """The checks of a call at single points, for a read under conditions or with nonlinear indices.

        Raises UserError if a point is beyond the ends for all arguments.
        """
        conditions: tuple[Expr, ...] | None = None
        forms: tuple[Affine, ...] | None = None
        for d in dimensions:
            index, extent = read.load.indices[d], read.source.shape[d]
            if isinstance(extent, IntImm):
                numbers = _constant_span(index, self.spans)
                if numbers is not None and 0 <= numbers[0] <= numbers[1] < extent.value:
                    continue
                forms = tuple(positive_forms(read.conditions)) if forms is None else forms
                if is_guarded(index, extent.value, self.constant_ends, forms):
                    continue
            conditions = read.stated if conditions is None else conditions
            if any([self._reads(e) for e in (index, *conditions)]):
                continue
            used = variables(index, *conditions)
            if not self.occur_together(frozenset(used)):
                continue
            ends = {var: self.constant_ends[var] for var in used if var in self.constant_ends}
            if len(ends) == len(used) and isinstance(extent, IntImm):
                check_witness(self.op, read, d, ends)
            elif self._stated(used):
                wide = {var: _ends(self.spans[var], var) for var in used if var in self.spans}
                yield from point_checks(self.op.name, read, d, wide, self.occurs)

    def _reads(self, root: Expr) -> bool:
        """Whether an expression reads a tensor; in a chain of conditions, each level is asked once."""
        known, waiting = self._reading, [root]
        while waiting:
            at = waiting[-1]
            children = at.children() if at not in known else ()
            if unknown := [child for child in children if child not in known]:
                waiting += unknown
                continue
            waiting.pop()
            if at not in known:
                known[at] = isinstance(at, Load) or any([known[child] for child in children])
        return known[root]

    @cached_property
    def _reading(self) -> dict[Any, bool]:
        return {}

    @cached_property
    def constant_ends(self) -> dict[Var, tuple[int, int]]:
        """Return the ends of the axes with constant values."""
        spans = self.spans.items()
        return {v: (s.lo, s.hi) for v, s in spans if isinstance(s.lo, int) and isinstance(s.hi, int)}

    def _stated(self, used: Iterable[Var]) -> bool:
        """Whether the values of the axes among some variables are known; the others are arguments of the function."""
        free = [var for var in used if var not in self.spans]
        return not free or not any(axis.var in free for op in self.graph for axis in op.loop_axes)

    def occur_together(self, used: frozenset[Var]) -> bool:
        """Whether all combinations of the variables' values occur."""
        return self.together or sum(axis.var in used for axis in self.op.axis) < 2


def _range(span: ExactRange, var: Var) -> tuple[Expr, Expr]:
    low, high = _ends(span, var)
    return low, simplify(subtract(high, low) + 1)


def _ends(span: ExactRange, like: Expr) -> tuple[Expr, Expr]:
    """The ends as expressions of the type of `like`."""
    low, high = (const(e, like.dtype) if isinstance(e, int) else e for e in span)
    return low, high


def _end(e: Expr) -> End:
    made = simplify(e)
    return made.value if isinstance(made, IntImm) else made


def _constant_span(e: Expr, spans: Mapping[Var, ExactRange]) -> tuple[int, int, frozenset[Var]] | None:
    """The least and the greatest value and the axes of a sum of multiples of different axes; None for others."""
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


def _check(reader: _Reader, read: GuardedRead, found: Sequence[ExactRange | None]) -> Iterator[ReadCheck]:
    for d, span in enumerate(found):
        if span is None:
            continue
        extent = read.source.shape[d]
        if isinstance(span.lo, int) and isinstance(span.hi, int) and isinstance(extent, IntImm):
            below, above = span.lo < 0, span.hi >= extent.value
        else:
            below = _certain(span.lo, extent, below=True)
            above = _certain(span.hi, extent, below=False)
            if not (below or above):
                ends = _ends(span, read.load.indices[d])
                yield from range_check(reader.op.name, read, d, ends, reader.occurs)
        if below or above:
            index = read.load.indices[d]
            if isinstance(index, IntImm):
                raise reads_beyond(reader.op, read, d, f"is {span.lo}", "")
            conditions = [f"{index} >= 0"] * below + [f"{index} < {extent}"] * above
            kept = conditions[0] if len(conditions) == 1 else f"te.all({', '.join(conditions)})"
            raise reads_beyond(reader.op, read, d, f"runs from {span.lo} to {span.hi}", kept)


def _certain(end: End, extent: Expr, below: bool) -> bool:
    if isinstance(end, int):
        if below:
            return end < 0
        return isinstance(extent, IntImm) and end >= extent.value
    return prove(less(end, 0) if below else greater_equal(end, extent))
