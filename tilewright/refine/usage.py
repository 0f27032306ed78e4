"""Resource usage of each kernel of a schedule, computed from its (refined) bounds before any loop is built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import prod

from ..bounds.infer import Bounds, StageBounds
from ..bounds.kernels import KernelBounds, kernel_bounds
from ..bounds.nest import Loop
from ..core.atoms import LANES
from ..core.hardware import LoopKind, MemoryScope, ThreadTag
from ..expr.nodes import Var
from ..expr.traverse import constant_value, variables
from ..schedule.schedule import At


@dataclass(frozen=True)
class Storage:
    """Memory of one stage: its elements (for each thread or block, copies for vthreads included) and their bytes."""

    stage: int
    name: str
    scope: MemoryScope
    elements: int
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes altogether."""
        return self.elements * self.element_bytes


@dataclass
class KernelUse:
    """A kernel: the extents of hardware indices, copies for vthreads, and memory. Unknown extents count as 1."""

    extents: dict[ThreadTag, int] = field(default_factory=dict)
    vthreads: int = 1
    storage: list[Storage] = field(default_factory=list)
    together: list[set[int]] = field(default_factory=list)
    """Stages with buffers that are certainly in use at the same time."""

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return prod(n for tag, n in self.extents.items() if tag.is_thread)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return prod(n for tag, n in self.extents.items() if tag.is_block)

    def stored(self, scope: MemoryScope) -> list[Storage]:
        """The stages in one kind of memory, the largest first."""
        return sorted((s for s in self.storage if s.scope is scope), key=lambda s: -s.bytes)

    def bytes_in(self, scope: MemoryScope) -> int:
        """Bytes in one kind of memory: per block for shared memory, per thread for local memory.

        Shared buffers that are never in use together may occupy the same memory: for these, the result is a lower
        bound.
        """
        if scope is not MemoryScope.SHARED:
            return sum(s.bytes for s in self.storage if s.scope is scope)
        held = {s.stage: s.bytes for s in self.storage if s.scope is scope}
        return max((sum(held.get(stage, 0) for stage in stages) for stages in self.together), default=0)

    @property
    def local_words(self) -> int:
        """32-bit words of a thread's local arrays, which occupy as many registers if they fit."""
        return -(-self.bytes_in(MemoryScope.LOCAL) // 4)


def kernel_uses(bounds: Bounds) -> list[KernelUse]:
    """The use of memory by each kernel."""
    return [_use_of(kernel, bounds) for kernel in kernel_bounds(bounds).values()]


def _use_of(kernel: KernelBounds, bounds: Bounds) -> KernelUse:
    use = KernelUse({tag: constant_value(extent) or 1 for tag, extent in kernel.extents.items()})
    for found in kernel.stages:
        vthreads = _vthreads(bounds, (*found.outer, *found.stage.loops))
        use.vthreads = max(use.vthreads, prod(vthreads.values()))
        use.together.append(_in_use_with(found, bounds))
        if found.scope is not MemoryScope.GLOBAL:
            use.storage += _storage(found, _vthreads(bounds, found.outer), _stages(found, bounds))
    return use


def _in_use_with(found: StageBounds, bounds: Bounds) -> set[int]:
    """The stages computed at the same loop that are read further inside, as this one is: it needs them all at once."""
    place = found.stage.placement
    beside = [other for other in bounds.values() if other.stage.placement == place]
    inside = {
        other.stage.id for other in beside if any(bounds[reader].stage.placement != place for reader in other.readers)
    }
    return {found.stage.id} | inside if isinstance(place, At) and found.stage.id in inside else {found.stage.id}


def _extent(bounds: Bounds, loop: Loop) -> int | None:
    return constant_value(bounds[loop.stage].ranges[loop.axis].extent)


def _vthreads(bounds: Bounds, loops: Iterable[Loop]) -> dict[Var, int]:
    """The extents of the loops over vthreads."""
    return {loop.var: _extent(bounds, loop) or 1 for loop in loops if loop.tag is ThreadTag.VTHREAD}


def _stages(found: StageBounds, bounds: Bounds) -> int:
    """Return the copies of a ring: 1 unless `pipeline_loops` certainly pipelines the loop around the stage."""
    if not found.outer or not isinstance(found.stage.placement, At):
        return 1
    loop = found.outer[-1]
    around = bounds[loop.stage]
    serial = (
        loop.tag is None and around.stage.annotation(loop.axis).kind is LoopKind.SERIAL and _extent(bounds, loop) != 1
    )
    beside = (other for other in bounds.values() if other.stage.placement == found.stage.placement)
    fed = any(found.stage.id in other.readers for other in beside)
    return found.stage.stages if serial and not fed else 1


def _storage(found: StageBounds, vthreads: dict[Var, int], stages: int) -> list[Storage]:
    """Return the arrays of a stage; an array that differs between vthreads has one copy per vthread."""
    # A region that moves with a vthread differs between vthreads.
    copies = prod(vthreads.get(v, 1) for v in variables(*(part.min for part in found.region)))
    elements = _elements(found) * copies * stages
    op = found.stage.op
    return [Storage(found.stage.id, t.name, found.scope, elements, t.dtype.bytes) for t in op.outputs]


def _elements(found: StageBounds) -> int:
    """The elements of one copy, with the padding that `storage_align` asks for."""
    extents = [constant_value(part.extent) or 1 for part in found.region]
    if found.fragment is not None:
        return prod(extents) // LANES
    size = 1
    for axis, extent in reversed(list(zip(found.stage.op.axis, extents, strict=True))):
        factor, offset = found.stage.aligns.get(axis, (1, 0))
        size = (size + (offset - size) % factor) * extent
    return size
