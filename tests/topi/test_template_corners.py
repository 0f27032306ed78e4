"""Packaged templates at the edges of what they cover: first configurations that build, and results that are right."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.runtime.compile import resolve_target
from tilewright.topi.templates import Conv2dLayer, Depthwise, Pooling, Transposed, named

CONV2D_DIRECT, CONV2D_MMA, CONV2D_WINDOW = (named(f"topi/conv2d.{name}") for name in ("direct", "mma", "window"))
CONV2D_WGMMA, CONV2D_WGMMA_TF32 = named("topi/conv2d.wgmma"), named("topi/conv2d.wgmma_tf32")
DEPTHWISE_DIRECT = named("topi/depthwise.direct")

CUDA = resolve_target(Target("cuda -arch=sm_90"))
LLVM = Target("llvm")
LONG = {"kernel": (1, 300), "padding": (0, 299, 0, 0)}
FIRST = [
    (DEPTHWISE_DIRECT, Depthwise.of((1, 8, 1, 400), layout="NHWC", **LONG)),
    (DEPTHWISE_DIRECT, Depthwise.of((1, 768, 1, 400), (1, 128), layout="NHWC", padding=(0, 127, 0, 0))),
    (DEPTHWISE_DIRECT, Depthwise.of((1, 16, 1, 400), (1, 3), 1, (0, 600, 0, 0), 300, layout="NHWC")),
    (DEPTHWISE_DIRECT, Depthwise.of((1, 8, 60000, 1), (3, 1), layout="NHWC", padding=(1, 0, 1, 0))),
    (DEPTHWISE_DIRECT, Depthwise.of((64, 480, 1, 5), (1, 5), stride=(1, 3), padding=0)),
    (CONV2D_DIRECT, Conv2dLayer.of((1, 64, 1, 400), 64, groups=16, layout="NHWC", **LONG)),
    (CONV2D_DIRECT, Conv2dLayer.of((16, 32, 14, 56), 48, 31, stride=(1, 3), padding=30, dilation=2)),
    (CONV2D_WINDOW, Conv2dLayer.of((8, 16, 112, 112), 16, (2, 1), stride=2, padding=0, dilation=(3, 1),
                                        dtype="float16", layout="NHWC", weights="OHWI")),
    (CONV2D_WINDOW, Conv2dLayer.of((300, 128, 256, 256), 128, dtype="float16", layout="NHWC")),
    (CONV2D_WGMMA_TF32, Conv2dLayer.of((1, 24, 16, 1), 8, (1, 7), (1, 2), (2, 8, 2, 8), layout="NHWC")),
    (CONV2D_MMA, Conv2dLayer.of((1, 32, 4096, 4096), 32, dtype="float16")),
]  # fmt: skip


def name_of(case: object) -> str:
    return getattr(case, "name", "") or getattr(case, "title", "").replace("  ", ",").replace(" ", "=")


@pytest.mark.parametrize(("template", "workload"), FIRST, ids=name_of)
def test_the_first_configuration_builds(template, workload) -> None:
    assert template.covers(workload, CUDA)
    build(*template.program(template.default_config(workload, CUDA), workload, CUDA), CUDA, name="layer")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_call_finds_a_strategy_for_windows_that_fit_no_thread(dtype: str) -> None:
    for workload in (
        Depthwise.of((1, 64, 1, 1024), (1, 1024), padding=(0, 1023, 0, 0), dtype=dtype),
        Conv2dLayer.of((1, 64, 1, 1024), 64, (1, 512), groups=16, padding=(0, 511, 0, 0), dtype=dtype),
    ):
        general = named("topi/depthwise") if isinstance(workload, Depthwise) else named("topi/conv2d")
        template, config = general.choose(workload, CUDA)
        build(*template.program(config, workload, CUDA), CUDA, name="layer")


@pytest.mark.parametrize(
    "workload",
    [
        Depthwise.of((2, 4, 1, 320), layout="NHWC", **LONG),
        Depthwise.of((1, 3, 2, 40), (1, 2), layout="NHWC", padding=(0, 280, 0, 0), dilation=280, multiplier=2),
        Conv2dLayer.of((1, 8, 1, 310), 8, groups=4, layout="NHWC", dtype="float16", **LONG),
    ],
    ids=name_of,
)
def test_windows_that_fit_no_thread_are_right(workload) -> None:
    template = DEPTHWISE_DIRECT if isinstance(workload, Depthwise) else CONV2D_DIRECT
    program = template.program(template.default_config(workload, CUDA), workload, CUDA)
    rng, kind = np.random.default_rng(3), DType(workload.dtype).numpy
    given = [rng.integers(-2, 3, values.shape).astype(kind) for values in workload.inputs(rng)]
    with emulation():
        out = tw.nd.array(np.full(workload.out_shape, 77, kind), tw.cuda())
        emulated(*program)(*(tw.nd.array(values, tw.cuda()) for values in given), out)
        np.testing.assert_array_equal(out.numpy(), workload.numpy(*given).astype(kind))


@pytest.mark.parametrize("filters", [8, 9, 13, 15, 16, 17])
@pytest.mark.parametrize("template", [CONV2D_WGMMA, CONV2D_WGMMA_TF32], ids=name_of)
def test_few_filters_by_warpgroups(template, filters: int) -> None:
    """Less than the smallest tile are one tile, which must have whole instructions."""
    workload = Conv2dLayer.of(
        (2, 64, 7, 9), filters, layout="NHWC", dtype="float32" if "tf32" in template.name else "float16"
    )
    assert template.covers(workload, CUDA) == (filters % 8 == 0 or filters > 16)
    if template.covers(workload, CUDA):
        build(*template.program(template.default_config(workload, CUDA), workload, CUDA), CUDA, name="layer")


@pytest.mark.parametrize(("kernel", "padding", "dilation"), [(3, 2, 2), ((2, 4), (3, 5), (1, 3)), (2, 4, 1)])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_averages_of_what_a_window_sees(kernel: object, padding: object, dilation: object, layout: str) -> None:
    """With dilation, and with windows that see nothing: the average of no values is not a number."""
    workload = Pooling.of((1, 3, 6, 7), "average inside", kernel, 1, padding, dilation, layout=layout)
    (data,), (wanted,) = workload.sample()
    out = tw.nd.array(np.full(workload.out_shape, 77, "float32"))
    config = named("topi/pool").default_config(workload, LLVM)
    build(*named("topi/pool").program(config, workload, LLVM), LLVM)(tw.nd.array(data), out)
    np.testing.assert_allclose(out.numpy(), wanted, rtol=1e-5, atol=1e-6)


def test_terms_of_a_dilated_transposed_convolution() -> None:
    """Of a window whose taps all lie a multiple of the stride apart, one result takes all or none."""
    assert Transposed.of((1, 2, 5, 5), 4, kernel=3, stride=2, dilation=2).terms == 2 * 9
    assert Transposed.of((1, 2, 5, 5), 4, kernel=3, stride=2, dilation=3).terms == 2 * 4
    assert Transposed.of((1, 2, 5, 5), 4, kernel=3, stride=2).terms == 2 * 4


@pytest.mark.parametrize("strategy", ["direct", "gemm"])
def test_an_epilogue_reads_a_reduction_of_its_own_first(strategy: str) -> None:
    conv2d = tw.autotvm.templates.conv2d.by(strategy)
    layout = "NHWC" if strategy == "direct" else "NCHW"
    shape = (1, 6, 7, 8) if layout == "NHWC" else (1, 8, 6, 7)
    x, w = te.placeholder(shape, name="x"), te.placeholder((8, 8, 3, 3), name="w")
    parts, r = te.placeholder((8, 5), name="parts"), te.reduce_axis((0, 5), "r")
    bias = te.compute((8,), lambda c: te.sum(parts[c, r], axis=r), "bias")
    at = layout.index("C")
    y = conv2d.compute(x, w, epilogue=lambda v, *i: bias(i[at]) + v, target=CUDA, padding=1, layout=layout)
    s = te.create_schedule(y.op)
    s[bias].bind(bias.op.axis[0], te.thread_axis("threadIdx.x"))
    conv2d.schedule(s, y)
    rng = np.random.default_rng(1)
    given = [rng.integers(-2, 3, size).astype("float32") for size in (shape, (8, 8, 3, 3), (8, 5))]
    with emulation():
        out = tw.nd.array(np.full(shape, 77, "float32"), tw.cuda())
        emulated(s, [x, w, parts, y])(*(tw.nd.array(values, tw.cuda()) for values in given), out)
        sums = Conv2dLayer.of((1, 8, 6, 7), layout=layout).numpy(given[0], given[1])
        shift = given[2].sum(axis=1)
        np.testing.assert_array_equal(out.numpy(), sums + (shift if layout == "NHWC" else shift[:, None, None]))
