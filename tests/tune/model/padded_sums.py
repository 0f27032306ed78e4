"""A declaration that several tests of the model schedule in their own ways."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright import te, tir


class PaddedSums(NamedTuple):
    """Sums over 3 x 3 windows of padded images of 32 x 32, one window per plane."""

    image: Any
    weights: Any
    padded: Any
    out: Any


def padded_sums(planes: int) -> PaddedSums:
    """Declare them for a number of planes."""
    image, weights = (te.placeholder((planes, n, n), "float32", name) for n, name in ((32, "image"), (3, "weights")))

    def pixel(c: Any, y: Any, x: Any) -> Any:
        inside = tir.all(y >= 1, y < 33, x >= 1, x < 33)
        return tir.if_then_else(inside, image[c, y - 1, x - 1], tir.const(0.0, "float32"))

    padded = te.compute((planes, 34, 34), pixel, "padded")
    ry, rx = te.reduce_axis((0, 3), "ry"), te.reduce_axis((0, 3), "rx")
    out = te.compute(
        (planes, 32, 32), lambda c, y, x: te.sum(padded[c, y + ry, x + rx] * weights[c, ry, rx], axis=[ry, rx]), "out"
    )
    return PaddedSums(image, weights, padded, out)
