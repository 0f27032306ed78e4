"""The operators registered with PyTorch: `torch.ops.tilewright.convolution` and `.pool`.

With their shape inference, `torch.compile` needs no graph break; with their gradients, models train. Our transposed
convolution computes the data gradient of depthwise layers; PyTorch computes all other gradients.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.library import Library, register_autograd, register_fake, register_vmap
from torch.utils.flop_counter import register_flop_formula

from ..core.errors import UserError
from . import torch_native
from .plans import Tune
from .signature import OPERATORS, Arrays, CallOptions, Described, options_of, options_tuple, signature
from .torch_arguments import (
    FUNCTIONS,
    activation_text,
    as_autocast,
    functionalizes,
    mistake,
    numbers,
    untraced,
    written,
)
from .torch_arguments import padding as padding_in_full
from .torch_tensors import NAMES, Extra, channels_last, prepared, transforms
from .torch_threads import by_pytorch

_library = Library("tilewright", "DEF")
_CONVOLUTION = (
    "convolution(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str name, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, str activation, str layout, SymInt[] output_padding, "
    "str precision='fp32') -> Tensor"
)
_POOL = (
    "pool(Tensor x, str name, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool ceil_mode, bool count_include_pad, str layout) -> Tensor"
)
for _schema in (_CONVOLUTION, _POOL):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


class _Asked(threading.local):
    """The argument `tune` of the call that this thread is in, which is not among the operator's."""

    tune: Tune = None


_asked = _Asked()


def dispatch(name: str, x: Any, extras: Extra, given: tuple[Any, ...]) -> Any:
    """Call the registered operator with the options of a public function."""
    if is_dynamo_compiling():
        return _dispatched(name, x, extras, given)
    _asked.tune = options_of(name, given).tune
    try:
        return _checked(name, x, extras, given)
    finally:
        _asked.tune = None


def _checked(name: str, x: Any, extras: Extra, given: tuple[Any, ...]) -> Any:
    # The operator does not take `out`, and would not check it.
    if extras[3] is not None and (wrong := mistake(name, x, extras, given)) is not None:
        raise wrong
    try:
        return _dispatched(name, x, extras, given)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        wrong = mistake(name, x, extras, given)
        if wrong is None:
            raise
        raise wrong from None


def _dispatched(name: str, x: Any, extras: Extra, given: tuple[Any, ...]) -> Any:
    options = options_of(name, given)
    weight, bias, residual, out = extras
    rank = OPERATORS[name].rank
    layout = options.layout or ("NCHW" if rank == 2 else "NCW")
    dilation = numbers(options.dilation, rank)
    if weight is None:
        kernel = numbers(options.kernel_size, rank)
        stride = kernel if options.stride is None else numbers(options.stride, rank)
        made = torch.ops.tilewright.pool(
            x, name, kernel, stride, padding_in_full(name, options.padding, kernel, stride), dilation,
            options.ceil_mode, options.count_include_pad, layout,
        )  # fmt: skip
    else:
        x, weight, bias, residual = as_autocast((x, weight, bias, residual))
        with untraced():
            taps = weight.shape[2:]
        covered = [(k - 1) * d + 1 for k, d in zip(taps, dilation, strict=True)]
        stride = numbers(options.stride, rank)
        made = _convolved(
            x, weight, bias, residual, name, stride, padding_in_full(name, options.padding, covered, stride), dilation,
            options.groups, activation_text(name, options.activation, x), layout,
            numbers(options.output_padding, rank), options.precision,
        )  # fmt: skip
    return made if out is None else written(name, made, out)


# What the operators do


def _given(name: str, **options: Any) -> tuple[Any, ...]:
    """Convert options to the form that `options_of` reads."""
    plain: dict[str, Any] = {key: tuple(v) if isinstance(v, (list, tuple)) else v for key, v in options.items()}
    return options_tuple(name, CallOptions(**plain, tune=_asked.tune))


def _convolution(
    x: Any, weight: Any, bias: Any, residual: Any, name: str, stride: Any, padding: Any, dilation: Any, groups: int,
    activation: str, layout: str, output_padding: Any, precision: str = "fp32",
) -> Any:  # fmt: skip
    act: Any = FUNCTIONS.get(activation, activation or None)
    given = _given(
        name, stride=stride, padding=padding, dilation=dilation, groups=groups, activation=act, layout=layout,
        output_padding=output_padding, precision=precision,
    )  # fmt: skip
    with torch.no_grad(), untraced():
        return prepared(name, x, (weight, bias, residual, None), given)(x, weight, bias, residual, None)


def _pool(
    x: Any, name: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool, layout: str,
) -> Any:  # fmt: skip
    given = _given(
        name, kernel_size=kernel_size, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode,
        count_include_pad=count_include_pad, layout=layout,
    )  # fmt: skip
    with torch.no_grad(), untraced():
        return prepared(name, x, (None,) * 4, given)(x, None, None, None, None)


for _key in ("CPU", "CUDA"):
    _library.impl("convolution", _convolution, _key)
    _library.impl("pool", _pool, _key)


def _seen(a: Any) -> Described | None:
    if a is None:
        return None
    return Described(tuple(a.shape), NAMES.get(a.dtype, str(a.dtype)), (a.device.type, 0), channels_last(a))


def _like(x: Any, shape: tuple[int, ...], last: bool) -> Any:
    if not last:
        return x.new_empty(shape)
    rank = len(shape) - 2
    return x.new_empty((shape[0], *shape[2:], shape[1])).permute(0, rank + 1, *range(1, rank + 1))


def _convolution_shape(
    x: Any, weight: Any, bias: Any, residual: Any, name: str, stride: Any, padding: Any, dilation: Any, groups: int,
    activation: str, layout: str, output_padding: Any, precision: str = "fp32",
) -> Any:  # fmt: skip
    options = CallOptions(
        tuple(stride), tuple(padding), tuple(dilation), groups, None, layout, output_padding=tuple(output_padding),
        precision=precision,
    )  # fmt: skip
    seen = Arrays(*[_seen(a) for a in (x, weight, bias, residual)])  # type: ignore[arg-type]  # x is there
    found = signature(name, seen, options)
    return _like(x, found.shape, found.channels_last)


def _pool_shape(
    x: Any, name: str, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool,
    count_include_pad: bool, layout: str,
) -> Any:  # fmt: skip
    options = CallOptions(
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        1,
        None,
        layout,
        0,
        tuple(kernel_size),
        ceil_mode,
        count_include_pad,
    )
    seen = _seen(x)
    assert seen is not None
    found = signature(name, Arrays(seen), options)
    return _like(x, found.shape, found.channels_last)


register_fake("tilewright::convolution", _convolution_shape)
register_fake("tilewright::pool", _pool_shape)


@register_flop_formula(torch.ops.tilewright.convolution)  # type: ignore[untyped-decorator]  # PyTorch is not followed
def _operations(
    x: Any, weight: Any, bias: Any, residual: Any, name: str, *options: Any, out_shape: Any, **_: Any
) -> int:
    """Return the additions and multiplications, from the shapes: PyTorch's counter asks for them."""
    seen = x if "transpose" in name else out_shape
    products: int = prod(seen) * prod(weight[2:] if name == "depthwise_conv2d" else weight[1:])
    return 2 * products


# Gradients


def _save_convolution(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, weight, bias, residual, *options = inputs
    ctx.save_for_backward(x, weight, bias, residual if options[5] else None)
    ctx.options = tuple(options)
    ctx.biased, ctx.added = bias is not None, residual is not None


def _convolution_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    x, weight, bias, residual = ctx.saved_tensors
    name, stride, padding, dilation, groups, activation, layout, more, precision = ctx.options
    if activation:
        _check_differentiable(name, activation)
        before = _convolved(
            x, weight, bias, residual, name, stride, padding, dilation, groups, "", layout, more, precision
        )
        grad = torch_native.ACTIVATION_GRADIENTS[activation](grad, before)
    window = _Window(name, stride, padding, dilation, groups, layout, more, x, weight)
    of_x = window.data_gradient(grad) if ctx.needs_input_grad[0] else None
    of_weight = window.weight_gradient(grad) if ctx.needs_input_grad[1] else None
    of_bias = window.bias_gradient(grad) if ctx.biased and ctx.needs_input_grad[2] else None
    of_residual = grad if ctx.added and ctx.needs_input_grad[3] else None
    return of_x, of_weight, of_bias, of_residual, *[None] * 9


def _check_differentiable(name: str, activation: str) -> None:
    if activation.startswith("custom:"):
        raise UserError(
            "an activation of your own has no gradient",
            primitive=name,
            fix="call the operator without it, and apply it in PyTorch; or call it within torch.no_grad()",
        )


class _Window:
    """The sliding window of a call, for its gradients: on images with a batch, channels first, evenly padded."""

    def __init__(
        self,
        name: str,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        layout: str,
        more: Any,
        x: Any,
        weight: Any,
    ) -> None:
        self.name, self.rank, self.layout = name, OPERATORS[name].rank, layout
        self.transposed = "transpose" in name
        self.stride, self.dilation, self.more = list(stride), list(dilation), list(more)
        self.before, self.after = list(padding[: self.rank]), list(padding[self.rank :])
        self.batched = x.dim() == self.rank + 2
        self.last = layout.endswith("C")
        self.x, self.weight = x, weight
        channels = x.shape[-1] if self.last else x.shape[-self.rank - 1]
        self.depthwise = name == "depthwise_conv2d"
        self.groups = channels if self.depthwise else groups
        self.channels = channels

    def _first(self, a: Any) -> Any:
        """A tensor of the call's layout with a batch and the channels in front."""
        a = a if self.batched else a[None]
        return a.movedim(-1, 1) if self.last else a

    def _back(self, a: Any) -> Any:
        a = a.movedim(1, -1) if self.last else a
        return a if self.batched else a[0]

    @property
    def _flat_weight(self) -> Any:
        """The weight in PyTorch's shape."""
        if not self.depthwise:
            return self.weight
        return self.weight.reshape(-1, 1, *self.weight.shape[2:])

    def data_gradient(self, grad: Any) -> Any:
        """Compute the data gradient: by our transposed convolution if the layer is depthwise, else by PyTorch."""
        if self.transposed or self.groups != self.channels:
            return self._by_torch(grad, (True, False))[0]
        spatial, places = ((a.shape[:-1] if self.last else a.shape)[-self.rank :] for a in (self.x, grad))
        taps = self.weight.shape[2:]
        more = [
            size - ((place - 1) * s - b - a + d * (k - 1) + 1)
            for size, place, s, b, a, d, k in zip(
                spatial, places, self.stride, self.before, self.after, self.dilation, taps, strict=True
            )
        ]
        return _convolved(
            grad.contiguous(), self._flat_weight, None, None, f"conv_transpose{self.rank}d", self.stride,
            [*self.before, *self.after], self.dilation, self.groups, "", self.layout, more, "fp32",
        )  # fmt: skip

    def weight_gradient(self, grad: Any) -> Any:
        """By PyTorch."""
        return self._by_torch(grad, (False, True))[1]

    def bias_gradient(self, grad: Any) -> Any:
        """Sum over all dimensions but the channels."""
        grad = self._first(grad)
        return grad.sum([0, *range(2, grad.dim())])

    def _by_torch(self, grad: Any, wanted: tuple[bool, bool]) -> tuple[Any, Any]:
        x, grad, weight = self._first(self.x), self._first(grad), self._flat_weight
        even = self.before == self.after
        around = [p for b, a in zip(reversed(self.before), reversed(self.after), strict=True) for p in (b, a)]
        padding = self.before if even else [0] * self.rank
        if not even and self.transposed:  # the crop that made the result is undone
            grad = torch.nn.functional.pad(grad, around)
        elif not even:
            x = torch.nn.functional.pad(x, around)
        of_x, of_weight, _ = torch.ops.aten.convolution_backward(
            grad, x, weight, None, self.stride, padding, self.dilation, self.transposed,
            self.more if self.transposed else [0] * self.rank, self.groups, [*wanted, False],
        )  # fmt: skip
        if of_x is not None:
            if not even and not self.transposed:
                of_x = torch.nn.functional.pad(of_x, [-p for p in around])
            of_x = self._back(of_x)
        return of_x, None if of_weight is None else of_weight.reshape(self.weight.shape)


def _save_pool(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, *options = inputs
    ctx.save_for_backward(x)
    ctx.options = tuple(options)


def _pool_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """Compute the pooling again by PyTorch, and differentiate that."""
    (x,) = ctx.saved_tensors
    name, kernel, stride, padding, dilation, ceil_mode, count, layout = ctx.options
    last = layout.endswith("C")
    images, back = (x.movedim(-1, -3), grad.movedim(-1, -3)) if last else (x, grad)
    before, after = list(padding[:2]), list(padding[2:]) or list(padding[:2])
    if before != after:
        raise UserError("uneven padding of a pooling has no gradient", primitive=name, fix="pad the input before")
    if name == "max_pool2d":
        _, where = torch.ops.aten.max_pool2d_with_indices(images, kernel, stride, before, dilation, ceil_mode)
        made = torch.ops.aten.max_pool2d_with_indices_backward(
            back, images, kernel, stride, before, dilation, ceil_mode, where
        )
    else:
        made = torch.ops.aten.avg_pool2d_backward(back, images, kernel, stride, before, ceil_mode, count, None)
    return (made.movedim(-3, -1) if last else made), *[None] * 8


def _wherever(gradient: Callable[..., Any]) -> Callable[..., Any]:
    """The same gradient, whose operators of PyTorch do not hang in a fork."""

    def computed(*arguments: Any) -> Any:
        with by_pytorch():
            return gradient(*arguments)

    return computed


register_autograd("tilewright::convolution", _wherever(_convolution_gradient), setup_context=_save_convolution)
register_autograd("tilewright::pool", _wherever(_pool_gradient), setup_context=_save_pool)


def _refuse_vmap(info: Any, in_dims: Any, *arguments: Any, **named: Any) -> Any:
    name = next((a for a in arguments if isinstance(a, str)), "convolution")
    raise UserError(
        "vmap cannot add a dimension to it",
        primitive=name,
        fix="put that dimension into the batch: x.flatten(0, 1), and the result's .unflatten(0, (m, n))",
    )


register_vmap("tilewright::convolution", _refuse_vmap)
register_vmap("tilewright::pool", _refuse_vmap)


def _convolved(*arguments: Any) -> Any:
    """Call the operator, in the form that the transforms of `torch.func` and forward gradients take."""
    if forward_ad._current_level >= 0 or (transforms() and not functionalizes()):
        return _Transformed.apply(*arguments)
    return torch.ops.tilewright.convolution(*arguments)


class _Transformed(torch.autograd.Function):  # type: ignore[misc]  # PyTorch is not followed
    """The operator under `torch.func.grad`, `jvp` and their kin, which differentiate no operator of a library."""

    @staticmethod
    def forward(*arguments: Any) -> Any:
        """Compute it."""
        return torch.ops.tilewright.convolution(*arguments)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what the gradients need."""
        _save_convolution(ctx, inputs, output)
        ctx.save_for_forward(*inputs[:4])

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Return the gradient."""
        return _convolution_gradient(ctx, *grads)

    @staticmethod
    def jvp(ctx: Any, of_x: Any, of_weight: Any, of_bias: Any, of_residual: Any, *rest: Any) -> Any:
        """Return how the result moves with its tensors: it is linear in each of them, before the activation."""
        x, weight, bias, residual = ctx.saved_tensors
        name, stride, padding, dilation, groups, activation, layout, more, precision = ctx.options
        options = name, stride, padding, dilation, groups, "", layout, more, precision
        _check_differentiable(name, activation)
        parts = [] if of_x is None else [torch.ops.tilewright.convolution(of_x, weight, None, None, *options)]
        parts += [] if of_weight is None else [torch.ops.tilewright.convolution(x, of_weight, None, None, *options)]
        if of_bias is not None:
            parts.append(of_bias if layout.endswith("C") else of_bias.view(-1, *[1] * OPERATORS[name].rank))
        parts += [] if of_residual is None else [of_residual]
        moved = sum(parts[1:], parts[0])
        if activation:
            before = torch.ops.tilewright.convolution(x, weight, bias, residual, *options)
            moved = torch_native.ACTIVATION_GRADIENTS[activation](moved.expand_as(before), before)
        return moved

    @staticmethod
    def vmap(info: Any, in_dims: Any, *arguments: Any) -> Any:
        """Refuse it."""
        return _refuse_vmap(info, in_dims, *arguments)
