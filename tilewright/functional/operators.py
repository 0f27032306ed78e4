"""The public functions; each dispatches its call by the type of the arrays.

Names, argument names, shapes and results are PyTorch's. `x` may be passed under PyTorch's name, `input`.
"""

# mypy: disable-error-code="no-any-return"
# The calls behind the dispatch are not generic; each returns an array of the type of x.

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..core.libraries import library_name
from . import numpy_arrays
from .arguments.call import operator_call
from .arguments.named_arguments import Named, named_input
from .torchscript import unscriptable

if TYPE_CHECKING:
    from .annotations import Activation, ArrayT, Extent, ImageLayout, Padding, Precision, SignalLayout, Tune

PublicCall = Callable[[str, Any, Any, Any, Any, Any, tuple[Any, ...]], Any]
"""A function called with the operator's name, `x`, weight, bias, residual, out, and options as in `call.py`."""


def _of_any(name: str, x: Any, weight: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Handle arrays of a new type: PyTorch's, a subclass of NumPy's, or any type with DLPack."""
    if isinstance(x, np.ndarray):
        return numpy_arrays.call_on_subclass(name, x, weight, bias, residual, out, options)
    library = library_name(type(x))
    if library == "torch":
        from torch.compiler import is_dynamo_compiling

        from .pytorch import calls as torch_calls
        from .pytorch import tensors as torch_tensors

        if not is_dynamo_compiling():  # new entries would make the graph compile again
            remember_torch()
        if type(x) in torch_tensors.TENSORS:
            return torch_calls.call(name, x, weight, bias, residual, out, options)
        call = operator_call(name, x, weight, bias, residual, out, options)
        return torch_calls.call_on_subclass(globals()[name], call)
    if library == "jax":
        from .jax import arrays as jax_arrays

        _calls[type(x)] = jax_arrays.call
        return jax_arrays.call(name, x, weight, bias, residual, out, options)
    if library == "cupy":
        from . import cupy_arrays

        _calls[type(x)] = cupy_arrays.call
        return cupy_arrays.call(name, x, weight, bias, residual, out, options)
    from . import arrays as any_arrays  # not needed for the arrays of NumPy and PyTorch

    return any_arrays.compute(operator_call(name, x, weight, bias, residual, out, options))


def remember_torch() -> None:
    """Dispatch the calls of PyTorch's tensors directly from now on."""
    from .pytorch import calls as torch_calls
    from .pytorch import tensors as torch_tensors

    _calls.update(dict.fromkeys(torch_tensors.TENSORS, torch_calls.call))


_calls: dict[type, PublicCall] = {np.ndarray: numpy_arrays.call}


@unscriptable
def conv1d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    weight: Any = None,
    bias: Any = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    activation: Activation = None,
    residual: Any = None,
    layout: SignalLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    precision: Precision = "fp32",
    **named: Unpack[Named],
) -> ArrayT:
    """Convolve signals with filters; `activation(conv(x, weight) + bias + residual)` in one kernel.

    Parameters
    ----------
    x : array
        (N, C, W), or (C, W); with layout="NWC" (N, W, C). An array of PyTorch, NumPy, CuPy, JAX or anything with
        DLPack, of float16, bfloat16, float32 or float64.
    weight : array
        (filters, C / groups, taps), whatever the layout of x.
    bias : array, optional
        (filters,).
    stride, dilation : int
    padding : int, (before, after), "same" or "valid"
    groups : int
    activation : str or callable, optional
        "relu", "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish", "tanh", "leaky_relu", "elu", "mish",
        "hardtanh", "softplus", or a function of an expression. Its gradient is the derivative of that expression.
    residual : array, optional
        Added before the activation; of the result's shape.
    layout : "NCW" or "NWC"
    out : array, optional
        Array that receives the result.
    tune : "quick", float or str, optional
        Measure configurations for five seconds ("quick"), a number of seconds, or a time such as "2m", unless done
        before; the result is kept.
    precision : "fp32", "ieee", "tf32" or "tf32_cut"
        Applies to float32. "ieee" multiplies and adds in float32. "fp32" is as exact, but may use matrix instructions:
        three products of operands split into parts of 11 bits. "tf32" may round operands to 11 significant bits.
        "tf32_cut" may cut them, which Hopper's warpgroup instructions do. It takes about two thirds of the time, but
        errors have one sign and add up: 0.1 % per layer.

    Returns
    -------
    array
        Of the same library, on the same device and stream. 16-bit types are summed in float32.

    Raises
    ------
    UserError
        If an argument does not fit the others; the message names it, and a fix.
    """
    if named:
        x = named_input(conv1d, x, named)
    options = (stride, padding, dilation, groups, activation, layout, tune, precision)
    return _calls.get(type(x), _of_any)("conv1d", x, weight, bias, residual, out, options)


@unscriptable
def conv2d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    weight: Any = None,
    bias: Any = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    groups: int = 1,
    activation: Activation = None,
    residual: Any = None,
    layout: ImageLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    precision: Precision = "fp32",
    **named: Unpack[Named],
) -> ArrayT:
    """Convolve images with filters; `activation(conv(x, weight) + bias + residual)` in one kernel.

    Parameters
    ----------
    x : array
        (N, C, H, W), or (C, H, W); with layout="NHWC" (N, H, W, C). An array of PyTorch, NumPy, CuPy, JAX or anything
        with DLPack, of float16, bfloat16, float32 or float64. A PyTorch tensor in channels-last memory format is used
        without a copy.
    weight : array
        (filters, C / groups, rows, columns), whatever the layout of x.
    bias : array, optional
        (filters,).
    stride, dilation : int or (vertical, horizontal)
    padding : int, (vertical, horizontal), ((top, bottom), (left, right)), "same" or "valid"
    groups : int
        As many as channels for a depthwise convolution.
    activation : str or callable, optional
        "relu", "relu6", "silu", "gelu", "gelu_tanh", "sigmoid", "hardswish", "tanh", "leaky_relu", "elu", "mish",
        "hardtanh", "softplus", or a function of an expression. Its gradient is the derivative of that expression.
    residual : array, optional
        Added before the activation; of the result's shape.
    layout : "NCHW" or "NHWC"
    out : array, optional
        Array that receives the result.
    tune : "quick", float or str, optional
        Measure configurations for five seconds ("quick"), a number of seconds, or a time such as "2m", unless done
        before; the result is kept.
    precision : "fp32", "ieee", "tf32" or "tf32_cut"
        Applies to float32; see `conv1d`.

    Returns
    -------
    array
        Of the same library, on the same device and stream. 16-bit types are summed in float32.

    Raises
    ------
    UserError
        If an argument does not fit the others; the message names it, and a fix.

    Examples
    --------
    >>> x, w = np.ones((1, 32, 28, 28), np.float32), np.ones((32, 1, 3, 3), np.float32)
    >>> tilewright.conv2d(x, w, padding=1, groups=32, activation="relu").shape
    (1, 32, 28, 28)
    """
    if named:
        x = named_input(conv2d, x, named)
    options = (stride, padding, dilation, groups, activation, layout, tune, precision)
    return _calls.get(type(x), _of_any)("conv2d", x, weight, bias, residual, out, options)


@unscriptable
def depthwise_conv2d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    weight: Any = None,
    bias: Any = None,
    stride: Extent = 1,
    padding: Padding = 0,
    dilation: Extent = 1,
    activation: Activation = None,
    residual: Any = None,
    layout: ImageLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    groups: int | None = None,
    **named: Unpack[Named],
) -> ArrayT:
    """Convolve each channel of images with its own kernels: `conv2d` with as many groups as channels.

    Parameters
    ----------
    weight : array
        (C * multiplier, 1, rows, columns), PyTorch's shape, or (C, multiplier, rows, columns).
    groups : int, optional
        The number of channels.

    Notes
    -----
    See `conv2d` for the other arguments.
    """
    if named:
        x = named_input(depthwise_conv2d, x, named)
    options = (stride, padding, dilation, groups, activation, layout, tune, "fp32")
    return _calls.get(type(x), _of_any)("depthwise_conv2d", x, weight, bias, residual, out, options)


@unscriptable
def conv_transpose1d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    weight: Any = None,
    bias: Any = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    activation: Activation = None,
    residual: Any = None,
    layout: SignalLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    **named: Unpack[Named],
) -> ArrayT:
    """Compute the transposed convolution of signals, the gradient of `conv1d`; arguments are in PyTorch's order.

    Parameters
    ----------
    weight : array
        (C, filters / groups, taps).
    output_padding : int
        Additional elements at the end of the result.

    Notes
    -----
    See `conv1d` for the other arguments.
    """
    if named:
        x = named_input(conv_transpose1d, x, named)
    options = (stride, padding, dilation, groups, activation, layout, tune, output_padding)
    return _calls.get(type(x), _of_any)("conv_transpose1d", x, weight, bias, residual, out, options)


@unscriptable
def conv_transpose2d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    weight: Any = None,
    bias: Any = None,
    stride: Extent = 1,
    padding: Padding = 0,
    output_padding: Extent = 0,
    groups: int = 1,
    dilation: Extent = 1,
    activation: Activation = None,
    residual: Any = None,
    layout: ImageLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    **named: Unpack[Named],
) -> ArrayT:
    """Compute the transposed convolution of images, the gradient of `conv2d`; arguments are in PyTorch's order.

    Parameters
    ----------
    weight : array
        (C, filters / groups, rows, columns).
    output_padding : int or pair
        Additional rows and columns at the bottom and the right of the result.

    Notes
    -----
    See `conv2d` for the other arguments.
    """
    if named:
        x = named_input(conv_transpose2d, x, named)
    options = (stride, padding, dilation, groups, activation, layout, tune, output_padding)
    return _calls.get(type(x), _of_any)("conv_transpose2d", x, weight, bias, residual, out, options)


@unscriptable
def max_pool2d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    kernel_size: Extent | None = None,
    stride: Extent | None = None,
    padding: Padding = 0,
    dilation: Extent = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
    layout: ImageLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    **named: Unpack[Named],
) -> ArrayT:
    """Take the largest value of each window of images.

    Parameters
    ----------
    kernel_size, dilation : int or pair
    stride : int or pair, optional
        By default the kernel's size.
    padding : int, pair or ((top, bottom), (left, right))
        Filled with minus infinity; at most half of the kernel.
    ceil_mode : bool
        Whether a last window may reach beyond the padded input.
    return_indices : bool
        Not computed: True raises an error.

    Notes
    -----
    See `conv2d` for the other arguments.
    """
    if named:
        x = named_input(max_pool2d, x, named)
    options = (kernel_size, stride, padding, dilation, ceil_mode, return_indices, layout, tune)
    return _calls.get(type(x), _of_any)("max_pool2d", x, None, None, None, out, options)


@unscriptable
def avg_pool2d(
    x: ArrayT = None,  # type: ignore[assignment]  # callers may write `input=`
    kernel_size: Extent | None = None,
    stride: Extent | None = None,
    padding: Padding = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    layout: ImageLayout = None,
    out: ArrayT | None = None,
    tune: Tune = None,
    **named: Unpack[Named],
) -> ArrayT:
    """Take the average of each window of images.

    Parameters
    ----------
    count_include_pad : bool
        Whether zeros of the padding count in the average.
    divisor_override : int, optional
        The number that the sum of each window is divided by.

    Notes
    -----
    See `max_pool2d` for the other arguments.
    """
    if named:
        x = named_input(avg_pool2d, x, named)
    options = (kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, layout, tune)
    return _calls.get(type(x), _of_any)("avg_pool2d", x, None, None, None, out, options)
