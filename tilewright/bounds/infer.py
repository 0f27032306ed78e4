"""Bound inference: one sweep from the outputs to the inputs.

For each stage, the readers are known by the time it is reached. The region that they need, with the loops outside it
fixed and all others running (`demand.py`), becomes the range of its own axes. Splits and fusions carry these ranges
down to its loops. `loops/build.py` makes loops from the result.
"""

from __future__ import annotations

from dataclasses import replace

from ..arith.facts import EMPTY, Facts
from ..arith.simplify import prove, simplify
from ..core.errors import Suspect, UserError
from ..core.hardware import LoopKind, ThreadTag
from ..expr.nodes import Expr, IntImm, Var
from ..expr.operators import cast, const, greater_equal, maximum
from ..expr.traverse import substitute, uses_any
from ..schedule.inlining import inlined_bodies
from ..schedule.schedule import Schedule, Stage
from ..tensor.axis import IterVar, Range
from ..tensor.extern import ExternOp
from ..tensor.scan import ScanOp
from ..tensor.tensor import Tensor, read_tensors
from .demand import Region, demand, running_loops
from .ends import as_read, hidden_ends, ranges_of_loops
from .nest import Loop, axes_of_threads, axis_values, outer_loops
from .reads import check_reads
from .stage_bounds import Bounds as Bounds
from .stage_bounds import ReadEnd
from .stage_bounds import StageBounds as StageBounds
from .visibility import check_memory, check_owners, default_scope, private_steps

_WRITTEN_OUT = {LoopKind.UNROLLED: "unroll", LoopKind.VECTORIZED: "vectorize"}


def infer_bounds(schedule: Schedule, known: Facts = EMPTY) -> Bounds:
    """The ranges of all axes of all stages that are stored and needed, by stage id, readers first.

    `known` are facts about sizes beyond their declarations.
    Raises UserError if a reader cannot see a stage, and if a read certainly leaves its tensor.
    """
    check_reads([schedule.stages[i].origin for i in schedule.outputs])
    bodies = inlined_bodies(schedule)
    readers = _readers(schedule, bodies)
    bounds: Bounds = {}
    for stage in reversed(schedule.in_order()):
        if stage.is_placeholder or stage.id not in bodies:
            continue
        consumers = tuple(bounds[i] for i in readers.get(stage.id, ()) if i in bounds)
        if consumers or (stage.is_output and not _is_empty(stage)):
            bounds[stage.id] = _bounds_of(schedule, stage, bodies[stage.id], consumers, bounds, known)
    return bounds


def _is_empty(stage: Stage) -> bool:
    """Return whether a stage certainly has no elements: then nothing is computed under any schedule."""
    return any(isinstance(extent, IntImm) and extent.value == 0 for extent in stage.op.shape)


def _readers(schedule: Schedule, bodies: dict[int, tuple[Expr, ...]]) -> dict[int, list[int]]:
    readers: dict[int, list[int]] = {}
    for reader, body in bodies.items():
        op = schedule.stages[reader].op
        read = read_tensors(body) if op.values else op.input_tensors
        for producer in dict.fromkeys(schedule.stage_of[t.op] for t in read):
            readers.setdefault(producer, []).append(reader)
    return readers


def _bounds_of(
    schedule: Schedule,
    stage: Stage,
    body: tuple[Expr, ...],
    consumers: tuple[StageBounds, ...],
    bounds: Bounds,
    known_sizes: Facts,
) -> StageBounds:
    outer = outer_loops(schedule, stage)
    tags = tuple(loop.tag for loop in outer if loop.tag is not None)
    states = [c for c in consumers if isinstance(c.stage.op, ScanOp) and advances(schedule, stage, c.stage.op)]
    scope = states[0].scope if states else stage.scope or default_scope(tags)
    private: dict[IterVar, tuple[int, Expr | None]] = {}
    if states:  # stages that advance a scan are kept in the scan's memory
        check_owners(stage, scope)
    else:
        if not isinstance(stage.op, (ExternOp, ScanOp)) and not stage.is_output:
            private = private_steps(stage, scope)
        check_memory(stage, scope, outer, consumers, private)
    needed: tuple[Region, ...] = ()
    if isinstance(stage.op, (ExternOp, ScanOp)):  # these compute whole tensors
        for consumer in consumers:
            running_loops(stage, scope, consumer)
    elif stage.is_output:
        needed = tuple(Region(Range(extent), "") for extent in stage.op.shape)
    else:

        def loads(tensor: Tensor) -> bool:
            return schedule.stage_of[tensor.op] == stage.id

        needed = demand(stage, scope, outer, consumers, loads, hidden_ends(bounds, outer), private)
        if private:
            stage = replace(stage, private=frozenset(axis for axis, (_, step) in private.items() if step is not None))
    data = () if isinstance(stage.op, ExternOp) else stage.op.axis  # the loops of a statement are not dimensions
    ranges = {axis: part.range for axis, part in zip(data, needed, strict=True)}
    for axis, (_, step) in private.items():
        if step is None and axis.dom is not None:  # each thread computes and keeps the element with its own number
            ranges[axis] = axis.dom
    known, ends = ranges_of_loops(stage, body)
    for axis in (*stage.op.loop_axes[len(data) :], *(a for a in stage.leaves if a.thread is not None)):
        dom = known.get(axis, axis.dom)
        if dom is None:
            raise UserError(
                f"the reduction axis {axis.name!r} of stage {stage.name!r} has no range",
                primitive="lower",
                fix='give it one: te.reduce_axis((0, n), name="k")',
            )
        ranges[axis] = dom
    outside = consumers[0].facts if consumers else EMPTY
    _carry_down(stage, ranges)
    growing = _growing(stage, ranges)
    if growing:
        ranges.update(growing)
        _carry_down(stage, ranges)
    facts = own_facts(stage, ranges, outer_facts(outer, outside, known_sizes), ends)
    widened = {axis: part.widened for axis, part in zip(data, needed, strict=True) if part.widened}
    region = tuple(part.range for part in needed)
    readers = tuple(consumer.stage.id for consumer in consumers)
    return StageBounds(stage, body, ranges, region, scope, outer, facts, widened, ends=ends, readers=readers)


def _carry_down(stage: Stage, ranges: dict[IterVar, Range]) -> None:
    """Add the ranges of all axes that are derived from other axes."""
    fixed = axes_of_threads(stage)
    for relation in stage.relations:
        ranges.update(relation.ranges_down(ranges, fixed.__contains__, simplify))


def bounds_of_first_values(found: StageBounds) -> StageBounds:
    """The bounds of the loops that store the first values of a reduction.

    If data axes are fused with reduction axes, these loops count as if no reduction were empty. Each element gets its
    first value, also if there is nothing to combine with it.
    """
    stage = found.stage
    if not stage.mixed:
        return found
    extents = {axis: found.ranges[axis].extent for axis in stage.op.reduce_axis}
    empty = {a: e for a, e in extents.items() if not prove(greater_equal(e, 1), found.facts)}
    if not empty:
        return found
    ranges = dict(found.ranges)
    for axis, extent in empty.items():
        ranges[axis] = Range.from_min_extent(ranges[axis].min, simplify(maximum(extent, 1), found.facts))
    _carry_down(stage, ranges)
    return replace(found, ranges=ranges, facts=own_facts(stage, ranges, found.facts, found.ends))


def _growing(stage: Stage, ranges: dict[IterVar, Range]) -> dict[IterVar, Range]:
    """The ranges of reduction axes that depend on other axes, in terms of the loops of the other axes."""
    ends = {a: (ranges[a].min, ranges[a].extent) for a in stage.op.reduce_axis}
    varying = [a for a, pair in ends.items() if not all(isinstance(e, IntImm) for e in pair)]
    own = {axis.var for axis in stage.roots} if varying else set()
    found = [a for a in varying if any(uses_any(e, own) for e in ends[a])]
    if not found:
        return {}
    values = axis_values(stage, ranges)
    there = {a.var: cast(a.var.dtype, values[a]) for a in stage.roots}
    return {a: Range.from_min_extent(*(simplify(substitute(e, there)) for e in ends[a])) for a in found}


def advances(schedule: Schedule, stage: Stage, scan: ScanOp) -> bool:
    """Whether `stage` computes first rows or updates of a scan."""
    return any(schedule.stage_of.get(t.op) == stage.id for t in (*scan.init, *scan.update))


def outer_facts(outer: tuple[Loop, ...], reader: Facts, sizes: Facts = EMPTY) -> Facts:
    """The facts about sizes, and about the loops around a stage, which its readers share."""
    known = {loop.var: reader.range_of(loop.var) for loop in outer}
    return sizes.bind_all({var: found for var, found in known.items() if found is not None})


def own_facts(stage: Stage, ranges: dict[IterVar, Range], facts: Facts, ends: tuple[ReadEnd, ...] = ()) -> Facts:
    """`facts` with the ranges of a stage's own loops; UserError for an extent that its loop cannot have."""
    own: dict[Var, tuple[Expr, Expr]] = {}
    for loop in stage.loops:
        extent = ranges[loop.axis].extent
        _check_thread_extent(stage, loop, extent, own.get(loop.var) or facts.range_of(loop.var))
        _check_constant(stage, loop, extent, ends)
        own[loop.var] = const(0, loop.var.dtype), extent
    return facts.bind_all(own)


def _check_constant(stage: Stage, loop: Loop, extent: Expr, ends: tuple[ReadEnd, ...]) -> None:
    how = _WRITTEN_OUT.get(stage.annotation(loop.axis).kind) or ("bind" if loop.tag is ThreadTag.VTHREAD else "")
    what = {"bind": "bound to a vthread"}.get(how, f"marked with {how}")
    if loop.thread is not None and uses_any(extent, {end.var for end in ends}):
        how, what = "bind", f"bound to {loop.thread.thread_tag}"
    if how and not isinstance(extent, IntImm):
        raise UserError(
            f"axis {loop.axis.name!r} of stage {stage.name!r}, {what}, has the extent `{as_read(extent, ends)}`, "
            "which is not constant",
            primitive=how,
            fix="split the axis by a constant factor and use the inner loop; for vthreads, split by "
            "nparts= and use the outer loop",
            suspects=(Suspect((how,), (stage.name,), loop.axis.name),),
        )


def _check_thread_extent(stage: Stage, loop: Loop, extent: Expr, known: tuple[Expr, Expr] | None) -> None:
    thread = loop.thread
    if thread is None:
        return
    fixed = thread.dom.extent if thread.dom is not None else known[1] if known else None
    if fixed is None or fixed is extent or not (isinstance(fixed, IntImm) and isinstance(extent, IntImm)):
        return
    raise UserError(
        f"axis {loop.axis.name!r} of stage {stage.name!r} has extent {extent}, but {thread.thread_tag} has "
        + (f"the extent {fixed} that te.thread_axis gave it" if thread.dom is not None else f"extent {fixed} outside"),
        primitive="bind",
        fix=f"split {loop.axis.name!r} so that the bound loop has extent {fixed}, or leave the extent out",
        suspects=(Suspect(("bind",), (stage.name,), loop.axis.name),),
    )
