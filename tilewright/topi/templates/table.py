"""The table of strategies: for each operator from the most general one on.

A row has the operator, the name, and the schedule for each kind of hardware, with its space, needs and ranking.
Logs, calls, `tilewright tune`, its help and the legacy names follow from the rows. If no model compares strategies, the
last one that covers a workload is the default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from .pooling import Pooling
from .template import ALL, PackagedTemplate
from .transposed import Transposed
from .weight_gradient import WeightGradient

_Sums = tuple[Callable[[Any], Contraction], Callable[[Any, Tensor, Tensor], Views]]
_LAYERS: _Sums = implicit_gemm.contraction_of, implicit_gemm.views_of
_PRODUCTS: _Sums = matmul.contraction_of, matmul.views_of


def _mma(of: _Sums, atoms: Mapping[str, str] = contraction_mma.USUAL) -> contraction_mma.Mma[Any]:
    return contraction_mma.Mma(*of, atoms, implicit_gemm.FORMS if of is _LAYERS else {})


def _wgmma(of: _Sums, atoms: Mapping[str, str] = wgmma_tiles.USUAL) -> contraction_mma.Mma[Any]:
    return contraction_mma.Mma(*of, atoms, tile=wgmma_tiles.WgmmaTile)


def _products(kind: type[Any]) -> tuple[PackagedTemplate[Any], ...]:
    """Return the strategies of a product of matrices."""
    return (
        PackagedTemplate(
            kind,
            gpu=contraction_simt.Simt(*_PRODUCTS).strategy(),
            cpu=contraction_cpu.Packed(*_PRODUCTS).strategy(),
            summary="ordinary arithmetic",
        ),
        PackagedTemplate(
            kind,
            "mma",
            gpu=_mma(_PRODUCTS).strategy(),
            summary="matrix instructions",
            precision="fp32",
            legacy=(f"{kind.name}_tensorcore",),
        ),
        PackagedTemplate(
            kind,
            "wgmma",
            gpu=_wgmma(_PRODUCTS).strategy(),
            summary="Hopper's warpgroup instructions",
        ),
        PackagedTemplate(
            kind,
            "tf32",
            gpu=_mma(_PRODUCTS, contraction_mma.ROUNDED).strategy(),
            summary="matrix instructions that round float32",
            precision="tf32",
        ),
        PackagedTemplate(
            kind,
            "wgmma_tf32",
            gpu=_wgmma(_PRODUCTS, wgmma_tiles.ROUNDED).strategy(),
            summary="warpgroup instructions that cut float32",
            precision="tf32_cut",
        ),
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
    PackagedTemplate(
        Conv2dLayer,
        "mma",
        gpu=_mma(_LAYERS).strategy(implicit_gemm.computes, "large groups"),
        summary="products of tiles by matrix instructions",
        precision="fp32",
        legacy=("conv2d_nhwc_tensorcore",),
    ),
    PackagedTemplate(
        Conv2dLayer,
        "window",
        gpu=window_mma.ON_GPU,
        summary="a tile of the image by matrix instructions",
        legacy=("conv2d_nhwc_tensorcore",),
    ),
    PackagedTemplate(
        Conv2dLayer,
        "wgmma",
        gpu=_wgmma(_LAYERS).strategy(implicit_gemm.computes, "terms that are neighbours (NHWC)"),
        summary="products of tiles by Hopper's warpgroups",
    ),
    PackagedTemplate(
        Conv2dLayer,
        "tf32",
        gpu=_mma(_LAYERS, contraction_mma.ROUNDED).strategy(implicit_gemm.computes, "large groups"),
        summary="products of tiles that round float32",
        precision="tf32",
    ),
    PackagedTemplate(
        Conv2dLayer,
        "wgmma_tf32",
        gpu=_wgmma(_LAYERS, wgmma_tiles.ROUNDED).strategy(implicit_gemm.computes, "terms that are neighbours (NHWC)"),
        summary="products of tiles by warpgroups that cut float32",
        precision="tf32_cut",
    ),
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
ALL.extend(STRATEGIES)
for _row in STRATEGIES:
    register(_row)
for _schedule in (schedule for row in STRATEGIES for schedule in (row.gpu, row.cpu) if schedule is not None):
    _functions: tuple[Any, ...] = _schedule.schedule, _schedule.declare, _schedule.declare_for
    name_lines_of(*(function.__code__.co_filename for function in _functions if function is not None))
