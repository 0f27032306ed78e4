"""Calls on arrays of JAX, and on the tracers that stand for arrays inside `jax.jit`, `grad`, `vmap` and the like.

A call on arrays runs a small program, which `jax.jit` compiles once per shapes, types and options.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jax

from ...core.errors import UserError
from ...core.text import kind_of
from ..arguments.activations import custom
from ..arguments.call import ARRAYS, OperatorCall, operator_call
from ..arguments.problem import WEIGHT_GRADIENT
from ..arguments.signature import ArrayProperties, Arrays, Signature, signature
from ..planning.prepared_calls import PreparedCalls
from . import lowering as lowering  # registers the lowering
from .by_xla import in_layout
from .operator import compute

_calls = PreparedCalls()


def call(name: str, x: Any, w: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]) -> Any:
    """Compute an operator on arrays of JAX; `options` are in the order of `call.py`."""
    arrays = (x, w, bias, residual)
    key: Any = []  # without a hash: the call is not kept
    with suppress(AttributeError):
        key = (name, options, out is None, *[None if a is None else (a.shape, a.dtype, type(a)) for a in arrays])
    try:
        return _calls[key](*arrays)
    except (KeyError, TypeError):
        pass
    return _calls.made(key, lambda: _prepared(operator_call(name, *arrays, out, options)))(*arrays)


def signed(call: OperatorCall) -> Signature:
    """Return the checked signature of a call."""
    if call.out is not None:
        raise UserError(
            "out is given, but arrays of JAX are immutable", primitive=call.name, fix="leave it out, and use the result"
        )
    seen = Arrays(*[_properties_of(call.name, what, a) for what, a in zip(ARRAYS, call.arrays, strict=True)])  # type: ignore[arg-type]
    _, text = custom(call.name, call.options.activation, seen.x.dtype)
    return signature(call.name, seen, call.options, text)


def _properties_of(name: str, what: str, array: Any) -> ArrayProperties | None:
    if array is None:
        return None
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        raise UserError(
            f"x is an array of JAX, but {what} is {kind_of(array)}",
            primitive=name,
            fix=f"leave {what} out" if isinstance(array, bool) else f"convert it: jax.numpy.asarray({what})",
        )
    if not all(isinstance(n, int) for n in array.shape):
        raise UserError(
            f"{what} has the shape {tuple(array.shape)}, and machine code is for sizes that are numbers",
            primitive=name,
            fix="lower the program with the sizes of its arrays",
        )
    return ArrayProperties(tuple(array.shape), str(array.dtype), ("cpu", 0))


def _prepared(call: OperatorCall) -> Any:
    """Return the executor of all calls with these shapes, types and options."""
    checked, tune = signed(call), call.options.tune
    problem = checked.problem
    images = in_layout(problem, problem.shape)
    second = in_layout(problem, problem.out_shape) if problem.op == WEIGHT_GRADIENT else problem.weights_shape
    made = in_layout(problem, problem.out_shape)

    def run(x: Any, w: Any, bias: Any, residual: Any) -> Any:
        arrays = [x.reshape(images)]
        arrays += [] if w is None else [jax.numpy.reshape(w, second)]
        arrays += [] if bias is None else [jax.numpy.asarray(bias)]
        arrays += [] if residual is None else [jax.numpy.reshape(residual, made)]
        return compute(problem, *arrays, tune=tune).reshape(checked.shape)

    traced = any(isinstance(a, jax.core.Tracer) for a in call.arrays)
    return run if traced else jax.jit(run)
