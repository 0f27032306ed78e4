"""The computation of one call as a value: sizes, options and types, independent of arrays, frameworks and schedules.

One-dimensional data are images of one row, so every operator has two spatial dimensions here. A weight gradient has the
sizes and options of its layer. A data gradient is the transposed convolution of the gradient of the layer's result.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ...core.windows import extents, positions, transposed_positions

CONV, TRANSPOSED, MAX_POOL, AVG_POOL = "conv", "conv_transpose", "max_pool", "avg_pool"
DATA_GRADIENT, WEIGHT_GRADIENT = "data_gradient", "weight_gradient"
GRADIENTS = (DATA_GRADIENT, WEIGHT_GRADIENT)
BACKWARD = "backward"
"""All gradients of a layer in one kernel, which reads the gradient of the result as well."""
TRANSPOSES = (TRANSPOSED, DATA_GRADIENT)
"""Transposed convolutions: users' own, and data gradients of convolutions (`topi/templates/transposed.py` declares
both). A library may have other kernels for data gradients."""
POOLS = (MAX_POOL, AVG_POOL)
_OHWI_TERMS = 16
"""The least terms per sum for which matrix-product tiles read weights as OHWI."""
_OHWI_FILTERS = 8
"""The least filters for which matrix-product tiles read weights as OHWI."""
MATRIX_CHANNELS = 16
"""The least channels per group for which libraries compute a layer and its gradients by matrix instructions."""
Pair = tuple[int, int]
Four = tuple[int, int, int, int]


class Problem(NamedTuple):
    """One operator at one size.

    Attributes
    ----------
    op : str
        "conv", "conv_transpose", "max_pool", "avg_pool", "data_gradient", "weight_gradient" or "backward".
    shape : tuple of int
        Batch, channels, height and width of the input, in any layout.
    filters : int
        Channels of the result.
    kernel, stride, dilation, output_padding : pair of int
        Vertical, horizontal.
    padding : tuple of int
        Top, left, bottom, right.
    layout : str
        "NCHW" or "NHWC": the memory order of the dimensions of input, residual and result.
    activation : str
        A name, "" for none, or "custom:" and the text of a user-defined expression.
    count_border : bool
        Whether an average divides by the whole window even if it reaches into the padding.
    precision : str
        "ieee", "fp32", "tf32" or "tf32_cut" for a float32 convolution; "fp32" for everything else.
    weights : str
        The memory order of the weights: PyTorch's "OIHW", or "OHWI", which some kernels of NHWC read.
    beyond : pair of int
        Padding rows at the bottom and columns on the right that an average with `count_border` does not count.
    divisor : int
        The divisor of an average; 0 for the number of counted values.
    wide : bool
        Whether a weight gradient keeps the type of its sums (float32 for 16-bit types), without rounding to `dtype`.
    """

    op: str
    shape: Four
    filters: int
    kernel: Pair
    stride: Pair
    padding: Four
    dilation: Pair
    groups: int
    dtype: str
    layout: str
    bias: bool = False
    residual: bool = False
    activation: str = ""
    output_padding: Pair = (0, 0)
    count_border: bool = True
    precision: str = "fp32"
    weights: str = "OIHW"
    beyond: Pair = (0, 0)
    divisor: int = 0
    wide: bool = False

    @property
    def has_weights(self) -> bool:
        """Whether the operator has weights."""
        return self.op not in POOLS

    @property
    def covered(self) -> Pair:
        """The rows and columns that the window spans."""
        rows, columns = extents(self.kernel, self.dilation)
        return rows, columns

    @property
    def places(self) -> Pair:
        """Height and width of the result."""
        window = self.shape[2:], self.covered, self.stride, self.padding
        spreads = self.op in TRANSPOSES
        height, width = transposed_positions(*window, self.output_padding) if spreads else positions(*window)
        return height, width

    @property
    def out_shape(self) -> Four:
        """Batch, channels, height and width of the layer's result."""
        return (self.shape[0], self.filters, *self.places)

    @property
    def weights_shape(self) -> Four:
        """The shape in PyTorch: (filters, channels of a group, ...); if transposed, (channels, filters of a group,
        ...)."""
        if self.op in TRANSPOSES:
            return (self.shape[1], self.filters // self.groups, *self.kernel)
        return (self.filters, self.shape[1] // self.groups, *self.kernel)

    @property
    def second_shape(self) -> Four:
        """The shape of the second argument: the weights, or the gradient of the result for a weight gradient."""
        return self.out_shape if self.op == WEIGHT_GRADIENT else self.weights_shape

    @property
    def made_shape(self) -> tuple[int, ...]:
        """The shape of the array that a kernel computes: the result, or the gradient of the weights.

        With a bias, the latter is a vector: the gradients of the weights, then of the bias.
        """
        if self.op != WEIGHT_GRADIENT:
            return self.out_shape
        return (prod(self.weights_shape) + self.filters,) if self.bias else self.weights_shape

    @property
    def made_dtype(self) -> str:
        """The type of the array that a kernel computes."""
        return "float32" if self.wide and self.dtype != "float64" else self.dtype

    @property
    def depthwise(self) -> bool:
        """Whether each channel has its own kernels."""
        return self.has_weights and self.groups == self.shape[1]

    @property
    def terms(self) -> int:
        """The number of products, or values, in one result."""
        taps = prod(self.kernel)
        return taps * (self.shape[1] // self.groups) if self.has_weights else taps

    @property
    def flop(self) -> float:
        """Floating-point operations of one run."""
        if self.op in TRANSPOSES:
            return 2.0 * prod(self.shape) * (self.filters // self.groups) * prod(self.kernel)
        return 2.0 * self.terms * prod(self.out_shape)

    @property
    def extra_arguments(self) -> tuple[str, ...]:
        """The arguments other than the input and the result, in the order of kernels' arguments."""
        wanted = (
            ("weights", self.has_weights), ("bias", self.bias and self.op != WEIGHT_GRADIENT),
            ("residual", self.residual),
        )  # fmt: skip
        return tuple(name for name, there in wanted if there)

    @property
    def with_filters_last(self) -> Problem:
        """Return the problem with weights in the order OHWI if GPU kernels read that order; else the problem itself."""
        takes = self.op == CONV and self.layout == "NHWC" and self.groups == 1
        return (
            self._replace(weights="OHWI")
            if takes and self.terms >= _OHWI_TERMS and self.filters >= _OHWI_FILTERS
            else self
        )

    @property
    def gradients(self) -> tuple[Problem, Problem]:
        """The gradients of a convolution or a transposed convolution with respect to the weights and to the input."""
        plain = self._replace(bias=False, residual=False, activation="", output_padding=(0, 0), weights="OIHW")
        above = plain._replace(shape=self.out_shape, filters=self.shape[1])
        if self.op == TRANSPOSED:
            return above._replace(op=WEIGHT_GRADIENT), above._replace(op=CONV, precision="fp32")
        least = transposed_positions(self.places, self.covered, self.stride, self.padding, (0, 0))
        rows, columns = (size - reached for size, reached in zip(self.shape[2:], least, strict=True))
        of_x = above._replace(op=DATA_GRADIENT, output_padding=(rows, columns), precision="fp32")
        return plain._replace(op=WEIGHT_GRADIENT), of_x

    def with_batch(self, batch: int) -> Problem:
        """Return the problem for another number of images."""
        return self._replace(shape=(batch, *self.shape[1:]))

    def description(self) -> dict[str, Any]:
        """Return the fields as JSON data."""
        return self._asdict()

    @classmethod
    def read(cls, described: dict[str, Any]) -> Problem:
        """Return the problem of a `description`."""
        fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in described.items()}
        return cls(**fields)

    def __str__(self) -> str:
        """Return one line for users: the operator, its sizes, and its options with non-default values."""
        return self.text(2)

    def text(self, rank: int) -> str:
        """Return one line for users, without the row that stands for the missing dimension of 1-D data."""
        parts = [self.op, _along(self.shape, rank, 2)]
        parts += [f"weights {_along(self.weights_shape, rank, 2)}"] if self.has_weights else []
        parts += [] if self.has_weights else [f"kernel {_along(self.kernel, rank)}"]
        sides = self.padding if rank == 2 else (0, self.padding[1], self.padding[3])
        for name, value, usual in (
            ("stride", self.stride, 1),
            ("padding", sides, 0),
            ("dilation", self.dilation, 1),
            ("output_padding", self.output_padding, 0),
        ):
            parts += [f"{name} {_along(value, rank)}"] if any(v != usual for v in value) else []
        parts += [f"groups {self.groups}"] if self.groups != 1 and self.has_weights else []
        parts += [name for name in ("bias", "residual") if getattr(self, name)]
        parts += [self.activation] if self.activation else []
        parts += [self.precision] if self.precision != "fp32" else []
        parts += [self.weights] if self.weights != "OIHW" else []
        parts += [f"divided by {self.divisor}"] if self.divisor else []
        parts += ["not rounded"] if self.wide else []
        return "  ".join([*parts, self.dtype, self.layout if rank == 2 else self.layout.replace("H", "")])


def _along(sizes: tuple[int, ...], rank: int, rows: int = 0) -> str:
    """Return sizes joined by crosses; for 1-D data, without the size at index `rows`."""
    return "x".join(map(str, sizes if rank == 2 else (*sizes[:rows], *sizes[rows + 1 :])))
