"""Matrix products and convolutions of every kind against NumPy, by the general schedules."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import nn, testing

RANDOM = np.random.default_rng(6)


def values(*shape: int) -> np.ndarray:
    """Whole numbers, which add up exactly in any order."""
    return RANDOM.integers(-3, 4, shape).astype("float32")


def product(name: str, operator: Any, given: list[np.ndarray], expected: Any, on_opencl: bool = True) -> Case:
    return Case(name, operator, given, np.asarray(expected), "schedule_conv", 1e-6, 1e-6, on_opencl=on_opencl)


def last(a: np.ndarray) -> np.ndarray:
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(a, 1, -1))


def kernel_last(w: np.ndarray) -> np.ndarray:
    """(CO, CI, ...) as (..., CI, CO)."""
    return np.ascontiguousarray(np.moveaxis(w, (0, 1), (-1, -2)))


@every_target
def test_matrix_products(target: str) -> None:
    a, b, bias = values(19, 37), values(37, 70), values(70)
    first, second, once = values(3, 9, 33), values(3, 20, 33), values(1, 20, 33)
    flat, thin = values(2, 5000), values(3, 5000)
    bytes_a, bytes_b = (RANDOM.integers(-100, 100, s).astype("int8") for s in ((8, 64), (48, 64)))
    cases = [
        product("dense", nn.dense, [a, b.T, bias], a @ b + bias),
        product("dense relu", lambda x, w: nn.relu(nn.dense(x, w)), [a, b.T], np.maximum(a @ b, 0)),
        product("dense bytes", lambda x, w: nn.dense(x, w, None, "int32"), [bytes_a, bytes_b],
                bytes_a.astype("int32") @ bytes_b.T.astype("int32")),
        product("few", nn.dense, [flat, thin], flat @ thin.T, False),
        product("matmul", lambda x, y, z: nn.matmul(x, y, z), [a, b, bias], a @ b + bias),
        product("matmul t", lambda x, y: topi.nn.matmul(x, y, transpose_a=True, transpose_b=True), [a.T, b.T], a @ b),
        product("batch", nn.batch_matmul, [first, second], first @ second.transpose(0, 2, 1)),
        product("batch of one", lambda x, y: nn.batch_matmul(x, y, transpose_b=False),
                [first, once.transpose(0, 2, 1)], first @ once.transpose(0, 2, 1)),
        product("tensordot", lambda x, y: topi.tensordot(x, y, ([2, 0], [1, 2])), [values(3, 4, 5), values(6, 5, 3)],
                np.zeros(0)),
        product("tensordot 1", lambda x, y: topi.tensordot(x, y, 1), [first, b[:33]], np.tensordot(first, b[:33], 1)),
    ]  # fmt: skip
    cases[-2].expected = np.tensordot(*cases[-2].given, axes=([2, 0], [1, 2])).astype("float32")
    check(cases, target)


@every_target
def test_convolutions_of_every_rank(target: str) -> None:
    line, lines = values(2, 4, 19), values(6, 2, 3)
    image, kernels, grouped = values(2, 6, 11, 9), values(8, 6, 3, 3), values(8, 3, 3, 3)
    volume, cubes = values(1, 3, 5, 6, 7), values(4, 3, 2, 3, 3)
    two, three = (1, 1), (1, 1, 1)
    plain = testing.convnd_python(image, kernels, two, two, two, two)
    wide = testing.convnd_python(volume, cubes, (1, 2, 1), (0, 1, 1), (0, 1, 1), three)
    split = testing.convnd_python(line, lines, [2], [1], [1], [1], 2)
    cases = [
        product("1d groups", lambda x, w: nn.group_conv1d_ncw(x, w, 2, 1, 1, 2), [line, lines], split),
        product("1d groups last", lambda x, w: nn.group_conv1d_nwc(x, w, 2, 1, 1, 2),
                [last(line), kernel_last(lines)], last(split)),
        product("2d", lambda x, w: nn.conv2d_nchw(x, w, 1, 1), [image, kernels], plain),
        product("2d last", lambda x, w: nn.conv2d_nhwc(x, w, 1, 1), [last(image), kernel_last(kernels)], last(plain)),
        product("2d relu", lambda x, w: nn.relu(nn.conv2d_nchw(x, w, 2, 0, 2)), [image, kernels],
                np.maximum(testing.convnd_python(image, kernels, (2, 2), (0, 0), (0, 0), (2, 2)), 0)),
        product("2d groups", lambda x, w: nn.group_conv2d_nchw(x, w, 1, 1, 1, 2), [image, grouped],
                testing.convnd_python(image, grouped, two, two, two, two, 2)),
        product("3d", lambda x, w: nn.conv3d_ncdhw(x, w, (1, 2, 1), (0, 1, 1)), [volume, cubes], wide),
        product("3d last", lambda x, w: nn.conv3d_ndhwc(x, w, (1, 2, 1), (0, 1, 1)),
                [last(volume), kernel_last(cubes)], last(wide)),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_convolutions_of_every_layout(target: str) -> None:
    line, taps = values(2, 4, 9), values(6, 4, 3)
    image, kernels, grouped, depth = values(2, 4, 7, 6), values(6, 4, 3, 3), values(6, 2, 3, 3), values(4, 3, 3, 2)
    row = testing.convnd_python(line, taps, [2], [1], [1], [1])
    plain = testing.convnd_python(image, kernels, (1, 1), (1, 1), (1, 1), (1, 1))
    parts = testing.convnd_python(image, grouped, (2, 1), (0, 0), (0, 0), (1, 1), 2)
    deep = testing.depthwise_conv2d_python_nchw(image, depth, 1, 1)
    batch_last = lambda a: np.ascontiguousarray(a.transpose(2, 3, 1, 0))
    cases = [
        product("1d", lambda x, w: nn.conv1d(x, w, 2, 1), [line, taps], row),
        product("1d ncw", lambda x, w: nn.conv1d_ncw(x, w, 2, 1), [line, taps], row, False),
        product("1d nwc", lambda x, w: nn.conv1d_nwc(x, w, 2, 1), [last(line), kernel_last(taps)], last(row)),
        product("2d", lambda x, w: nn.conv2d(x, w, 1, 1, 1), [image, kernels], plain, False),
        product("2d layout", lambda x, w: nn.conv2d(x, w, 1, 1, 1, "NHWC"), [last(image), kernel_last(kernels)],
                last(plain), False),
        product("2d hwcn", lambda x, w: nn.conv2d_hwcn(x, w, 1, 1), [batch_last(image), kernel_last(kernels)],
                batch_last(plain)),
        product("2d groups last", lambda x, w: nn.group_conv2d_nhwc(x, w, (2, 1), 0, 1, 2),
                [last(image), kernel_last(grouped)], last(parts)),
        product("depthwise", lambda x, w: nn.depthwise_conv2d(x, w, 1, 1, 1), [image, depth], deep, False),
        product("depthwise nchw", lambda x, w: nn.depthwise_conv2d_nchw(x, w, 1, 1), [image, depth], deep),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_transposed_convolutions(target: str) -> None:
    line, image, volume = values(2, 3, 7), values(1, 4, 5, 6), values(1, 2, 3, 4, 3)
    lines, halves = values(2, 4, 7), values(4, 3, 3)
    taps, kernels, parts, cubes = values(3, 5, 4), values(4, 3, 3, 2), values(4, 2, 3, 3), values(2, 3, 2, 3, 2)
    spread = testing.conv_transposend_python
    cases = [
        product("1d", lambda x, w: nn.conv1d_transpose_ncw(x, w, 2, (1, 2), "float32", 1), [line, taps],
                spread(line, taps, [2], [1], [2], [1])),
        product("2d", lambda x, w: nn.conv2d_transpose_nchw(x, w, (2, 1), (1, 0), "float32", (1, 0)), [image, kernels],
                spread(image, kernels, (2, 1), (1, 0), (1, 0), (1, 0))),
        product("2d groups", lambda x, w: nn.group_conv2d_transpose_nchw(x, w, 2, 1, "float32", 0, 2), [image, parts],
                spread(image, parts, (2, 2), (1, 1), (1, 1), (0, 0), 2)),
        product("3d", lambda x, w: nn.conv3d_transpose_ncdhw(x, w, 2, 0, "float32", 0), [volume, cubes],
                spread(volume, cubes, (2,) * 3, (0,) * 3, (0,) * 3, (0,) * 3)),
        product("1d groups", lambda x, w: nn.group_conv1d_transpose_ncw(x, w, 2, 1, "float32", 0, 2), [lines, halves],
                spread(lines, halves, [2], [1], [1], [0], 2)),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_displaced_reads(target: str) -> None:
    one, other = values(1, 4, 8, 7), values(1, 4, 8, 7)
    image, kernels, grouped = values(1, 4, 6, 5), values(4, 4, 3, 3), values(4, 2, 3, 3)
    near, two = values(1, 18, 6, 5) / 4, values(1, 36, 3, 3) / 4
    first, second = (1, 1, 1, 1, 1), (2, 1, 1, 2, 2)
    plain = testing.deformable_conv2d_nchw_python(image, near, kernels, *first)
    cases = [
        product("multiply", lambda a, b: nn.correlation_nchw(a, b, 3, 2, 1, 2, 2, True), [one, other],
                testing.correlation_nchw_python(one, other, 3, 2, 1, 2, 2, True)),
        product("differ", lambda a, b: nn.correlation_nchw(a, b, 1, 1, 2, 1, (1, 0), False), [one, other],
                testing.correlation_nchw_python(one, other, 1, 1, 2, 1, (1, 0), False)),
        product("deformed", lambda x, d, w: nn.deformable_conv2d_nchw(x, d, w, *first), [image, near, kernels], plain),
        product("deformed groups", lambda x, d, w: nn.deformable_conv2d_nchw(x, d, w, *second), [image, two, grouped],
                testing.deformable_conv2d_nchw_python(image, two, grouped, *second), False),
        product("deformed last", lambda x, d, w: nn.deformable_conv2d_nhwc(x, d, w, *first),
                [last(image), last(near), kernel_last(kernels)], last(plain), False),
    ]  # fmt: skip
    check(cases, target)


def blocked(w: np.ndarray, channels: int, filters: int) -> np.ndarray:
    """(CO, CI, KH, KW) as (CO / c, CI / b, KH, KW, b, c)."""
    co, ci, kh, kw = w.shape
    parts = w.reshape(co // filters, filters, ci // channels, channels, kh, kw)
    return np.ascontiguousarray(parts.transpose(0, 2, 4, 5, 3, 1))


@every_target
def test_channels_in_blocks(target: str) -> None:
    image, kernels, depth = values(1, 8, 7, 6), values(6, 8, 3, 3), values(8, 1, 3, 3)
    data = testing.layout_transform_python(image, "NCHW", "NCHW4c")
    one = (1, 1)
    plain = testing.convnd_python(image, kernels, one, one, one, one)
    whole = testing.convnd_python(image.astype("int32"), kernels.astype("int32"), one, one, one, one)
    deep = testing.convnd_python(image, depth, (2, 2), one, one, one, 8)
    dots = blocked(kernels, 4, 3).astype("int8")  # (CO / c, CI / b, KH, KW, b, c)
    dots = np.ascontiguousarray(dots.reshape(2, 2, 3, 3, 1, 4, 3).transpose(0, 1, 2, 3, 4, 6, 5))
    lanes = np.ascontiguousarray(depth.reshape(2, 4, 1, 3, 3, 1).transpose(0, 2, 3, 4, 5, 1))
    cases = [
        product("blocks", lambda x, w: nn.conv2d_NCHWc(x, w, 1, 1, 1, "NCHW4c", "NCHW3c"),
                [data, blocked(kernels, 4, 3)], testing.layout_transform_python(plain, "NCHW", "NCHW3c")),
        product("bytes", lambda x, w: nn.conv2d_NCHWc_int8(x, w, 1, 1, 1, "NCHW4c", "NCHW3c"),
                [data.astype("int8"), dots], testing.layout_transform_python(whole, "NCHW", "NCHW3c")),
        product("depthwise", lambda x, w: nn.depthwise_conv2d_NCHWc(x, w, 2, 1, 1, "NCHW4c", "NCHW4c"),
                [data, lanes], testing.layout_transform_python(deep, "NCHW", "NCHW4c")),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_images_packed_for_dot_products(target: str) -> None:
    image, kernels, halves = (RANDOM.integers(-90, 90, s).astype("int8") for s in
                              ((1, 16, 7, 6), (8, 16, 3, 3), (8, 8, 3, 3)))  # fmt: skip
    one, wide = (1, 1), image.astype("int32")
    plain = testing.convnd_python(wide, kernels.astype("int32"), one, one, one, one)
    parts = testing.convnd_python(wide, halves.astype("int32"), one, one, one, one, 2)
    packed = lambda a: testing.layout_transform_python(a, "NCHW", "NCHW4c")
    taps = np.ascontiguousarray(kernels.reshape(2, 4, 4, 4, 3, 3).transpose(0, 2, 4, 5, 1, 3))
    whole, of_groups = topi.cuda.conv2d_NCHWc_int8, topi.cuda.group_conv2d_NCHWc_int8
    cases = [
        product("images", lambda x, w: whole(x, w, 1, 1, 1, "NCHW", "int32"), [image, kernels], packed(plain)),
        product("packed", lambda x, w: whole(x, w, 1, 1, 1, "NCHW4c", "int32"), [packed(image), taps], packed(plain)),
        product("groups", lambda x, w: of_groups(x, w, 1, 1, 1, 2), [image, halves], packed(parts)),
    ]
    check(cases, target)


@every_target
def test_winograd_and_gradients(target: str) -> None:
    image, kernels = values(2, 3, 9, 10), values(4, 3, 3, 3)
    expected = testing.convnd_python(image, kernels, (1, 1), (1, 1), (1, 1), (1, 1))
    packed = lambda x, w: nn.conv2d_winograd_nchw(
        x, nn.conv2d_winograd_weight_transform(w, 2), 1, 1, 1, "float32", True
    )
    data, filters = values(2, 6, 7, 3), values(3, 3, 3, 2)
    grads, taps = values(2, 3, 4, 6), filters.shape
    by_input, by_filter = testing.depthwise_gradients_python(data, filters, grads, 2, 1)
    cases = [
        product("winograd", lambda x, w: nn.conv2d_winograd_nchw(x, w, 1, 1, 1, "float32"), [image, kernels], expected),
        product("winograd packed", packed, [image, kernels], expected),
        product("winograd last", lambda x, w: nn.conv2d_winograd_nhwc(x, w, 1, 1, 1, "float32"),
                [last(image), kernel_last(kernels)], last(expected)),
        product("by input", lambda w, g: nn.depthwise_conv2d_backward_input_nhwc(w, g, grads.shape, data.shape, 2, 1),
                [filters, grads], by_input),
        product("by filter", lambda x, g: nn.depthwise_conv2d_backward_weight_nhwc(x, g, grads.shape, taps, 2, 1),
                [data, grads], by_filter),
        product("depthwise", lambda x, w: nn.depthwise_conv2d_nhwc(x, w, 2, 1), [data, filters],
                testing.depthwise_conv2d_python_nhwc(data, filters, 2, 1)),
    ]  # fmt: skip
    for case in cases[:3]:
        case.atol = 1e-3
    check(cases, target)
