"""Calls on PyTorch's tensors: one look-up by shapes, strides and options, then the launch.

This is the path of plain eager calls. Calls that are traced, compiled, transformed or under a mode go through the
operator registered with PyTorch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from ..arguments.call import ARRAYS, OperatorCall, operator_call
from ..planning.prepared_calls import PreparedCalls
from .eager import is_plain, records
from .state import as_autocast, autocast_type, autocasts, modes, pre_dispatches, tracing, transforms
from .tensors import RecentCalls, Run, check_types, facts, prepared, signed

_calls = PreparedCalls()
_recent = RecentCalls()  # keys: weight and bias
_grad_enabled = torch.is_grad_enabled
_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


def call(name: str, x: Any, w: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Compute an operator on tensors; `options` are in the order of `call.py`."""
    if is_dynamo_compiling() or tracing() is not None or forward_ad._current_level >= 0 or modes():
        return operator(operator_call(name, x, w, bias, residual, out, options))
    if residual is None and out is None:
        try:
            cast = autocasts() and torch.get_autocast_dtype(x.device.type)
            check, run = _recent[name, options, id(w), id(bias), _grad_enabled(), cast]
            # The check ends the process if a tensor is nested.
            known = not x.is_nested and (check(x, w) if bias is None else check(x, w, bias))
        except (KeyError, TypeError, RuntimeError):  # RuntimeError: devices without autocast
            known = False
        if known:
            return run(x, w, bias, None, None)
    return _known(name, x, w, bias, residual, out, options)


def _known(name: str, x: Any, w: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Look up a call that is unlike the last one with its weight: by shapes, strides, types and options."""
    arrays = x, w, bias, residual, out
    if transforms() or pre_dispatches():  # wrapped and recorded tensors look like ordinary ones
        return operator(operator_call(name, *arrays, options))
    key: Any = []  # cannot be hashed, so that a failed look-up is never kept
    version, run = _recent.version, None
    try:
        grad = records(arrays)
        cast = autocasts() and autocast_type(x.device.type)
        frozen = grad and w is not None and not w.requires_grad
        key = (name, options, grad, frozen, cast, *[None if a is None else facts(a) for a in arrays])
        run = _calls[key]
    except (KeyError, TypeError, AttributeError, RuntimeError):  # RuntimeError: tensors without shape or strides
        pass
    if run is None:  # outside of the handler, so that the traceback of an error has no KeyError
        return _unknown(operator_call(name, *arrays, options), key)
    made = None
    try:
        made = run(*arrays)
    except RuntimeError:  # tensors that `vmap` wraps have no address
        if not any(a is not None and _wrapped(a) for a in arrays):
            raise
    if made is None:
        return operator(operator_call(name, *arrays, options))
    if w is not None and residual is None and out is None:
        cast = autocasts() and torch.get_autocast_dtype(x.device.type)
        _recent.remember((name, options, id(w), id(bias), _grad_enabled(), cast), (x, w, bias), run, version)
    return made


def _unknown(call: OperatorCall, key: Any) -> Any:
    """Handle the first call of its kind."""
    check_types(call)
    if any(a is not None and (_wrapped(a) or _is_special(a)) for a in call.arrays):
        return operator(call)
    if autocasts() or records(call.arrays):
        # Also at the first call, because checkpoints compare the tensors that two forward passes save.
        run = _calls.made(key, lambda: _differentiable(call))
    else:
        run = _calls.made(key, lambda: prepared(call, *signed(call)))
    return operator(call) if run is None else run(*call.arrays)


def _differentiable(call: OperatorCall) -> Run | None:
    """Return the executor of calls like this one with gradients or under autocast; None if the operator serves them."""
    from .training import shortest_path, steps  # imported late: these modules load the operator

    if not is_direct(call):
        return None
    arrays = as_autocast(call.arrays[:4])
    checked, _ = signed(OperatorCall._make((call.name, *arrays, None, call.options)))
    return steps.by_pytorch_alone(call, checked) or shortest_path.shortest(call, arrays, checked)


def is_direct(call: OperatorCall) -> bool:
    """Return whether a call with gradients or under autocast bypasses PyTorch's dispatcher."""
    if call.weight is None or call.out is not None or call.options.tune is not None:
        return False
    return not callable(call.options.activation) and is_plain(call.arrays)


def operator(call: OperatorCall) -> Any:
    """Make a call through PyTorch's dispatcher."""
    from .operators import registration  # registering takes 20 ms, and plain calls do not need it

    return registration.dispatch(call)


def call_on_subclass(function: Callable[..., Any], call: OperatorCall) -> Any:
    """Make the call of a public function on an instance of a tensor subclass, or on a tensor-like object."""
    return operator(call) if isinstance(call.x, torch.Tensor) else _overridden(function, call)


def _overridden(function: Callable[..., Any], call: OperatorCall) -> Any:
    """Let a tensor-like object with `__torch_function__`, such as a proxy of `torch.fx`, handle a call."""
    if not hasattr(type(call.x), "__torch_function__"):
        check_types(call)
    values = {**call.options._asdict(), **dict(zip(ARRAYS, call.arrays, strict=True))}
    parameters = inspect.signature(function).parameters.values()
    named = {p.name: values[p.name] for p in parameters if values.get(p.name, p.default) is not p.default}
    return torch.overrides.handle_torch_function(function, call.arrays, **named)


def _is_special(a: Any) -> bool:
    """Return whether a tensor is anything other than strided memory that holds its values."""
    return a.is_meta or a.is_neg() or a._is_zerotensor() or type(a) not in (torch.Tensor, torch.nn.Parameter)
