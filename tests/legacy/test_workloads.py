"""Workloads, default tiles and operators of legacy modules, under the names that those modules had."""

from __future__ import annotations

import math
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.legacy.test_names import installed as installed
from tests.legacy.test_old_names import asked
from tilewright import autotvm, te, topi
from tilewright.core.errors import UserError

pytestmark = pytest.mark.usefixtures("installed")


@pytest.mark.parametrize(
    ("module", "images", "kernels", "layout"),
    [
        ("conv2d", (1, 6, 9, 11), (4, 3, 3, 2), "NCHW"),
        ("conv2d", (1, 9, 11, 6), (3, 2, 3, 4), "NHWC"),
        ("conv2d", (9, 11, 6, 1), (3, 2, 3, 4), "HWCN"),
        ("depthwise_conv2d", (1, 6, 9, 11), (6, 2, 3, 2), "NCHW"),
        ("depthwise_conv2d", (1, 9, 11, 6), (3, 2, 6, 2), "NHWC"),
        ("depthwise_conv2d", (1, 2, 9, 11, 3), (2, 2, 3, 2, 1, 3), "NCHWc"),
    ],
)
def test_workloads_and_default_tiles(module: str, images: Any, kernels: Any, layout: str) -> None:
    workload = asked(f"tvm.topi.nn.{module}", "_get_workload")
    default = asked(f"tvm.topi.x86.{'conv2d_avx_common' if module == 'conv2d' else module}", "_fallback_schedule")
    x, w = te.placeholder(images, name="X"), te.placeholder(kernels, name="W")
    found = workload(x, w, (2, 1), (1, 0, 2, 3), (1, 2), "float32", layout)
    assert isinstance(found, asked(f"tvm.topi.nn.{module}", "Workload"))
    assert (found.height, found.width, found.in_filter, found.kernel_h, found.kernel_w) == (9, 11, 6, 3, 2)
    assert found.out_filter == (4 if module == "conv2d" else 12)
    assert found[-8:] == (1, 0, 2, 3, 1, 2, 2, 1)
    with tw.target.Target("llvm"):
        cfg = autotvm.get_config()
        default(cfg, found)
    assert [math.prod(cfg[knob].size) for knob in ("tile_ow", "tile_ic", "tile_oc")] == [12, 6, found.out_filter]
    with pytest.raises(UserError, match="data_layout='NCWH' is not known"):
        workload(x, w, 1, 0, 1, "float32", "NCWH")


def test_default_tiles_of_8_bit_integers() -> None:
    workload = asked("tvm.topi.nn.conv2d", "_get_workload")
    default = asked("tvm.topi.generic.conv2d", "fallback_schedule_cpu_common_int8")
    x, w = te.placeholder((1, 12, 8, 8), "int8", "X"), te.placeholder((32, 12, 3, 3), "int8", "W")
    cfg = autotvm.get_config()
    default(cfg, workload(x, w, 1, "SAME", 1, "int32"), 16, 4)
    assert [cfg[knob].size for knob in ("tile_ic", "tile_oc", "tile_ow")] == [[1, 12], [2, 16], [1, 8]]
    with refused("fallback_schedule_cpu_common_int8", "32 filters and 12 channels", fix="pad"):
        default(cfg, workload(x, w, 1, "SAME", 1, "int32"), 12, 4)


def test_layouts_in_blocks() -> None:
    utils = import_module("tvm.topi.utils")
    names = ("ncw_pack_layout", "ncw_xc_layout", "nchw_pack_layout", "nchw_xc_layout")
    found = {layout: [bool(getattr(utils, name)(layout)) for name in names] for layout in ("NCW2n4c", "NCW4c", "NCHW")}
    assert found == {"NCW2n4c": [True, False, False, False], "NCW4c": [False, True, False, False], "NCHW": [False] * 4}
    assert utils.nchw_pack_layout("NCHW1n16c")
    assert utils.nchw_xc_layout("NCHW16c")


def run(declare: Any, *arrays: np.ndarray) -> np.ndarray:
    """Declare an operator over these arrays, and compute it on the CPU."""
    inputs = [te.placeholder(a.shape, str(a.dtype), f"in{i}") for i, a in enumerate(arrays)]
    with tw.target.Target("llvm"):
        out = declare(*inputs)
        made = tw.build(topi.generic.schedule_injective([out]), [*inputs, out], "llvm")
    result = tw.nd.array(np.zeros(topi.utils.get_const_tuple(out.shape), str(out.dtype)))
    made(*map(tw.nd.array, arrays), result)
    found: np.ndarray = result.numpy()
    return found


def test_scale_and_shift_of_channels_in_blocks() -> None:
    x, scale, shift = (np.random.default_rng(0).random(s).astype("float32") for s in ((1, 2, 3, 3, 4), (2, 4), (2, 4)))
    want = x * scale[:, None, None] + shift[:, None, None]
    np.testing.assert_allclose(run(topi.nn.scale_shift_nchwc, x, scale, shift), want, rtol=1e-6)
    with refused("scale_shift", "Scale has 4 elements, but Input has 2 channels"):
        topi.nn.scale_shift_nchwc(te.placeholder(x.shape), te.placeholder((4, 2)), te.placeholder((2, 4)))


def test_a_type_in_place_of_groups() -> None:
    """Convolutions of volumes had no groups before v0.9."""
    x, w = te.placeholder((1, 2, 4, 4, 4), "float16"), te.placeholder((3, 2, 3, 3, 3), "float16")
    for convolve in (topi.nn.conv3d_ncdhw, topi.x86.conv3d_ncdhw, asked("tvm.topi.cuda", "conv3d_ncdhw_winograd")):
        assert str(convolve(x, w, 1, 0, 1, "float32").dtype) == "float32"
    y, v = te.placeholder((1, 4, 4, 4, 2), "float16"), te.placeholder((3, 3, 3, 2, 3), "float16")
    for convolve in (topi.nn.conv3d_ndhwc, asked("tvm.topi.cuda", "conv3d_ndhwc_tensorcore")):
        assert str(convolve(y, v, 1, 0, 1, "float16").dtype) == "float16"


def test_convolutions_of_8_bit_integers() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, s).astype("int8") for s in ((1, 4, 5, 5), (4, 4, 3, 3)))
    windows = np.lib.stride_tricks.sliding_window_view(x.astype("int32"), (3, 3), (2, 3))
    want = np.einsum("nchwyx,ocyx->nohw", windows, w.astype("int32"))
    gpu = import_module("tvm.topi.gpu")
    assert (run(lambda a, b: gpu.conv2d_nchw_int8(a, b, 1, 0, 1), x, w) == want).all()
    hwnc = run(
        lambda a, b: gpu.conv2d_hwnc_tensorcore(a, b, 1, 0, 1, "int8"), x.transpose(2, 3, 0, 1), w.transpose(2, 3, 0, 1)
    )
    assert (hwnc == want.transpose(2, 3, 0, 1)).all()


def test_slices_whose_places_are_tensors() -> None:
    x = np.random.default_rng(0).random((3, 5)).astype("float32")
    a, cuts = te.placeholder(x.shape, name="A"), [te.placeholder((2,), "int64", n) for n in ("b", "e", "s")]
    b = topi.strided_slice(a, *cuts)
    made = tw.build(te.create_schedule(b.op), [a, *cuts, b], "llvm")
    for begin, end, steps in (([0, 4], [3, -6], [2, -1]), ([1, 1], [3, 5], [1, 3])):
        want = x[tuple(slice(*cut) for cut in zip(begin, end, steps, strict=True))]
        out = tw.nd.array(np.zeros(want.shape, "float32"))
        made(tw.nd.array(x), *(tw.nd.array(np.array(cut, "int64")) for cut in (begin, end, steps)), out)
        assert (out.numpy() == want).all()
    with refused("strided_slice", "are given with tensors", fix="leave both out"):
        topi.strided_slice(a, *cuts, axes=[0, 1])
