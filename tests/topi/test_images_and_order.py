"""Resizing and dilating images, running sums and sorting against NumPy, on every target."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import image, nn, testing

RANDOM = np.random.default_rng(7)
IMAGES = RANDOM.normal(0, 1, (2, 3, 5, 7)).astype("float32")
LINE, VOLUME = RANDOM.normal(0, 1, (1, 2, 9)).astype("float32"), RANDOM.normal(0, 1, (1, 2, 3, 4, 3)).astype("float32")
MODES = ("half_pixel", "align_corners", "asymmetric")


def test_references_at_borders() -> None:
    """Results by hand: nearest pixels of half pixels; deformed taps between the last row and the zeros below it."""
    row = np.arange(4, dtype="float32").reshape(1, 1, 1, 4)
    nearest = testing.resize_python(row, (1, 8), "nearest_neighbor", "half_pixel")
    assert nearest.ravel().tolist() == [0, 0, 0, 1, 1, 2, 2, 3]
    ones, moves = np.ones((1, 1, 2, 2), "float32"), np.zeros((1, 2, 2, 2), "float32")
    moves[:, 0] = 0.5
    deformed = testing.deformable_conv2d_nchw_python(ones, moves, np.ones((1, 1, 1, 1), "float32"), 1, 0, 1)
    assert deformed.ravel().tolist() == [1, 1, 0.5, 0.5]


@every_target
def test_resize(target: str) -> None:
    cases = []
    for method in ("nearest_neighbor", "linear", "cubic"):
        for mode, size in zip(MODES, ((8, 4), (9, 13), (10, 21)), strict=True):
            how = lambda x, s=size, m=method, c=mode: image.resize2d(x, None, s, "NCHW", m, c)
            expected = testing.resize_python(IMAGES, size, method, mode)
            cases.append(Case(f"{method} {mode}", how, [IMAGES], expected, rtol=1e-4, atol=1e-5))
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    cubic = testing.resize_python(IMAGES, (7, 9), "cubic", "half_pixel", "", -0.75, True)
    cases += [
        Case("exclude", lambda x: image.resize2d(x, None, (7, 9), "NHWC", "cubic", "half_pixel", "", -0.75, 1), [last],
             cubic.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-5),
        Case("1d", lambda x: image.resize1d(x, None, 14), [LINE],
             testing.resize_python(LINE, [14], "linear", "half_pixel"), rtol=1e-4, atol=1e-5),
        Case("3d", lambda x: image.resize3d(x, None, (5, 2, 6)), [VOLUME],
             testing.resize_python(VOLUME, (5, 2, 6), "linear", "half_pixel"), rtol=1e-4, atol=1e-5),
        Case("up", lambda x: nn.upsampling(x, 2, 3), [IMAGES], IMAGES.repeat(2, 2).repeat(3, 3)),
        Case("up corners", lambda x: nn.upsampling(x, 2, 1.6, "NCHW", "bilinear", True), [IMAGES],
             testing.resize_python(IMAGES, (10, 11), "linear", "align_corners"), rtol=1e-4, atol=1e-5),
        Case("up volumes", lambda x: nn.upsampling3d(x, 2, 2, 2, method="trilinear"), [VOLUME],
             testing.resize_python(VOLUME, (6, 8, 6), "linear", "half_pixel"), rtol=1e-4, atol=1e-5),
    ]  # fmt: skip
    for rounding in ("round", "round_prefer_ceil", "floor", "ceil"):
        how = lambda x, r=rounding: image.resize2d(x, None, (3, 11), "NCHW", "nearest_neighbor", MODES[0], r)
        expected = testing.resize_python(IMAGES, (3, 11), "nearest_neighbor", MODES[0], rounding)
        cases.append(Case(rounding, how, [IMAGES], expected))
    check(cases, target)


@every_target
def test_crops(target: str) -> None:
    """Boxes within an image, turned over, beyond its borders, and crops of one row."""
    boxes = np.array([[0, 0, 1, 1], [0.91, 0.1, 0.2, 0.8], [-0.3, 0.25, 0.6, 1.4], [0.5, 0.5, 0.5, 0.5]], "float32")
    which = np.array([1, 0, 1, 0], "int32")
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    cases = []
    for number, (size, method, layout, value) in enumerate(
        [
            ((4, 6), "bilinear", "NCHW", 0.0),
            ((9, 1), "nearest_neighbor", "NCHW", -2.5),
            ((1, 5), "bilinear", "NHWC", 7.0),
        ]
    ):
        images = last if layout == "NHWC" else IMAGES
        expected = testing.crop_and_resize_python(images, boxes, which, size, layout, method, value)
        how = lambda x, b, i, s=size, m=method, w=layout, v=value: image.crop_and_resize(x, b, i, s, w, m, v)
        cases.append(Case(f"crop {number}", how, [images, boxes, which], expected, rtol=1e-4, atol=1e-5))
    check(cases, target)


@every_target
def test_images_of_float64_are_sampled_in_float64(target: str) -> None:
    """Places, weights and elements of 64 bits: within 1e-13 of float64 where those of float32 are off by 1e-7."""
    images = RANDOM.normal(0, 1, (2, 3, 5, 7))
    boxes, which = RANDOM.uniform(-0.1, 1.1, (3, 4)), np.array([1, 0, 1], "int32")
    grid = RANDOM.uniform(-1.2, 1.2, (2, 2, 4, 3))
    cases = [
        Case("crop", lambda x, b, i: image.crop_and_resize(x, b, i, (3, 4)), [images, boxes, which],
             testing.crop_and_resize_python(images, boxes, which, (3, 4), "NCHW", "bilinear", 0.0))
    ]  # fmt: skip
    for mode, method in itertools.product(MODES, ("linear", "cubic")):
        how: Any = lambda x, m=method, c=mode: image.resize2d(x, None, (9, 4), "NCHW", m, c, "", -0.75, 1)
        expected = testing.resize_python(images, (9, 4), method, mode, "", -0.75, True)
        cases.append(Case(f"{method} {mode}", how, [images], expected))
    for method, mode in (("bilinear", "zeros"), ("bicubic", "border"), ("bilinear", "reflection")):
        how = lambda x, g, m=method, p=mode: image.grid_sample(x, g, m, "NCHW", p)
        expected = testing.grid_sample_python(images, grid, method, "NCHW", mode, True)
        cases.append(Case(f"{method} {mode}", how, [images, grid], expected))
    check([replace(case, rtol=1e-13, atol=1e-13) for case in cases], target)


@every_target
def test_dilation(target: str) -> None:
    taps = RANDOM.normal(0, 1, (3, 2, 3)).astype("float32")
    expected = testing.dilation2d_nchw_python(IMAGES, taps, 2, (1, 0), 1)
    apart = testing.dilation2d_nchw_python(IMAGES, taps, 1, (0, 2), 2)
    last, taps_last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1)), np.ascontiguousarray(taps.transpose(1, 2, 0))
    cases: list[Any] = [
        Case("nchw", lambda x, w: image.dilation2d_nchw(x, w, 2, (1, 0), 1), [IMAGES, taps], expected, "schedule_pool"),
        Case("nhwc", lambda x, w: image.dilation2d_nhwc(x, w, 1, (0, 2), 2), [last, taps_last],
             apart.transpose(0, 2, 3, 1), "schedule_pool"),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_running_sums(target: str) -> None:
    whole = RANDOM.integers(-5, 6, (3, 50, 4)).astype("int32")
    near = (1 + IMAGES / 64).astype("float32")
    long = RANDOM.uniform(-1, 1, 1000).astype("float32")
    cases = []
    for name, value, axis, exclusive, dtype in (
        ("cumsum", whole, 1, False, None), ("cumsum", whole, -1, True, "int64"), ("cumsum", whole, None, False, None),
        ("cumprod", near, 2, False, None), ("cumprod", near, 0, True, None), ("cumsum", long, 0, False, None),
    ):  # fmt: skip
        expected = testing.running_python(value, name, axis, exclusive, dtype or str(value.dtype))
        operator = getattr(topi, name)
        how = lambda x, f=operator, o=(axis, dtype, exclusive): f(x, *o)
        cases.append(Case(f"{name} {axis}", how, [value], expected, "schedule_scan", 1e-4, 1e-5))
    check(cases, target)


def _of_some(rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The order of the first elements along dimension 1; the others keep their places."""
    found = np.broadcast_to(np.arange(rows.shape[1])[None, :, None], rows.shape).astype("int32")
    for (i, j), count in np.ndenumerate(counts.clip(0, rows.shape[1])):
        found[i, :count, j] = np.argsort(rows[i, :count, j], kind="stable")
    return found


@every_target
def test_order(target: str) -> None:
    ties = RANDOM.integers(-9, 9, (3, 70, 2)).astype("float32")
    odd = ties[0, :, 0].copy()
    odd[[3, 40]] = np.nan
    counts = RANDOM.integers(-1, 75, (3, 2)).astype("int32")
    bytes_ = RANDOM.integers(-100, 100, (5, 33)).astype("int8")
    down = np.argsort(-ties, 1, kind="stable")
    long = RANDOM.normal(0, 1, (1, 9000)).astype("float32")
    cases = [
        Case("sort", lambda x: topi.sort(x, 1), [ties], np.sort(ties, 1), "schedule_sort"),
        Case("sort down", lambda x: topi.sort(x, -1, 0), [bytes_], np.sort(bytes_, -1)[:, ::-1], "schedule_sort"),
        Case("sort nan", topi.sort, [odd], np.sort(odd), "schedule_sort"),
        Case("sort long", topi.sort, [long], np.sort(long), "schedule_sort", on_opencl=False),
        Case("argsort of some", lambda x, n: topi.argsort(x, n, 1, 1, "int32"), [ties, counts],
             _of_some(ties, counts), "schedule_argsort"),
        Case("argsort", lambda x: topi.argsort(x, None, 1, 1, "int32"), [ties],
             np.argsort(ties, 1, kind="stable").astype("int32"), "schedule_argsort"),
        Case("topk", lambda x: topi.topk(x, 5, 1), [ties],
             [np.take_along_axis(ties, down, 1)[:, :5], down[:, :5].astype("int64")], "schedule_topk"),
        Case("topk least", lambda x: topi.topk(x, 3, 0, "indices", True, "int32"), [ties],
             np.argsort(ties, 0, kind="stable")[:3].astype("int32"), "schedule_topk"),
    ]  # fmt: skip
    check(cases, target)
