"""The operator that computes all gradients of a depthwise layer along lines by one kernel, registered with PyTorch.

If a record shows that separate kernels are faster, or ours does not compile, separate kernels run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.library import Library, register_fake

from ....core.errors import UserError
from ....core.windows import is_short
from ...arguments.problem import BACKWARD, Problem
from ...arguments.signature import ACTIVATIONS, GRADIENT, channels_last_order
from ...planning.decision import Side
from ...planning.plans import CallPlan, plan_for
from ...planning.prepared_calls import PreparedCalls
from ..allocation import strided_allocator
from ..casts import cast_of
from ..eager import is_plain
from ..launches import launch
from ..tensors import NAMES, channels_last, facts, in_order, place
from ..threads import program_of
from .inductor import call_directly
from .layer import Gradients
from .options import BackwardOptions, ConvolutionOptions

_library = Library("tilewright", "FRAGMENT")
_library.define(
    "convolution_backward(Tensor x, Tensor weight, Tensor? bias, Tensor grad, bool biased, SymInt[] padding, "
    "SymInt[] dilation, str activation) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_passes = PreparedCalls()
_VECTOR_BYTES = 16
_MOST_FLOAT32_TAPS = 4
"""The most taps for which the kernel is faster in float32 with channels first and without an activation."""
SEPARATELY = "separate kernels"
"""The rival of the kernel, in plans."""


def runs_on(x: Any) -> bool:
    """Return whether there is a kernel for the device of a tensor."""
    return bool(x.is_cuda)


def computes(options: ConvolutionOptions, x: Any, weight: Any) -> bool:
    """Return whether the operator computes the gradients of a layer with respect to input, weight and bias.

    Separate kernels are faster if rows are not whole vectors. On an H200, they are also faster in float32 with channels
    first and more than four taps, without an activation. The operator was not timed in float64.
    """
    line = options.name == "conv1d" and x.dim() == 3 and runs_on(x)
    channels = x.shape[options.layout.index("C")] if line else 0
    depthwise = line and weight.shape[1] == 1 and options.groups == weight.shape[0] == channels
    if not depthwise or options.stride[0] != 1 or options.activation not in ("", *ACTIVATIONS):
        return False
    (left, right), taps, size = options.padding, weight.shape[2], x.element_size()
    if not (options.layout == "NWC" or channels_last(x, 1)):
        results = x.shape[2] + left + right - (taps - 1) * options.dilation[0]
        rows_of_vectors = all(length * size % _VECTOR_BYTES == 0 for length in (x.shape[2], results))
        if not rows_of_vectors or (size == 4 and taps > _MOST_FLOAT32_TAPS and not options.activation):
            return False
    return size < 8 and is_short((1, weight.shape[2]), (1, options.dilation[0]), (0, left, 0, right))


def gradients(
    x: Any, weight: Any, bias: Any, biased: bool, grad: Any, options: ConvolutionOptions
) -> tuple[Any, Any, Any]:
    """Compute the gradients with respect to input, weight and bias; the last is None if the layer is not `biased`.

    `bias` is read if there is an activation.
    """
    run: Any = _computed if is_plain((x, weight, bias, grad)) else torch.ops.tilewright.convolution_backward
    given = BackwardOptions.of(options, biased)
    return _parts(lambda *tensors: run(*tensors, *given), x, weight, bias, biased, grad, options.layout == "NWC")


def prepared_pass(
    x: Any, weight: Any, biased: bool, options: ConvolutionOptions, kind: Any
) -> Callable[..., Gradients]:
    """Return the executor of such passes, which returns the four gradients of a layer: `run(grad, x, weight, ...)`.

    `kind` is the type of the gradients with respect to the weight and the bias.
    """
    last = options.layout == "NWC"
    compute = _prepared(*_given(options, x, weight, biased))
    widened = cast_of(weight.new_empty(weight.numel() + weight.shape[0] * biased), kind)

    def wide(*tensors: Any) -> tuple[Any, Any]:
        of_x, others = compute(*tensors)
        return of_x, widened(others)

    def run(grad: Any, x: Any, weight: Any, bias: Any = None, residual: Any = None) -> Gradients:
        return *_parts(wide, x, weight, bias, biased, grad, last), None

    return run


def plan_of(options: ConvolutionOptions, x: Any, weight: Any, biased: bool) -> CallPlan | None:
    """Return the plan of the kernel for such passes; None if separate kernels compute the gradients."""
    return _plan(*_given(options, x, weight, biased))


def _given(options: ConvolutionOptions, x: Any, weight: Any, biased: bool) -> Any:
    seen = x.transpose(1, 2) if options.layout == "NWC" else x
    return seen, weight, BackwardOptions.of(options, biased)


def _parts(run: Any, x: Any, weight: Any, bias: Any, biased: bool, grad: Any, last: bool) -> tuple[Any, Any, Any]:
    """Run an executor on tensors of the layer's order, and split its second result."""
    if last:
        x, grad = x.transpose(1, 2), grad.transpose(1, 2)
    of_x, others = run(x, weight, bias, grad)
    count = weight.numel()
    of_x = of_x.transpose(1, 2) if last else of_x
    return of_x, others[:count].view(weight.shape), others[count:] if biased else None


def _computed(x: Any, weight: Any, bias: Any, grad: Any, *options: Any) -> tuple[Any, Any]:
    """Return the gradient with respect to the input, and one tensor with the gradients of the weight, then of the
    bias."""
    tensors = x, weight, bias, grad
    run = _prepare(tensors, options)
    with torch.no_grad():
        made: tuple[Any, Any] = run(*tensors)
    return made


def _prepare(tensors: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
    """Return the executor of such calls, which is cached."""
    biased, padding, dilation, activation = options
    key = (*[None if a is None else facts(a) for a in tensors], biased, *padding, *dilation, activation)
    return _passes.made(key, lambda: _prepared(tensors[0], tensors[1], BackwardOptions(*options)))


def _plan(x: Any, weight: Any, options: BackwardOptions) -> CallPlan | None:
    """Return the plan of the kernel; None if separate kernels run."""
    if 0 in x.shape or not x.is_cuda:
        return None
    (batch, channels, length), layout = x.shape, "NHWC" if channels_last(x, 1) else "NCHW"
    (left, right), (apart,) = options.padding, options.dilation
    problem = Problem(
        BACKWARD, (batch, channels, 1, length), channels, (1, weight.shape[2]), (1, 1), (0, left, 0, right), (1, apart),
        channels, NAMES[x.dtype], layout, options.biased, False, options.activation,
    )  # fmt: skip
    try:
        plan = plan_for(problem, place("conv1d", x), SEPARATELY)
    except UserError:  # the layer exceeds a limit, such as the grid's
        return None
    return None if plan.choice.side == Side.THEIRS else plan


def _prepared(x: Any, weight: Any, options: BackwardOptions) -> Any:
    """Return the executor of such calls."""

    def separately(x: Any, weight: Any, bias: Any, grad: Any) -> tuple[Any, Any]:
        return _separately(x, weight, bias, grad, options)

    plan = _plan(x, weight, options)
    if plan is None:
        return separately
    last, (_, channels, length) = channels_last(x, 1), x.shape
    reads_bias = options.biased and bool(options.activation)
    program, order = program_of(plan), channels_last_order(3, 1) if last else ()
    aligned = max(program.program.alignment)
    strides = (length * channels, 1, channels) if last else (length * channels, length, 1)
    of_x = strided_allocator(x, tuple(x.shape), strides, x.dtype)
    others = strided_allocator(x, (weight.numel() + channels * options.biased,), (1,), x.dtype)

    def run(x: Any, weight: Any, bias: Any, grad: Any) -> tuple[Any, Any]:
        given = [in_order(x, order), weight.contiguous()]
        given += [bias.contiguous()] if reads_bias else []
        given.append(in_order(grad, order))
        given = [a if a.data_ptr() % aligned == 0 else a.clone() for a in given]
        made = of_x(), others()
        launch(program, [a.data_ptr() for a in (*given, *made)], x)
        return made

    return run


def _separately(x: Any, weight: Any, bias: Any, grad: Any, options: BackwardOptions) -> tuple[Any, Any]:
    """Compute the gradients by separate kernels."""
    operators = torch.ops.tilewright
    window = [1], options.padding, options.dilation, x.shape[1]
    if options.activation:
        derivative = options.activation + GRADIENT
        grad = operators.convolution(x, weight, bias, grad, "conv1d", *window, derivative, "NCW", [0])
    inverse = ConvolutionOptions("data_gradient1d", *window, "", "NCW", [0])
    of_x = operators.convolution(grad, weight, None, None, *inverse)
    taps = [weight.shape[2]]
    of_weight = operators.weight_gradient(x, grad, "weight_gradient1d", taps, *window, "NCW")
    of_bias = [grad.sum((0, 2))] if options.biased else []
    return of_x, torch.cat([of_weight.reshape(-1), *of_bias])


for _key in ("CPU", "CUDA"):
    _library.impl("convolution_backward", _computed, _key)
call_directly("convolution_backward", 4, _prepare)


@register_fake("tilewright::convolution_backward")  # type: ignore[untyped-decorator]  # PyTorch is not followed
def _shapes(x: Any, weight: Any, bias: Any, grad: Any, biased: bool, *rest: Any) -> tuple[Any, Any]:
    batch, channels, length = x.shape
    if channels_last(x, 1):
        of_x = x.new_empty(batch, length, channels).transpose(1, 2)
    else:
        of_x = x.new_empty(x.shape)
    return of_x, x.new_empty(weight.shape[0] * (weight.shape[2] + biased))
