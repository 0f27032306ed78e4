"""Bounds of a structure for many configurations at once: loops, regions, and the strides of indices per loop.

This is `bounds/` with an array per extent instead of an expression. An index is a linear form over the loops of its
path. So its reach, and the region that a reader needs, are sums. Quotients and remainders of fused loops are
approximated by the linear form with the same reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ...bounds.kernels import kernel_of
from ...bounds.nest import Loop, outer_loops
from ...bounds.visibility import default_scope, shares
from ...core.hardware import THREAD_TAGS, MemoryScope, ThreadTag
from ...expr import nodes as n
from ...expr.nodes import Expr, IntImm, Var
from ...schedule.relations import Fuse, Relation, Split
from ...schedule.schedule import At, Stage
from ...tensor.axis import IterVar
from ...tensor.tensor import ComputeOp, Tensor
from .linear_forms import LinearForm, divided, form_of, joined, moves, plus, reach, remainder, scaled
from .structure import Structure
from .traced import Columns, Number


class NotModelledError(Exception):
    """Raised for structures that the model does not cover: scans, externs, sizes known only at the call."""


@dataclass
class StageExtents:
    """A stored stage: its loops, outermost first, the extents of all axes, its region, and the region's beginning."""

    stage: Stage
    body: tuple[Expr, ...]
    scope: MemoryScope
    outer: tuple[Loop, ...]
    path: tuple[Loop, ...]
    """The loops around the stage, and its own."""
    extents: dict[IterVar, Number]
    region: list[Number]
    begins: list[LinearForm]
    """For each dimension of the region, the beginning as a form over the loops around the stage."""
    forms: dict[IterVar, LinearForm] = field(default_factory=dict)
    """For each of the operation's axes, the form over all loops of the path."""
    loop_extents: dict[Var, Number] = field(default_factory=dict)
    """The extents of all loops of the path."""
    read_by: tuple[StageExtents, n.Load] | None = None
    """A reader of this stage, and one of its loads."""

    @cached_property
    def moved_by(self) -> set[Var]:
        """The loops around the stage on which its region depends."""
        return {var for form in self.begins for var, step in form.items() if moves(step)}

    def is_copied(self, loop: Loop) -> bool:
        """Return whether a loop runs over virtual threads with copies of the stage's results of their own."""
        return loop.tag is ThreadTag.VTHREAD and (loop.stage == self.stage.id or loop.var in self.moved_by)

    @property
    def element_bytes(self) -> int:
        """The bytes of one element of each result, added up."""
        return sum(t.dtype.bytes for t in self.stage.op.outputs)

    @property
    def elements(self) -> Number:
        """The elements of the region."""
        return prod(self.region)


def infer(structure: Structure, columns: Columns) -> dict[int, StageExtents]:
    """Return the extents of each stored stage, by stage id, readers first; raise NotModelledError if they are not
    constant."""
    schedule = structure.schedule
    assert schedule is not None
    found: dict[int, StageExtents] = {}
    for stage in reversed(structure.once("stages", schedule.in_order)):
        if stage.is_placeholder or stage.id not in structure.bodies:
            continue
        if not isinstance(stage.op, ComputeOp):
            raise NotModelledError(f"{stage.name} is not a te.compute")
        if stage.tensorized is not None:
            raise NotModelledError(f"{stage.name} runs on matrix instructions")
        readers = [one for one in found.values() if _reads(structure, one, stage.id)]
        if readers or stage.is_output:
            found[stage.id] = _extents_of(structure, columns, stage, readers, found)
    return found


def _reads(structure: Structure, reader: StageExtents, stage: int) -> list[n.Load]:
    """Return the loads of a reader from a stage."""
    schedule = structure.schedule
    assert schedule is not None
    stage_of = schedule.stage_of
    return structure.once(
        ("reads", reader.stage.id, stage),
        lambda: [
            load
            for load in structure.loads(reader.stage.id)
            if isinstance(load.source, Tensor) and stage_of.get(load.source.op) == stage
        ],
    )


def _extents_of(
    structure: Structure, columns: Columns, stage: Stage, readers: list[StageExtents], known: dict[int, StageExtents]
) -> StageExtents:
    schedule = structure.schedule
    assert schedule is not None
    outer = structure.once(("outer", stage.id), lambda: outer_loops(schedule, stage))
    path = structure.once(("path", stage.id), lambda: (*outer, *stage.loops))
    scope = stage.scope or default_scope(tuple(loop.tag for loop in outer if loop.tag is not None))
    shape = [constant(extent) for extent in stage.op.shape]
    region: list[Number] = list(shape)
    begins: list[LinearForm] = [{} for _ in shape]
    if not stage.is_output:
        needs = [_need(structure, stage, scope, reader, shape) for reader in readers]
        region = [_largest(sizes) for sizes in zip(*(sizes for sizes, _ in needs), strict=True)]
        begins = [joined(forms) for forms in zip(*(forms for _, forms in needs), strict=True)]
    extents: dict[IterVar, Number] = dict(zip(stage.op.axis, region, strict=True))
    for axis in stage.op.loop_axes[len(stage.op.axis) :]:
        if axis.dom is None:
            raise NotModelledError(f"{axis.name} has no range")
        extents[axis] = constant(axis.dom.extent)
    for relation in stage.relations:
        extents.update(_down(structure, columns, stage, relation, extents))
    made = StageExtents(stage, structure.bodies[stage.id], scope, outer, path, extents, region, begins)
    made.read_by = next(((reader, _reads(structure, reader, stage.id)[0]) for reader in readers), None)
    for loop in made.path:
        owner = extents if loop.stage == stage.id else known[loop.stage].extents
        made.loop_extents[loop.var] = np.maximum(made.loop_extents.get(loop.var, 1), owner[loop.axis])
    made.forms = _forms(structure, columns, made)
    return made


def constant(e: Any) -> int:
    """The value of a constant extent."""
    if not isinstance(e, IntImm):
        raise NotModelledError(f"the extent {e} is known only at the call")
    return e.value


def _largest(sizes: Iterable[Number]) -> Number:
    largest: Number = 0
    for size in sizes:
        largest = np.maximum(largest, size)
    return largest


def _down(
    structure: Structure, columns: Columns, stage: Stage, relation: Relation, extents: Mapping[IterVar, Number]
) -> dict[IterVar, Number]:
    """Return the extents of the axes that a relation creates."""
    if isinstance(relation, Split):
        extent = extents[relation.parent]
        factor = structure.number(relation, "factor", relation.factor, columns)
        if factor is not None:
            inner = factor if stage.annotation(relation.inner).thread is not None else np.minimum(factor, extent)
            return {relation.outer: -(-extent // factor), relation.inner: inner}
        parts = structure.number(relation, "nparts", relation.nparts, columns)
        if parts is None:
            raise NotModelledError("a split by an expression")
        outer = parts if stage.annotation(relation.outer).thread is not None else np.minimum(parts, extent)
        return {relation.outer: outer, relation.inner: -(-extent // parts)}
    if isinstance(relation, Fuse):
        return {relation.fused: extents[relation.outer] * extents[relation.inner]}
    return dict.fromkeys(relation.below, 1)


def _forms(structure: Structure, columns: Columns, made: StageExtents) -> dict[IterVar, LinearForm]:
    """Return each axis of a stage as a form over the loops of its path."""
    stage = made.stage
    forms: dict[IterVar, LinearForm] = {loop.axis: {loop.var: 1} for loop in stage.loops}
    for relation in reversed(stage.relations):
        if isinstance(relation, Split):
            step = structure.number(relation, "factor", relation.factor, columns)
            if step is None:
                step = made.extents[relation.inner]
            forms[relation.parent] = plus(scaled(forms[relation.outer], step), forms[relation.inner])
        elif isinstance(relation, Fuse):
            width = made.extents[relation.inner]
            forms[relation.outer] = divided(forms[relation.fused], width, made.loop_extents)
            forms[relation.inner] = remainder(forms[relation.fused], width, made.loop_extents)
    for axis, begin in zip(stage.op.axis, made.begins, strict=True):
        forms[axis] = plus(forms[axis], begin)
    return {axis: forms[axis] for axis in stage.roots}


def _need(
    structure: Structure, stage: Stage, scope: MemoryScope, reader: StageExtents, shape: list[int]
) -> tuple[list[Number], list[LinearForm]]:
    """Return the region of a stage that a reader needs: its extents, and its beginning as forms."""
    inside = 0
    if isinstance(stage.placement, At):
        at = stage.placement
        inside = next((i + 1 for i, x in enumerate(reader.path) if x.stage == at.stage and x.axis is at.axis), 0)
    running = {
        loop.var
        for i, loop in enumerate(reader.path)
        if (shares(scope, loop.tag) if loop.tag is not None else i >= inside)
    }
    roots = {axis.var: form for axis, form in reader.forms.items()}
    sizes: list[Number] = []
    begins: list[LinearForm] = []
    indices = [load.indices for load in _reads(structure, reader, stage.id)]
    for d, extent in enumerate(shape):
        found = [form_of(i[d], roots, reader.loop_extents) for i in indices]
        spread = max(p for _, p in found) - min(p for _, p in found) if len(found) > 1 else 0
        wide = _largest(reach(form, reader.loop_extents, running) for form, _ in found) + spread
        size = np.minimum(np.floor(wide + 1 + 1e-6).astype(np.int64), extent)
        sizes.append(size)
        begin = joined({v: s for v, s in form.items() if v not in running} for form, _ in found)
        begins.append({} if np.all(size == extent) else {v: s * (size < extent) for v, s in begin.items()})
    return sizes, begins


# The resources of a kernel


@dataclass
class KernelExtents:
    """One kernel: its stages, and the extents of its hardware indices."""

    stages: list[StageExtents]
    extents: dict[ThreadTag, Number]

    @property
    def block(self) -> list[Number]:
        """Threads of a block along x, y and z."""
        return [self.extents.get(tag, 1) for tag in THREAD_TAGS]

    @property
    def threads(self) -> Number:
        """Threads of a block."""
        return prod(self.block)

    @property
    def blocks(self) -> Number:
        """Blocks of the grid."""
        return prod(extent for tag, extent in self.extents.items() if tag.is_block)

    def copies(self, found: StageExtents) -> Number:
        """The number of virtual threads that have their own copy of a stage's region."""
        moved = found.moved_by
        vthreads = {loop.var for loop in found.outer if loop.tag is ThreadTag.VTHREAD and loop.var in moved}
        return prod(found.loop_extents[var] for var in vthreads)

    def bytes_in(self, scope: MemoryScope) -> Number:
        """Bytes of all buffers in a scope, per block or per thread."""
        return sum(
            found.elements * self.copies(found) * found.element_bytes * found.stage.stages
            for found in self.stages
            if found.scope is scope and not found.stage.is_output
        )


def kernels(found: dict[int, StageExtents]) -> list[KernelExtents]:
    """Return the kernels of a structure; stages outside kernels are left out."""
    made: dict[Loop, KernelExtents] = {}
    for one in found.values():
        outermost = kernel_of(one.path)
        if outermost is None:
            continue
        kernel = made.setdefault(outermost, KernelExtents([], {}))
        kernel.stages.append(one)
        for loop in one.path:
            if loop.tag is not None and loop.tag.is_hardware:
                extent = one.loop_extents[loop.var]
                kernel.extents[loop.tag] = np.maximum(kernel.extents.get(loop.tag, 1), extent)
    return list(made.values())
