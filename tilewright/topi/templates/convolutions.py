"""The convolutions that packaged templates compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.errors import UserError
from ...core.windows import positions
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute, placeholder
from .. import nn, references
from .declarations import same_shape, sums_of
from .images import GroupedLayer, PerChannel, checked
from .layouts import IMAGES_LAST, from_layout, in_layout, in_memory, in_order, layout_of
from .workload import INTEGERS, Convolution, border, check_fits, dtype_of, shape_of, sizes, sum_dtype

WEIGHTS = ("OIHW", "OHWI", "HWIO")
"""The orders of the dimensions of filters in memory; the first is the default.

Images in HWCN need filters in HWIO; images in NHWC take filters in any order.
"""
_TRANSPOSITIONS = {"OHWI": (0, 3, 1, 2), "HWIO": (3, 2, 0, 1)}
"""How to transpose filters in the other orders to the default order."""


@dataclass(frozen=True)
class Conv1dVector(Convolution):
    """The 1-D convolution of a vector with a kernel: NumPy's `convolve`, with any padding and stride."""

    name: ClassVar[str] = "conv1d"

    shape: tuple[int, ...]
    kernel: int
    stride: int
    padding: tuple[int, ...]
    dtype: str

    @classmethod
    def of(
        cls, shape: Any, kernel: Any = 3, stride: Any = 1, padding: Any = "full", dtype: str = "float32"
    ) -> Conv1dVector:
        """The workload; `padding`: a number, (before, after), or a word. Raises UserError if the window does not
        fit."""
        taps, step = sizes(cls.name, "kernel", kernel, 1), sizes(cls.name, "stride", stride, 1)
        length, zeros = shape_of(cls.name, shape, "M"), border(cls.name, padding, taps, step)
        check_fits(cls.name, length, taps, zeros)
        return cls(length, taps[0], step[0], zeros, dtype_of(cls.name, dtype))

    def placeholders(self) -> tuple[Tensor, Tensor]:
        return placeholder(self.shape, self.dtype, "A"), placeholder((self.kernel,), self.dtype, "W")

    def sums(self, data: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
        padded = nn.pad(data, self.padding[:1], self.padding[1:], name="padded")
        r = reduce_axis((0, self.kernel), name="r")
        last, kind = self.kernel - 1, sum_dtype(self.dtype)  # a convolution's kernel runs backwards

        def element(i: Any) -> Any:
            value, weight = padded[i * self.stride + last - r], weights[r]
            start = None if bias is None else bias[0].astype(kind)
            return reduce_sum(value.astype(kind) * weight.astype(kind), axis=r, init=start)

        made: Tensor = compute(self.out_shape, element, name="B")
        return made

    @property
    def element(self) -> str:
        return self.dtype

    @property
    def terms(self) -> int:
        return self.kernel

    @property
    def out_shape(self) -> tuple[int, ...]:
        return positions(self.shape, (self.kernel,), (self.stride,), self.padding)

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return references.convolve_python(data, weights, self.stride, self.padding)

    def torch(self, data: Any, weights: Any) -> list[tuple[str, Callable[[], Any]]]:
        from torch.nn.functional import conv1d, pad

        rows, kernel = data.view(1, 1, -1), weights.flip(0).view(1, 1, -1)  # PyTorch correlates

        def call() -> Any:
            return conv1d(pad(rows, self.padding), kernel, stride=self.stride).view(-1)

        def even() -> Any:
            return conv1d(rows, kernel, stride=self.stride, padding=self.padding[0]).view(-1)

        return [("conv1d", even if self.padding[0] == self.padding[1] else call)]


@dataclass(frozen=True)
class Conv2dLayer(GroupedLayer):
    """The 2-D convolution of images with filters, in groups if wanted; data NCHW, weights OIHW."""

    name: ClassVar[str] = "conv2d"

    weights: str = WEIGHTS[0]
    backwards: bool = False

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
        weights: str | None = None,
    ) -> Conv2dLayer:
        """The workload; `filters` defaults to the number of channels, and `padding` is as in `window`.

        `shape` is batch, channels, height, width in every layout. With a layout of 1-D data it is batch, channels,
        length, and the window's options have one dimension. Such data are computed as images of one row. `weights` is
        the order of the dimensions of the filters in memory: "OIHW"; "OHWI" or "HWIO" with the layout NHWC; "HWIO" with
        HWCN.
        """
        window = (kernel, stride, padding, dilation)
        made = cls.made(shape, filters, window, groups, dtype, layout, INTEGERS, (IMAGES_LAST,))
        return replace(made, weights=_order_of_weights(cls.name, weights, layout))

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """PyTorch's shape: filters, channels of a group, rows, columns; or with the channels or the filters last."""
        if self.weights == "HWIO":
            return (*self.kernel, self.per_group, self.filters)
        first = self.weights == WEIGHTS[0]
        return (self.filters, self.per_group, *self.kernel) if first else (self.filters, *self.kernel, self.per_group)

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        if self.layout != "NCHW" or not same_shape(weights, self.weights_shape):
            return sums_of(self, data, weights)
        window, kind = (self.stride, self.padding, self.dilation), sum_dtype(self.dtype)
        if self.groups == 1:
            return nn.conv2d_nchw(data, weights, *window, out_dtype=kind)
        return nn.group_conv2d_nchw(data, weights, *window, self.groups, out_dtype=kind)

    def backward_index(self, f: Any, rc: Any, ry: Any, rx: Any) -> tuple[Any, ...]:
        group, of_group = self.group_of(f)
        return group * self.per_group + rc, of_group, ry, rx

    @property
    def terms(self) -> int:
        return self.per_group * prod(self.kernel)

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        images, weights = in_order(self.layout, data), self.forward_weights(weights)
        if self.weights != WEIGHTS[0]:
            weights = weights.transpose(_TRANSPOSITIONS[self.weights])
        out = references.conv2d_nchw_python(images, weights, self.stride, self.padding, self.groups, self.dilation)
        return in_memory(self.layout, out)

    def torch(self, data: Any, weights: Any) -> list[tuple[str, Callable[[], Any]]]:
        weights = self.forward_weights(weights)
        if self.weights != WEIGHTS[0]:
            weights = weights.permute(_TRANSPOSITIONS[self.weights])
        return _torch_ways(self, data, weights, self.groups)


@dataclass(frozen=True)
class Depthwise(PerChannel):
    """The 2-D convolution of each channel with its own `multiplier` kernels; data NCHW, weights CMHW."""

    name: ClassVar[str] = "depthwise"

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    multiplier: int
    dtype: str
    layout: str
    backwards: bool = False

    @classmethod
    def of(
        cls,
        shape: Any,
        kernel: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        dilation: Any = 1,
        multiplier: int = 1,
        dtype: str = "float32",
        layout: str = "NCHW",
    ) -> Depthwise:
        """The workload; `padding` is as in `window`, `shape` and 1-D layouts are as in `Conv2dLayer.of`."""
        given = checked(cls.name, layout, shape, kernel, stride, padding, dilation)
        (times,) = sizes(cls.name, "multiplier", multiplier, 1)
        return cls(*given, times, dtype_of(cls.name, dtype), layout_of(cls.name, layout))

    @property
    def filters(self) -> int:  # type: ignore[override]
        """Channels of the result."""
        return self.shape[1] * self.multiplier

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Channels, kernels of each, rows, columns: in memory the same as PyTorch's filters, 1, rows, columns."""
        return (self.shape[1], self.multiplier, *self.kernel)

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        if self.layout != "NCHW" or not same_shape(weights, self.weights_shape):
            return sums_of(self, data, weights)
        window, kind = (self.stride, self.padding, self.dilation), sum_dtype(self.dtype)
        return nn.depthwise_conv2d_nchw(data, weights, *window, out_dtype=kind)

    @property
    def terms(self) -> int:
        return prod(self.kernel)

    def numpy(self, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
        images, weights = in_order(self.layout, data), self.forward_weights(weights)
        out = references.depthwise_conv2d_python_nchw(images, weights, self.stride, self.padding, self.dilation)
        return in_memory(self.layout, out)

    def torch(self, data: Any, weights: Any) -> list[tuple[str, Callable[[], Any]]]:
        return _torch_ways(self, data, self.forward_weights(weights).flatten(0, 1)[:, None], self.shape[1])


def _order_of_weights(who: str, weights: Any, layout: str) -> str:
    """Return the order of the weights' dimensions; None means the layout's. Raise UserError for an unknown one."""
    usual = "HWIO" if layout == IMAGES_LAST else WEIGHTS[0]
    if weights not in (None, usual) and not (weights in ("OHWI", "HWIO") and layout in ("NHWC", "NWC")):
        raise UserError(
            f"weights {weights} with the layout {layout} are not covered",
            primitive=who,
            fix="give OIHW, OHWI or HWIO with the layout NHWC, or HWIO with the layout HWCN",
        )
    return weights or usual


def _torch_ways(
    of: Conv2dLayer | Depthwise, data: Any, weights: Any, groups: int
) -> list[tuple[str, Callable[[], Any]]]:
    """Return PyTorch's convolutions in both of its memory orders.

    If the padding before exceeds the padding after, as in causal layers, the surplus results are cut off. The opposite
    case takes a separate padding step.
    """
    import torch
    from torch.nn.functional import conv2d, pad

    top, left, bottom, right = of.padding
    even = (top, left) == (bottom, right)
    crops = top >= bottom and left >= right  # the same zeros on all sides give the same results, and further ones
    rows, columns = of.places

    def way(memory_format: Any) -> Callable[[], Any]:
        back = in_layout(of.layout, (0, 1, 2, 3))
        given = data.permute(*from_layout(of.layout, (0, 1, 2, 3)))
        images, kernels = (t.contiguous(memory_format=memory_format) for t in (given, weights))

        def call() -> Any:
            padded = images if crops else pad(images, (left, right, top, bottom))
            out = conv2d(padded, kernels, None, of.stride, (top, left) if crops else 0, of.dilation, groups)
            if not even and crops:
                out = out[:, :, :rows, :columns]
            return out.permute(*back)

        return call

    ways = (("conv2d", torch.contiguous_format), ("conv2d, channels last", torch.channels_last))
    return [(how, way(memory_format)) for how, memory_format in ways]
