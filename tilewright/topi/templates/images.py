"""Workloads over images: a window slides over the rows and columns of each channel."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np

from ...core.errors import UserError
from ...core.windows import extents, positions
from ...expr.operators import floordiv, floormod
from ...tensor.tensor import Tensor, compute, placeholder
from .layouts import LAYOUTS, as_images, in_layout, layout_of
from .workload import Convolution, border, check_fits, dtype_of, shape_of, sizes


class Images(Convolution):
    """A convolution or a pooling of images; `shape` is batch, channels, rows, columns in every layout.

    Subclasses are dataclasses with these fields, in the order of their logs.
    """

    kernel: tuple[int, ...]
    """Rows and columns of the window."""
    stride: tuple[int, ...]
    """Rows and columns from one window to the next."""
    padding: tuple[int, ...]
    """Zeros above, to the left, below, to the right."""
    dilation: tuple[int, ...]
    """Rows and columns from one tap of the window to the next."""
    dtype: str
    """The type of data and weights."""
    layout: str
    """The order of the dimensions in memory."""
    filters: int
    """Channels of the result."""
    groups: int
    """The number of groups: equal parts of the channels that are convolved separately."""
    backwards: bool = False
    """Whether the weights belong to a transposed convolution, in PyTorch's order: channels, filters of a group, rows,
    columns.

    With stride 1, a transposed convolution is a convolution that reads the window from its end.
    """

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights as the workload declares them."""
        raise NotImplementedError

    @cached_property
    def bordered(self) -> tuple[int, ...]:
        """The rows and columns of the padded input."""
        (height, width), (top, left, below, beside) = self.shape[2:], self.padding
        return height + top + below, width + left + beside

    @cached_property
    def covered(self) -> tuple[int, ...]:
        """The rows and columns that the window spans, from its first tap to its last."""
        return extents(self.kernel, self.dilation)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Rows and columns of the result."""
        return positions(self.shape[2:], self.covered, self.stride, self.padding)

    def seen_along(self, axis: int, count: int) -> int:
        """Return the rows (axis 0) or columns (axis 1) of the padded input that `count` results read."""
        return (count - 1) * self.stride[axis] + self.covered[axis]

    def seen(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the rows and columns of the padded input that a tile of results reads."""
        return self.seen_along(0, rows), self.seen_along(1, columns)

    def source(self, y: Any, x: Any, ry: Any, rx: Any) -> tuple[Any, Any]:
        """Return the row and the column of the padded input that the tap (ry, rx) of the result (y, x) reads."""
        (sy, sx), (dy, dx) = self.stride, self.dilation
        return y * sy + ry * dy, x * sx + rx * dx

    def group_of(self, f: Any) -> tuple[Any, Any]:
        """Return the group of a filter, and the filter's index in the group."""
        shared = self.shared_filters
        return (floordiv(f, shared), floormod(f, shared)) if self.groups > 1 else (0, f)

    @property
    def per_group(self) -> int:
        """The number of input channels per group."""
        return self.shape[1] // self.groups

    @property
    def shared_filters(self) -> int:
        """The number of neighbouring channels of the result with the same inputs."""
        return self.filters // self.groups

    @property
    def out_shape(self) -> tuple[int, ...]:
        return in_layout(self.layout, (self.shape[0], self.filters, *self.places))

    @property
    def element(self) -> str:
        return self.dtype

    @property
    def channels(self) -> int:
        return self.filters

    @property
    def channel_axis(self) -> int | None:
        return self.layout.index("C")

    def placeholders(self) -> tuple[Tensor, Tensor]:
        data = placeholder(in_layout(self.layout, self.shape), self.dtype, "data")
        given = (self.shape[1], self.shared_filters, *self.kernel) if self.backwards else self.weights_shape
        return data, placeholder(given, self.dtype, "weights")

    def kernels_in(self, weights: Tensor) -> Tensor:
        if not self.backwards:
            return weights
        high, wide = self.kernel

        def value(f: Any, rc: Any, ry: Any, rx: Any) -> Any:
            return weights(*self.backward_index(f, rc, high - 1 - ry, wide - 1 - rx))

        made: Tensor = compute(self.weights_shape, value, "backwards")
        return made

    def backward_index(self, f: Any, rc: Any, ry: Any, rx: Any) -> tuple[Any, ...]:
        """Return the index of an element in the weights of the transposed convolution, from its index in weights of
        this shape."""
        return f, rc, ry, rx

    def forward_weights(self, weights: Any) -> Any:
        """Return weights, an array of NumPy or a tensor of PyTorch, in the order of `weights_shape`."""
        if not self.backwards:
            return weights
        parts = weights.reshape(self.groups, -1, self.shared_filters, *self.kernel).swapaxes(1, 2)
        parts = parts.reshape(self.weights_shape)
        return np.flip(parts, (2, 3)) if isinstance(parts, np.ndarray) else parts.flip(2, 3)


class PerChannel(Images):
    """Images with independent channels: as many groups as channels."""

    @property
    def filters(self) -> int:  # type: ignore[override]
        """The number of channels of the result, which is that of the input."""
        return self.shape[1]

    @property
    def groups(self) -> int:  # type: ignore[override]
        """The number of groups, which is that of input channels."""
        return self.shape[1]


@dataclass(frozen=True)
class GroupedLayer(Images):
    """A convolution in groups, or a gradient of one: the fields of the layer, then further fields.

    Logs leave out trailing fields with default values, because older logs do not have these fields.
    """

    shape: tuple[int, ...]
    filters: int
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str
    layout: str

    @classmethod
    def made(
        cls,
        shape: Any,
        filters: int | None,
        window_of: tuple[Any, Any, Any, Any],
        groups: int,
        dtype: str,
        layout: str,
        further_types: tuple[str, ...] = (),
        further_layouts: tuple[str, ...] = (),
    ) -> Self:
        """Return the layer of checked options; `window_of` has its kernel, stride, padding and dilation."""
        images, taps, steps, zeros, apart = checked(cls.name, layout, shape, *window_of)
        count, parts = counts_of(cls.name, images[1], filters, groups)
        return cls(images, count, taps, steps, zeros, apart, parts,
                   dtype_of(cls.name, dtype, further_types), layout_of(cls.name, layout, further_layouts))  # fmt: skip

    @property
    def args(self) -> tuple[Any, ...]:
        given = {field.name: field.default for field in fields(self) if field.name != "backwards"}
        given["layout"] = LAYOUTS[0]
        names = list(given)
        while getattr(self, names[-1]) == given[names[-1]]:
            names.pop()
        return tuple(getattr(self, name) for name in names)


def counts_of(who: str, channels: int, filters: Any, groups: Any) -> tuple[int, int]:
    """Return the numbers of filters (by default that of channels) and groups; UserError if the groups do not divide
    both."""
    (count,) = sizes(who, "filters", channels if filters is None else filters, 1)
    (parts,) = sizes(who, "groups", groups, 1)
    if channels % parts or count % parts:
        raise UserError(
            f"groups {parts} does not divide {channels} channels and {count} filters",
            primitive=who,
            fix="give a common divisor of both",
        )
    return count, parts


Pair = tuple[int, ...]
Window = tuple[Pair, Pair, Pair, Pair]


def checked(who: str, layout: str, shape: Any, *window_of: Any) -> tuple[Pair, Pair, Pair, Pair, Pair]:
    """Return the shape of images, then kernel, stride, padding and dilation, checked; 1-D data are one row."""
    shape, *given = as_images(who, layout, shape, *window_of)
    images = shape_of(who, shape, "NCHW")
    return images, *window(who, images, *given)


def window(who: str, images: tuple[int, ...], kernel: Any, stride: Any, padding: Any, dilation: Any) -> Window:
    """Return the checked kernel, stride, padding and dilation.

    `padding` is as in `core.padding.padding_of`, or "full"; by default, the zeros of "same" at any stride. Raises
    UserError if the window does not fit into the padded input.
    """
    covers, steps = sizes(who, "kernel", kernel, 2), sizes(who, "stride", stride, 2)
    apart = sizes(who, "dilation", dilation, 2)
    covered = extents(covers, apart)
    zeros = border(who, padding, covered, steps)
    check_fits(who, images[2:], covered, zeros)
    return covers, steps, zeros, apart
