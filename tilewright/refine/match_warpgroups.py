"""Instructions of a warpgroup: their requirements on warps and on the tiles in shared memory that they read.

The hardware reads both operands from shared memory by itself, and takes one address for each: the beginning of its
warpgroup's first row. So rows follow each other at 128 bytes, swizzled as the hardware expects them, and the four warps
of a warpgroup are neighbours. Warp w, which threadIdx.y counts, has 16 rows from row 16 * w on.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..arith.interval import interval
from ..bounds.nest import own_loops
from ..bounds.value import Bounds, StageBounds, StageContraction
from ..core.atoms import WARPGROUP, Atom
from ..core.dtype import DType
from ..core.hardware import SWIZZLE_LINE, MemoryScope, ThreadTag
from ..expr.nodes import Expr, IntImm, Load, Var
from ..schedule.legality import names
from ..schedule.value import Schedule
from ..tensor.axis import IterVar
from ..tensor.tensor import Tensor
from .contraction import extent, local_indices, refuse

_GROUP_ROWS = 8
"""Rows whose pieces the swizzle exchanges together: a tile begins at a multiple of this number."""


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
        _check_lines(before, held, operand, matched, lines, warp, apart)
        made[held.stage.id] = replace(held, stage=replace(held.stage, swizzled=True), align=_GROUP_ROWS * SWIZZLE_LINE)


def _warp(made: Bounds, found: StageBounds, atom: Atom) -> Var:
    """The variable that counts the warps of a warpgroup."""
    loops = {loop.tag: loop for loop in (*found.outer, *own_loops(found.stage)) if loop.tag is not None}
    across = loops.get(ThreadTag.THREAD_Y)
    span = None if across is None else made[across.stage].ranges[across.axis].extent
    if across is None or not isinstance(span, IntImm) or span.value != WARPGROUP:
        refuse(
            f"stage {found.stage.name!r} is computed by {atom.name}, which the four warps of a warpgroup execute "
            f"together, but threadIdx.y has {'no loop' if across is None else f'the extent {span}'}",
            f"bind an axis of extent {WARPGROUP} to threadIdx.y: one for each {atom.m} of 64 rows; bind further "
            "warpgroups to threadIdx.z",
        )
    return across.var


def _check_layout(found: StageBounds, held: StageBounds, operand: Load, atom: Atom) -> None:
    """Check that rows of an operand in shared memory have as many bytes as the hardware exchanges pieces of."""
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


def _check_lines(
    before: StageBounds,
    held: StageBounds,
    operand: Load,
    matched: StageContraction,
    lines: tuple[IterVar, ...],
    warp: Var,
    apart: int,
) -> None:
    """Check that lines follow each other, and that warps read lines `apart` from each other."""
    atom, name = matched.atom, held.stage.name
    *across, along = local_indices(operand, before, held)
    terms = dict(along.terms)
    if len(matched.depth) != 1 or terms.pop(matched.depth[0].var, 0) != 1:
        refuse(
            f"neighbours of {name!r} in shared memory are not neighbours along the one axis that {atom.name} sums over "
            f"({names(matched.depth)} of stage {before.stage.name!r})",
            "declare the operand with the terms of the product as its last dimension, or compute a transposed copy",
        )
    line = 1
    found: dict[Expr, int] = {}
    const = 0
    for form, part in reversed(list(zip(across, held.region, strict=False))):
        for var, k in form.terms.items():
            found[var] = found.get(var, 0) + k * line
        const += form.const * line
        if not isinstance(part.extent, IntImm):
            refuse(f"the tile {name!r} has the extent `{part.extent}`", "cache a tile of constant extents")
        line *= part.extent.value
    wanted: dict[Expr, int] = {}
    distance = 1
    for axis in reversed(lines):
        wanted[axis.var] = distance
        distance *= extent(before, axis)
    own = {var: k for var, k in found.items() if var in wanted or var is warp}
    if apart:
        wanted[warp] = apart
    rest = [k for var, k in found.items() if var not in own]
    if own != wanted or any(k % _GROUP_ROWS for k in (const, *rest)) or terms:
        refuse(
            f"the lines of {name!r} that a warpgroup reads for stage {before.stage.name!r} do not follow each other, "
            f"{'16 for each of its warps' if apart else 'the same for all of its warps'}, from a multiple of "
            f"{_GROUP_ROWS} on",
            f"let threadIdx.y count the warps of 64 neighbouring rows of {before.stage.name!r}, and cache whole tiles "
            "of the operands for all warps of a block",
        )
    reached = [interval(form.to_expr(), before.facts).hi for form in across]
    for last, part in zip(reached, held.region, strict=False):
        if not isinstance(part.extent, IntImm) or last >= part.extent.value:
            refuse(
                f"stage {name!r} in shared memory has the extent {part.extent}, but the warpgroups of stage "
                f"{before.stage.name!r} read up to index {last}, rows that nobody needs included",
                "pad the operand: te.compute((padded, k), lambda i, x: te.if_then_else(i < m, A[i, x], 0))",
            )
