"""The operators of causal convolutions that are registered with PyTorch, with shape inference and gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling
from torch.library import Library, register_autograd, register_fake

from ...core.causal import DATA_GRADIENT, FORWARD, WEIGHT_GRADIENT
from ..operators import conv1d
from ..pytorch.eager import records
from ..pytorch.operators.inductor import call_directly, lower
from ..pytorch.state import differentiates, is_watched, type_in_autocast
from ..pytorch.tensors import TENSORS, RecentCalls
from . import calls, native, updates
from .checks import CausalChecks, check_convolution, check_update

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
_recent = RecentCalls()  # keys: the weight and other tensors that calls share


def _is_watched_or_forward() -> bool:
    """Return whether calls are watched, or forward gradients are computed, which `is_watched` does not tell."""
    return is_watched() or forward_ad._current_level >= 0


def _are_plain(tensors: tuple[Any, ...]) -> bool:
    return all([a is None or (type(a) in TENSORS and not a.is_meta and not a._is_zerotensor()) for a in tensors])


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
    tensors = (x, weight, bias, seq_idx, initial_states)
    key: Any = None
    if (
        not return_final_states
        and final_states_out is None
        and not is_dynamo_compiling()
        and not _is_watched_or_forward()
    ):
        key = ("fn", activation, id(weight), id(bias), seq_idx is None, initial_states is None)
        run = _recent.executor(key, tensors)
        if run is not None and not records(tensors):
            return run(None, *tensors)
    name = CausalChecks("causal_conv1d_fn").activation(activation)
    check_convolution(*tensors, final_states_out, return_final_states)
    made = _convolved(tensors, name, key)
    if not return_final_states:
        return made
    states = native.last_inputs(x, initial_states, weight.shape[1] - 1)
    if final_states_out is None:
        return made, states.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
    return made, final_states_out.copy_(states)


def _is_layer(x: Any, weight: Any, bias: Any, seq_idx: Any, initial_states: Any) -> bool:
    """Return whether a call is an ordinary depthwise convolution: one type, no gaps, and at least one result.

    The type must not change under autocast, which has no effect on calls of the package.
    """
    if seq_idx is not None or initial_states is not None or type(x) not in TENSORS or not all(x.shape):
        return False
    if not (x.is_contiguous() or x.transpose(1, 2).is_contiguous()):  # a layer would copy other orders
        return False
    return all([a is None or a.dtype == x.dtype for a in (weight, bias)]) and type_in_autocast(x) == x.dtype


def _convolved(tensors: tuple[Any, ...], activation: str, key: Any) -> Any:
    if not is_dynamo_compiling() and differentiates():
        return native.convolve(*(*tensors, activation))
    if _is_layer(*tensors):  # with the kernels, gradients and decisions of every layer
        x, weight, bias, _, _ = tensors
        named: Any = activation or None
        before = (weight.shape[1] - 1, 0)
        return conv1d(x, weight[:, None], bias, padding=before, groups=x.shape[1], activation=named)
    if not is_dynamo_compiling() and not records(tensors) and not _is_watched_or_forward() and _are_plain(tensors):
        version = _recent.version
        run = calls.executor(*(FORWARD, None, *tensors, activation))
        made = run(None, *tensors)
        if key is not None:
            _recent.remember(key, tensors, run, version)
        return made
    return _operators.causal_conv1d(*tensors, activation)


def update(
    x: Any, conv_state: Any, weight: Any, bias: Any, activation: Any, cache_seqlens: Any, conv_state_indices: Any
) -> Any:
    """`causal_conv1d_update`."""
    compiling = is_dynamo_compiling()
    tensors = (x, conv_state, weight, bias, cache_seqlens, conv_state_indices)
    key: Any = None
    if not compiling and not _is_watched_or_forward():
        absent = cache_seqlens is None, conv_state_indices is None
        key = ("update", activation, id(conv_state), id(weight), id(bias), absent)
        run = _recent.executor(key, tensors)
        if run is not None:
            return run(*tensors)
    name = CausalChecks("causal_conv1d_update").activation(activation)
    check_update(*tensors)
    if key is not None and _are_plain(tensors):
        version = _recent.version
        run = updates.executor(*tensors[:4], name, *tensors[4:])
        made = run(*tensors)
        _recent.remember(key, tensors, run, version)
        return made
    with torch.no_grad():
        return _operators.causal_conv1d_update(*tensors[:4], name, *tensors[4:])


# The implementations of the operators, their shapes and their gradients


def _forward(*arguments: Any) -> Any:
    return calls.computed(FORWARD, None, *arguments)


def _data_gradient(*arguments: Any) -> Any:
    return calls.computed(DATA_GRADIENT, *arguments)


def _weight_gradient(*arguments: Any) -> Any:
    return calls.computed(WEIGHT_GRADIENT, *arguments)


for _key in ("CPU", "CUDA"):
    _library.impl("causal_conv1d", _forward, _key)
    _library.impl("causal_conv1d_data_gradient", _data_gradient, _key)
    _library.impl("causal_conv1d_weight_gradient", _weight_gradient, _key)
    _library.impl("causal_conv1d_update", updates.updated, _key)


def _prepare(step: str, arrays: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
    """Return the executor of a step. Missing trailing tensors are None."""
    before = (None,) if step == FORWARD else ()
    run = calls.executor(*(step, *before, *arrays, *options))
    return lambda *given: run(*before, *given, *[None] * (6 - len(before) - len(given)))


call_directly("causal_conv1d", 5, partial(_prepare, FORWARD))
call_directly("causal_conv1d_data_gradient", 6, partial(_prepare, DATA_GRADIENT))
call_directly("causal_conv1d_weight_gradient", 6, partial(_prepare, WEIGHT_GRADIENT))


def _shape(x: Any, *rest: Any) -> Any:
    lower()
    return calls.empty(x, calls.is_last(x))


def _gradient_shape(grad: Any, x: Any, *rest: Any) -> Any:
    return calls.empty(x, calls.is_last(x))


def _weight_gradient_shape(grad: Any, x: Any, weight: Any, bias: Any, *rest: Any) -> Any:
    types = (x.dtype, weight.dtype, None if bias is None else bias.dtype)
    sums = torch.float64 if torch.float64 in types else torch.float32
    return x.new_empty(weight.shape[0], weight.shape[1] + 1, dtype=sums)


def _update_shape(x: Any, *rest: Any) -> Any:
    if x.dim() == 2:
        return x.new_empty(x.shape)
    return calls.empty(x, calls.is_last(x))


register_fake("tilewright::causal_conv1d", _shape)
register_fake("tilewright::causal_conv1d_data_gradient", _gradient_shape)
register_fake("tilewright::causal_conv1d_weight_gradient", _weight_gradient_shape)
register_fake("tilewright::causal_conv1d_update", _update_shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    *tensors, ctx.activation = inputs
    ctx.save_for_backward(*tensors)


def _gradients(ctx: Any, grad: Any) -> tuple[Any, ...]:
    x, weight, bias, _, states = tensors = ctx.saved_tensors
    of_x, of_weight, of_bias, _, of_states, _ = ctx.needs_input_grad
    if torch.is_grad_enabled():  # the gradients are differentiated, too
        wanted = (of_x, of_weight, of_bias, of_states)
        *found, states_found = native.gradients(*(grad, *tensors, ctx.activation, wanted))
        return *found, None, states_found, None
    made_x = _operators.causal_conv1d_data_gradient(grad, *tensors, ctx.activation) if of_x else None
    made_weight = made_bias = made_states = None
    if of_weight or of_bias:
        both = _operators.causal_conv1d_weight_gradient(grad, *tensors, ctx.activation)
        made_weight = both[:, :-1].to(weight.dtype) if of_weight else None
        made_bias = both[:, -1].to(bias.dtype) if of_bias else None
    if of_states:  # only the first results read them
        first = slice(0, states.shape[-1])
        wanted = (False, False, False, True)
        few = (grad[..., first], x[..., first], weight, bias, None, states)
        made_states = native.gradients(*(*few, ctx.activation, wanted))[3]
    return made_x, made_weight, made_bias, None, made_states, None


register_autograd("tilewright::causal_conv1d", _gradients, setup_context=_save)
