"""Weight gradients of convolutions: the sums, over batch and space, of inputs times gradients of results.

The gradient of the tap (ky, kx) of filter o sums over all results of the filter. Each term is the result's gradient
times the input that the tap read. So there are few sums of many terms, while a convolution has many sums of few terms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor, compute, placeholder
from .declarations import or_zero, sum_of_products
from .images import GroupedLayer
from .layouts import in_layout, in_order
from .workload import sum_dtype


@dataclass(frozen=True)
class WeightGradient(GroupedLayer):
    """The gradient of the weights of a layer with these options; the kernel reads the input and the gradient of the
    result.

    Both have the layer's layout. The gradient of the weights lies in PyTorch's order: filters, channels of a group,
    rows, columns. With `bias`, the result is one row of numbers: the gradients of the weights, then of the bias. If
    `wide` is set, the result has the type of the sums: float32 parameters get unrounded gradients from 16-bit tensors.
    """

    name: ClassVar[str] = "weight_gradient"

    bias: bool = False
    wide: bool = False

    @classmethod
    def of(
        cls,
        shape: Any,
        filters: int | None = None,
        kernel: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        dilation: Any = 1,
        groups: int = 1,
        dtype: str = "float32",
        layout: str = "NCHW",
        bias: bool = False,
        wide: bool = False,
    ) -> WeightGradient:
        """The workload of a layer with the options of `Conv2dLayer.of`; `shape` is the shape of the layer's input."""
        made = cls.made(shape, filters, (kernel, stride, padding, dilation), groups, dtype, layout)
        return replace(made, bias=bool(bias), wide=bool(wide))

    @property
    def result(self) -> str:
        return sum_dtype(self.dtype) if self.wide else super().result

    @property
    def gradient_shape(self) -> tuple[int, ...]:
        """The shape of the result's gradient, in the order of the layout."""
        return super().out_shape

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Filters, channels of a group, rows, columns."""
        return (self.filters, self.per_group, *self.kernel)

    @property
    def out_shape(self) -> tuple[int, ...]:
        return (prod(self.weights_shape) + self.filters,) if self.bias else self.weights_shape

    @property
    def channel_axis(self) -> int | None:
        return 0

    @property
    def terms(self) -> int:
        return self.shape[0] * prod(self.places)

    def placeholders(self) -> tuple[Tensor, Tensor]:
        data = placeholder(in_layout(self.layout, self.shape), self.dtype, "data")
        return data, placeholder(self.gradient_shape, self.dtype, "gradient")

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        """Return the plain declaration of the weights' gradient; `weights` is the gradient of the result."""
        sizes = (self.shape[0], *self.places)
        rn, ry, rx = (reduce_axis((0, size), name=name) for size, name in zip(sizes, ("rn", "ry", "rx"), strict=True))
        (top, left, _, _), kind = self.padding, sum_dtype(self.dtype)

        def value(o: Any, i: Any, ky: Any, kx: Any) -> Any:
            row, column = self.source(ry, rx, ky, kx)
            row, column = row - top, column - left
            inside = [row >= 0, row < self.shape[2], column >= 0, column < self.shape[3]] if any(self.padding) else []
            place = rn, self.group_of(o)[0] * self.per_group + i, row, column
            seen = or_zero(inside, data(*in_layout(self.layout, place)), self.dtype)
            given = weights(*in_layout(self.layout, (rn, o, ry, rx)))
            return sum_of_products(kind, seen, given, [rn, ry, rx])

        made: Tensor = compute(self.weights_shape, value, "sums", "weight_gradient")
        return made

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        batch, channels, height, _ = self.shape
        top, left, bottom, right = self.padding
        images = np.pad(in_order(self.layout, data), ((0, 0), (0, 0), (top, bottom), (left, right)))
        images = images.reshape(batch, self.groups, channels // self.groups, height + top + bottom, -1)
        given = in_order(self.layout, weights).reshape(batch, self.groups, -1, *self.places)
        out = np.empty((self.groups, self.shared_filters, self.per_group, *self.kernel), data.dtype)
        for ky in range(self.kernel[0]):
            for kx in range(self.kernel[1]):
                rows, columns = (
                    slice(k * apart, k * apart + (count - 1) * step + 1, step)
                    for k, apart, step, count in zip((ky, kx), self.dilation, self.stride, self.places, strict=True)
                )
                seen = images[:, :, :, rows, columns]
                out[..., ky, kx] = np.einsum("ngihw,ngohw->goi", seen, given, optimize=True)
        made = out.reshape(self.weights_shape)
        return np.concatenate([made.ravel(), given.sum((0, 3, 4)).ravel()]) if self.bias else made
