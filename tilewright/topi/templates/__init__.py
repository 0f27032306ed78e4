"""Templates that come with the package: convolutions of any size, on GPUs and CPUs, ready to tune."""

import copyreg
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...core.errors import UserError, name_lines_of
from ...core.target import Target
from ...tune.task import Template, lookup, register
from . import (
    contraction_cpu,
    contraction_mma,
    contraction_simt,
    contraction_wgmma,
    conv1d,
    conv2d,
    cpu,
    cpu_channels_last,
    depthwise,
    depthwise_mma,
    depthwise_planes,
    direct,
    elementwise,
    grouped_mma,
    grouped_rows,
    implicit_gemm,
    legacy_names,
    lines,
    matmul,
    pooling,
    prepared_data,
    transposed,
    transposed_cpu,
    window_mma,
)
from .convolutions import Conv1d as Conv1d
from .convolutions import Conv2d as Conv2d
from .convolutions import Depthwise as Depthwise
from .epilogue import ACTIVATIONS as ACTIVATIONS
from .epilogue import Epilogue as Epilogue
from .matmul import BatchMatmul as BatchMatmul
from .matmul import Dense as Dense
from .pooling import Pooling as Pooling
from .pooling import PoolingTemplate as PoolingTemplate
from .template import ALL as ALL
from .template import PackagedTemplate as PackagedTemplate
from .template import ScheduleStrategy, always, never
from .template import cheapest as cheapest
from .transposed import Transposed as Transposed
from .workload import Convolution as Convolution

_MATRIX_UNITS = "GPUs with matrix instructions"
CONV2D_DIRECT: PackagedTemplate[Conv2d] = PackagedTemplate(
    "topi/conv2d.direct",
    Conv2d,
    grouped_mma.DIRECT,
    cpu_channels_last.ON_CPU,
    scope="NHWC, and groups of few channels in NCHW",
)
DEPTHWISE_DIRECT: PackagedTemplate[Depthwise] = PackagedTemplate(
    "topi/depthwise.direct",
    Depthwise,
    depthwise_planes.DIRECT,
    cpu_channels_last.ON_CPU,
    scope="NCHW and NHWC",
)


def _of_images(
    name: str, kind: type[Any], on_gpu: ScheduleStrategy[Any], runs_on: Callable[[Target | None], bool], scope: str
) -> PackagedTemplate[Any]:
    """A strategy of images that only some GPUs have."""
    return PackagedTemplate(
        name, kind, on_gpu, replace(cpu.IMAGES, covers=never, tailored=None), runs_on=runs_on, scope=scope
    )


DEPTHWISE_MMA: PackagedTemplate[Depthwise] = _of_images(
    "topi/depthwise.mma",
    Depthwise,
    depthwise_mma.ON_GPU,
    depthwise_mma.runs_on,
    f"16-bit floats in NCHW, with stride and dilation 1, on {_MATRIX_UNITS}",
)
DEPTHWISE_PLANES: PackagedTemplate[Depthwise] = _of_images(
    "topi/depthwise.planes", Depthwise, depthwise_planes.ON_GPU, always, "small images in NCHW on GPUs"
)
CONV2D_GEMM: PackagedTemplate[Conv2d] = PackagedTemplate(
    "topi/conv2d.gemm",
    Conv2d,
    contraction_simt.Simt(implicit_gemm.contraction_of, implicit_gemm.views_of).strategy(implicit_gemm.covers),
    replace(cpu.IMAGES, covers=never, tailored=None),
    scope="GPUs, and large groups",
)
_MMA = contraction_mma.Mma(implicit_gemm.contraction_of, implicit_gemm.views_of, prepared=prepared_data.FORMS)
_TF32 = contraction_mma.Mma(
    implicit_gemm.contraction_of, implicit_gemm.views_of, contraction_mma.ROUNDED, prepared=prepared_data.FORMS
)
CONV2D_MMA: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.mma", Conv2d, _MMA.strategy(implicit_gemm.covers), _MMA.runs_on, f"large groups on {_MATRIX_UNITS}"
)
CONV2D_TF32: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.tf32",
    Conv2d,
    _TF32.strategy(implicit_gemm.covers),
    _TF32.runs_on,
    f"float32 and large groups on {_MATRIX_UNITS}",
)
_WARPGROUPS = "GPUs with matrix instructions of warpgroups (sm_90)"
_WGMMA = contraction_wgmma.Wgmma(implicit_gemm.contraction_of, implicit_gemm.views_of, contraction_wgmma.USUAL)
_WGMMA_TF32 = contraction_wgmma.Wgmma(implicit_gemm.contraction_of, implicit_gemm.views_of, contraction_wgmma.ROUNDED)
CONV2D_WGMMA: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.wgmma",
    Conv2d,
    _WGMMA.strategy(implicit_gemm.covers),
    _WGMMA.runs_on,
    f"16-bit floats and 8-bit integers whose terms are neighbours (NHWC) on {_WARPGROUPS}",
)
CONV2D_WGMMA_TF32: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.wgmma_tf32",
    Conv2d,
    _WGMMA_TF32.strategy(implicit_gemm.covers),
    _WGMMA_TF32.runs_on,
    f"float32 whose terms are neighbours (NHWC) on {_WARPGROUPS}",
)
CONV2D_WINDOW: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.window",
    Conv2d,
    window_mma.ON_GPU,
    window_mma.runs_on,
    f"windows over 16-bit floats and 8-bit integers in NHWC on {_MATRIX_UNITS}",
)
CONV2D_GROUPED: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.grouped",
    Conv2d,
    grouped_mma.ON_GPU,
    grouped_mma.runs_on,
    f"16-bit floats in groups of 2 to 16 channels on {_MATRIX_UNITS}",
)
CONV2D_ROWS: PackagedTemplate[Conv2d] = _of_images(
    "topi/conv2d.grouped_rows",
    Conv2d,
    grouped_rows.ON_GPU,
    grouped_rows.runs_on,
    f"16-bit floats in groups of 2 to 8 channels on {_MATRIX_UNITS}",
)
_PRODUCT_ON_GPU: ScheduleStrategy[Any] = contraction_simt.Simt(matmul.contraction_of, matmul.views_of).strategy(always)
_PRODUCT_ON_CPU: ScheduleStrategy[Any] = contraction_cpu.Packed(matmul.contraction_of, matmul.views_of).strategy(always)
_PRODUCT_MMA = contraction_mma.Mma(matmul.contraction_of, matmul.views_of)
_PRODUCT_TF32 = contraction_mma.Mma(matmul.contraction_of, matmul.views_of, contraction_mma.ROUNDED)


def _by_matrix_instructions(
    name: str, kind: type[Any], by: contraction_mma.Mma[Any], scope: str = _MATRIX_UNITS
) -> PackagedTemplate[Any]:
    """The strategy of products by matrix instructions, which no CPU has."""
    on_cpu = replace(_PRODUCT_ON_CPU, covers=never)
    return PackagedTemplate(name, kind, by.strategy(always), on_cpu, runs_on=by.runs_on, scope=scope)


DENSE_MMA: PackagedTemplate[Dense] = _by_matrix_instructions("topi/dense.mma", Dense, _PRODUCT_MMA)
DENSE_TF32: PackagedTemplate[Dense] = _by_matrix_instructions("topi/dense.tf32", Dense, _PRODUCT_TF32)
BATCH_MATMUL_MMA: PackagedTemplate[BatchMatmul] = _by_matrix_instructions(
    "topi/batch_matmul.mma", BatchMatmul, _PRODUCT_MMA
)
BATCH_MATMUL_TF32: PackagedTemplate[BatchMatmul] = _by_matrix_instructions(
    "topi/batch_matmul.tf32", BatchMatmul, _PRODUCT_TF32
)
_PRODUCT_WGMMA = contraction_wgmma.Wgmma(matmul.contraction_of, matmul.views_of, contraction_wgmma.USUAL)
_PRODUCT_WGMMA_TF32 = contraction_wgmma.Wgmma(matmul.contraction_of, matmul.views_of, contraction_wgmma.ROUNDED)
DENSE_WGMMA: PackagedTemplate[Dense] = _by_matrix_instructions("topi/dense.wgmma", Dense, _PRODUCT_WGMMA, _WARPGROUPS)
DENSE_WGMMA_TF32: PackagedTemplate[Dense] = _by_matrix_instructions(
    "topi/dense.wgmma_tf32", Dense, _PRODUCT_WGMMA_TF32, _WARPGROUPS
)
BATCH_MATMUL_WGMMA: PackagedTemplate[BatchMatmul] = _by_matrix_instructions(
    "topi/batch_matmul.wgmma", BatchMatmul, _PRODUCT_WGMMA, _WARPGROUPS
)
BATCH_MATMUL_WGMMA_TF32: PackagedTemplate[BatchMatmul] = _by_matrix_instructions(
    "topi/batch_matmul.wgmma_tf32", BatchMatmul, _PRODUCT_WGMMA_TF32, _WARPGROUPS
)
DENSE: PackagedTemplate[Dense] = PackagedTemplate(
    "topi/dense", Dense, _PRODUCT_ON_GPU, _PRODUCT_ON_CPU, (DENSE_MMA, DENSE_WGMMA)
)
BATCH_MATMUL: PackagedTemplate[BatchMatmul] = PackagedTemplate(
    "topi/batch_matmul", BatchMatmul, _PRODUCT_ON_GPU, _PRODUCT_ON_CPU, (BATCH_MATMUL_MMA, BATCH_MATMUL_WGMMA)
)
CONV1D: PackagedTemplate[Conv1d] = PackagedTemplate("topi/conv1d", Conv1d, conv1d.ON_GPU, cpu.LINE)
CONV2D: PackagedTemplate[Conv2d] = PackagedTemplate(
    "topi/conv2d",
    Conv2d,
    conv2d.ON_GPU,
    cpu.IMAGES,
    (CONV2D_DIRECT, CONV2D_ROWS, CONV2D_GROUPED, CONV2D_GEMM, CONV2D_MMA, CONV2D_WINDOW, CONV2D_WGMMA),
)
DEPTHWISE: PackagedTemplate[Depthwise] = PackagedTemplate(
    "topi/depthwise", Depthwise, depthwise.ON_GPU, cpu.IMAGES, (DEPTHWISE_DIRECT, DEPTHWISE_MMA, DEPTHWISE_PLANES)
)

TRANSPOSED: PackagedTemplate[Transposed] = PackagedTemplate(
    "topi/conv_transpose", Transposed, elementwise.ON_GPU, transposed_cpu.ON_CPU
)
POOLING = PoolingTemplate("topi/pool", Pooling, elementwise.ON_GPU, elementwise.ON_CPU)

ALL.extend(
    (
        *(CONV1D, CONV2D, CONV2D_DIRECT, CONV2D_GROUPED, CONV2D_GEMM, CONV2D_MMA, CONV2D_TF32, CONV2D_WINDOW),
        *(CONV2D_WGMMA, CONV2D_WGMMA_TF32, CONV2D_ROWS),
        *(DEPTHWISE, DEPTHWISE_DIRECT, DEPTHWISE_MMA, DEPTHWISE_PLANES, TRANSPOSED, POOLING),
        *(DENSE, DENSE_MMA, DENSE_TF32, DENSE_WGMMA, DENSE_WGMMA_TF32),
        *(BATCH_MATMUL, BATCH_MATMUL_MMA, BATCH_MATMUL_TF32, BATCH_MATMUL_WGMMA, BATCH_MATMUL_WGMMA_TF32),
    )
)
_registered: list[Template] = [*ALL, *legacy_names.LEGACY, lines.LINES]
for _template in _registered:
    register(_template)


def named(name: str) -> Any:
    """Return a packaged template by its name."""
    return lookup(name)


def strategies_by_name(template: PackagedTemplate[Any]) -> dict[str, PackagedTemplate[Any]]:
    """Return all strategies of a template's operator by the last parts of their names in a log."""
    return {each.strategy_name: each for each in ALL if each.kind is template.kind}


def strategy_named(template: PackagedTemplate[Any], strategy: str) -> PackagedTemplate[Any]:
    """Return a strategy of a template's operator; UserError, which lists all, if none has the name."""
    found = strategies_by_name(template)
    if not isinstance(strategy, str) or strategy not in found:
        known = ", ".join(map(repr, found))
        raise UserError(
            f"{strategy!r} is not a strategy of {template.kind.name}",
            primitive=template.kind.name,
            fix=f"give one of {known}" if len(found) > 1 else "leave it out: there is only one",
        )
    return found[strategy]


def _by_name(template: Any) -> tuple[Any, ...]:
    return named, (template.name,)


for _kind in (PackagedTemplate, PoolingTemplate):  # on another host, the template is the one that stands there
    copyreg.pickle(_kind, _by_name)
_SCHEDULES = (
    contraction_cpu,
    contraction_mma,
    contraction_simt,
    contraction_wgmma,
    conv1d,
    conv2d,
    cpu,
    cpu_channels_last,
    depthwise,
    depthwise_mma,
    depthwise_planes,
    direct,
    elementwise,
    grouped_mma,
    grouped_rows,
    pooling,
    transposed,
    transposed_cpu,
    window_mma,
)
name_lines_of(*(str(module.__file__) for module in _SCHEDULES))
