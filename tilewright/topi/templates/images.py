"""The properties of an image convolution that schedules use: dense, grouped or depthwise."""

from __future__ import annotations

from typing import ClassVar, Protocol


class Images(Protocol):
    """A convolution of images; `shape` is batch, channels, rows, columns in every layout."""

    name: ClassVar[str]

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, channels, rows and columns of the input."""

    @property
    def kernel(self) -> tuple[int, ...]:
        """Rows and columns of the window."""

    @property
    def stride(self) -> tuple[int, ...]:
        """Rows and columns from one window to the next."""

    @property
    def padding(self) -> tuple[int, ...]:
        """Zeros above, to the left, below, to the right."""

    @property
    def dilation(self) -> tuple[int, ...]:
        """Rows and columns from one element of the window to the next."""

    @property
    def dtype(self) -> str:
        """The type of data, weights and result."""

    @property
    def layout(self) -> str:
        """The order of the dimensions in memory."""

    @property
    def filters(self) -> int:
        """How many channels the result has."""

    @property
    def groups(self) -> int:
        """How many equal parts of the channels are convolved by themselves."""

    @property
    def places(self) -> tuple[int, ...]:
        """How many rows and columns the result has."""

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """The shape of the weights, if the workload declares them."""
