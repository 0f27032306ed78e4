"""Windows on GPUs: tiles of neighbours from registers, with borders, strides, dilations, and any way to write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.auto.programs import assert_right_on_gpu
from tilewright import te, topi
from tilewright.auto.gpu_windows import WindowTile, is_possible, schedule_windows, windows_of
from tilewright.auto.program import AutomaticProgram
from tilewright.core.target import Target

Case = tuple[list[Any], Any, Callable[..., Any]]


def depthwise(n: int, c: int, h: int, w: int, k: int, stride: int, dilation: int, dtype: str, finished: bool) -> Case:
    """A depthwise convolution of PyTorch's form; `finished` adds ReLU."""
    x, weights = te.placeholder((n, c, h, w), dtype, "x"), te.placeholder((c, 1, k, k), dtype, "w")
    pad = dilation * (k - 1) // 2
    made = topi.nn.depthwise_conv2d_nchw(x, weights, stride, pad, dilation, out_dtype="float32")

    def right(x: Any, w: Any) -> Any:
        wide = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        oh, ow = ((size + 2 * pad - dilation * (k - 1) - 1) // stride + 1 for size in (h, wide.shape[3] - 2 * pad))
        taps = (
            wide[:, :, i * dilation :, j * dilation :][:, :, : (oh - 1) * stride + 1 : stride][
                ..., : (ow - 1) * stride + 1 : stride
            ]
            * w[None, :, 0, i, j, None, None]
            for i in range(k)
            for j in range(k)
        )
        found = sum(taps)
        return np.maximum(found, 0) if finished else found

    return [x, weights], topi.nn.relu(made) if finished else made, right


def line(length: int, taps: int) -> Case:
    """NumPy's convolution, whose kernel runs backwards."""
    x, w, r = te.placeholder((length,), name="x"), te.placeholder((taps,), name="w"), te.reduce_axis((0, taps), "r")
    wide = topi.nn.pad(x, [taps - 1], [taps - 1])
    made = te.compute((length + taps - 1,), lambda i: te.sum(wide[i + taps - 1 - r] * w[r], axis=r), name="made")
    return [x, w], made, np.convolve


def grouped(channels: int, per_group: int, size: int, k: int) -> Case:
    """A convolution in groups, with a border."""
    x, w = te.placeholder((1, channels, size, size), name="x"), te.placeholder((channels, per_group, k, k), name="w")
    made = topi.nn.group_conv2d_nchw(x, w, 1, k // 2, 1, channels // per_group)

    def right(x: Any, w: Any) -> Any:
        wide = np.pad(x, ((0, 0), (0, 0), (k // 2, k // 2), (k // 2, k // 2)))
        seen = np.lib.stride_tricks.sliding_window_view(wide, (k, k), (2, 3))
        parts = np.split(np.arange(channels), channels // per_group)
        return np.concatenate([np.einsum("nchwij,fcij->nfhw", seen[:, p], w[p]) for p in parts], 1)

    return [x, w], made, right


def largest(h: int, w: int, k: int) -> Case:
    """The largest element of each window, without a border."""
    x = te.placeholder((3, h, w), name="x")
    i, j = te.reduce_axis((0, k), "i"), te.reduce_axis((0, k), "j")
    shape = (3, h - k + 1, w - k + 1)
    made = te.compute(shape, lambda c, y, z: te.max(x[c, y + i, z + j], axis=[i, j]), name="made")
    return [x], made, lambda a: np.lib.stride_tricks.sliding_window_view(a, (k, k), (1, 2)).max((3, 4))


CASES = {
    "k3": lambda: depthwise(1, 3, 9, 16, 3, 1, 1, "float32", False),
    "stride": lambda: depthwise(2, 3, 14, 14, 3, 2, 1, "float32", True),
    "half": lambda: depthwise(1, 2, 11, 24, 5, 1, 1, "float16", False),
    "dilated": lambda: depthwise(1, 2, 9, 10, 3, 1, 2, "float32", True),
    "odd": lambda: depthwise(1, 2, 7, 21, 3, 1, 1, "float32", False),
    "line": lambda: line(61, 5),
    "groups": lambda: grouped(8, 4, 8, 3),
    "large": lambda: depthwise(1, 2, 12, 12, 11, 1, 1, "float32", False),
    "max": lambda: largest(9, 16, 3),
}
TILES = {
    "rows": WindowTile(2, 4, 32),
    "columns": WindowTile(1, 7, 64),
    "one": WindowTile(1, 1, 32),
    "rolled": WindowTile(2, 4, 32, 1),
}


@pytest.mark.cuda
@pytest.mark.parametrize("tile", ["default", *(pytest.param(t, marks=pytest.mark.slow) for t in TILES)])
@pytest.mark.parametrize("case", CASES)
def test_windows(case: str, tile: str) -> None:
    inputs, out, reference = CASES[case]()
    target = Target("cuda")
    program = AutomaticProgram([out.op], target)
    (kernel,) = program.kernels
    windows = windows_of(program.flow, kernel, program.target)
    assert windows is not None
    ways = [way for way in program.ways[0] if way.name == "windows"]
    s = program.schedule(ways)
    if tile != "default":
        if not is_possible(windows, target, TILES[tile]):
            pytest.skip("the result has fewer rows")
        s = program.begun(ways)
        schedule_windows(s, windows, kernel, TILES[tile])
    assert_right_on_gpu(s, inputs, out, reference, target)


def test_a_small_layer_has_one_result_for_each_thread() -> None:
    """It leaves schedulers without a warp, so that the packaged strategies come later."""
    data, weights = te.placeholder((1, 4, 16, 32), name="data"), te.placeholder((4, 1, 7, 7), name="weights")
    small = topi.nn.depthwise_conv2d_nchw(data, weights, 1, 3, 1)
    ways = AutomaticProgram([small.op], Target("cuda -arch=sm_90")).ways[-1]
    assert ways[0].name == "windows"
    assert [ways[0].chosen[name].val for name in ("rows", "columns", "threads")] == [1, 1, 32]
    assert ways[1].name == "depthwise direct"
