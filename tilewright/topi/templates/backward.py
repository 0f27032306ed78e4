"""The whole backward pass of a depthwise layer along lines: all gradients, from one pass over its input.

The kernel reads the input and the gradient of the result. It computes the sums before the activation again, which is
cheap for short windows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np

from ...core.dtype import DType
from ...core.errors import UserError
from ...tensor.tensor import Tensor, placeholder
from .. import references
from .epilogue import ACTIVATIONS
from .images import PerChannel, checked
from .layouts import in_layout, in_memory, in_order, layout_of
from .workload import dtype_of


@dataclass(frozen=True)
class Backward(PerChannel):
    """The gradients of a depthwise layer of lines with stride 1, by the input, by the weights and by the bias.

    The kernel takes the input, the weights, the bias if there is an activation, and the gradient of the result. It has
    two results. The first is the gradient of the input, in its layout. The second has the gradients of the weights in
    PyTorch's order, then the gradients of the bias.
    """

    name: ClassVar[str] = "backward"

    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    bias: bool
    activation: str
    dtype: str
    layout: str

    @classmethod
    def of(
        cls,
        shape: Any,
        kernel: Any = 3,
        padding: Any = None,
        dilation: Any = 1,
        bias: bool = False,
        activation: str = "",
        dtype: str = "float32",
        layout: str = "NCHW",
    ) -> Backward:
        """The workload of a layer; options are as in `Depthwise.of`, and `shape` is the shape of the layer's input."""
        images, kernel, _, padding, dilation = checked(cls.name, layout, shape, kernel, 1, padding, dilation)
        if activation and activation not in ACTIVATIONS:
            known = ", ".join(ACTIVATIONS)
            raise UserError(f"activation {activation!r} is unknown", primitive=cls.name, fix=f"give {known}")
        return cls(images, kernel, padding, dilation, bool(bias), activation, dtype_of(cls.name, dtype),
                   layout_of(cls.name, layout))  # fmt: skip

    @property
    def stride(self) -> tuple[int, ...]:  # type: ignore[override]
        """Always 1."""
        return 1, 1

    @property
    def weights_shape(self) -> tuple[int, ...]:
        """Channels, 1, rows, columns."""
        return (self.shape[1], 1, *self.kernel)

    @property
    def taps(self) -> int:
        """The number of sums per channel: one per weight, and one for the bias."""
        return prod(self.kernel) + self.bias

    @property
    def terms(self) -> int:
        """The number of products per element of the input: its gradient, the weights' gradients, and the layer's own
        sums."""
        return prod(self.kernel) * (3 if self.activation else 2)

    def placeholders(self) -> tuple[Tensor, ...]:  # type: ignore[override]
        """Return fresh tensors: input, weights, the bias if it is read, and the gradient of the result."""
        data = placeholder(in_layout(self.layout, self.shape), self.dtype, "data")
        weights = placeholder(self.weights_shape, self.dtype, "weights")
        bias = [placeholder((self.shape[1],), self.dtype, "bias")] if self.bias and self.activation else []
        return data, weights, *bias, placeholder(self.out_shape, self.dtype, "gradient")

    def sums(self, data: Tensor, weights: Tensor) -> Tensor:
        raise UserError(
            "all gradients of a layer are several results, which have no declaration as one sum",
            primitive=self.name,
            fix=f"schedule them by the template {self.name!r}",
        )

    def numpy(self, *given: np.ndarray) -> Any:
        """The results by NumPy, in the type of the data."""
        data, weights, *bias, above = given
        images, above = (in_order(self.layout, each) for each in (data, above))
        found = references.depthwise_backward_python(
            images, weights, bias[0] if bias else None, above, self.padding, self.dilation, self.activation
        )
        of_data, of_weights, of_bias = found
        return in_memory(self.layout, of_data), np.concatenate([of_weights.ravel(), *([of_bias] * self.bias)])

    def inputs(self, rng: np.random.Generator) -> Any:
        shapes = [[int(str(extent)) for extent in tensor.shape] for tensor in self.placeholders()]
        return tuple(rng.uniform(-1, 1, shape).astype(DType(self.element).numpy) for shape in shapes)

    def sample(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        given = self.inputs(np.random.default_rng())
        return [*given], [*self.numpy(*(values.astype(np.float64) for values in given))]
