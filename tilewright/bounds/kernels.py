"""The kernels of a schedule: the stages of each, and the extent of each of its hardware indices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..core.hardware import ThreadTag
from ..expr.nodes import Expr
from ..expr.operators import is_const
from .nest import Loop
from .stage_bounds import Bounds, StageBounds


class KernelBounds(NamedTuple):
    """The stages of a kernel, readers first, and the extents of the kernel's hardware indices."""

    stages: list[StageBounds]
    extents: dict[ThreadTag, Expr]


def kernel_bounds(bounds: Bounds) -> dict[Loop, KernelBounds]:
    """Return the kernels, each by its outermost loop, without stages outside of all kernels."""
    found: dict[Loop, list[StageBounds]] = {}
    for one in bounds.values():
        kernel = kernel_of((*one.outer, *one.stage.loops))
        if kernel is not None:
            found.setdefault(kernel, []).append(one)
    return {kernel: KernelBounds(stages, _extents(stages, bounds)) for kernel, stages in found.items()}


def kernel_of(loops: Iterable[Loop]) -> Loop | None:
    """The loop that becomes a kernel: the outermost one that is bound to blocks or real threads."""
    return next((loop for loop in loops if loop.on_hardware), None)


def _extents(stages: Iterable[StageBounds], bounds: Bounds) -> dict[ThreadTag, Expr]:
    loops = dict.fromkeys(loop for one in stages for loop in (*one.outer, *one.stage.loops))
    return index_extents((loop.tag, bounds[loop.stage].ranges[loop.axis].extent) for loop in loops)


def index_extents(loops: Iterable[tuple[ThreadTag | None, Expr]]) -> dict[ThreadTag, Expr]:
    """The extent of each hardware index, by the tags and extents of the loops of a kernel.

    A loop of extent 1 fits any extent of its index: all threads along the index run its body. Other loops of one index
    have the same extent, which `loops/thread_extents.py` checks.
    """
    found: dict[ThreadTag, Expr] = {}
    for tag, extent in loops:
        if tag is not None and tag.is_hardware and (tag not in found or is_const(found[tag], 1)):
            found[tag] = extent
    return found
