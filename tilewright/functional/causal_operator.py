"""The operators of causal convolutions that are registered with PyTorch, with shape inference and gradients."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.library import Library, register_autograd, register_fake

from ..topi.causal.workload import DATA_GRADIENT, FORWARD, WEIGHT_GRADIENT
from . import causal_by_pytorch, causal_calls
from .causal_checks import Checks, check_convolution, check_update
from .torch_arguments import functionalizes
from .torch_tensors import _PRE_DISPATCH, TENSORS, _included, _modes, tracing, transforms

_library = Library("tilewright", "FRAGMENT")
_ARGUMENTS = "Tensor x, Tensor weight, Tensor? bias, Tensor? seq_idx, Tensor? initial_states, str activation"
for _schema in (
    f"causal_conv1d({_ARGUMENTS}) -> Tensor",
    f"causal_conv1d_data_gradient(Tensor grad, {_ARGUMENTS}) -> Tensor",
    f"causal_conv1d_weight_gradient(Tensor grad, {_ARGUMENTS}) -> Tensor",
    "causal_conv1d_update(Tensor x, Tensor(a!) conv_state, Tensor weight, Tensor? bias, str activation, "
    "Tensor? cache_seqlens, Tensor? conv_state_indices) -> Tensor",
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
_operators = torch.ops.tilewright


def _is_plain(*tensors: Any) -> bool:
    """Whether nothing traces, records or transforms a call, and its tensors are what they seem."""
    if tracing() is not None or _modes() or transforms() or _included(_PRE_DISPATCH) or forward_ad._current_level >= 0:
        return False
    return all([a is None or type(a) in TENSORS and not a.is_meta for a in tensors])


def convolve(
    x: Any,
    weight: Any,
    bias: Any,
    seq_idx: Any,
    initial_states: Any,
    return_final_states: bool,
    final_states_out: Any,
    activation: Any,
) -> Any:
    """`causal_conv1d_fn`."""
    name = Checks("causal_conv1d_fn").activation(activation)
    check_convolution(x, weight, bias, seq_idx, initial_states, final_states_out, return_final_states)
    tensors = (x, weight, bias, seq_idx, initial_states)
    made = _convolved(*tensors, name)
    if not return_final_states:
        return made
    states = causal_by_pytorch.last_inputs(x, initial_states, weight.shape[1] - 1)
    if final_states_out is None:
        return made, states.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
    return made, final_states_out.copy_(states)


def _convolved(x: Any, weight: Any, bias: Any, seq_idx: Any, states: Any, activation: str) -> Any:
    tensors = (x, weight, bias, seq_idx, states)
    if not is_dynamo_compiling():
        if _differentiates():
            return causal_by_pytorch.convolved(*tensors, activation)
        trained = torch.is_grad_enabled() and any([a is not None and a.requires_grad for a in tensors])
        if not trained and _is_plain(*tensors):
            return causal_calls.computed(FORWARD, None, *tensors, activation)
    return _operators.causal_conv1d(*tensors, activation)


def _differentiates() -> bool:
    """Whether a transform of `torch.func` or a forward gradient is active: they do not differentiate our operators."""
    return forward_ad._current_level >= 0 or bool(transforms() and not functionalizes())


def update(
    x: Any, conv_state: Any, weight: Any, bias: Any, activation: Any, cache_seqlens: Any, conv_state_indices: Any
) -> Any:
    """`causal_conv1d_update`."""
    name = Checks("causal_conv1d_update").activation(activation)
    check_update(x, conv_state, weight, bias, cache_seqlens, conv_state_indices)
    if not is_dynamo_compiling() and _is_plain(x, conv_state, weight, bias, cache_seqlens, conv_state_indices):
        return causal_calls.updated(x, conv_state, weight, bias, name, cache_seqlens, conv_state_indices)
    with torch.no_grad():
        return _operators.causal_conv1d_update(
            x, conv_state, weight, bias, name, cache_seqlens, conv_state_indices
        )


# The implementations of the operators, their shapes and their gradients


def _forward(*arguments: Any) -> Any:
    return causal_calls.computed(FORWARD, None, *arguments)


def _data_gradient(*arguments: Any) -> Any:
    return causal_calls.computed(DATA_GRADIENT, *arguments)


def _weight_gradient(*arguments: Any) -> Any:
    return causal_calls.computed(WEIGHT_GRADIENT, *arguments)


for _key in ("CPU", "CUDA"):
    _library.impl("causal_conv1d", _forward, _key)
    _library.impl("causal_conv1d_data_gradient", _data_gradient, _key)
    _library.impl("causal_conv1d_weight_gradient", _weight_gradient, _key)
    _library.impl("causal_conv1d_update", causal_calls.updated, _key)


def _shape(x: Any, *rest: Any) -> Any:
    return causal_calls.empty(x, causal_calls.is_last(x))


def _gradient_shape(grad: Any, x: Any, *rest: Any) -> Any:
    return causal_calls.empty(x, causal_calls.is_last(x))


def _weight_gradient_shape(grad: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    types = (x.dtype, weight.dtype, None if bias is None else bias.dtype)
    sums = torch.float64 if torch.float64 in types else torch.float32
    return x.new_empty(weight.shape[0], weight.shape[1] + 1, dtype=sums)


def _update_shape(x: Any, *rest: Any) -> Any:
    if x.dim() == 2:
        return x.new_empty(x.shape)
    return causal_calls.empty(x, causal_calls.is_last(x))


register_fake("tilewright::causal_conv1d", _shape)
register_fake("tilewright::causal_conv1d_data_gradient", _gradient_shape)
register_fake("tilewright::causal_conv1d_weight_gradient", _weight_gradient_shape)
register_fake("tilewright::causal_conv1d_update", _update_shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.activation = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Any) -> tuple[Any, ...]:
    x, weight, bias, seq_idx, states = tensors = ctx.saved_tensors
    of_x, of_weight, of_bias, _, of_states, _ = ctx.needs_input_grad
    if torch.is_grad_enabled():  # the gradients are differentiated, too
        wanted = (of_x, of_weight, of_bias, of_states)
        *found, states_found = causal_by_pytorch.gradients(grad, *tensors, ctx.activation, wanted)
        return *found, None, states_found, None
    made_x = _operators.causal_conv1d_data_gradient(grad, *tensors, ctx.activation) if of_x else None
    made_weight = made_bias = made_states = None
    if of_weight or of_bias:
        both = _operators.causal_conv1d_weight_gradient(grad, *tensors, ctx.activation)
        made_weight = both[:, :-1].to(weight.dtype) if of_weight else None
        made_bias = both[:, -1].to(bias.dtype) if of_bias else None
    if of_states:  # only the first results see them
        first = slice(0, states.shape[-1])
        wanted = (False, False, False, True)
        few = (grad[..., first], x[..., first], weight, bias, None, states)
        made_states = causal_by_pytorch.gradients(*few, ctx.activation, wanted)[3]
    return made_x, made_weight, made_bias, None, made_states, None


register_autograd("tilewright::causal_conv1d", _gradients, setup_context=_save)
