"""Vector expressions taken apart: one lane as a scalar expression, and how well an index is aligned."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..expr import nodes as n
from ..expr import operators as op
from ..expr.traverse import post_order
from ..loops.nodes import Buffer

Lanes = Mapping[n.Expr, tuple[n.Expr, ...]]
_PIECES = 4
"""The vectors to load in place of a strided one: some ten instructions fewer than a gather of 16."""


def lane_of(e: n.Expr, lane: int, known: Lanes) -> n.Expr:
    """Element `lane` of a vector expression, as a scalar one; `known`: the elements of loads already done."""
    if e.dtype.lanes == 1:
        return e
    if isinstance(e, n.Ramp):
        return op.add(e.base, op.multiply(e.stride, op.const(lane, e.stride.dtype)))
    if isinstance(e, n.Broadcast):
        return e.value
    if e in known:
        return known[e][lane]
    if isinstance(e, n.Load):
        return n.Load(e.source, tuple([lane_of(index, lane, known) for index in e.indices]))
    if isinstance(e, n.Cast):
        return n.Cast(e.dtype.scalar, lane_of(e.value, lane, known))
    if isinstance(e, n.Call):
        return n.Call(e.name, tuple([lane_of(arg, lane, known) for arg in e.args]), e.dtype.scalar)
    scalar: n.Expr = e.map_children(lambda child: lane_of(child, lane, known))
    return scalar


def flat_index(buffer: Buffer, indices: tuple[n.Expr, ...]) -> n.Expr:
    """The position of an element in row-major order; a `Ramp` among the indices stays one."""
    if len(indices) == 1:
        return indices[0]
    total: n.Expr = op.const(0, indices[0].dtype.scalar if indices else "int32")
    ramp: n.Ramp | None = None
    step = total
    for index, extent in zip(indices, buffer.shape, strict=True):
        total = op.multiply(total, op.cast(total.dtype, extent))
        step = op.multiply(step, op.cast(total.dtype, extent))
        if isinstance(index, n.Ramp) and ramp is None:
            total, step, ramp = op.add(total, index.base), index.stride, index
        else:
            total = op.add(total, index)
    return total if ramp is None else n.Ramp(total, step, ramp.lanes)


def contiguous(index: n.Expr) -> n.Ramp | None:
    """The index if it is a ramp of stride 1, else None."""
    return index if isinstance(index, n.Ramp) and op.is_const(index.stride, 1) else None


def lane_offsets(index: n.Expr) -> tuple[n.Expr, tuple[int, ...]] | None:
    """A scalar index, and by how much each lane of a vector index differs from it; None if that is not constant."""
    if isinstance(index, n.Broadcast):
        return index.value, (0,) * index.lanes
    if isinstance(index, n.Ramp):
        step = index.stride
        if not isinstance(step, n.IntImm):
            return None
        return index.base, tuple(lane * step.value for lane in range(index.lanes))
    if isinstance(index, (n.Add, n.Sub)):
        left, right = lane_offsets(index.a), lane_offsets(index.b)
        if left is None or right is None:
            return None
        combine = operator.add if isinstance(index, n.Add) else operator.sub
        return type(index)(left[0], right[0]), tuple(map(combine, left[1], right[1]))
    if isinstance(index, (n.Mul, n.FloorDiv, n.FloorMod)) and isinstance(index.b, n.Broadcast):
        found, by = lane_offsets(index.a), index.b.value
        if found is not None and isinstance(by, n.IntImm) and by.value > 0:
            return _scaled(type(index), *found, by)
    return None


def covering_vectors(span: int, lanes: int) -> tuple[int, list[int]]:
    """The width of the vectors that cover a span of neighbouring elements, and the first element of each.

    A vector of `lanes` elements reads this span. The last covering vector ends with the span. There are none if it is
    better to load lanes one by one.
    """
    width = min(lanes, 1 << span.bit_length() - 1)
    starts = [*range(0, span - width, width), span - width]
    return width, starts if len(starts) <= (_PIECES if width == lanes else 2) else []


def _scaled(
    kind: type[n.Binary], base: n.Expr, offsets: tuple[int, ...], by: n.IntImm
) -> tuple[n.Expr, tuple[int, ...]] | None:
    """The product, quotient or remainder of an index; a quotient or remainder only if it is known for each lane."""
    if kind is n.Mul:
        return n.Mul(base, by), tuple(offset * by.value for offset in offsets)
    if base.dtype.kind != "int" or known_divisor(base) % by.value:
        return None  # an unsigned base may have wrapped, which divisors do not survive
    if kind is n.FloorDiv:
        return n.FloorDiv(base, by), tuple(offset // by.value for offset in offsets)
    return n.IntImm(0, base.dtype), tuple(offset % by.value for offset in offsets)


def known_divisor(e: n.Expr) -> int:
    """A number that divides every value of `e`, the largest that its form shows; 0 for the constant 0."""
    if isinstance(e, n.IntImm):
        return abs(e.value)
    if isinstance(e, n.Var):
        return e.known.multiple_of
    if isinstance(e, (n.Add, n.Sub, n.Min, n.Max)):
        return math.gcd(known_divisor(e.a), known_divisor(e.b))
    if isinstance(e, n.Mul):
        return known_divisor(e.a) * known_divisor(e.b)
    if isinstance(e, (n.Select, n.IfThenElse)):
        return math.gcd(known_divisor(e.true_value), known_divisor(e.false_value))
    if isinstance(e, (n.FloorMod, n.Mod)):
        return math.gcd(known_divisor(e.a), known_divisor(e.b))
    if isinstance(e, (n.FloorDiv, n.Div)) and isinstance(e.b, n.IntImm) and e.b.value:
        inner, by = known_divisor(e.a), abs(e.b.value)
        return inner // by if inner % by == 0 else 1
    if isinstance(e, n.Cast):
        return known_divisor(e.value) if e.dtype.is_int and e.value.dtype.is_int else 1
    if isinstance(e, n.Call):
        return _divisor_of_bits(e)
    return 1


def _divisor_of_bits(e: n.Call) -> int:
    """Return a known divisor of a bit operation: a power of two divides a number if its last bits are 0."""
    if e.name == "shift_left" and isinstance(e.args[1], n.IntImm):
        return known_divisor(e.args[0]) << e.args[1].value
    if e.name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
        found = math.gcd(*map(known_divisor, e.args))
        return found & -found
    return 1


def guarded_load(e: n.Expr) -> n.Load | None:
    """The load of a choice between a vector load and zeros by a condition of one lane: padding; None for another."""
    if isinstance(e, (n.IfThenElse, n.Select)) and e.condition.dtype.lanes == 1:
        zeros = e.false_value.value if isinstance(e.false_value, n.Broadcast) else None
        if isinstance(e.true_value, n.Load) and isinstance(zeros, n.FloatImm) and op.is_const(zeros, 0):
            return e.true_value
    return None


def strict_loads(e: n.Expr, wanted: Callable[[n.Load], bool]) -> list[n.Expr]:
    """The wanted vector loads, guarded ones too, that are evaluated regardless of the conditions around them in `e`."""
    found: dict[n.Expr, None] = {}

    def visit(at: n.Expr) -> None:
        guarded = guarded_load(at)
        if at is not e and guarded is not None and wanted(guarded):
            found[at] = None
            return
        if isinstance(at, n.Load):
            if at.dtype.lanes > 1 and wanted(at):
                found[at] = None
            return
        lazy = isinstance(at, (n.IfThenElse, n.Select, n.And, n.Or))
        for child in at.children()[: 1 if lazy else None]:
            visit(child)

    visit(e)
    return list(found)


def reads(e: n.Expr, buffer: Buffer, root: Callable[[Any], Buffer]) -> list[n.Load]:
    """The loads in `e` from the memory of `buffer`."""
    return [at for at in post_order(e) if isinstance(at, n.Load) and root(at.source) is root(buffer)]
