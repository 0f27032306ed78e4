"""The rules: the ways to compute each kernel, the best one first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..core.target import Target
from ..schedule.handle import ScheduleHandle
from ..tensor.tensor import ComputeOp
from ..topi.schedules.blocked import BY_EXTENTS, ProcessorTile, fits_blocks
from ..topi.schedules.injective import one_element_each
from ..topi.schedules.products import sums_to
from ..topi.schedules.reduce import ReductionTile, choices_of, fits_block, reduce_to
from ..tune.model.machine import Machine
from ..tune.task import Expectation
from . import convolutions, cpu_elements, gpu_columns, gpu_elements, gpu_products, gpu_rows, gpu_scans, gpu_windows
from .cpu_rows import RowVectors, schedule_rows_on_processors, schedule_tuples_on_processors
from .dataflow import Dataflow, known_total, total
from .kernels import FusedKernel
from .products import is_sum, product_of
from .ways import Way, fixed, with_values

_SMALL_FACTORS = (1, 2, 4, 8)
"""Candidate numbers of elements per vector, rows per thread, and blocks that share terms."""
_WINDOWS = "windows"
"""The name of the way to reduce windows."""
_MODEL_ERROR_FACTOR = 1.5
"""The error of the models of windows and of the strategies for them: up to 1.5 for long windows."""
_REGISTER_BYTES = 4
"""Bytes of a register."""
_LEAST_MANY_TERMS = 64
"""The least terms of a sum that the threads of a block share, instead of one thread per sum."""
_PARTIAL_RESULTS = (16, 32, 64, 128)
"""Candidate numbers of partial results of a reduction on a CPU."""
_THREADS_PER_BLOCK = (32, 64, 128, 256, 512, 1024)
"""Candidate numbers of threads per block, or along one dimension of a block."""


def ways_of(flow: Dataflow, kernel: FusedKernel, target: Target, precision: str = "fp32") -> list[Way]:
    """Return the ways to schedule a kernel, with float32 products at least as precise as `precision`."""
    out = kernel.out
    scan = next((op for op in flow.scans if out is op or out in gpu_scans.steps_of(op)), None)
    if scan is not None and target.is_gpu and gpu_scans.has_own_columns(flow, scan):
        if out is not scan:
            return [fixed("step", f"{out.name} is scheduled with its scan", lambda s: None)]
        why = f"no column of {out.name} reads another one: a thread runs through the steps of its column"
        return [fixed("scan", why, lambda s: gpu_scans.schedule_scan(s, scan))]
    if not isinstance(out, ComputeOp) or out.call is not None:
        return [fixed("given", f"{out.name} is a statement or a scan, which has its own loops", lambda s: None)]
    single = kernel.reductions[0] if len(kernel.reductions) == 1 and kernel.one_each else None
    packaged = convolutions.ways(flow, kernel, target, precision)
    others = _without_strategies(flow, kernel, single, target, precision)
    windows = [way for way in others if way.name == _WINDOWS]
    if not packaged or not windows:
        return [*packaged, *others]
    small = _reads_words(flow, kernel) and _is_small(packaged[0], target)
    if small or _is_slower(packaged[0], windows[0]):
        return [*windows, *packaged, *(way for way in others if way.name != _WINDOWS)]
    return [*packaged, *others]


def _reads_words(flow: Dataflow, kernel: FusedKernel) -> bool:
    """Return whether reductions read elements of a word or more. Strategies load shorter elements as vectors."""
    return all(read.source.dtype.bytes >= _REGISTER_BYTES for op in kernel.reductions for read in flow.reads[op])


def _is_slower(way: Way, other: Way) -> bool:
    """Return whether the models predict a way to be slower than another by more than their error."""
    if way.model is None or other.model is None:
        return False
    return way.model(way.chosen).cycles > _MODEL_ERROR_FACTOR * other.model(other.chosen).cycles


def _is_small(way: Way, target: Target) -> bool:
    """Return whether a way leaves schedulers without a warp. Its model is then too low: nothing hides latency."""
    if way.model is None:
        return False
    machine, (_, threads, blocks) = Machine.for_models(target), way.model(way.chosen)
    warps = blocks * -(-threads // target.warp_size)
    return warps < machine.multiprocessors * machine.hardware.multiprocessor.schedulers


def _without_strategies(
    flow: Dataflow, kernel: FusedKernel, single: ComputeOp | None, target: Target, precision: str
) -> list[Way]:
    """Return the ways by rules, which apply to any operation that is declared element by element."""
    out = kernel.out
    assert isinstance(out, ComputeOp)
    if (
        single is not None
        and len(single.outputs) == 1
        and (flow.is_product(single) or _has_rows_of_sums(flow, kernel, target) or _has_blocks(single, target))
    ):
        return _products(flow, kernel, single, target, precision)
    if target.is_gpu:
        return _on_gpu(flow, kernel, target)
    if cpu_elements.are_vectors(kernel) and (kernel.members or kernel.reductions or len(out.axis) > 1):
        tile, bits = cpu_elements.default_tile(flow, kernel), max(t.dtype.bits for t in out.outputs)
        wide = [lanes * 32 // bits for lanes in (8, 16, 32, 64)]
        why = f"elements of {out.name} are independent: rows to processors, {tile.lanes} neighbours at once in vectors"
        return [
            with_values("elements", why, tile, {"lanes": wide},
                        lambda s, t: cpu_elements.schedule_vectors(s, flow, kernel, t))
        ]  # fmt: skip
    if not kernel.members and not kernel.reductions:
        return [fixed("elements", f"elements of {out.name} are independent: rows to processors, neighbours to vectors",
                      lambda s: one_element_each(s, out, target))]  # fmt: skip
    if single is out and len(out.outputs) > 1 and out.axis:
        why = f"{out.name} reduces several values at once: partial results in vectors of terms"
        return [with_values("tuples", why, RowVectors(), {"parts": _PARTIAL_RESULTS},
                            lambda s, t: schedule_tuples_on_processors(s, flow, kernel, t))]  # fmt: skip
    if single is not None and len(kernel.members) == (out is not single):
        why = f"each element of {out.name} is one reduction, in vectors of terms or of sums"
        return [_plain_reduction(why, single, kernel, target)]
    return [_rows_on_processors(flow, kernel)]


def _plain_reduction(why: str, op: ComputeOp, kernel: FusedKernel, target: Target) -> Way:
    """Return the way for a reduction without a second stage that needs more than one of its elements."""

    def possible(tile: ReductionTile) -> bool:
        return fits_block(op, target, tile)

    def apply(s: ScheduleHandle, tile: ReductionTile) -> None:
        reduce_to(s, op, kernel.out, target, tile)

    return with_values("reduction", why, ReductionTile(), choices_of(op, kernel.out, target), apply, possible)


def _rows_on_processors(flow: Dataflow, kernel: FusedKernel) -> Way:
    return with_values(
        "rows",
        f"the stages of a row of {kernel.out.name} run one after another, while it is in the cache",
        RowVectors(),
        {"lanes": (8, 16, 64), "parts": _PARTIAL_RESULTS},
        lambda s, t: schedule_rows_on_processors(s, flow, kernel, t),
    )


def _has_rows_of_sums(flow: Dataflow, kernel: FusedKernel, target: Target) -> bool:
    """Return whether a reduction multiplies few rows by a matrix with contiguous rows."""
    (op,) = kernel.reductions
    if not target.is_gpu or gpu_rows.runs_along_rows(flow, kernel) or total(op.reduce_axis) < _LEAST_MANY_TERMS:
        return False
    return is_sum(op) and product_of(flow, kernel, op, target) is not None


def _has_blocks(op: ComputeOp, target: Target) -> bool:
    """Return whether rows of sums on a CPU load the same vectors, as in a grouped convolution."""
    return not target.is_gpu and fits_blocks(op)


def _products(flow: Dataflow, kernel: FusedKernel, op: ComputeOp, target: Target, precision: str) -> list[Way]:
    """Return the tiled ways of a product; general tiles if it is no product of two matrices."""
    form = product_of(flow, kernel, op, target) if target.is_gpu and is_sum(op) else None
    columns = _columns(flow, kernel, target) if target.is_gpu else []
    found = columns + (gpu_products.ways(flow, form, kernel, op, target, precision) if form is not None else [])
    if found:
        return found

    def general(s: ScheduleHandle, tile: ProcessorTile = BY_EXTENTS) -> None:
        for operand in kernel.operands:
            one_element_each(s, operand, target)
        sums_to(s, op, kernel.out, target, tile)

    if len(kernel.members) != (kernel.out is not op):
        return _on_gpu(flow, kernel, target) if target.is_gpu else [_rows_on_processors(flow, kernel)]
    why = f"{op.name} reads its operands again and again: tiles of sums in registers"
    if target.is_gpu:
        return [fixed("tiles", why, general)]
    return [with_values("tiles", why, BY_EXTENTS, {"rows": (2, 3, 4, 6, 8), "lanes": (8, 16, 32)}, general)]


def _columns(flow: Dataflow, kernel: FusedKernel, target: Target) -> list[Way]:
    """Return the way for column sums, if the kernel is one."""
    sums = gpu_columns.columns_of(flow, kernel, target) if target.has_warps else None
    if sums is None:
        return []
    tile = gpu_columns.default_tile(sums)
    values = {
        "vector": [n for n in _SMALL_FACTORS if n < tile.vector], "columns": (32, 64, 128, 256),
        "threads": _THREADS_PER_BLOCK[1:],
        "flying": (2, 8), "shares": _SMALL_FACTORS,
    }  # fmt: skip
    why = (
        f"{sums.op.name} sums columns of {sums.matrix.name}: a thread loads {tile.vector} neighbours at once, and the "
        f"{tile.threads} threads of a block share the terms of {tile.columns} columns"
    )
    return [with_values("columns", why, tile, values,
                        lambda s, t: gpu_columns.schedule_columns(s, kernel, sums, t),
                        lambda t: gpu_columns.is_possible(sums, t))]  # fmt: skip


def _on_gpu(flow: Dataflow, kernel: FusedKernel, target: Target) -> list[Way]:
    out, single = kernel.out, kernel.reductions[0] if len(kernel.reductions) == 1 else None
    windows = _windows(flow, kernel, target)
    if gpu_elements.are_elements(kernel) and not gpu_elements.has_few_sums(flow, kernel, target):
        tile = gpu_elements.default_tile(flow, kernel, target)
        widest = gpu_elements.widest(kernel, target)
        values: dict[str, Sequence[Any]] = {
            "vector": [n for n in _SMALL_FACTORS if n <= widest],
            "across": _THREADS_PER_BLOCK[:-1],
        }
        if len(out.axis) > 1:
            values |= {"rows": _SMALL_FACTORS, "down": _SMALL_FACTORS}
        several = tile.vector * tile.rows
        share = f"{several} neighbours" if several > 1 else "one"
        why = f"elements of {out.name} are independent: a thread computes {share}"
        alone = with_values("elements", why, tile, values,
                            lambda s, t: gpu_elements.schedule_elements(s, kernel, t),
                            partial(gpu_elements.is_possible, flow, kernel, target))  # fmt: skip
        return [*windows, alone]
    plain = single is not None and kernel.one_each and len(kernel.members) == (out is not single)
    if plain and single is not None and (single is out or known_total(single.loop_axes) is not None):
        why = f"each element of {out.name} is one reduction, which threads share"
        way = _plain_reduction(why, single, kernel, target)
        return [*windows, way, *_columns(flow, kernel, target)]
    default = gpu_rows.default_tile(flow, kernel, target)
    threads = [t for t in _THREADS_PER_BLOCK if t <= target.max_threads_per_block]
    listed: dict[str, Sequence[Any]] = {"across": threads, "rows": (1, 2, 4)}
    if gpu_rows.runs_along_rows(flow, kernel):
        listed |= {"vector": [n for n in _SMALL_FACTORS if n < default.vector], "keep": ("local", "shared", "")}
    why = f"the stages of {out.name} fall into rows: a block computes a row at a time and keeps it on the chip"
    return [with_values("rows", why, default, listed,
                        lambda s, t: gpu_rows.schedule_rows(s, flow, kernel, target, t),
                        partial(gpu_rows.is_possible, flow, kernel, target))]  # fmt: skip


def _windows(flow: Dataflow, kernel: FusedKernel, target: Target) -> list[Way]:
    """Return the way to reduce windows of a tensor, if the kernel does so."""
    windows = gpu_windows.windows_of(flow, kernel, target)
    found = gpu_windows.tiles(windows, target) if windows is not None else []
    if windows is None or not found:
        return []
    tile = found[0]
    why = (
        f"{windows.op.name} reduces windows of {windows.tensor.name}, which overlap: a thread computes {tile.rows}×"
        f"{tile.columns} neighbours from registers"
    )
    values = {
        "rows": list(dict.fromkeys(t.rows for t in found)), "columns": list(dict.fromkeys(t.columns for t in found)),
        "threads": _THREADS_PER_BLOCK[:4], "rolled": list(dict.fromkeys(t.rolled for t in found)),
    }  # fmt: skip
    way = with_values(_WINDOWS, why, tile, values,
                      lambda s, t: gpu_windows.schedule_windows(s, windows, kernel, t),
                      partial(gpu_windows.is_possible, windows, target))  # fmt: skip
    machine = Machine.for_models(target)

    def expected(choices: Mapping[str, Any]) -> Expectation:
        of = gpu_windows.WindowTile(*(choices[name].val for name in values))
        return Expectation(windows.cycles(of, machine), of.threads, windows.blocks(of))

    def likely(count: int) -> list[int]:
        return sorted(way.space, key=lambda index: expected(way.space.get(index)).cycles)[:count]

    placed = [windows.border] if windows.border is not None else []
    return [replace(way, placed=placed, model=expected, likely=likely)]
