"""Guarded loads: the ones that wait for each other.

A load with a condition becomes a predicated load, which is issued with its neighbours, or a load inside a branch. In a
branch, its value must arrive before the next load is issued.
"""

from __future__ import annotations

import numpy as np

from ...core.hardware import MemoryScope, ThreadTag
from ...expr import nodes as n
from ...expr.nodes import Expr
from ...expr.traverse import post_order
from ...tensor.reduction import Reduce
from .extents import KernelExtents, StageExtents, constant
from .linear_forms import moves, reach
from .traced import Number


def is_guarded(load: n.Load, body: tuple[Expr, ...]) -> bool:
    """Return whether a load has a condition."""
    return any(
        isinstance(e, (n.Select, n.IfThenElse)) and any(part is load for part in post_order(e))
        for e in post_order(*body)
    )


def only_copies(found: StageExtents) -> bool:
    """Return whether a stage only copies into registers.

    The back end's compiler predicates the guarded loads of such a stage.
    """
    is_local = found.scope is MemoryScope.LOCAL and not found.stage.is_output
    return is_local and not isinstance(found.body[0], Reduce)


def is_clipped(found: StageExtents) -> np.ndarray:
    """Return whether a tile extends beyond its tensor: each element is then loaded in a branch of its own."""
    clipped: np.ndarray = np.False_  # type: ignore[assignment]
    for size, begin, extent in zip(found.region, found.begins, found.stage.op.shape, strict=True):
        clipped = clipped | (size + reach(begin, found.loop_extents) > constant(extent))
    return clipped


def behind_branches(found: StageExtents, kernel: KernelExtents, explicit: np.ndarray) -> np.ndarray:
    """Return whether results of a thread may lie outside the output, with a condition at each of their steps.

    If our pass unrolls, a single condition becomes one branch around everything. Several conditions alternate, and
    loads wait in each branch. If the back end's compiler unrolls, loads wait even with a single condition.
    """
    apart = np.zeros(len(explicit), bool)
    if not isinstance(found.body[0], Reduce) or found.stage.is_output:
        return apart
    for out in (each for each in kernel.stages if each.stage.is_output):
        own = {loop.var for loop in out.path if loop.tag is None or loop.tag is ThreadTag.VTHREAD}
        for axis in out.stage.op.axis:
            form, size = out.forms[axis], constant(axis.dom.extent if axis.dom is not None else 1)
            results: Number = 1
            for var in own:
                results = results * (out.loop_extents[var] if moves(form.get(var, 0)) else 1)
            over = reach(form, out.loop_extents) + 1 - size
            # A condition on neighbours that divide the extent holds for all of them or for none.
            is_one = (reach(form, out.loop_extents, own) + 1 == results) & (size % results == 0)
            merged = np.asarray(explicit) & np.asarray(is_one)
            # A single surplus element is one condition; if our pass unrolls, it alternates with steps without
            # conditions.
            few = np.where(np.asarray(explicit) & (np.asarray(results) > 1), 0, 1)
            apart = apart | ((over > few) & ~merged)
    return apart
