"""Instructions of a warpgroup: their requirements on warps and on the tiles in shared memory that they read.

The hardware reads both operands from shared memory by itself, and takes one address for each: the beginning of its
warpgroup's first row. So rows follow each other at 128 bytes, swizzled as the hardware expects them, and the four warps
of a warpgroup are neighbours. Warp w, which threadIdx.y counts, has 16 rows from row 16 * w on.

The right operand may be turned, if its elements have 16 bits: neighbours along the columns are neighbours in memory.
Then a line of 128 bytes has 64 columns of one term, and the lines of the terms follow each other.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..arith.interval import interval
from ..bounds.stage_bounds import Bounds, StageBounds, StageContraction
from ..core.atoms import WARPGROUP, Atom
from ..core.dtype import DType
from ..core.hardware import SWIZZLE_LINE, MemoryScope, ThreadTag
from ..expr.nodes import Expr, IntImm, Load, Var
from ..schedule.legality import names
from ..schedule.schedule import Schedule
from ..schedule.tensor_intrin import refuse
from ..tensor.axis import IterVar
from ..tensor.tensor import Tensor
from .contraction import extent, local_indices

_GROUP_ROWS = 8
"""The rows of one period of the swizzle: a tile begins at a multiple of this number."""


def match_warpgroup(schedule: Schedule, made: Bounds, found: StageBounds, matched: StageContraction) -> None:
    """Check a stage that an instruction of a warpgroup computes, and lay out its operands for the hardware."""
    atom, stage = matched.atom, found.stage
    before = replace(found, stage=matched.stage, ranges=matched.ranges)
    rows = prod(extent(before, x) for x in matched.rows)
    if rows != atom.m:
        refuse(
            f"the tensorized loops of stage {stage.name!r} have {rows} rows ({names(matched.rows)}), but each of the "
            f"four warps that execute {atom.name} together computes {atom.m}",
            f"let a warp compute {atom.m} rows: bind an axis of extent {WARPGROUP} over them to threadIdx.y, and axes "
            "over further warpgroups to threadIdx.z",
        )
    warp = _warp(made, found, atom)
    for operand, lines, apart in ((matched.a, matched.rows, atom.m), (matched.b, matched.columns, 0)):
        assert isinstance(operand.source, Tensor)
        held = made[schedule.stage_of[operand.source.op]]
        _check_layout(found, held, operand, atom)
        turned = not apart and DType(operand.dtype).bytes == 2 and _is_turned(before, held, operand, lines)
        if not turned:
            _check_along(before, held, operand, matched)
        wanted = _turned_lines(before, held, matched) if turned else _lines(before, lines)
        _check_lines(before, held, operand, wanted, warp, apart)
        made[held.stage.id] = replace(held, stage=replace(held.stage, swizzled=True), align=_GROUP_ROWS * SWIZZLE_LINE)


def _warp(made: Bounds, found: StageBounds, atom: Atom) -> Var:
    """The variable that counts the warps of a warpgroup."""
    loops = {loop.tag: loop for loop in (*found.outer, *found.stage.loops) if loop.tag is not None}
    across = loops.get(ThreadTag.THREAD_Y)
    span = None if across is None else made[across.stage].ranges[across.axis].extent
    if across is None or not isinstance(span, IntImm) or span.value != WARPGROUP:
        refuse(
            f"stage {found.stage.name!r} is computed by {atom.name}, an instruction of four warps, but "
            f"threadIdx.y has {'no loop' if across is None else f'the extent {span}'}",
            f"bind an axis of extent {WARPGROUP} to threadIdx.y: one for each {atom.m} of 64 rows; bind further "
            "warpgroups to threadIdx.z",
        )
    return across.var


def _check_layout(found: StageBounds, held: StageBounds, operand: Load, atom: Atom) -> None:
    """Check that rows of an operand in shared memory have the size that the hardware swizzles."""
    name, size = held.stage.name, DType(operand.dtype).bytes
    if held.stage.aligns:
        refuse(
            f"stage {name!r}, an operand of {atom.name}, has a layout by storage_align, but the hardware reads it "
            "swizzled",
            f"leave storage_align of {name!r} out: the compiler swizzles it",
        )
    last = held.region[-1].extent
    if held.scope is not MemoryScope.SHARED or not isinstance(last, IntImm) or last.value * size != SWIZZLE_LINE:
        refuse(
            f"rows of stage {name!r} in shared memory have {last} elements of {size} bytes, but {atom.name} reads rows "
            f"of {SWIZZLE_LINE} bytes",
            f"split the reduction of {found.stage.name!r} by {SWIZZLE_LINE // size}, and compute {name!r} at the outer "
            f"loop, with the terms of the product as its last dimension",
        )


def _is_turned(before: StageBounds, held: StageBounds, operand: Load, columns: tuple[IterVar, ...]) -> bool:
    """Whether neighbours in shared memory are the neighbours along the fastest axis of the columns."""
    along = local_indices(operand, before, held)[-1]
    return bool(columns) and dict(along.terms) == {columns[-1].var: 1} and along.const == 0


def _lines(before: StageBounds, axes: tuple[IterVar, ...]) -> dict[Expr, int]:
    """The distances of rows or columns, in lines, that the hardware expects."""
    wanted: dict[Expr, int] = {}
    distance = 1
    for axis in reversed(axes):
        wanted[axis.var] = distance
        distance *= extent(before, axis)
    return wanted


def _turned_lines(before: StageBounds, held: StageBounds, matched: StageContraction) -> dict[Expr, int]:
    """The distances of the terms and of the groups of 64 columns, in lines, of an operand that is turned."""
    *slow, _ = matched.columns
    terms = held.region[-2].extent if len(held.region) > 1 else None
    if len(matched.depth) != 1 or len(slow) > 1 or not isinstance(terms, IntImm):
        refuse(
            f"neighbours of {held.stage.name!r} are columns of stage {before.stage.name!r}, but its lines do not follow"
            f" each other as {matched.atom.name} reads them",
            "lay it out as [columns // 64, terms, columns % 64]: transform_layout",
        )
    return {matched.depth[0].var: 1, **{axis.var: terms.value for axis in slow}}


def _check_along(before: StageBounds, held: StageBounds, operand: Load, matched: StageContraction) -> None:
    """Check that neighbours of a line are neighbours along the terms."""
    along = local_indices(operand, before, held)[-1]
    if len(matched.depth) != 1 or dict(along.terms) != {matched.depth[0].var: 1}:
        refuse(
            f"neighbours of {held.stage.name!r} in shared memory are not neighbours along the one axis that "
            f"{matched.atom.name} sums over ({names(matched.depth)} of stage {before.stage.name!r})",
            "declare the operand with the terms of the product as its last dimension, or compute a transposed copy",
        )


def _check_lines(
    before: StageBounds, held: StageBounds, operand: Load, wanted: dict[Expr, int], warp: Var, apart: int
) -> None:
    """Check that lines have the `wanted` distances, and that warps read lines `apart` from each other."""
    name = held.stage.name
    *across, _ = local_indices(operand, before, held)
    line = 1
    found: dict[Expr, int] = {}
    const = 0
    for form, part in reversed(list(zip(across, held.region, strict=False))):
        for var, k in form.terms.items():
            found[var] = found.get(var, 0) + k * line
        const += form.const * line
        if not isinstance(part.extent, IntImm):
            refuse(
                f"the tile {name!r} has the extent `{part.extent}`, which is not constant",
                "cache a tile of constant extents",
            )
        line *= part.extent.value
    own = {var: k for var, k in found.items() if var in wanted or var is warp}
    if apart:
        wanted[warp] = apart
    rest = [k for var, k in found.items() if var not in own]
    if own != wanted or any(k % _GROUP_ROWS for k in (const, *rest)):
        refuse(
            f"the lines of {name!r} that a warpgroup reads for stage {before.stage.name!r} are not neighbours that "
            f"begin at a multiple of {_GROUP_ROWS}, {'16 for each warp' if apart else 'the same for all of its warps'}",
            f"let threadIdx.y count the warps of 64 neighbouring rows of {before.stage.name!r}, and cache whole tiles "
            "of the operands for all warps of a block",
        )
    reached = [interval(form.to_expr(), before.facts).hi for form in across]
    for last, part in zip(reached, held.region, strict=False):
        if not isinstance(part.extent, IntImm) or last >= part.extent.value:
            refuse(
                f"stage {name!r} in shared memory has the extent {part.extent}, but the warpgroups of stage "
                f"{before.stage.name!r} read up to index {last}, including unneeded rows",
                "pad the operand: te.compute((padded, k), lambda i, x: te.if_then_else(i < m, A[i, x], 0))",
            )
