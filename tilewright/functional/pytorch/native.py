"""Problems computed by PyTorch's own kernels: if these were measured to be faster, and for gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch.autograd import forward_ad
from torch.nn import functional
from torch.nn.functional import pad

from ...core.precision import REDUCED
from ...core.windows import around
from ..arguments.call import OPERATORS
from ..arguments.problem import AVG_POOL, CONV, DATA_GRADIENT, MAX_POOL, POOLS, TRANSPOSED, WEIGHT_GRADIENT, Problem
from ..arguments.signature import GRADIENT

average: Callable[..., Any] = torch._C._nn.avg_pool2d
"""Operators are called by their names in `torch`, because users may set `torch.nn.functional.conv2d = tw.conv2d`."""


def _hardswish(v: Any) -> Any:
    """Hardswish by PyTorch's operator, except in float64: there, its CUDA kernel multiplies by the float32 nearest to
    1/6."""
    return v * (v + 3).clamp(0, 6) / 6 if v.dtype == torch.float64 else functional.hardswish(v)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": functional.relu,
    "relu6": functional.relu6,
    "silu": functional.silu,
    "gelu": functional.gelu,
    "gelu_tanh": lambda v: functional.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "hardswish": _hardswish,
    "tanh": torch.tanh,
    "leaky_relu": functional.leaky_relu,
    "elu": functional.elu,
    "mish": functional.mish,
    "hardtanh": functional.hardtanh,
    "softplus": functional.softplus,
}
_aten = torch.ops.aten


def _is_final() -> bool:
    """Return whether no gradient of a gradient is needed. PyTorch cannot differentiate the operators of some
    gradients."""
    return not torch.is_grad_enabled() and forward_ad._current_level < 0


def _silu_gradient(grad: Any, v: Any) -> Any:
    """The gradient of SiLU by PyTorch's operator, or by a formula if a second derivative is needed."""
    if _is_final():
        return _aten.silu_backward(grad, v)
    part = torch.sigmoid(v)
    return grad * part * (1 + v * (1 - part))


def _mish_gradient(grad: Any, v: Any) -> Any:
    """The gradient of Mish by PyTorch's operator, or by a formula if a second derivative is needed."""
    if _is_final():
        return _aten.mish_backward(grad, v)
    part = torch.tanh(functional.softplus(v))
    return grad * (part + v * torch.sigmoid(v) * (1 - part * part))


ACTIVATION_GRADIENTS: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda grad, v: _aten.threshold_backward(grad, v, 0),
    "relu6": lambda grad, v: _aten.hardtanh_backward(grad, v, 0.0, 6.0),
    "silu": _silu_gradient,
    "gelu": lambda grad, v: _aten.gelu_backward(grad, v),
    "gelu_tanh": lambda grad, v: _aten.gelu_backward(grad, v, approximate="tanh"),
    "sigmoid": lambda grad, v: _aten.sigmoid_backward(grad, torch.sigmoid(v)),
    "hardswish": lambda grad, v: _aten.hardswish_backward(grad, v),
    "tanh": lambda grad, v: _aten.tanh_backward(grad, torch.tanh(v)),
    "leaky_relu": lambda grad, v: _aten.leaky_relu_backward(grad, v, 0.01, False),
    "elu": lambda grad, v: _aten.elu_backward(grad, 1.0, 1.0, 1.0, False, v),
    "mish": _mish_gradient,
    "hardtanh": lambda grad, v: _aten.hardtanh_backward(grad, v, -1.0, 1.0),
    "softplus": lambda grad, v: _aten.softplus_backward(grad, v, 1.0, 20.0),
}
"""The gradients of activations with respect to their input, as functions of the output's gradient and of the input."""
Compute = Callable[[Any, Any, Any, Any], Any]
Core = Callable[..., Any]
"""A function of (x, weight, bias, residual). It ignores the residual, so that a layer without a residual can call it
directly."""


def computed(problem: Problem, name: str, layout: str | None, dims: int, on_gpu: bool) -> Compute:
    """Return a function of (x, weight, bias, residual), of `dims` dimensions, with a result in the call's layout.

    PyTorch supports channels-last memory in four dimensions only, so other tensors are passed as four-dimensional
    views.
    """
    rank = OPERATORS[name].rank
    last = layout is not None and layout.endswith("C")
    if problem.op == WEIGHT_GRADIENT:
        return _weight_gradient(problem, rank, last, on_gpu)
    act = ACTIVATIONS.get(problem.activation)
    backward = ACTIVATION_GRADIENTS.get(problem.activation.removesuffix(GRADIENT)) if act is None else None
    viewed = (problem.layout == "NHWC" or problem.op == DATA_GRADIENT) and (last or dims < 4)
    core = _core(problem, one_row=rank == 1 and not viewed)
    core = _in_precision(problem, core) if on_gpu else _in_float32(core) if _reads_unset_memory(problem) else core
    shape = problem.weights_shape if viewed or name == "depthwise_conv2d" else None
    if problem.has_weights and not viewed and not problem.residual and act is None and shape is None:
        return core

    def compute(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        if w is not None and shape is not None:  # (channels, multiplier, ...) lie in memory as (filters, 1, ...) do
            w = w.reshape(shape)
        made = from_image(core(as_image(x, rank, last), w, bias), dims, rank, last) if viewed else core(x, w, bias)
        if backward is not None:
            return backward(residual, made)
        made = made if residual is None else made + residual
        return made if act is None else act(made)

    return compute


def as_image(x: Any, rank: int, last: bool) -> Any:
    """Return channels-last memory as images NCHW, with the strides of PyTorch's channels-last format."""
    x = x if last else x.movedim(-rank - 1, -1)
    x = x if x.dim() == rank + 2 else x.unsqueeze(0)
    x = x if rank == 2 else x.unsqueeze(1)
    return x.permute(0, 3, 1, 2)


def from_image(made: Any, dims: int, rank: int, last: bool) -> Any:
    """Return a view of an NCHW result with `dims` dimensions, `rank` of them spatial; the inverse of `as_image`."""
    made = made.permute(0, 2, 3, 1)
    made = made if rank == 2 else made.squeeze(1)
    made = made if dims == rank + 2 else made.squeeze(0)
    return made if last else made.movedim(-1, -rank - 1)


def _in_precision(problem: Problem, core: Core) -> Core:
    """Return the operator in the requested precision on a GPU, regardless of PyTorch's own settings."""
    if problem.op in (TRANSPOSED, *POOLS) or problem.dtype != "float32":
        return core
    wanted = problem.precision in REDUCED

    def run(x: Any, w: Any, bias: Any, residual: Any = None) -> Any:
        owner, name, before = _tf32()
        if (before in _ALLOWING) == wanted:
            return core(x, w, bias)
        _set(owner, name, _VALUES[name][wanted])
        try:
            return core(x, w, bias)
        finally:
            _set(owner, name, before)

    return run


def _reads_unset_memory(problem: Problem) -> bool:
    """Return whether PyTorch is wrong on CPUs (oneDNN): for bfloat16 convolutions with a stride and one column of
    results."""
    narrow = problem.places[1] == 1 and problem.stride[1] > 1
    return problem.op == CONV and problem.dtype == "bfloat16" and narrow and problem.kernel[1] > 1


def _in_float32(core: Core) -> Core:
    """Return the operator in float32, with a single rounding."""

    def run(x: Any, w: Any, bias: Any, residual: Any = None) -> Any:
        return core(x.float(), w.float(), None if bias is None else bias.float()).to(x.dtype)

    return run


_ALLOWING = (True, "tf32")
_UNFROZEN: Callable[[], Any] = getattr(torch.backends, "__allow_nonbracketed_mutation", nullcontext)
_VALUES = {"allow_tf32": (False, True), "fp32_precision": ("ieee", "tf32")}


def _tf32() -> tuple[Any, str, Any]:
    """Return the setting of TF32 in cuDNN's convolutions: its owner, its name and its value.

    PyTorch has two names for the setting. Reading the older name, which is faster, raises an error if the user has set
    the newer one.
    """
    cudnn = torch.backends.cudnn
    try:
        return cudnn, "allow_tf32", cudnn.allow_tf32
    except RuntimeError:
        return cudnn.conv, "fp32_precision", cudnn.conv.fp32_precision


def _set(owner: Any, name: str, value: Any) -> None:
    """Change a setting inside the context, also after `torch.backends.disable_global_flags()`, as PyTorch's own
    contexts do."""
    with _UNFROZEN():
        setattr(owner, name, value)


def allows_tf32() -> bool:
    """Return whether the user's settings let PyTorch's float32 convolutions round their operands on GPUs."""
    return _tf32()[2] in _ALLOWING


class TF32(NamedTuple):
    """Whether float32 convolutions, and matrix products, may round their operands on GPUs."""

    convolutions: bool
    products: bool


NO_TF32 = TF32(False, False)


def tf32_settings() -> TF32:
    """Return PyTorch's settings of TF32."""
    products = torch.backends.cuda.matmul
    try:
        allowed = products.allow_tf32
    except RuntimeError:  # the user set the newer name
        allowed = products.fp32_precision in _ALLOWING
    return TF32(allows_tf32(), allowed)


def forbids_tf32(before: TF32) -> bool:
    """Return whether PyTorch's settings forbid a use of TF32 that they allowed before."""
    return before != NO_TF32 and any(was and not now for was, now in zip(before, tf32_settings(), strict=True))


@contextmanager
def exact_convolutions() -> Iterator[None]:
    """Make PyTorch's float32 convolutions compute in float32 on GPUs, inside the context."""
    owner, name, before = _tf32()
    _set(owner, name, _VALUES[name][False])
    try:
        yield
    finally:
        _set(owner, name, before)


def _core(problem: Problem, one_row: bool) -> Core:
    """Return the operator without an epilogue, for channels first."""
    first = 1 if one_row else 0
    top, left, bottom, right = problem.padding
    stride, dilation = problem.stride[first:], problem.dilation[first:]
    before, after = (top, left)[first:], (bottom, right)[first:]
    even = before == after
    around = (left, right) if one_row else (left, right, top, bottom)
    if problem.op == DATA_GRADIENT:
        return _data_gradient(problem)
    if problem.op in (CONV, TRANSPOSED):
        more = problem.output_padding[first:] if problem.op == TRANSPOSED else None
        return convolution(stride, before, after, dilation, problem.groups, more)
    if problem.op == MAX_POOL:
        largest = torch.max_pool2d
        if even:
            return lambda x, w, bias: largest(x, problem.kernel, stride, before, dilation)
        beyond = -torch.inf
        return lambda x, w, bias: largest(pad(x, around, value=beyond), problem.kernel, stride, 0, dilation)
    assert problem.op == AVG_POOL
    if even and problem.beyond == (0, 0):
        inside, divisor = problem.count_border, problem.divisor or None
        return lambda x, w, bias: average(
            x, problem.kernel, stride, before, count_include_pad=inside, divisor_override=divisor
        )
    return _uneven_average(problem, around)


def convolution(stride: Any, before: Any, after: Any, dilation: Any, groups: Any, more: Any) -> Core:
    """Return a convolution for channels first; `more` is the output padding if it is transposed, else None."""
    one, even, around = len(before) == 1, before == after, sides(before, after)
    if more is None:
        conv = torch.conv1d if one else torch.conv2d
        if even:
            return lambda x, w, bias, residual=None: conv(x, w, bias, stride, before, dilation, groups)
        return lambda x, w, bias, residual=None: conv(pad(x, around), w, bias, stride, 0, dilation, groups)
    transposed = torch.conv_transpose1d if one else torch.conv_transpose2d
    if even:
        return lambda x, w, bias, residual=None: transposed(x, w, bias, stride, before, more, groups, dilation)
    crop = [-side for side in around]
    return lambda x, w, bias, residual=None: pad(transposed(x, w, bias, stride, 0, more, groups, dilation), crop)


def _weight_gradient(problem: Problem, rank: int, last: bool, on_gpu: bool) -> Compute:
    """Return a function of an input and the gradient of the layer's result, in the layout of the call."""
    filters, per_group, *taps = problem.weights_shape
    before, after = list(problem.padding[:2]), list(problem.padding[2:])
    window = list(problem.stride), before, after, list(problem.dilation), problem.groups, None

    def core(x: Any, grad: Any, bias: Any, residual: Any = None) -> Any:
        return gradient(True, grad, x, x.new_empty(problem.weights_shape), window)

    core = _in_precision(problem, core) if on_gpu else core

    def compute(x: Any, grad: Any, bias: Any, residual: Any) -> Any:
        x, grad = as_image(x, rank, last), as_image(grad, rank, last)
        made = core(x, grad, None).reshape(filters, per_group, *taps[-rank:])
        made = torch.cat([made.reshape(-1), grad.sum((0, 2, 3))]) if problem.bias else made
        return made.float() if problem.wide and made.element_size() == 2 else made

    return compute


def gradient(of_weight: bool, grad: Any, x: Any, weight: Any, window: tuple[Any, ...]) -> Any:
    """Compute the gradient of the weight, or else of the input, for a batch with channels first.

    `window` is the stride, the padding before and after, the dilation, the groups and the output padding. The output
    padding is None unless the convolution is transposed.
    """
    stride, before, after, dilation, groups, more = window
    even, zeros, around = before == after, [0] * len(before), sides(before, after)
    padding, transposed = before if even else zeros, more is not None
    if not even and transposed:  # undo the crop of the transposed convolution
        grad = pad(grad, around)
    elif not even:
        x = pad(x, around)
    kind = x.dtype
    if of_weight and is_wrong_on_cpu(x, dilation):
        x, grad, weight = x.float(), grad.float(), weight.float()
    of_x, made, _ = _aten.convolution_backward(
        grad, x, weight, None, stride, padding, dilation, transposed, more or zeros, groups,
        [not of_weight, of_weight, False],
    )  # fmt: skip
    if not of_weight:
        return of_x if even or transposed else pad(of_x, [-side for side in around])
    if made.device.type == "cpu":
        images = (grad, x) if transposed else (x, grad)
        made = without_unreached(made, *images, stride, padding, dilation)
    return made.to(kind)


def is_wrong_on_cpu(x: Any, dilation: Any) -> bool:
    """Return whether PyTorch reads unset memory for a weight gradient: in 16 bits with dilation, on CPUs (oneDNN)."""
    return bool(x.device.type == "cpu" and x.element_size() == 2 and any(apart != 1 for apart in dilation))


def is_right_in_16_bits(problem: Problem) -> bool:
    """Whether oneDNN writes the gradient of every tap in 16 bits on CPUs.

    It does only without dilation, and if every tap meets the input in some window.
    """
    each = zip(problem.shape[2:], problem.places, problem.kernel, problem.stride, problem.padding[:2], strict=True)
    return problem.dilation == (1, 1) and all(
        _is_reached(tap - before, size, place, step) for size, place, taps, step, before in each for tap in range(taps)
    )


def without_unreached(made: Any, x: Any, grad: Any, stride: Any, padding: Any, dilation: Any) -> Any:
    """Zero the gradients of taps that lie in the padding for every window: oneDNN leaves them unset in 16 bits."""
    sizes, places = x.shape[2:], grad.shape[2:]
    if made.element_size() != 2 or not all(type(size) is int for size in (*sizes, *places)):
        return made
    each = zip(sizes, places, made.shape[2:], stride, padding, dilation, strict=True)
    for axis, (size, place, count, step, before, apart) in enumerate(each, 2):
        unreached = [tap for tap in range(count) if not _is_reached(tap * apart - before, size, place, step)]
        if unreached:
            made = made.index_fill(axis, torch.tensor(unreached, device=made.device), 0)
    return made


def _is_reached(first: int, size: int, places: int, step: int) -> bool:
    """Return whether one of the indices `first + i * step`, with i below `places`, lies in 0 .. size - 1."""
    i = max(0, -(first // step))
    return i < places and first + i * step < size


def sides(before: Any, after: Any) -> list[Any]:
    """Return the zeros on each side in the order of `pad`: before and after the last dimension first."""
    return [p for pair in zip(reversed(before), reversed(after), strict=True) for p in pair]


def _data_gradient(problem: Problem) -> Core:
    """Return a function of the gradient of a layer's result, and the weights."""
    before, after = list(problem.padding[:2]), list(problem.padding[2:])
    even = before == after
    padding, more = (before, (0, 0)) if even else ([0, 0], around(problem.padding))
    shape = [*problem.out_shape[:2], *(size + zeros for size, zeros in zip(problem.places, more, strict=True))]
    crop = [-side for side in sides(before, after)]

    def run(grad: Any, w: Any, bias: Any, residual: Any = None) -> Any:
        # PyTorch takes the size and the memory order of the input from a tensor without reading its values. On CPUs, it
        # makes a contiguous copy of a tensor that is not contiguous.
        like = grad.new_empty(shape) if grad.device.type == "cpu" else grad.new_empty(1).expand(shape)
        if problem.layout == "NHWC":
            like = grad.new_empty(shape).to(memory_format=torch.channels_last)
        made = _aten.convolution_backward(
            grad, like, w, None, problem.stride, padding, problem.dilation, False, [0, 0], problem.groups,
            [True, False, False],
        )[0]  # fmt: skip
        return made if even else pad(made, crop)

    return run


def _uneven_average(problem: Problem, around: tuple[int, ...]) -> Callable[[Any, Any, Any], Any]:
    """Return an average pooling with more padding on one side: sums divided by the number of counted values per
    window."""
    below, behind = problem.beyond
    counted = (around[0], around[1] - behind, around[2], around[3] - below)

    def sums(x: Any) -> Any:
        return average(x, problem.kernel, problem.stride, divisor_override=1)

    def compute(x: Any, w: Any, bias: Any) -> Any:
        found = sums(pad(x, around))
        if problem.divisor:
            return found / problem.divisor
        seen = pad(x.new_ones((1, *x.shape[-2:])), counted, value=float(problem.count_border))
        return found / sums(pad(seen, (0, behind, 0, below)))

    return compute
