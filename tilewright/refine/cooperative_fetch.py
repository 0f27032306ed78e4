"""Cooperative fetch: fills of shared memory, distributed evenly over the threads of a block.

All threads of a block compute a stage in shared memory together, and no result depends on which thread stores which
element. Schedules often give each thread a run of neighbours (`split(fused, nparts=threads)`), so that the threads of a
warp access distant memory, one transaction per thread. Or they leave out a thread index, and all its threads repeat the
same work. This refinement replaces the loops of such a stage by coalesced ones. They visit its elements in row-major
order, one per thread, in the order of the thread numbers. Rings that asynchronous copies fill are distributed in
vectors, since each copy should move as many bytes as possible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ..arith.affine import Affine
from ..arith.simplify import simplify
from ..bounds.infer import outer_facts, own_facts
from ..bounds.kernels import kernel_bounds, kernel_of
from ..bounds.stage_bounds import Bounds, StageBounds
from ..core.hardware import THREAD_TAGS, LoopKind, MemoryScope, ThreadTag
from ..core.options import Options
from ..core.target import Target
from ..expr.nodes import Expr, IntImm
from ..expr.operators import add, const, multiply, subtract
from ..schedule.schedule import At, AxisAnnotations, Schedule, Stage
from ..tensor.axis import AxisKind, IterVar
from ..tensor.reduction import Reduce
from .fetch_width import fetch_lanes
from .new_axes import NewAxes

_PLAIN_KINDS = (LoopKind.SERIAL, LoopKind.UNROLLED, LoopKind.THREAD)


def cooperative_fetch(schedule: Schedule, bounds: Bounds, target: Target, options: Options) -> Bounds:
    """The bounds with every fill of shared memory distributed over its block, unless the schedule already does so.

    Vector loads stay vector loads. Fills with other stages inside them, reductions, and fills with extents or threads
    that are not constant stay unchanged. So does everything on targets without warps: coalescing slows down a CPU,
    which runs the threads of a block one after the other.
    """
    if not target.has_warps:
        return bounds
    changed: Bounds = {}
    for found, block in _fills(bounds):
        if block and found.region and not _obstacle(schedule, found, block):
            copies = target.hardware.copy_bytes if found.stage.stages > 1 else ()
            changed[found.stage.id] = _deal_out(found, block, copies)
    return {**bounds, **changed} if any(found is not bounds[i] for i, found in changed.items()) else bounds


def idle_fills(schedule: Schedule, bounds: Bounds) -> list[str]:
    """Return remarks on the fills in which every thread of a block repeats the same work, with the reasons."""
    found: list[str] = []
    for fill, block in _fills(bounds):
        if not fill.region or any(loop.tag in THREAD_TAGS for loop in fill.stage.loops):
            continue
        alone = block is not None and prod(block.values()) < 2
        why = "" if alone else _obstacle(schedule, fill, block)
        if why:
            found.append(f"every thread of a block computes all of the shared stage {fill.stage.name!r}, since {why}")
    return found


def _fills(bounds: Bounds) -> Iterator[tuple[StageBounds, dict[ThreadTag, int] | None]]:
    """The stages kept in shared memory within a kernel, each with the extents of the block's thread indices.

    The fastest index comes first; None if an extent is not known. The fill itself may use none of the indices. If any
    loop of the kernel uses an index, all of its threads execute the fill.
    """
    if all(found.scope is not MemoryScope.SHARED for found in bounds.values()):
        return
    for kernel in kernel_bounds(bounds).values():
        block = {tag: kernel.extents[tag] for tag in THREAD_TAGS if tag in kernel.extents}
        sizes = _constants(list(block.values()))
        for found in kernel.stages:
            if found.scope is MemoryScope.SHARED and kernel_of(found.outer) is not None:
                yield found, None if sizes is None else dict(zip(block, sizes, strict=True))


def _obstacle(schedule: Schedule, found: StageBounds, block: dict[ThreadTag, int] | None) -> str:
    """Return why a fill keeps the loops of its schedule; empty if new loops are possible."""
    placed = ((stage.name, stage.placement) for stage in schedule.in_order())
    held = next((name for name, at in placed if isinstance(at, At) and at.stage == found.stage.id), None)
    shape, lanes = _constants([part.extent for part in found.region]), _lanes(found)
    annotations = [found.stage.annotation(axis) for axis in found.stage.leaves]
    if held is not None:
        return f"the stage {held!r} is computed in it"
    if isinstance(found.body[0], Reduce):
        return "it is a reduction"
    if shape is None:
        return "its size is known only at the call"
    if block is None:
        return "the number of threads is known only at the call"
    if not prod(shape):
        return "it has no elements"
    if found.stage.store_predicate is not None:
        return "it is stored under a condition of the schedule's"
    if any(annotation.pragmas for annotation in annotations):
        return "its loops carry pragmas"
    if any(n.kind not in _PLAIN_KINDS for n in annotations[:-1]) or any(
        n.kind is LoopKind.PARALLEL for n in annotations[-1:]
    ):
        return "one of its outer loops is vectorised, or runs on CPU threads"
    if shape and shape[-1] % lanes:
        return f"its rows of {shape[-1]} elements are not whole vectors of {lanes}"
    return ""


def _deal_out(found: StageBounds, block: dict[ThreadTag, int], copies: tuple[int, ...]) -> StageBounds:
    shape, lanes = _constants([part.extent for part in found.region]) or [], _lanes(found)
    lanes = fetch_lanes(found, copies) if lanes == 1 else lanes
    if _is_even(found, shape, block, lanes):
        return found
    stage = _dealt_out(found.stage, block, lanes)
    ranges = {axis: found.ranges[axis] for axis in stage.op.axis}
    for relation in stage.relations:
        # Every thread of the block takes part, even if there are fewer elements.
        ranges.update(relation.ranges_down(ranges, lambda _: True, simplify))
    facts = own_facts(stage, ranges, outer_facts(found.outer, found.facts))
    return replace(found, stage=stage, ranges=ranges, facts=facts)


def _lanes(found: StageBounds) -> int:
    """The elements that the schedule stores at a time: the elements of an innermost vector loop."""
    innermost = found.stage.leaves[-1] if found.stage.leaves else None
    if innermost is None or found.stage.annotation(innermost).kind is not LoopKind.VECTORIZED:
        return 1
    return (_constants([found.ranges[innermost].extent]) or [1])[0]


def _is_even(found: StageBounds, shape: list[int], block: dict[ThreadTag, int], lanes: int) -> bool:
    """Return whether neighbouring threads already store neighbouring elements, and no thread repeats another's work."""
    place: Expr = const(0, "int32")
    for axis, extent in zip(found.stage.op.axis, shape, strict=True):
        place = add(multiply(place, extent), subtract(found.values[axis], found.ranges[axis].min))
    terms = Affine.of(simplify(place, found.facts)).terms
    bound = {loop.tag: loop for loop in found.stage.loops if loop.tag is not None}
    step = lanes
    for tag, extent in block.items():
        if extent > 1 and (tag not in bound or terms.get(bound[tag].var) != step):
            return False
        step *= extent
    return True


def _dealt_out(stage: Stage, block: dict[ThreadTag, int], lanes: int) -> Stage:
    """The stage with its axes fused and split over rounds, the threads of the block, and the lanes of a vector."""
    axes = NewAxes(stage)
    whole = axes.fused(stage.op.axis, "element")
    inner: list[IterVar] = []
    annotations: dict[IterVar, AxisAnnotations] = {}
    if lanes > 1:
        whole, lane = axes.split(whole, lanes, "vector", "lane")
        inner, annotations = [lane], {lane: AxisAnnotations(kind=LoopKind.VECTORIZED)}
    rounds, rest = axes.split(whole, prod(block.values()), "round", "thread")
    leaves: list[IterVar] = []
    slowest_first = list(reversed(block.items()))
    for k, (tag, _) in enumerate(slowest_first):
        inside = prod(extent for _, extent in slowest_first[k + 1 :])
        own = rest
        if k + 1 < len(slowest_first):
            own, rest = axes.split(rest, inside, tag.value, "thread")
        leaves.append(own)
        annotations[own] = AxisAnnotations(thread=IterVar(tag.value, None, AxisKind.THREAD, tag))
    return replace(stage, leaves=(*leaves, rounds, *inner), relations=tuple(axes.relations), annotations=annotations)


def _constants(extents: list[Expr]) -> list[int] | None:
    values = [extent.value for extent in extents if isinstance(extent, IntImm)]
    return values if len(values) == len(extents) else None
