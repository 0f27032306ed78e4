"""The operators registered with PyTorch: `torch.ops.tilewright.convolution`, `.weight_gradient` and `.pool`.

Shape inference lets `torch.compile` avoid graph breaks. Gradients, which are in `gradients` and `pools`, let models
train.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from math import prod
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling
from torch.library import Library, register_fake
from torch.utils.flop_counter import register_flop_formula

from ....core.windows import extents
from ...arguments.call import OPERATORS, CallOptions, OperatorCall, is_left_out
from ...arguments.problem import TRANSPOSES
from ...arguments.signature import ArrayProperties, check_no_indices, signature
from ...planning.decision import Tune
from ...planning.prepared_calls import PreparedCalls
from ...programs import fingerprint
from ..allocation import empty_in_order
from ..state import as_autocast, tracing, untraced
from ..tensors import NAMES, channels_last, facts, in_result_order, prepared, signed
from . import composed, inductor
from .arguments import (
    activation_text,
    mistake,
    numbers,
    warn_of_budget,
    written,
)
from .arguments import padding as padding_in_full
from .gradients import convolve
from .gradients import register as register_gradients
from .inductor import Prepare, call_directly
from .options import ConvolutionOptions, PoolOptions, WeightGradientOptions, call_options
from .pools import pooled

_KEY = "torch.ops.tilewright"
_library = Library("tilewright", "DEF")
_CONVOLUTION = (
    "convolution(Tensor x, Tensor weight, Tensor? bias, Tensor? residual, str name, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, str activation, str layout, SymInt[] output_padding, "
    "str precision='fp32') -> Tensor"
)
_FLAGS = "bool biased=False, bool wide=False"
_WEIGHT_GRADIENT = (
    "weight_gradient(Tensor x, Tensor grad, str name, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, "
    "SymInt[] dilation, SymInt groups, str layout, str precision='fp32', "
    f"{_FLAGS}) -> Tensor"
)
_POOL = (
    "pool(Tensor x, str name, SymInt[] kernel_size, SymInt[] stride, SymInt[] padding, SymInt[] dilation, "
    "bool ceil_mode, bool count_include_pad, str layout, SymInt? divisor_override=None) -> Tensor"
)
for _schema in (_CONVOLUTION, _WEIGHT_GRADIENT, _POOL):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))


class _Asked(threading.local):
    """The argument `tune` of this thread's current call, because the operator has no such argument."""

    tune: Tune = None


_asked = _Asked()


def dispatch(call: OperatorCall) -> Any:
    """Make a call through the registered operator."""
    tune = call.options.tune
    if is_dynamo_compiling():
        if tune is not None:
            warn_of_budget(call.name, tune)
        return _dispatched(call)
    _asked.tune = tune
    try:
        return _checked(call)
    finally:
        _asked.tune = None


def _checked(call: OperatorCall) -> Any:
    # The operator has no argument `out`, and would not check it.
    if call.out is not None and (wrong := mistake(call)) is not None:
        raise wrong
    try:
        return _dispatched(call)
    except (TypeError, ValueError, RuntimeError, AttributeError):
        wrong = mistake(call)
        if wrong is None:
            raise
        raise wrong from None


def _dispatched(call: OperatorCall) -> Any:
    name, x, weight, bias, residual, out, options = call
    if weight is None:
        rank = OPERATORS[name].rank
        layout = options.layout or ("NCHW" if rank == 2 else "NCW")
        dilation = numbers(options.dilation, rank)
        check_no_indices(name, options)
        kernel = numbers(options.kernel_size, rank)
        stride = kernel if is_left_out(options.stride) else numbers(options.stride, rank)
        padding = padding_in_full(name, options.padding, kernel, stride)
        pool = PoolOptions(
            name, kernel, stride, padding, dilation, options.ceil_mode, options.count_include_pad, layout,
            options.divisor_override,
        )  # fmt: skip
        made = pooled(x, pool)
    else:
        arrays = as_autocast((x, weight, bias, residual))
        compute = composed.convolve if composed.exports() else convolve
        made = compute(*arrays, *convolution_options(call, arrays))
    return made if out is None else written(name, made, out)


def convolution_options(call: OperatorCall, arrays: tuple[Any, ...]) -> ConvolutionOptions:
    """Return a call's options in the form of the operator, for tensors in the types of autocast."""
    (x, weight, *_), name, options = arrays, call.name, call.options
    rank = OPERATORS[name].rank
    layout = options.layout or ("NCHW" if rank == 2 else "NCW")
    dilation, stride = numbers(options.dilation, rank), numbers(options.stride, rank)
    with untraced():
        covered = extents(weight.shape[2:], dilation)
        groups = options.groups
        if groups is None:  # the operator is a depthwise convolution
            groups = x.shape[-1 if layout.endswith("C") else -rank - 1]
    return ConvolutionOptions(
        name, stride, padding_in_full(name, options.padding, covered, stride), dilation, groups,
        activation_text(name, options.activation, x), layout, numbers(options.output_padding, rank), options.precision,
    )  # fmt: skip


# The implementations of the operators


_executors = PreparedCalls()
"""Executors by the properties of the tensors and the options."""


def _preparation(kind: Callable[..., Any]) -> Prepare:
    """Return a function that looks up the executor of a call, or prepares it. `kind` is the class of the options."""

    def prepare(arrays: tuple[Any, ...], given: tuple[Any, ...]) -> Callable[..., Any]:
        if _asked.tune is not None:
            return executor(arrays, kind(*given))
        options = [tuple(value) if type(value) is list else value for value in given]
        key = (*[None if a is None else facts(a) for a in arrays], *options)
        found: Callable[..., Any] = _executors.made(key, lambda: executor(arrays, kind(*given)))
        return found

    return prepare


def _implementation(tensors: int, prepare: Prepare) -> Callable[..., Any]:
    """Return the implementation of an operator, for CPUs and GPUs. Its first `tensors` arguments are tensors."""

    def compute(*arguments: Any) -> Any:
        arrays = arguments[:tensors]
        run = prepare(arrays, arguments[tensors:])
        if not torch.is_grad_enabled() and tracing() is None:
            return run(*arrays)
        with torch.no_grad(), untraced():
            return run(*arrays)

    return compute


def executor(arrays: tuple[Any, ...], options: Any) -> Callable[..., Any]:
    """Return the executor of calls with such tensors and options.

    The result has the memory order of `_shaped`, even if PyTorch's own kernel returns another order.
    """
    rest = (None,) * (5 - len(arrays))
    text = getattr(options, "activation", "")
    call = OperatorCall._make((options.name, *arrays, *rest, call_options(options, text or None, _asked.tune)))
    with torch.no_grad(), untraced():
        return prepared(call, *signed(call), ordered=True)


def _shapes(tensors: int, kind: Callable[..., Any]) -> Callable[..., Any]:
    """Return the shape inference of such an operator."""

    def infer(*arguments: Any) -> Any:
        options = kind(*arguments[tensors:])
        return _shaped(options.name, arguments[:tensors], call_options(options))

    return infer


def _seen(a: Any, rank: int) -> ArrayProperties | None:
    if a is None:
        return None
    return ArrayProperties(tuple(a.shape), NAMES.get(a.dtype, str(a.dtype)), (a.device.type, 0), channels_last(a, rank))


def key_compiled_graphs() -> None:
    """Add this package's sources to the keys of Inductor's caches: compiled graphs depend on memory orders.

    Inductor is loaded before a graph is traced for it.
    """
    inductor.lower()
    config = sys.modules.get("torch._inductor.config")
    known = getattr(config, "unsafe_marked_cacheable_functions", None)
    if config is not None and known is not None and _KEY not in known:
        config.unsafe_marked_cacheable_functions = {**known, _KEY: fingerprint.package()}  # type: ignore[attr-defined]


def _shaped(name: str, arrays: tuple[Any, ...], options: CallOptions) -> Any:
    """Return the result's shape, type and memory order for a traced call."""
    key_compiled_graphs()
    if _asked.tune is not None:
        warn_of_budget(name, _asked.tune)
    rank = OPERATORS[name].rank
    seen = in_result_order([_seen(a, rank) for a in arrays], rank, arrays)
    return empty_in_order(arrays[0], signature(name, seen, options))


_implementations: dict[str, Callable[..., Any]] = {}
for _operator, _tensors, _kind in (
    ("convolution", 4, ConvolutionOptions),
    ("weight_gradient", 2, WeightGradientOptions),
    ("pool", 1, PoolOptions),
):
    _prepare = _preparation(_kind)
    _implementations[_operator] = _implementation(_tensors, _prepare)
    for _key in ("CPU", "CUDA"):
        _library.impl(_operator, _implementations[_operator], _key)
    register_fake(f"tilewright::{_operator}", _shapes(_tensors, _kind))
    call_directly(_operator, _tensors, _prepare)


@register_flop_formula(torch.ops.tilewright.convolution)  # type: ignore[untyped-decorator]  # PyTorch is not followed
def _operations(
    x: Any, weight: Any, bias: Any, residual: Any, name: str, *options: Any, out_shape: Any, **_: Any
) -> int:
    """Return the number of additions and multiplications, by the shapes, for PyTorch's FLOP counter."""
    seen = x if OPERATORS[name].op in TRANSPOSES else out_shape
    products: int = prod(seen) * prod(weight[2:] if name == "depthwise_conv2d" else weight[1:])
    return 2 * products


@register_flop_formula(torch.ops.tilewright.weight_gradient)  # type: ignore[untyped-decorator]  # likewise
def _operations_of_weight_gradient(x: Any, grad: Any, *options: Any, out_shape: Any, **_: Any) -> int:
    """Return the number of operations of a weight gradient: each result's gradient is multiplied once per weight of its
    filter."""
    products: int = prod(grad) * prod(out_shape[1:])
    return 2 * products


register_gradients(_implementations["convolution"], _implementations["weight_gradient"])
