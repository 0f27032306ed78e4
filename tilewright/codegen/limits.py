"""Resource limits: the resources of a kernel, checked against the target before compilation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ..core.errors import Suspect, UserError
from ..core.hardware import MemoryScope, ThreadTag
from ..core.limits import Limit, ResourceNeed, exceeded
from ..core.target import Target
from ..expr import nodes as n
from ..expr.traverse import constant_value
from ..loops.nodes import Store
from ..loops.walk import statements, stored_stages
from .arrays import array_size, shared_offsets
from .kernel import Kernel


def check(kernel: Kernel, target: Target) -> Kernel:
    """Return the kernel, with dynamic shared memory if it needs more than the target's default.

    Raises UserError if a block has too many threads, a grid too many blocks, or the shared buffers do not fit.
    """
    _, total = shared_offsets(kernel.shared)
    for broken in exceeded(target.hardware, _known_extents(kernel), total):
        raise _ERRORS[broken.limit](kernel, target, broken)
    return kernel if total <= target.shared_bytes else replace(kernel, dynamic_shared_bytes=total)


def _known_extents(kernel: Kernel) -> dict[ThreadTag, int]:
    extents = {tag: constant_value(extent) for tag, _, extent in kernel.launch.threads}
    return {tag: extent for tag, extent in extents.items() if extent is not None}


def _threads(kernel: Kernel, target: Target, broken: ResourceNeed) -> UserError:
    return UserError(
        f"kernel {kernel.name} has {broken.needed:,} threads per block ({_shown(kernel.block)}), "
        f"but {target} allows {broken.allowed:,}",
        primitive="build",
        fix="split the axes bound to threads by smaller factors",
        suspects=tuple(
            _binds(kernel, tag) for tag, extent in _known_extents(kernel).items() if tag.is_thread and extent > 1
        ),
    )


def _extent(kernel: Kernel, target: Target, broken: ResourceNeed) -> UserError:
    tag = broken.tag or ThreadTag.THREAD_X
    return UserError(
        f"kernel {kernel.name} has {tag.value} of extent {broken.needed:,}, but {target} allows {broken.allowed:,}",
        primitive="build",
        fix=f"bind a smaller axis to {tag.value}, or move part of it to another dimension",
        suspects=(_binds(kernel, tag),),
    )


def _shared(kernel: Kernel, target: Target, broken: ResourceNeed) -> UserError:
    return UserError(
        f"kernel {kernel.name} needs {broken.needed:,} bytes of shared memory, but {target} has "
        f"{broken.allowed:,} per block: {_sizes(kernel)}",
        primitive="build",
        fix="cache a smaller region: compute the cached stages further inside, or use smaller tiles",
        suspects=(Suspect(_STORING, (_largest(kernel),)),),
    )


_STORING = ("cache_read", "cache_write", "rfactor", "set_scope", "compute_at", "storage_align", "pipeline")
"""The primitives that decide the contents of shared memory."""


def _binds(kernel: Kernel, tag: ThreadTag) -> Suspect:
    """The steps that bind loops of a kernel to a hardware index."""
    return Suspect(("bind", "env_threads"), stored_stages(kernel.launch.body), tag=tag.value)


def _largest(kernel: Kernel) -> str:
    """Return the name of the stage that occupies most of the shared memory."""
    buffers = [stmt.buffer for stmt in statements(kernel.launch.body) if isinstance(stmt, Store)]
    shared = [b for b in buffers if b.scope is MemoryScope.SHARED] or list(kernel.shared)
    largest = max(shared, key=lambda buffer: array_size(buffer) * buffer.dtype.bytes)
    return largest.note or largest.name


# Values of a thread that do not fit registers go to device memory: slow, but no error.
_ERRORS: dict[Limit, Callable[[Kernel, Target, ResourceNeed], UserError]] = {
    Limit.THREADS: _threads,
    Limit.EXTENT: _extent,
    Limit.SHARED: _shared,
}


def _sizes(kernel: Kernel) -> str:
    return ", ".join(
        f"{b.name} {array_size(b):,} × {b.dtype} = {array_size(b) * b.dtype.bytes:,} bytes" for b in kernel.shared
    )


def _shown(extents: tuple[n.Expr, ...]) -> str:
    shown = [
        f"threadIdx.{letter} {extent}"
        for letter, extent in zip("xyz", extents, strict=True)
        if constant_value(extent) != 1
    ]
    return " × ".join(shown) or "threadIdx.x 1"
