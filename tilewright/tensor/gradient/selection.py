"""Adjoints that only select elements of a sum, as the sum of these elements.

The adjoint of a padding stage has the border, which the adjoint of its input leaves out. If no other adjoint reads the
sums, the border need not be computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...arith.facts import EMPTY
from ...arith.simplify import simplify
from ...expr.nodes import Cast, Expr, IntImm, Load, Var
from ...expr.operators import cast, subtract
from ...expr.traverse import substitute, variables
from ..axis import AxisKind, IterVar, Range
from ..reduction import Reduce
from ..tensor import ComputeOp, Tensor, compute


def selected(part: Tensor) -> Tensor:
    """Return a tensor that selects elements of a sum as the sum of these elements; other tensors as they are.

    No other tensor may read the sums.
    """
    body = part.op.body[0]
    load = body.value if isinstance(body, Cast) else body
    if not isinstance(load, Load) or not isinstance(load.source, Tensor):
        return part
    source = load.source
    if not isinstance(source.op, ComputeOp) or source.op.num_outputs > 1:
        return part
    axes = part.op.axis
    if not _is_shift(load.indices, axes):
        return part
    own, there = source.op.body[0], {a.var: i for a, i in zip(source.op.axis, load.indices, strict=True)}
    if not isinstance(own, Reduce):
        return selected(ComputeOp(part.name, axes, (cast(part.dtype, substitute(own, there)),)).outputs[0])
    if own.init or len(own.source) > 1:
        return part
    inner = moved_axes(own, there)
    values = there | {old: axis.var for old, axis in inner.items()}
    spans = [*(axis.dom for axis in axes), *(axis.dom for axis in inner.values())]
    names = [*(axis.var for axis in axes), *(axis.var for axis in inner.values())]
    facts = EMPTY.bind_all({v: (d.min, d.extent) for v, d in zip(names, spans, strict=True) if d is not None})
    term, keep = simplify(substitute(own.source[0], values), facts), simplify(substitute(own.condition, values), facts)
    ends = tuple(substitute(end, values) for end in own.ends)
    total = Reduce(own.combiner, (term,), tuple(inner.values()), keep, 0, (), ends)
    sums = ComputeOp(part.name, axes, (total,)).outputs[0]
    if sums.dtype == part.dtype:
        return sums
    made: Tensor = compute(part.shape, lambda *i: cast(part.dtype, sums(*i)), part.name)
    return made


def _is_shift(indices: tuple[Expr, ...], axes: Sequence[IterVar]) -> bool:
    """Whether indices are all axes, each axis once, plus constants; axes of one element may be missing."""
    used = [variables(i) for i in indices]
    found = [var for each in used for var in each]
    whole = {a.var for a in axes if a.dom is None or not (isinstance(a.dom.extent, IntImm) and a.dom.extent.value == 1)}
    if len(set(found)) != len(found) or not whole <= set(found) <= {a.var for a in axes}:
        return False
    return all(not u or isinstance(simplify(subtract(i, u[0])), IntImm) for i, u in zip(indices, used, strict=True))


def moved_axes(body: Reduce, values: dict[Any, Expr]) -> dict[Var, IterVar]:
    """Copies of the axes of a reduction, with their ranges for these values of other axes."""
    made: dict[Var, IterVar] = {}
    for axis, span in zip(body.axes, body.ranges(), strict=True):
        there = values | {old: new.var for old, new in made.items()}
        made[axis.var] = IterVar(axis.name, None if span is None else moved(span, there), AxisKind.REDUCE)
    return made


def moved(span: Range, values: dict[Any, Expr]) -> Range:
    """A range in terms of other axes."""
    return Range.from_min_extent(substitute(span.min, values), substitute(span.extent, values))
