"""The options of the operators registered with PyTorch, as named tuples."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...arguments.call import OPERATORS, CallOptions


class ConvolutionOptions(NamedTuple):
    """The arguments of `torch.ops.tilewright.convolution` after its four tensors, in the order of its schema."""

    name: str
    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    activation: str
    layout: str
    output_padding: Any
    precision: str = "fp32"


class WeightGradientOptions(NamedTuple):
    """The arguments of `torch.ops.tilewright.weight_gradient` after its two tensors, in the order of its schema."""

    name: str
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    groups: Any
    layout: str
    precision: str = "fp32"
    biased: bool = False
    wide: bool = False

    def of_layer(self) -> ConvolutionOptions:
        """Return the options of the layer."""
        rank = OPERATORS[self.name].rank
        return ConvolutionOptions(
            f"conv{rank}d", self.stride, self.padding, self.dilation, self.groups, "", self.layout, [0] * rank,
            self.precision,
        )  # fmt: skip


class BackwardOptions(NamedTuple):
    """The arguments of `torch.ops.tilewright.convolution_backward` after its four tensors, in the order of its
    schema."""

    biased: bool
    padding: Any
    dilation: Any
    activation: str

    @classmethod
    def of(cls, options: ConvolutionOptions, biased: bool) -> BackwardOptions:
        """Return the options of the backward pass of a layer, which may be `biased`."""
        return cls(biased, list(options.padding), list(options.dilation), options.activation)


class PoolOptions(NamedTuple):
    """The arguments of `torch.ops.tilewright.pool` after its tensor, in the order of its schema."""

    name: str
    kernel_size: Any
    stride: Any
    padding: Any
    dilation: Any
    ceil_mode: bool
    count_include_pad: bool
    layout: str
    divisor_override: Any = None


def call_options(
    options: ConvolutionOptions | PoolOptions | WeightGradientOptions, activation: Any = None, tune: Any = None
) -> CallOptions:
    """Return the options of the public function. `activation` replaces the operator's text of the activation."""
    given = options._asdict()
    del given["name"]
    plain = {key: tuple(value) if isinstance(value, (list, tuple)) else value for key, value in given.items()}
    return CallOptions(**{**plain, "activation": activation, "tune": tune})
