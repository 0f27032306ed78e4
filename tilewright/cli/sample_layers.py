"""Random layers: operators, sizes (by their logarithm), windows, types and memory orders as users may have them."""

from __future__ import annotations

import math
import random
from math import prod

from ..functional.arguments.problem import AVG_POOL, CONV, MAX_POOL, TRANSPOSED, Problem

_MOST_FLOP = 3e8
_MOST_ELEMENTS = 3_000_000
_TYPES = ("float32", "float32", "float32", "bfloat16", "float16", "float64")


def draw(rng: random.Random, dtype: str = "", layout: str = "") -> Problem:
    """Return a random layer."""
    while True:
        found = _drawn(rng, dtype or rng.choice(_TYPES), layout or rng.choice(("NCHW", "NHWC")))
        elements = prod(found.shape) + prod(found.out_shape) + (prod(found.weights_shape) if found.has_weights else 0)
        if min(found.places) > 0 and found.flop <= _MOST_FLOP and elements <= _MOST_ELEMENTS:
            return found


def _drawn(rng: random.Random, dtype: str, layout: str) -> Problem:
    op = rng.choice([CONV] * 7 + [TRANSPOSED, MAX_POOL, AVG_POOL])
    line = op != TRANSPOSED and rng.random() < 0.3
    batch = _size(rng, 1, 64)
    height, width = (1, _size(rng, 64, 16384)) if line else (_size(rng, 4, 128), _size(rng, 4, 128))
    if not line and rng.random() < 0.6:
        height = width
    channels, filters, groups = _channels(rng, op)
    taps = _size(rng, 1, min(width, 2048)) if line and rng.random() < 0.5 else rng.choice((1, 2, 3, 3, 3, 4, 5, 7, 9))
    if not line and rng.random() < 0.15:
        taps = rng.choice((11, 13, 15, 21, 31))
    kernel = (1 if line else taps if rng.random() < 0.8 else rng.choice((1, 3, 5)), taps)
    steps = rng.choice((1, 1, 1, 2, 2, 3)) if op == CONV else rng.choice((1, 2, 2, 3))
    apart = rng.choice((1, 1, 1, 1, 1, 2, 3)) if op in (CONV, MAX_POOL) else 1
    rows, down = (1, 1) if line else (steps, apart)
    zeros = _zeros(rng, op, kernel, (down, apart))
    bias = op in (CONV, TRANSPOSED) and rng.random() < 0.5
    return Problem(op, (batch, channels, height, width), filters, kernel, (rows, steps), (*zeros, *zeros),
                   (down, apart), groups, dtype, layout, bias=bias)  # fmt: skip


def _zeros(rng: random.Random, op: str, kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, int]:
    """The padding of either end: none, or as much as keeps the extent; half a window of a pool."""
    if rng.random() < 0.35:
        return 0, 0
    if op in (MAX_POOL, AVG_POOL):
        return kernel[0] // 2, kernel[1] // 2
    return (kernel[0] - 1) * dilation[0] // 2, (kernel[1] - 1) * dilation[1] // 2


def _channels(rng: random.Random, op: str) -> tuple[int, int, int]:
    """Channels, filters and groups."""
    if op in (MAX_POOL, AVG_POOL):
        channels = _even(rng, _size(rng, 1, 512))
        return channels, channels, channels
    kind = rng.choice(("depthwise", "depthwise", "multiplied", "grouped", "dense", "dense"))
    if kind in ("depthwise", "multiplied"):
        channels = _even(rng, _size(rng, 1, 768))
        return channels, channels * (rng.choice((2, 3, 4)) if kind == "multiplied" else 1), channels
    if kind == "grouped":
        groups, own = _size(rng, 2, 64), _size(rng, 2, 32)
        return groups * own, groups * (own if rng.random() < 0.7 else _size(rng, 1, 32)), groups
    return _even(rng, _size(rng, 1, 512)), _even(rng, _size(rng, 1, 512)), 1


def _size(rng: random.Random, least: int, most: int) -> int:
    """A random integer with a uniform logarithm."""
    return round(math.exp(rng.uniform(math.log(least), math.log(most))))


def _even(rng: random.Random, channels: int) -> int:
    """Most networks have multiples of eight channels."""
    return -(-channels // 8) * 8 if channels >= 8 and rng.random() < 0.7 else channels
