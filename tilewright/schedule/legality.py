"""The common argument checks of primitives, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import UserError, warn_caller
from ..expr.nodes import Expr, IntImm
from ..expr.operand import Operand
from ..expr.operators import as_expr
from ..expr.traverse import uses_any
from ..tensor.axis import AxisKind, IterVar, known_before
from ..tensor.script import ScriptOp
from .schedule import At, Inlined, Schedule, Stage

_OF_ORDERED = {AxisKind.ORDERED: ("compute_at", "unroll", "pragma", "prefetch"), AxisKind.THREAD: ("compute_at",)}
"""The primitives that keep the order of a loop, and its body."""


def names(axes: Any) -> str:
    """Axis names for a message: `i.outer, i.inner`."""
    return ", ".join(a.name for a in axes) or "none"


def leaf(stage: Stage, axis: Any, primitive: str, argument: str = "axis") -> IterVar:
    """`axis`, checked to be one of the loops of `stage`."""
    if not isinstance(axis, IterVar):
        listed = "give axes one by one (*axes); " if isinstance(axis, (list, tuple)) else ""
        raise UserError(
            f"argument {argument!r} for stage {stage.name!r} is {axis!r}, not an axis",
            primitive=primitive,
            fix=f"{listed}use one of the loops of {stage.name!r}: {names(stage.leaves)}",
        )
    if stage.place_of_loop(axis) >= 0:
        if axis.kind in (AxisKind.ORDERED, AxisKind.THREAD) and primitive not in _OF_ORDERED[axis.kind]:
            raise UserError(
                f"{of_stage(axis, stage)} is the loop of a scan: its steps run one after the other",
                primitive=primitive,
                fix="schedule the stage of its update, or run the whole scan on threads: "
                f"s[{stage.name}].env_threads([thread_axis])",
            )
        return axis
    parts = next((r.below for r in stage.relations if axis in r.above), ())
    if parts:
        raise UserError(
            f"axis {axis.name!r} of stage {stage.name!r} is no longer a loop: it became {names(parts)}",
            primitive=primitive,
            fix=f"use one of the loops of {stage.name!r}: {names(stage.leaves)}",
        )
    raise UserError(
        f"axis {axis.name!r} is not an axis of stage {stage.name!r}, which has the loops {names(stage.leaves)}",
        primitive=primitive,
        fix="axes belong to one stage: take them from s[T].op.axis, s[T].op.reduce_axis or a split of that stage",
    )


def different(axes: list[IterVar], stage: Stage, primitive: str) -> list[IterVar]:
    """`axes`, checked to name no loop twice."""
    seen: set[IterVar] = set()
    for axis in axes:
        if axis in seen:
            raise UserError(
                f"{of_stage(axis, stage)} is given twice in ({names(axes)})",
                primitive=primitive,
                fix="name each loop once",
            )
        seen.add(axis)
    return axes


def has_loops(stage: Stage, primitive: str, inlined: bool = False) -> None:
    """Check that `stage` is a computation with loops that can be scheduled.

    If `inlined`, loops of an inlined stage are accepted, too; that has no effect while it is inlined, and draws a
    warning.
    """
    if stage.is_placeholder:
        raise UserError(
            f"{stage.name!r} is an input, so it has no loops to schedule",
            primitive=primitive,
            fix="schedule a tensor made by te.compute, or a cache of the input made by s.cache_read",
        )
    if isinstance(stage.placement, Inlined) and inlined:
        without_effect(
            primitive,
            f"stage {stage.name!r} is inlined into its readers; it takes effect after compute_root or compute_at",
        )
    elif isinstance(stage.placement, Inlined):
        raise UserError(
            f"stage {stage.name!r} is inlined into its readers, so it has no loops of its own",
            primitive=primitive,
            fix=f"schedule the stage that reads {stage.name!r}, or drop its compute_inline",
        )


def without_effect(primitive: str, why: str) -> None:
    """Warn of a step that changes nothing, as the legacy API takes it."""
    warn_caller(f"{primitive} has no effect: {why}", UserWarning)


def data_axis(stage: Stage, axis: IterVar, primitive: str, why: str) -> None:
    """Check that `axis` is not a reduction axis."""
    if axis.kind is AxisKind.REDUCE:
        data = [a for a in stage.leaves if a.kind is not AxisKind.REDUCE]
        others = f"a data axis ({names(data)})" if data else f"an axis of extent 1: s[{stage.name}].fuse() makes one"
        raise UserError(
            f"axis {axis.name!r} of stage {stage.name!r} is a reduction axis, and {why}",
            primitive=primitive,
            fix=f"use {others}",
        )


def of_fixed_range(stage: Stage, primitive: str) -> None:
    """Check that no reduction axis of `stage` has a range that depends on a data axis."""
    own = {axis.var for axis in stage.op.axis}
    for axis in stage.op.reduce_axis:
        if axis.dom is not None and (uses_any(axis.dom.min, own) or uses_any(axis.dom.extent, own)):
            raise UserError(
                f"the range of the reduction axis {axis.name!r} of stage {stage.name!r} depends on a data axis",
                primitive=primitive,
                fix="reduce over the longest range, under a condition: te.sum(..., axis=k, where=k < n)",
            )


def not_mixed(stage: Stage, primitive: str, axis: IterVar | None = None) -> None:
    """Check that no loop, or not the loop `axis`, holds data axes and reduction axes at once."""
    mixed = next((a for a in stage.leaves if a in stage.mixed and axis in (None, a)), None)
    if mixed is not None:
        raise UserError(
            f"{of_stage(mixed, stage)} is fused from data axes and reduction axes",
            primitive=primitive,
            fix="fuse data axes with data axes, and reduction axes with reduction axes",
        )


def of_stage(axis: IterVar, stage: Stage) -> str:
    """How messages name an axis: `axis 'i' of stage 'C'`."""
    return f"axis {axis.name!r} of stage {stage.name!r}"


def positive(value: Any, primitive: str, argument: str, about: str) -> Expr:
    """`value` as an integer expression, checked to be at least 1 if it is known; `about` names its owner."""
    given = int(value) if isinstance(value, np.integer) else value  # 64 bits would widen all indices
    e = as_expr(given) if isinstance(given, (int, Operand)) and not isinstance(given, bool) else None
    if e is None or not e.dtype.is_int:
        raise UserError(
            f"{argument}={value!r} for {about} is not a whole number", primitive=primitive, fix="give an int >= 1"
        )
    if isinstance(e, IntImm) and e.value < 1:
        raise UserError(f"{argument}={e.value} for {about} is below 1", primitive=primitive, fix="give an int >= 1")
    return known_before(e, primitive, f"{argument} for {about}", "give an int >= 1, or a size variable")


def whole_number(value: Any) -> int | None:
    """The value of an int, an integer of NumPy's or a constant; None for anything else."""
    plain = getattr(value, "value", value)
    if isinstance(plain, (bool, np.bool_)) or not isinstance(plain, (int, np.integer)):
        return None
    return int(plain)


def no_output(schedule: Schedule, stage: Stage, primitive: str, why: str, fix: str = "") -> None:
    """Check that `stage` is not an output; `fix` names an alternative ("": take a stage in between)."""
    if stage.is_output:
        between = [s.name for s in schedule.in_order() if not s.is_output and not s.is_placeholder]
        raise UserError(
            f"stage {stage.name!r} is an output of the schedule, so it {why}",
            primitive=primitive,
            fix=fix or f"take a stage between the inputs and the outputs ({', '.join(between) or 'there is none'})",
        )


def attached_to(schedule: Schedule, stage: Stage, axis: IterVar) -> tuple[Stage, ...]:
    """The stages that are computed at `axis` of `stage`."""
    return tuple(
        s
        for s in schedule.in_order()
        if isinstance(s.placement, At) and s.placement.stage == stage.id and s.placement.axis is axis
    )


def script_nest(stage: Stage, op: ScriptOp, axis: IterVar) -> int | None:
    """The number of the nest in a script's text that a loop came from; None for one that `fuse()` made without axes."""
    while axis not in op.loop_axes:
        above = next(r.above for r in stage.relations if axis in r.below)
        if not above:
            return None
        axis = above[0]
    return op.nest_of(axis)


def in_one_nest(stage: Stage, axes: Sequence[IterVar], primitive: str) -> None:
    """Check that loops of a script are perfectly nested in its text."""
    op = stage.op
    if not isinstance(op, ScriptOp):
        return
    numbers = [script_nest(stage, op, axis) for axis in axes]
    for axis, other, number in zip(axes, axes[1:], numbers[1:], strict=False):
        if number != numbers[0]:
            raise UserError(
                f"the loops {axis.name!r} and {other.name!r} of script {stage.name!r} are not perfectly nested: "
                "a statement is between them, or one range depends on the other loop",
                primitive=primitive,
                fix=f"{primitive} loops of one nest ("
                + "), (".join(names(nest.axes) for nest in op.nests)
                + "), or write the script so that they become one",
            )


def enclose(stage: Stage, axis: IterVar, other: IterVar) -> bool:
    """Whether one of two loops encloses the other. In a stage that is no script, this is always true."""
    op = stage.op
    if not isinstance(op, ScriptOp):
        return True
    a, b = (script_nest(stage, op, each) for each in (axis, other))
    return a is None or b is None or a in op.path(b) or b in op.path(a)
