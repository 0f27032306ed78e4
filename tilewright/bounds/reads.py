"""Reads that certainly leave their tensor: found before anything runs, whatever the schedule.

Only what is certain is refused: an index whose extreme value is reached at a point that is computed, read under no
condition. Reads inside `if_then_else`, `select` or the second part of `all` and `any`, and those of a reduction with
`where`, are left alone, as are indices that depend on values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


class Span(NamedTuple):
    """The least and the largest value of an axis or an index, both of them reached."""

    lo: Expr
    hi: Expr


Spans = dict[Var, Span]


def check_reads(outputs: Sequence[Operation]) -> None:
    """Raise UserError where a computation that `outputs` need certainly reads beyond the ends of a tensor."""
    needed: dict[Operation, list[Span | None]] = {op: [_whole(extent) for extent in op.shape] for op in outputs}
    graph = topological(outputs)
    sizes = frozenset(variables(*(extent for op in graph for extent in op.shape)))
    for op in reversed(graph):
        if isinstance(op, PlaceholderOp) or _computes_nothing(op):
            continue
        spans = _spans(op, needed.get(op, []))
        # Of what is no output only single values of an axis are known to be needed, not which of them together.
        together = op in outputs
        for load in dict.fromkeys(_certain_loads(op)):
            if isinstance(load.source, Tensor):
                found = [_index_span(e, spans, sizes, op, together) for e in load.indices]
                _check(op, load, found)
                _need(needed, load.source.op, found)


def _whole(extent: Expr) -> Span:
    return Span(const(0, extent.dtype), subtract(extent, 1))


def _computes_nothing(op: Operation) -> bool:
    axes = (*op.axis, *op.reduce_axis)
    return any(a.dom is None or (isinstance(a.dom.extent, IntImm) and a.dom.extent.value < 1) for a in axes)


def _spans(op: Operation, needed: Sequence[Span | None]) -> Spans:
    """The values that are known to occur, of each axis of which any are."""
    spans = {axis.var: span for axis, span in zip(op.axis, needed, strict=False) if span is not None}
    for axis in op.reduce_axis:
        if axis.dom is not None:
            spans[axis.var] = Span(axis.dom.min, subtract(axis.dom.min + axis.dom.extent, 1))
    return spans


def _need(needed: dict[Operation, list[Span | None]], producer: Operation, found: Sequence[Span | None]) -> None:
    """Add what one read asks of a tensor, a dimension at a time, to what others ask."""
    if isinstance(producer, PlaceholderOp):
        return
    known = needed.setdefault(producer, list(found))
    for d, (a, b) in enumerate(zip(known, found, strict=True)):
        known[d] = _join(a, b)


def _join(a: Span | None, b: Span | None) -> Span | None:
    """The values from the least to the largest of both; either alone where they cannot be compared."""
    if a is None or b is None or a == b:
        return a or b
    if all(isinstance(e, IntImm) for e in (*a, *b)):
        return Span(min(a.lo, b.lo, key=_value), max(a.hi, b.hi, key=_value))
    return a


def _value(e: Expr) -> int:
    return int(e.value)  # type: ignore[attr-defined]  # only constants are compared


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


def _index_span(
    index: Expr, spans: Mapping[Var, Span], sizes: frozenset[Var], op: Operation, together: bool
) -> Span | None:
    """The least and the largest value of an index, where both are certainly reached; None where that is not known."""
    used = variables(index)
    own = {axis.var for axis in op.axis}
    if any(var not in spans and var not in sizes for var in used) or (not together and len(own.intersection(used)) > 1):
        return None
    numbers = _constant_span(index, spans)
    if numbers is not None:
        low, high, _ = numbers
        return Span(const(low, index.dtype), const(high, index.dtype)) if _fits(low, high, index) else None
    relaxed = {v: (spans[v].lo, simplify(subtract(spans[v].hi, spans[v].lo) + 1)) for v in used if v in spans}
    found = extremes(simplify(index), relaxed)
    return Span(simplify(found.lo), simplify(found.hi)) if found is not None and found.exact else None


def _fits(low: int, high: int, index: Expr) -> bool:
    return index.dtype.min_value <= low and high <= index.dtype.max_value


def _constant_span(e: Expr, spans: Mapping[Var, Span]) -> tuple[int, int, frozenset[Var]] | None:
    """The ends of sums of multiples of different axes, as nearly all indices are, and the axes; None for others."""
    if isinstance(e, IntImm):
        return e.value, e.value, frozenset()
    if isinstance(e, Var):
        span = spans.get(e)
        if span is None or not (isinstance(span.lo, IntImm) and isinstance(span.hi, IntImm)):
            return None
        return span.lo.value, span.hi.value, frozenset((e,))
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


def _check(op: Operation, load: Load, found: Sequence[Span | None]) -> None:
    for d, span in enumerate(found):
        if span is not None and isinstance(load.source, Tensor):
            extent = load.source.shape[d]
            below = _certain(span.lo, extent, below=True)
            above = _certain(span.hi, extent, below=False)
            if below or above:
                raise _beyond(op, load, d, span, [">= 0"] * below + [f"< {extent}"] * above)


def _beyond(op: Operation, load: Load, dimension: int, span: Span, kept: Sequence[str]) -> UserError:
    """The error for an index that leaves its tensor; `kept` says what would keep it inside."""
    name, shape, index = load.source.name, getattr(load.source, "shape", ()), load.indices[dimension]
    runs = f"is {span.lo}" if span.lo is span.hi else f"runs from {span.lo} to {span.hi}"
    conditions = ", ".join(f"{index} {each}" for each in kept)
    guard = conditions if len(kept) == 1 else f"te.all({conditions})"
    last = subtract(shape[dimension], 1)
    constant = isinstance(index, IntImm)
    return UserError(
        f"stage {op.name!r} reads beyond the ends of {name!r}, of shape {list(shape)}: in {load}, index {dimension} "
        f"{runs}, but is to stay within 0 to {last}",
        primitive="lower",
        fix=f"give an index from 0 to {last}, the last element"
        if constant
        else f"declare shapes in which it stays inside, or read under a condition: te.if_then_else({guard}, {load}, 0)",
    )


def _certain(end: Expr, extent: Expr, below: bool) -> bool:
    if isinstance(end, IntImm) and isinstance(extent, IntImm):
        return end.value < 0 if below else end.value >= extent.value
    return prove(less(end, 0) if below else greater_equal(end, extent))
