"""Workloads over images: a window slides over the rows and columns of each channel."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.windows import extents, positions
from ...tensor.tensor import Tensor, compute, placeholder
from .layouts import in_layout
from .workload import Convolution, sizes


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
    """Equal parts of the channels that are convolved by themselves."""
    backwards: bool = False
    """Whether weights are a transposed convolution's, in PyTorch's order: channels, filters of a group, rows, columns.

    With stride 1, that is this convolution with the window read from its end.
    """

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights as the workload declares them."""
        raise NotImplementedError

    @cached_property
    def bordered(self) -> tuple[int, ...]:
        """Rows and columns of the input with its zeros."""
        (height, width), (top, left, below, beside) = self.shape[2:], self.padding
        return height + top + below, width + left + beside

    @cached_property
    def covered(self) -> tuple[int, ...]:
        """Rows and columns from the first tap of the window to the last."""
        return extents(self.kernel, self.dilation)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Rows and columns of the result."""
        return positions(self.shape[2:], self.covered, self.stride, self.padding)

    def seen(self, rows: int, columns: int) -> tuple[int, int]:
        """Return the rows and columns of the padded input that a tile of results reads."""
        (sy, sx), (high, wide) = self.stride, self.covered
        return (rows - 1) * sy + high, (columns - 1) * sx + wide

    @property
    def shared_filters(self) -> int:
        """Neighbouring channels of the result that are computed from the same inputs."""
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
        """Return the index in weights of a transposed convolution for one in weights of this shape."""
        return f, rc, ry, rx

    def forward_weights(self, weights: Any) -> Any:
        """Return weights, an array of NumPy or a tensor of PyTorch, in the order of `weights_shape`."""
        if not self.backwards:
            return weights
        parts = weights.reshape(self.groups, -1, self.shared_filters, *self.kernel).swapaxes(1, 2)
        parts = parts.reshape(self.weights_shape)
        return np.flip(parts, (2, 3)) if isinstance(parts, np.ndarray) else parts.flip(2, 3)


def counts_of(who: str, channels: int, filters: Any, groups: Any) -> tuple[int, int]:
    """Return filters, by default the number of channels, and groups; UserError if these do not divide both."""
    (count,) = sizes(who, "filters", channels if filters is None else filters, 1)
    (parts,) = sizes(who, "groups", groups, 1)
    if channels % parts or count % parts:
        raise UserError(
            f"groups {parts} does not divide {channels} channels and {count} filters",
            primitive=who,
            fix="give a common divisor of both",
        )
    return count, parts
