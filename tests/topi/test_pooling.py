"""Pooling against NumPy: one to three dimensions, every layout, borders that stick out, gradients."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright.topi import nn, testing

RANDOM = np.random.default_rng(5)
LINE, IMAGES, VOLUMES = (RANDOM.normal(0, 1, s).astype("float32") for s in ((2, 3, 11), (2, 4, 9, 7), (1, 2, 5, 6, 7)))
WINDOWS: list[tuple[Any, ...]] = [  # kernel, stride, dilation, padding, those before and after, ceil_mode
    (2, 2, 1, 0, (0, 0), (0, 0), False),
    ((3, 2), (2, 1), 1, (1, 0), (1, 0), (1, 0), False),
    (3, 2, (1, 2), (0, 1, 2, 0), (0, 1), (2, 0), False),
    (3, 2, 1, 1, (1, 1), (1, 1), True),
]


OF_VOLUMES = (2, 3, 2), (1, 2, 2), 1, (0, 1, 1)


def pooling(name: str, operator: Any, given: list[np.ndarray], expected: Any, on_opencl: bool = True) -> Case:
    return Case(name, operator, given, expected, "schedule_pool", on_opencl=on_opencl)


def pair(value: Any, count: int = 2) -> tuple[int, ...]:
    return (value,) * count if isinstance(value, int) else value


@every_target
def test_windows_of_images(target: str) -> None:
    cases = []
    for number, (kernel, stride, dilation, padding, before, after, up) in enumerate(WINDOWS):
        for how, inside in (("max", True), ("avg", True), ("avg", False)):
            expected = testing.poolnd_python(
                IMAGES, pair(kernel), pair(stride), pair(dilation), before, after, how, inside, up
            )
            options = kernel, stride, dilation, padding, how, up, "NCHW", inside
            pool = lambda x, o=options: nn.pool2d(x, *o)
            cases.append(pooling(f"{how} {number} {inside}", pool, [IMAGES], expected, number < 3))
    last = np.ascontiguousarray(IMAGES.transpose(0, 2, 3, 1))
    blocks = testing.layout_transform_python(IMAGES, "NCHW", "NCHW2c")
    plain = testing.poolnd_python(IMAGES, (2, 3), (2, 2), (1, 1), (0, 1), (0, 1), "max")
    turned = plain.transpose(0, 2, 3, 1), testing.layout_transform_python(plain, "NCHW", "NCHW2c")
    for layout, value, to in (("NHWC", last, turned[0]), ("NCHW2c", blocks, turned[1])):
        pool = lambda x, la=layout: nn.pool2d(x, (2, 3), 2, 1, (0, 1), "max", layout=la)
        cases.append(pooling(f"max {layout}", pool, [value], to))
    whole = RANDOM.integers(-9, 9, IMAGES.shape).astype("int32")
    expected = testing.poolnd_python(whole, (2, 2), (1, 1), (1, 1), (0, 0), (0, 0), "max")
    cases.append(pooling("max whole", lambda x: nn.pool2d(x, 2, 1, 1, 0, "max"), [whole], expected))
    check(cases, target)


@every_target
def test_lines_and_volumes(target: str) -> None:
    cases = []
    for how in ("max", "avg"):
        line = testing.poolnd_python(LINE, [3], [2], [2], [1], [0], how, False)
        volume = testing.poolnd_python(VOLUMES, (2, 3, 2), (1, 2, 2), (1, 1, 1), (0, 1, 1), (0, 1, 1), how)
        cases += [
            pooling(f"{how} 1d", lambda x, h=how: nn.pool1d(x, 3, 2, 2, [1, 0], h, False, "NCW", False), [LINE], line),
            pooling(f"{how} 3d", lambda x, h=how: nn.pool3d(x, *OF_VOLUMES, h), [VOLUMES], volume),
        ]
    check(cases, target)


@every_target
def test_given_sizes(target: str) -> None:
    cases = []
    for how in ("max", "avg"):
        cases += [
            pooling(f"{how} global", lambda x, h=how: nn.global_pool(x, h), [IMAGES],
                    testing.adaptive_pool_python(IMAGES, (1, 1), how)),
            pooling(f"{how} 4x3", lambda x, h=how: nn.adaptive_pool(x, (4, 3), h), [IMAGES],
                    testing.adaptive_pool_python(IMAGES, (4, 3), how)),
            pooling(f"{how} 1d", lambda x, h=how: nn.adaptive_pool1d(x, 5, h), [LINE],
                    testing.adaptive_pool_python(LINE, [5], how)),
            pooling(f"{how} 3d", lambda x, h=how: nn.adaptive_pool3d(x, (2, 3, 7), h), [VOLUMES],
                    testing.adaptive_pool_python(VOLUMES, (2, 3, 7), how)),
        ]  # fmt: skip
    check(cases, target)


@every_target
def test_gradients(target: str) -> None:
    cases = []
    image = np.round(IMAGES)  # with equal neighbours
    for kernel, stride, padding in (((2, 2), (2, 2), (0, 0, 0, 0)), ((3, 2), (2, 1), (1, 0, 1, 1))):
        shape = testing.poolnd_python(image, kernel, stride, (1, 1), padding[:2], padding[2:], "max").shape
        grads = RANDOM.normal(0, 1, shape).astype("float32")
        for how, inside in (("max", True), ("avg", True), ("avg", False)):
            expected = testing.pool_grad_nchw(image, grads, kernel, stride, padding, how, False, inside)
            options = kernel, stride, padding, how, False, inside
            grad = lambda g, x, o=options: nn.pool_grad(g, x, *o)
            cases.append(Case(f"{how} {inside} {kernel[0]}", grad, [grads, image], expected, "schedule_pool_grad"))
    check(cases, target)


@every_target
def test_gradients_of_averages_of_integers_round_towards_zero(target: str) -> None:
    """Each element of a window of four gets a quarter, without a word about how integers are divided."""
    grads, image = np.array([[[[9, -9], [3, 127]]]], "int8"), np.zeros((1, 1, 4, 4), "int8")
    quarters = np.trunc(grads / 4).astype("int8").repeat(2, 2).repeat(2, 3)
    average = lambda g, x: nn.pool_grad(g, x, 2, 2, 0, "avg")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check([Case("integers", average, [grads, image], quarters, "schedule_pool_grad", 0, 0)], target)
