"""Layers of sizes that no network has: rows of the table of rivals beside known layers.

They are drawn at random, but always the same. Odd sizes, multipliers, groups of few channels, strides, dilations,
windows of 1 to 13, in every type and layout that is asked for. None of them is a shape of `benchmarks.untuned`; its
decisions they are to predict.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from math import prod

from tilewright.functional.arguments.problem import CONV, Problem

_LARGEST = 12_000_000
"""Elements of the input and the result."""


def drawn_layers(count: int, modes: Iterable[tuple[str, str]], seed: int = 0) -> Iterator[Problem]:
    """Draw a number of layers for each type and layout."""
    for dtype, layout in modes:
        rng = random.Random(f"{seed} {dtype} {layout}")
        made = 0
        while made < count:
            problem = _drawn(rng, dtype, layout)
            if min(problem.places) > 0 and prod(problem.shape) + prod(problem.out_shape) <= _LARGEST:
                made += 1
                yield problem


def _drawn(rng: random.Random, dtype: str, layout: str) -> Problem:
    kind = rng.choice(["depthwise"] * 5 + ["multiplied", "grouped", "grouped", "line", "line"])
    batch = rng.choice([1, 1, 2, 4, 8, 16, 32, 64, 128])
    if kind == "line":
        taps = rng.choice([2, 3, 4, 5, 7, 9, 15, 31])
        channels = rng.choice([64, 80, 96, 128, 192, 256, 384, 512, 768, 1024, 1536])
        shape, kernel = (batch, channels, 1, rng.choice([256, 400, 512, 777, 1000, 1024, 2048, 4096])), (1, taps)
        return _of(shape, channels, kernel, 1, rng.choice([1, 1, 1, 2]), channels, dtype, layout)
    size = rng.choice([7, 9, 14, 16, 20, 24, 28, 31, 32, 40, 45, 56, 64, 80, 96, 112])
    across = rng.choice([size, size, size + rng.choice([1, 3, 8])])
    taps = rng.choice([3, 3, 3, 5, 5, 7, 9, 13])
    kernel = rng.choice([(taps, taps)] * 6 + [(1, taps), (taps, 1), (taps, taps + 2)])
    stride, dilation = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 1, 1, 1, 2])
    if kind == "grouped":
        groups, own = rng.choice([3, 8, 12, 16, 24, 32]), rng.choice([2, 3, 4, 4, 8, 8, 16])
        kernel = rng.choice([(3, 3), (3, 3), (3, 3), (5, 5), (1, 1)])
        return _of((batch, groups * own, size, across), groups * own * rng.choice([1, 1, 2]), kernel, stride, 1, groups,
                   dtype, layout)  # fmt: skip
    channels = rng.choice([8, 16, 24, 31, 32, 40, 48, 53, 64, 72, 96, 120, 128, 144, 192, 240, 256, 384, 480, 576, 960])
    filters = channels * (rng.choice([2, 3, 4]) if kind == "multiplied" else 1)
    return _of((batch, channels, size, across), filters, kernel, stride, dilation, channels, dtype, layout)


def _of(
    shape: tuple[int, int, int, int],
    filters: int,
    kernel: tuple[int, int],
    stride: int,
    dilation: int,
    groups: int,
    dtype: str,
    layout: str,
) -> Problem:
    top, left = ((tap - 1) * dilation // 2 for tap in kernel)
    bottom, right = ((tap - 1) * dilation - before for tap, before in zip(kernel, (top, left), strict=True))
    steps = (1 if shape[2] == 1 else stride, stride)
    return Problem(
        CONV, shape, filters, kernel, steps, (top, left, bottom, right), (dilation, dilation), groups, dtype, layout
    )
