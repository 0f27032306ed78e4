"""Sums of products on processors: tiles of sums in registers, and operands in the order in which vectors are loaded.

The last dimension of the result runs in vectors. An operand with another last dimension, such as the weights of a dense
layer, is packed per block of columns. Its vectors are then contiguous in memory. Rows of sums that read the same
vectors are computed together. Padding is written out once, and elements that a window's stride skips are stored apart,
so that each step reads neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any, NamedTuple

from ...arith.simplify import simplify
from ...expr.nodes import Div, Expr, FloorDiv, IntImm, Var
from ...expr.traverse import loads, post_order, substitute, variables
from ...schedule.handle import ScheduleHandle
from ...tensor.axis import IterVar
from ...tensor.reduction import Reduce
from ...tensor.tensor import ComputeOp, Operation, PlaceholderOp, Tensor, is_reduction
from ..argument_checks import known
from .stages import LANES, count

_LANES = (32, 16, 8)
_ROWS = (6, 8, 5, 4, 7, 3, 2)
_FEW_LANES = 7
_FEW_TERMS = 16
"""Below, a result is not worth a tile."""
_MOST_STRIDE = 4
_BLOCKS = 16
"""Blocks that keep some processors busy, if rows have to be divided among them too."""


@dataclass(frozen=True)
class _Operand:
    """A tensor that a product reads, and the dimension by which the columns of the result name it; None: not at all."""

    tensor: Tensor
    column: int | None
    stride: int = 1
    """The distance of neighbouring columns, if they index the last dimension."""


class _Sides(NamedTuple):
    """The dimension along which a block has rows, the columns of the result, and the groups of both; 0: none."""

    row: IterVar
    columns: int
    group_rows: int
    group_columns: int


@dataclass(frozen=True)
class ProcessorTile:
    """Rows and columns of sums that are computed together in registers; 0: chosen by the extents."""

    rows: int = 0
    lanes: int = 0


BY_EXTENTS = ProcessorTile()


def block_on_processors(s: ScheduleHandle, op: ComputeOp, out: Operation, tile: ProcessorTile = BY_EXTENTS) -> bool:
    """Schedule the sums `op`, which `out` stores, in blocks; return False, unchanged, if that does not fit."""
    found = _sides(op)
    if found is None:
        return False
    sides, operands = found
    _store_inputs(s, op, {each.tensor: each.stride for each in operands})
    _block(s, op, out, sides, operands, tile)
    return True


def fits_blocks(op: ComputeOp) -> bool:
    """Return whether sums can be computed in blocks: rows of sums load the same vectors."""
    return bool(op.axis) and _sides(op) is not None


def _sides(op: ComputeOp) -> tuple[_Sides, list[_Operand]] | None:
    """The rows and columns of blocks, and the operands; None if sums have no blocks."""
    body, columns = op.body[0], known(op.axis[-1].dom.extent) if op.axis[-1].dom is not None else None
    if len(op.body) > 1 or not isinstance(body, Reduce) or columns is None or columns < _FEW_LANES:
        return None
    terms = count(op.reduce_axis)
    source, groups = _without_groups(op, body.source[0])
    operands = _operands(op, source)
    row = _row(op, source, operands)
    within = groups.get(op.axis[-1].var, 0)
    narrow = all(within % n for n in _LANES)
    if operands is None or row is None or terms is None or terms < _FEW_TERMS or narrow:
        return None
    return _Sides(row, columns, groups.get(row.var, 0), within), operands


def _without_groups(op: ComputeOp, source: Expr) -> tuple[Expr, dict[Var, int]]:
    """Replace the groups in which indices name axes, such as `i // 64`; returns the sizes of groups, too.

    Loads do not tell neighbours within a group apart.
    """
    own, sizes, replaced = {axis.var for axis in op.axis}, dict[Var, int](), dict[Any, Expr]()
    for load in loads(source):
        for e in post_order(*load.indices):
            if isinstance(e, (FloorDiv, Div)) and e.a in own and isinstance(e.b, IntImm) and isinstance(e.a, Var):
                sizes[e.a] = gcd(sizes.get(e.a, 0), e.b.value)
                replaced[e] = Var(f"{e.a.name}_group", e.dtype)
    return substitute(source, replaced), sizes


def _operands(op: ComputeOp, source: Expr) -> list[_Operand] | None:
    """The operands of the terms; None if the columns name a tensor by more than an index of its own."""
    last, found = op.axis[-1].var, []
    for load in loads(source):
        tensor = load.source
        if not isinstance(tensor, Tensor):
            return None
        named = [d for d, index in enumerate(load.indices) if last in variables(index)]
        if len(named) > 1:
            return None
        at = named[0] if named else None
        if at is not None and at != tensor.ndim - 1 and (load.indices[at] is not last or not _may_be_packed(tensor)):
            return None
        stride = 1 if at is None else stride_of(load.indices[at], last)
        if stride is None or (stride > 1 and at != tensor.ndim - 1):
            return None
        found.append(_Operand(tensor, at, stride))
    return found if any(each.column is not None for each in found) else None


def stride_of(index: Expr, column: Var) -> int | None:
    """How many elements the next column lies behind; None if that is not one small number."""
    step = simplify(substitute(index, {column: column + 1}) - index)
    return step.value if isinstance(step, IntImm) and 1 <= step.value <= _MOST_STRIDE else None


def _may_be_packed(tensor: Tensor) -> bool:
    return isinstance(tensor.op, PlaceholderOp) or is_reduction(tensor.op)


def _row(op: ComputeOp, source: Expr, operands: list[_Operand] | None) -> IterVar | None:
    """The innermost dimension of the result along which the same vectors are loaded."""
    vectors = {each.tensor for each in operands or () if each.column is not None}
    reads = [e for e in loads(source) if e.source in vectors]
    used = {var for load in reads for var in variables(*load.indices)}
    fitting = [a for a in op.axis[:-1] if a.var not in used and a.dom is not None and (known(a.dom.extent) or 0) > 1]
    return fitting[-1] if fitting else None


def _store_inputs(s: ScheduleHandle, op: ComputeOp, strides: dict[Tensor, int]) -> None:
    """Store a padded operand first, by all processors, and the elements that a stride skips apart.

    A padded operand that its caller has scheduled stays as it is.
    """
    for tensor, stride in strides.items():
        is_padding = isinstance(tensor.op, ComputeOp) and "pad" in tensor.op.tag
        if not tensor.ndim or (stride == 1 and not is_padding) or s[tensor].relations:
            continue
        stored = tensor if is_padding else s.cache_read(tensor, "global", [op])
        s[stored].compute_root()
        if stride > 1:  # phase after phase, each a row of neighbours
            *outer, last = s[stored].op.axis
            near, phase = s[stored].split(last, factor=stride)
            s[stored].reorder(*outer, phase, near)
            parts = s.cache_write(stored, "global")
            s[stored].compute_inline()
            stored = parts
        *outer, last = s[stored].op.axis
        if stride == 1:
            s[stored].vectorize(s[stored].split(last, factor=LANES)[1])
        if outer:
            s[stored].parallel(s[stored].fuse(*outer))


def _lanes(columns: int, group: int) -> int:
    """How wide vectors are: a width that divides the columns and fills a register, else one with little waste.

    A vector lies within a group.
    """

    def use(n: int) -> float:
        """How much of the registers' lanes are in use; guards around a vector that sticks out cost as well."""
        if columns % n == 0:
            return min(1.0, n / LANES)
        return columns / (-(-columns // n) * n) * (0.9 if columns >= 8 * n else 0.4)

    divisors = [n for n in range(_FEW_LANES, LANES) if columns % n == 0]
    fitting = [n for n in (*_LANES, *divisors) if group % n == 0]
    return max(fitting, key=lambda n: (use(n), n))


def _rows(extent: int, group: int) -> int:
    """How many rows of sums are computed together, within a group."""
    return next((n for n in _ROWS if extent % n == 0 and group % n == 0), 1 if group else min(4, extent))


def _block(
    s: ScheduleHandle,
    op: ComputeOp,
    out: Operation,
    sides: _Sides,
    operands: list[_Operand],
    tile: ProcessorTile,
) -> None:
    row, columns = sides.row, sides.columns
    width, place = tile.lanes or _lanes(columns, sides.group_columns), list(op.axis).index(row)
    extent = known(row.dom.extent) if row.dom is not None else None
    height = tile.rows or _rows(extent or 1, sides.group_rows)
    apart = [(each.tensor, each.column) for each in operands if each.column not in (None, each.tensor.ndim - 1)]
    strips = [_packed(s, op, tensor, column or 0, width) for tensor, column in apart]
    total = s.cache_write(op.output(0), "local") if out is op else op.output(0)
    axes = list(s[out].op.axis)
    last, rows = axes[-1], axes[place]
    block, lane = s[out].split(last, factor=width)
    group, inner = s[out].split(rows, factor=height)
    others = [a for d, a in enumerate(axes[:-1]) if d != place]
    if strips:  # a block's strip is packed once for all rows
        before = _before(others, axes, place)
        after = [a for a in others if a not in before]
        blocks = (columns + width - 1) // width * (count(before) or 1)
        parts = [*before, block]
        if blocks < _BLOCKS:
            chunk, group = s[out].split(group, nparts=min(4, max(1, (extent or 1) // height)))
            parts.append(chunk)
        s[out].reorder(*parts, group, *after, inner, lane)
        whole = s[out].fuse(*parts)
        for strip in strips:
            s[strip].compute_at(s[out], whole)
            _in_lines(s, strip)
        at = after[-1] if after else group
    else:
        ordered = [a if a is not rows else group for a in axes[:-1]]
        s[out].reorder(*ordered, block, inner, lane)
        whole = s[out].fuse(*ordered)
        at = block
    s[out].parallel(whole)
    s[out].vectorize(lane)
    s[total].compute_at(s[out], at)
    own = s[total].op.axis
    s[total].reorder(*[a for d, a in enumerate(own[:-1]) if d != place], *s[total].op.reduce_axis, own[place], own[-1])
    s[total].unroll(own[place])
    s[total].vectorize(own[-1])


def _in_lines(s: ScheduleHandle, strip: Tensor) -> None:
    """Pack whole lines of the operand, each a part of some columns."""
    *outer, depth, lane = s[strip].op.axis
    parts, line = s[strip].split(depth, factor=LANES)
    s[strip].reorder(*outer, parts, lane, line)


def _before(others: list[IterVar], axes: list[IterVar], place: int) -> list[IterVar]:
    """The dimensions before the rows, such as the batch."""
    return [a for a in others if axes.index(a) < place]


def _packed(s: ScheduleHandle, op: ComputeOp, operand: Tensor, column: int, width: int) -> Tensor:
    """A copy of an operand with a vector of columns as its last dimension."""
    copy = s.cache_read(operand, "global", [op])
    axes: list[Any] = list(s[copy].op.axis)
    block, lane = s[copy].split(axes.pop(column), factor=width)
    s[copy].reorder(block, *axes, lane)
    strip: Tensor = s.cache_write(copy, "global")
    s[copy].compute_inline()
    return strip
