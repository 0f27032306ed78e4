"""The data of a block in the caches: bytes that it reads, and loads that hit a recently read sector."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.hardware import WarpMemory
from ...expr import nodes as n
from ...expr.nodes import Var
from ...tensor.tensor import Tensor
from .extents import StageExtents, constant
from .linear_forms import LinearForm, moves, reach
from .traced import Number


def strides(shape: Sequence[Number]) -> list[Number]:
    """Return the row-major strides, in elements."""
    made: list[Number] = [1]
    for extent in reversed(shape[1:]):
        made.append(made[-1] * extent)
    return made[::-1] if shape else []


def global_shape(load: n.Load) -> list[int]:
    """Return the shape of the tensor of a load."""
    assert isinstance(load.source, Tensor)
    return [constant(extent) for extent in load.source.shape]


def address_steps(forms: Sequence[LinearForm], shape: Sequence[Number]) -> dict[Var, Number]:
    """Return the change of an access's address, in elements, per step of each loop."""
    steps: dict[Var, Number] = {}
    for form, stride in zip(forms, strides(shape), strict=True):
        for var, step in form.items():
            steps[var] = steps.get(var, 0) + step * stride
    return steps


def fresh_part(found: StageExtents, load: n.Load, forms: Sequence[LinearForm], memory: WarpMemory) -> Number:
    """Return the fraction of a thread's loads that read a new sector.

    The thread's loops walk along a run of neighbours. The first load of a sector fetches it; the others hit the cache.
    """
    steps = {var: np.abs(step) for var, step in address_steps(forms, global_shape(load)).items()}
    serial = [loop.var for loop in found.path if loop.tag is None and loop.var in steps]
    run: Number = 1.0
    loads: Number = 1.0
    for _ in range(3):
        for var in serial:
            extent, step = found.loop_extents[var], steps[var]
            joins = (step > 0) & (step <= run)
            run = np.where(joins, run + step * (extent - 1), run)
            loads = np.where(joins, loads * extent, loads)
            steps[var] = np.where(joins, 0, step)
    part: Number = np.minimum(((run - 1) * load.dtype.bytes / memory.sector + 1) / loads, 1)
    return part


def block_spans(found: StageExtents, load: n.Load, forms: Sequence[LinearForm]) -> list[Number]:
    """Return the extent that a block reads along each dimension of a tensor."""
    inside = {loop.var for loop in found.path if loop.tag is None or not loop.tag.is_block}
    ends = zip(forms, global_shape(load), strict=True)
    return [np.minimum(reach(form, found.loop_extents, inside) + 1, extent) for form, extent in ends]


def sector_bytes(spans: Sequence[Number], load: n.Load, memory: WarpMemory) -> Number:
    """Return the bytes of all sectors of a block's data; adjacent rows are merged."""
    rows: Number = 1.0
    run: Number = 1.0
    whole: np.ndarray = np.True_  # type: ignore[assignment]
    for span, extent in zip(reversed(spans), reversed(global_shape(load)), strict=True):
        run, rows = np.where(whole, run * span, run), np.where(whole, rows, rows * span)
        whole = whole & (np.asarray(span) == extent)
    made: Number = rows * np.ceil((run - 1) * load.dtype.bytes / memory.sector + 1) * memory.sector
    return made


def differs_by_block(found: StageExtents, forms: Sequence[LinearForm]) -> bool:
    """Return whether blocks read different parts of a tensor in some configuration."""
    blocks = [loop.var for loop in found.path if loop.tag is not None and loop.tag.is_block]
    return any(moves(form.get(var, 0)) for form in forms for var in blocks)
