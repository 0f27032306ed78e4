"""Transposed convolutions: the data gradient of a convolution, and the upsampling of decoders.

Each result sums over the inputs that a strided window connects with it. Only every `stride`-th tap of the window meets
an input. So the sum of result y runs over the taps (y + top) % stride + stride * t alone.

A phase consists of the results with equal (y + top) % stride. They use the same taps, every `stride`-th tap of the
window, and neighbours read neighbours of the input. If loops over a tile of whole strides are unrolled, each tap is a
constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UserError
from ...core.padding import padding_of
from ...core.windows import transposed_positions
from ...expr.operators import equal, floordiv, floormod, if_then_else
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor
from .. import references
from .convolutions import Conv2dLayer, Depthwise
from .declarations import image_tensor, or_zero, sum_of_products
from .images import Images, counts_of
from .layouts import in_layout, in_memory, in_order, layout_of
from .workload import dtype_of, shape_of, sizes, sum_dtype


@dataclass(frozen=True)
class Transposed(Images):
    """The transposed 2-D convolution; weights have PyTorch's order: channels, filters of a group, rows, columns.

    `padding` is the number of rows and columns cut off the result: top, left, bottom, right. `output_padding` adds rows
    at the bottom and columns on the right.
    """

    name: ClassVar[str] = "conv_transpose"

    shape: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str
    layout: str

    @classmethod
    def of(
        cls,
        shape: Any,
        filters: int | None = None,
        kernel: Any = 3,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        dtype: str = "float32",
        layout: str = "NCHW",
    ) -> Transposed:
        """The workload; `shape` is batch, channels, height, width in every layout."""
        images = shape_of(cls.name, shape, "NCHW")
        count, parts = counts_of(cls.name, images[1], filters, groups)
        window, steps = sizes(cls.name, "kernel", kernel, 2), sizes(cls.name, "stride", stride, 2)
        cut = padding_of(cls.name, padding, window, steps, words=())
        made = cls(
            images, count, window, steps, cut, sizes(cls.name, "output_padding", output_padding, 2, 0),
            sizes(cls.name, "dilation", dilation, 2), parts, dtype_of(cls.name, dtype), layout_of(cls.name, layout),
        )  # fmt: skip
        if min(made.places) < 1:
            raise UserError(f"padding {cut} leaves an empty result", primitive=cls.name, fix="give less padding")
        return made

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Rows and columns of the result."""
        return transposed_positions(self.shape[2:], self.covered, self.stride, self.padding, self.output_padding)

    @property
    def as_convolution(self) -> Conv2dLayer | Depthwise | None:
        """The convolution that reads these weights backwards, if the stride is 1 and its padding is not negative.

        It uses the schedules and the records of the same layer with weights that are read forwards.
        """
        around = tuple(reach - 1 - cut for reach, cut in zip(self.covered * 2, self.padding, strict=True))
        if max(self.stride) > 1 or any(self.output_padding) or min(around) < 0:
            return None
        window, storage = (self.kernel, self.stride, around, self.dilation), (self.dtype, self.layout)
        if self.groups == self.shape[1]:
            return replace(Depthwise(self.shape, *window, self.shared_filters, *storage), backwards=True)
        return replace(Conv2dLayer(self.shape, self.filters, *window, self.groups, *storage), backwards=True)

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Channels, filters of a group, rows, columns."""
        return (self.shape[1], self.shared_filters, *self.kernel)

    @property
    def terms(self) -> int:
        """Return the number of products in the largest sum."""
        window = zip(self.kernel, self.stride, self.dilation, strict=True)
        return self.per_group * prod(-(-k // (s // gcd(s, d))) for k, s, d in window)

    @property
    def flop(self) -> float:
        """Floating-point operations of one run: each input is multiplied by each weight of its channel."""
        return 2.0 * prod(self.shape) * self.shared_filters * prod(self.kernel)

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        per_group, kind = self.per_group, sum_dtype(self.dtype)
        taps = [_taps(k, s, d) for k, s, d in zip(self.kernel, self.stride, self.dilation, strict=True)]
        rc = [reduce_axis((0, per_group), name="rc")] if per_group > 1 else []
        ry, rx = reduce_axis((0, taps[0]), name="ry"), reduce_axis((0, taps[1]), name="rx")

        def value(n: Any, f: Any, y: Any, x: Any) -> Any:
            group, of_group = self.group_of(f)
            channel = group * per_group + (rc[0] if rc else 0)
            row, down, over = self._source(0, y, ry)
            column, across, beside = self._source(1, x, rx)
            seen = or_zero([*over, *beside], data(*in_layout(self.layout, (n, channel, row, column))), self.dtype)
            return sum_of_products(kind, seen, weights(channel, of_group, down, across), [*rc, ry, rx])

        sizes = (self.shape[0], self.filters, *self.places)
        return image_tensor(self.layout, sizes, value, "sums", "conv_transpose")

    def _source(self, dim: int, at: Any, r: Any) -> tuple[Any, Any, list[Any]]:
        """Return the input's index, the tap, and the conditions for the `r`-th candidate tap of the result's index
        `at`."""
        step, apart, taps, size = self.stride[dim], self.dilation[dim], self.kernel[dim], self.shape[2 + dim]
        moved = at + self.padding[dim]
        if apart == 1:  # the taps of this result's phase
            tap = floormod(moved, step) + r * step if step > 1 else r
            source = (floordiv(moved, step) if step > 1 else moved) - r
            conditions = [tap < taps] if taps % step else []
            tap = tap if not taps % step else if_then_else(tap < taps, tap, 0)
        else:
            tap, reached = r, moved - r * apart
            source = floordiv(reached, step) if step > 1 else reached
            conditions = [equal(floormod(reached, step), 0)] if step > 1 else []
        return source, tap, [*conditions, source >= 0, source < size]

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        images = in_order(self.layout, data)
        window = self.stride, self.padding, self.output_padding, self.dilation
        return in_memory(self.layout, references.conv_transpose_python(images, weights, *window, self.groups))


def _taps(taps: int, step: int, apart: int) -> int:
    """Return the number of taps that one result may use: the taps of its phase, or all taps if they are dilated."""
    return -(-taps // step) if apart == 1 else taps


def has_phases(of: Transposed) -> bool:
    """Return whether the results of a phase use the same taps: the window is not dilated, or there is one phase."""
    return all(apart == 1 or step == 1 for apart, step in zip(of.dilation, of.stride, strict=True))


def taps_of(of: Transposed) -> tuple[int, int]:
    """Return the number of taps that a result uses along each dimension."""
    down, across = (-(-taps // step) for taps, step in zip(of.kernel, of.stride, strict=True))
    return down, across


def tap_and_place(of: Transposed, dim: int, at: Any, r: Any) -> tuple[Any, Any]:
    """Return the window's tap and the position in the padded input for the `r`-th tap of a result."""
    step, moved = of.stride[dim], at + of.padding[dim]
    before = border_of(of, dim, of.places[dim])[0]
    return floormod(moved, step) + r * step, floordiv(moved, step) - r * of.dilation[dim] + before


def border_of(of: Transposed, dim: int, count: int) -> tuple[int, int]:
    """Return the zeros before and after the input that `count` results need."""
    step, first, size = of.stride[dim], of.padding[dim], of.shape[2 + dim]
    reach = (taps_of(of)[dim] - 1) * of.dilation[dim]
    return max(0, reach - first // step), max(0, (first + count - 1) // step - (size - 1))
