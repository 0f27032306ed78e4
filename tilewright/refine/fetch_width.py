"""How many neighbouring elements one thread fetches at a time, for a fill of shared memory.

A thread moves up to 16 bytes with one instruction under three conditions. The elements are contiguous on both sides,
all or none of them are padding, and the first is aligned. All of this is proven here from the bounds, before loops are
built.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from ..arith.affine import Affine
from ..arith.modular import modular
from ..arith.simplify import simplify
from ..bounds.stage_bounds import StageBounds
from ..expr.nodes import Expr, IfThenElse, Load, Select
from ..expr.operators import add, const, is_const, multiply
from ..expr.traverse import substitute, uses_any, variables
from ..tensor.tensor import Tensor


def fetch_lanes(found: StageBounds, sizes: Sequence[int]) -> int:
    """Return the most elements that one instruction of these sizes (in bytes) can fetch per thread; 1 if none can.

    The region of the stage must have constant extents.
    """
    load, axes = _moved(found.body), found.stage.op.axis
    if load is None or not axes or not isinstance(load.source, Tensor):
        return 1
    element = found.stage.op.outputs[0].dtype
    if load.source.dtype != element or element.lanes != 1 or element.is_bool:
        return 1
    for size in sorted(sizes, reverse=True):
        lanes = size // element.bytes
        if lanes > 1 and size % element.bytes == 0 and _fits(found, load, lanes):
            return lanes
    return 1


def _moved(body: tuple[Expr, ...]) -> Load | None:
    """The load of a stage that only moves elements, or zeros if a condition does not hold."""
    value = body[0] if len(body) == 1 else None
    if isinstance(value, (IfThenElse, Select)) and is_const(value.false_value, 0):
        value = value.true_value
    return value if isinstance(value, Load) else None


def _fits(found: StageBounds, load: Load, lanes: int) -> bool:
    stage = found.stage
    row, strides = stage.op.axis[-1], _strides(found)
    if strides[-1] != 1 or any(stride % lanes for stride in strides[:-1]) or int(found.region[-1].extent) % lanes:
        return False
    (value,) = found.body
    if isinstance(value, (IfThenElse, Select)):
        ranges = {axis.var: (found.ranges[axis].min, found.ranges[axis].extent) for axis in stage.op.axis}
        if row.var in variables(simplify(value.condition, found.facts.bind_all(ranges))):
            return False
    # A region that reaches beyond its tensor is guarded element by element.
    whole = stage.op.outputs[0].shape[-1]
    if _divisor(whole, found) % lanes or not _is_multiple(found.ranges[row].min, found, lanes):
        return False
    place = _flat(load)
    form = Affine.of(place)
    if form.terms.get(row.var) != 1 or any(atom is not row.var and uses_any(atom, (row.var,)) for atom in form.terms):
        return False
    return _is_multiple(substitute(place, {row.var: found.ranges[row].min}), found, lanes)


def _strides(found: StageBounds) -> list[int]:
    """The distances of neighbours in shared memory along each dimension, with the padding of the schedule."""
    stride, strides = 1, []
    for axis, part in reversed(list(zip(found.stage.op.axis, found.region, strict=True))):
        factor, offset = found.stage.aligns.get(axis, (1, 0))
        stride += (offset - stride) % factor
        strides.append(stride)
        stride *= int(part.extent)
    return strides[::-1]


def _flat(load: Load) -> Expr:
    """The position of the element that is loaded, in row-major order."""

    def step(total: Expr, part: tuple[Expr, Expr]) -> Expr:
        index, extent = part
        return add(multiply(total, extent), index)

    parts = zip(load.indices, load.source.shape, strict=True)  # type: ignore[attr-defined]
    return reduce(step, parts, const(0, load.indices[-1].dtype))


def _is_multiple(e: Expr, found: StageBounds, lanes: int) -> bool:
    known = modular(e, found.facts)
    return known.coeff % lanes == 0 and known.base % lanes == 0


def _divisor(e: Expr, found: StageBounds) -> int:
    """Return a number that is known to divide an extent."""
    known = modular(e, found.facts)
    return known.base if known.coeff == 0 else known.coeff if known.base == 0 else 1
