"""The gradients of one layer on PyTorch's tensors: its sizes, and the kernel that computes each gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch

from ...arguments.call import OPERATORS
from ...arguments.problem import MATRIX_CHANNELS, TRANSPOSES, Problem
from ...arguments.signature import channels_last_order
from .. import native
from ..state import differentiates
from ..tensors import in_order, results_lie_last
from .options import ConvolutionOptions, WeightGradientOptions

Run = Callable[..., Any]
Gradients = tuple[Any, Any, Any, Any]
"""The gradients with respect to input, weight, bias and residual."""


class Kernels(Protocol):
    """Our operators: called again in each pass, or prepared for all passes on such tensors."""

    def convolution(self, arrays: tuple[Any, ...], options: ConvolutionOptions) -> Run:
        """Return the operator for such arrays."""

    def weight_gradient(self, images: tuple[Any, ...], options: WeightGradientOptions, shape: Any, filters: Any) -> Run:
        """Return a function of two images and the weight that computes the gradients of a weight of this shape and of
        the bias."""


def is_wide(weight: Any, images: Any) -> bool:
    """Whether the gradient of a weight has the type of its sums, by the types of the weight and of the images."""
    return weight is torch.float32 and images is not torch.float32


def gradients_of_ours(
    problem: Problem, of_weight: bool, of_x: bool, wide: bool = False, biased: bool = False
) -> list[Problem]:
    """Return the problems of the requested gradients that our operators compute.

    A `wide` weight gradient has the type of its sums. A `biased` one comes with the gradient of the bias.
    """
    transposed = problem.op in TRANSPOSES
    if not _suits(problem.weights_shape[1], problem.output_padding if transposed else (), problem.stride):
        return []
    wanted = of_weight, of_x and (transposed or problem.groups != 1)
    by_weight, by_x = problem.gradients
    by_weight = by_weight._replace(wide=wide, bias=biased)
    return [each for each, asked in zip((by_weight, by_x), wanted, strict=True) if asked]


def _suits(per_group: Any, output_padding: Any, stride: Any) -> bool:
    """Return whether our operators compute the gradients of a layer. `per_group` is the second extent of its weight.

    `output_padding` is empty unless the layer is transposed. If it is not less than the stride, the convolution of the
    result has more windows than the layer has inputs.
    """
    fits = all(more < step for more, step in zip(output_padding, stride, strict=False))
    return bool(fits and per_group < MATRIX_CHANNELS)


class CalledLayer:
    """The options and sizes of a convolution, for its gradients."""

    def __init__(self, options: ConvolutionOptions, shape: Any, weight_shape: Any, turned: bool) -> None:
        self.options, self.rank, self.shape, self.turned = options, OPERATORS[options.name].rank, shape, turned
        self.transposed = OPERATORS[options.name].op in TRANSPOSES
        self.stride, self.dilation, self.taps = list(options.stride), list(options.dilation), weight_shape[2:]
        self.before, self.after = list(options.padding[: self.rank]), list(options.padding[self.rank :])
        self.batched = len(shape) == self.rank + 2
        self.last = options.layout.endswith("C")
        self.depthwise = options.name == "depthwise_conv2d"
        self.groups = shape[-1 if self.last else -self.rank - 1] if self.depthwise else options.groups
        per_group = 1 if self.depthwise else weight_shape[1]
        self.small = _suits(per_group, options.output_padding if self.transposed else (), self.stride)
        """Whether groups are small enough for our operators to compute the gradients."""
        self.spreads = self.small and (self.transposed or self.groups != 1)
        """Whether our operator computes the data gradient, which does not read the input."""

    @classmethod
    def of(cls, options: ConvolutionOptions, x: Any, weight: Any) -> CalledLayer:
        """The layer of a call."""
        turned = not options.layout.endswith("C") and results_lie_last(OPERATORS[options.name].rank, x, weight)
        return cls(options, x.shape, weight.shape, turned)

    def _first(self, a: Any) -> Any:
        """Return a tensor of the call's layout as a batch with channels first."""
        a = a if self.batched else a[None]
        return a.movedim(-1, 1) if self.last else a

    def _back(self, a: Any) -> Any:
        a = a.movedim(1, -1) if self.last else a
        return a if self.batched else a[0]

    def flat(self, weight: Any) -> Any:
        """Return the weight in PyTorch's shape."""
        return weight.reshape(-1, 1, *self.taps) if self.depthwise else weight

    def arranged(self, grad: Any) -> Any:
        """Return the gradient of the result in the memory order of the input, if our operators read it."""
        if not self.small:
            return grad
        return in_order(grad, channels_last_order(grad.dim(), self.rank) if self.turned else ())

    def data_gradient(self, grad: Any, weight: Any, kernels: Kernels) -> Run:
        """Return a function of `grad`, input and weight that computes the gradient with respect to the input.

        Our operator computes the transpose of the layer. The transpose of a transposed layer is a convolution.
        """
        if not self.spreads:
            return partial(self.by_torch, False)
        flat = self.flat
        compute = kernels.convolution((grad, flat(weight), None, None), self.inverse(grad.shape))
        if not self.depthwise:
            return lambda grad, x, weight: compute(grad, weight, None, None)
        return lambda grad, x, weight: compute(grad, flat(weight), None, None)

    def inverse(self, shape: Any) -> ConvolutionOptions:
        """Return the options of the operator that computes the input's gradient from a result's gradient of this
        shape."""
        spatial, places = ((a[:-1] if self.last else a)[-self.rank :] for a in (self.shape, shape))
        more = [
            size - ((place - 1) * s - b - a + d * (k - 1) + 1)
            for size, place, s, b, a, d, k in zip(
                spatial, places, self.stride, self.before, self.after, self.dilation, self.taps, strict=True
            )
        ]
        return self.options._replace(
            name=f"conv{self.rank}d" if self.transposed else f"data_gradient{self.rank}d", groups=self.groups,
            activation="", output_padding=[0] * self.rank if self.transposed else more, precision="fp32",
        )  # fmt: skip

    def weight_gradient(self, grad: Any, x: Any, weight: Any, biased: bool, kernels: Kernels) -> Run:
        """Return a function of input, `grad` and weight that computes the gradients with respect to weight and bias.

        The gradient with respect to the bias is None unless `biased`. With `biased`, one kernel computes both
        gradients.
        """
        if not self.small:
            return lambda x, grad, weight: (self.by_torch(True, grad, x, weight), None)
        images, filters = (x, grad), weight.shape[0] * weight.shape[1] if self.depthwise else weight.shape[0]
        if self.transposed:  # for a transposed layer, input and gradient swap roles
            images = images[::-1]
        compute = kernels.weight_gradient(images, self.weight_options(biased), weight.shape, filters)
        return (lambda x, grad, weight: compute(grad, x, weight)) if self.transposed else compute

    def weight_options(self, biased: bool) -> WeightGradientOptions:
        """Return the options of the operator that computes the gradient of the weight, and of the bias if `biased`."""
        return WeightGradientOptions(
            f"weight_gradient{self.rank}d", list(self.taps), self.stride, self.options.padding, self.dilation,
            self.groups, self.options.layout, self.options.precision, biased,
        )  # fmt: skip

    def adds_up_bias(self, x: Any, wanted: Sequence[bool], biased: bool) -> bool:
        """Return whether one kernel of ours computes the gradients with respect to weight and bias.

        The kernel serves only passes that are not differentiated again. `wanted` flags the tensors of the layer that
        have gradients, and `biased` whether it has a bias.
        """
        both = wanted[1] and wanted[2] and biased
        ours = both and self.small and not self.transposed and x.is_cuda
        return bool(ours and not torch.is_grad_enabled() and not differentiates())

    def bias_gradient(self, grad: Any) -> Any:
        """Return the sum of the gradient over all dimensions except the channels."""
        grad = self._first(grad)
        return grad.sum([0, *range(2, grad.dim())])

    def by_torch(self, of_weight: bool, grad: Any, x: Any, weight: Any) -> Any:
        """Compute the gradient of the weight or of the input by PyTorch."""
        flat = self.flat(weight)
        if flat.device.type == "cpu":  # PyTorch 2.13 refuses some memory orders; for others, gradients are wrong
            flat = flat.contiguous()
        more = list(self.options.output_padding) if self.transposed else None
        window = self.stride, self.before, self.after, self.dilation, self.groups, more
        made = native.gradient(of_weight, self._first(grad), self._first(x), flat, window)
        return made.reshape(weight.shape) if of_weight else self._back(made)
