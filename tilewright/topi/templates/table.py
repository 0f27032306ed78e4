"""The table of strategies: for each operator, the most general one first.

A row has the operator, the name, and the schedule for each kind of hardware with its space, needs and ranking. Logs,
calls, `tilewright tune`, its help and the legacy names follow from the rows. If no model compares strategies, the last
strategy that covers a workload is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...core.errors import name_lines_of
from ...tensor.tensor import Tensor
from ...tune.task import register
from . import (
    backward_lines,
    contraction_cpu,
    contraction_mma,
    contraction_simt,
    conv1d,
    conv2d,
    cpu,
    cpu_channels_last,
    depthwise_lines,
    depthwise_mma,
    depthwise_planes,
    elementwise,
    grouped_mma,
    grouped_rows,
    implicit_gemm,
    matmul,
    transposed_cpu,
    transposed_phases,
    weight_gradient_cpu,
    weight_gradient_gpu,
    wgmma_tiles,
    window_mma,
)
from .backward import Backward
from .contraction import Contraction, Views
from .convolutions import Conv1dVector, Conv2dLayer, Depthwise
from .matmul import BatchMatmul, Dense
from .mma_tiles import MmaTile
from .pooling import Pooling
from .strategy import always
from .template import ALL, PackagedTemplate
from .transposed import Transposed
from .weight_gradient import WeightGradient

_Sums = tuple[Callable[[Any], Contraction], Callable[[Any, Tensor, Tensor], Views]]
_LAYERS: _Sums = implicit_gemm.contraction_of, implicit_gemm.views_of
_PRODUCTS: _Sums = matmul.contraction_of, matmul.views_of
_BY_ATOMS = (
    ("mma", contraction_mma.DEFAULT_ATOMS, MmaTile, "matrix instructions", "fp32"),
    ("wgmma", wgmma_tiles.DEFAULT_ATOMS, wgmma_tiles.WgmmaTile, "Hopper's warpgroup instructions", "ieee"),
    ("tf32", contraction_mma.ROUNDED, MmaTile, "matrix instructions that round float32", "tf32"),
    ("wgmma_tf32", wgmma_tiles.ROUNDED, wgmma_tiles.WgmmaTile, "warpgroup instructions that cut float32", "tf32_cut"),
)


def _by_atoms(
    kind: type[Any], of: _Sums, legacy: str, computes: Callable[..., bool] = always, scopes: tuple[str, str] = ("", "")
) -> Iterator[PackagedTemplate[Any]]:
    """Yield the strategies of a contraction by matrix instructions; `scopes` are of warps, and of warpgroups."""
    for name, atoms, tile, units, precision in _BY_ATOMS:
        forms = implicit_gemm.FORMS if of is _LAYERS and not tile.warpgroups else {}
        made: contraction_mma.Mma[Any] = contraction_mma.Mma(*of, atoms, forms, tile)
        gpu = made.strategy(computes, scopes[tile.warpgroups])
        old = (legacy,) if name == "mma" else ()
        yield PackagedTemplate(
            kind, name, gpu=gpu, summary=f"products of tiles by {units}", precision=precision, legacy=old
        )


def _products(kind: type[Any]) -> tuple[PackagedTemplate[Any], ...]:
    """Return the strategies of a product of matrices."""
    on_gpu, on_cpu = contraction_simt.Simt(*_PRODUCTS).strategy(), contraction_cpu.Packed(*_PRODUCTS).strategy()
    general = PackagedTemplate(kind, gpu=on_gpu, cpu=on_cpu, summary="ordinary arithmetic")
    return general, *_by_atoms(kind, _PRODUCTS, f"{kind.name}_tensorcore")


_MMA, *_FURTHER_ATOMS = _by_atoms(
    Conv2dLayer,
    _LAYERS,
    "conv2d_nhwc_tensorcore",
    implicit_gemm.computes,
    ("large groups", "terms that are neighbours (NHWC)"),
)
STRATEGIES: tuple[PackagedTemplate[Any], ...] = (
    PackagedTemplate(Conv1dVector, gpu=conv1d.ON_GPU, cpu=cpu.LINE),
    PackagedTemplate(Conv2dLayer, gpu=conv2d.ON_GPU, cpu=cpu.IMAGES, summary="the tutorial's for NCHW"),
    PackagedTemplate(
        Conv2dLayer, "direct", gpu=grouped_mma.DIRECT, cpu=cpu_channels_last.ON_CPU, summary="windows in registers"
    ),
    PackagedTemplate(
        Conv2dLayer,
        "grouped_rows",
        gpu=grouped_rows.ON_GPU,
        summary="pairs of rows of several small groups by matrix instructions",
    ),
    PackagedTemplate(
        Conv2dLayer, "grouped", gpu=grouped_mma.ON_GPU, summary="several small groups at once by matrix instructions"
    ),
    PackagedTemplate(
        Conv2dLayer,
        "gemm",
        gpu=contraction_simt.Simt(*_LAYERS).strategy(implicit_gemm.computes, "large groups"),
        summary="products of tiles",
    ),
    _MMA,
    PackagedTemplate(
        Conv2dLayer,
        "window",
        gpu=window_mma.ON_GPU,
        summary="a tile of the image by matrix instructions",
        legacy=("conv2d_nhwc_tensorcore",),
    ),
    *_FURTHER_ATOMS,
    PackagedTemplate(Depthwise, cpu=cpu.IMAGES, summary="tiles of rows, on CPUs"),
    PackagedTemplate(
        Depthwise, "direct", gpu=depthwise_planes.DIRECT, cpu=cpu_channels_last.ON_CPU, summary="windows in registers"
    ),
    PackagedTemplate(Depthwise, "mma", gpu=depthwise_mma.ON_GPU, summary="rows of windows by matrix instructions"),
    PackagedTemplate(
        Depthwise,
        "planes",
        gpu=depthwise_planes.ON_GPU,
        summary="whole small images one after another",
        default_on=depthwise_planes.is_timed_on,
    ),
    PackagedTemplate(
        Depthwise,
        "lines",
        gpu=depthwise_lines.ON_GPU,
        summary="stretches of lines one after another",
        default_on=depthwise_planes.is_timed_on,
    ),
    PackagedTemplate(Transposed, gpu=elementwise.ON_GPU, cpu=transposed_cpu.ON_CPU),
    PackagedTemplate(Transposed, "phases", gpu=transposed_phases.ON_GPU, summary="tiles of whole steps in registers"),
    PackagedTemplate(
        WeightGradient, gpu=weight_gradient_gpu.DIRECT, cpu=weight_gradient_cpu.ON_CPU, summary="tiles in registers"
    ),
    PackagedTemplate(
        WeightGradient,
        "copied",
        gpu=weight_gradient_gpu.COPIED,
        summary="blocks copy their part to shared memory",
        default_on=depthwise_planes.is_timed_on,
    ),
    backward_lines.SeveralResults(Backward, gpu=backward_lines.ON_GPU, summary="all gradients in one pass"),
    PackagedTemplate(Pooling, gpu=elementwise.ON_GPU, cpu=elementwise.ON_CPU),
    *_products(Dense),
    *_products(BatchMatmul),
)


def packaged() -> tuple[PackagedTemplate[Any], ...]:
    """Return all strategies. Workers of a fleet call it to import them (`tilewright/fleet/candidate_process.py`)."""
    return STRATEGIES


ALL.extend(STRATEGIES)
for _row in STRATEGIES:
    register(_row)
for _schedule in (schedule for row in STRATEGIES for schedule in (row.gpu, row.cpu) if schedule is not None):
    _functions: tuple[Any, ...] = _schedule.schedule, _schedule.declare, _schedule.declare_for
    name_lines_of(*(function.__code__.co_filename for function in _functions if function is not None))
