"""Vectors of indices: simplified as a scalar function of the lane, and turned back into a Ramp or a Broadcast."""

from __future__ import annotations

from typing import Any

from ..core.dtype import INT32, INT64
from ..expr import nodes as n
from ..expr.nodes import Expr, IntImm, Var
from ..expr.traverse import uses_any
from . import generic
from .affine import Affine
from .assume import ready
from .engine import HANDLERS, linear, visit, with_simple_children
from .facts import Facts
from .write import write

_LANE = {INT32: Var("lane", INT32), INT64: Var("lane", INT64)}
_SCALAR = (n.Add, n.Sub, n.Mul, n.FloorDiv, n.FloorMod, n.Div, n.Mod, n.Min, n.Max)
_COMPARISONS = (n.LT, n.LE, n.GT, n.GE, n.EQ, n.NE)


def _at_lane(e: Any, lane: Expr) -> Expr | None:
    """The value in a lane of a vector made of Ramp and Broadcast by arithmetic; None for another vector."""
    if isinstance(e, n.Ramp):
        return n.Add(e.base, n.Mul(e.stride, lane))
    if isinstance(e, n.Broadcast):
        return e.value
    if isinstance(e, (*_SCALAR, *_COMPARISONS)):
        a, b = _at_lane(e.a, lane), _at_lane(e.b, lane)
        return None if a is None or b is None else type(e)(a, b)
    return None


def arithmetic(e: n.Arithmetic | n.Compare, facts: Facts) -> Expr:
    """An operator that is not an index: of vectors, or else as in `generic`."""
    kind, lanes = e.a.dtype.scalar, e.a.dtype.lanes
    if lanes == 1 or kind not in _LANE:
        return generic.binary(e, facts)
    lane = _LANE[kind]
    scalar = _at_lane(e, lane)
    if scalar is None:
        return generic.binary(e, facts)
    inner = facts.lanes.get(lanes)
    if inner is None:
        inner = facts.lanes[lanes] = facts.bind(lane, IntImm(0, kind), IntImm(lanes, kind))
    ready(inner)
    if isinstance(e, _COMPARISONS):
        simple = visit(scalar, inner)
        return with_simple_children(e, facts) if uses_any(simple, (lane,)) else n.Broadcast(simple, lanes)
    form = linear(scalar, inner)
    stride = form.terms.get(lane, 0)
    base = Affine({a: k for a, k in form.terms.items() if a is not lane}, form.const, form.dtype)
    if any(uses_any(a, (lane,)) for a in base.terms):
        return with_simple_children(e, facts)
    start = write(base, inner)
    return n.Ramp(start, IntImm(stride, kind), lanes) if stride else n.Broadcast(start, lanes)


def _load(e: n.Load, facts: Facts) -> Expr:
    """Simplify a load; if all lanes read the same element, to one load and its copies."""
    made = with_simple_children(e, facts)
    if made.dtype.lanes == 1 or e.source.dtype.lanes != 1:
        return made
    plain = tuple(index.value if isinstance(index, n.Broadcast) else index for index in made.indices)
    if any(index.dtype.lanes != 1 for index in plain):
        return made
    return n.Broadcast(n.Load(e.source, plain), made.dtype.lanes)


HANDLERS[n.Load] = _load
HANDLERS.update(dict.fromkeys(_SCALAR, arithmetic))
