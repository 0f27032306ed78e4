"""Epilogues: operations on each sum of a convolution before it is stored, in the same kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...core.dtype import DType
from ...core.errors import UserError
from ...expr.convert import as_expr, cast, const
from ...expr.intrinsics import TABLE, absolute
from ...expr.nodes import Expr, Var
from ...expr.operators import maximum, minimum, select
from ...expr.traverse import substitute
from ...tensor.gradient.derivative import derivative
from ...tensor.tensor import Tensor, compute, placeholder

Expression = Callable[..., Any]
_erf, _exp, _exp2, _log1p, _saturate, _sigmoid, _tanh = (
    TABLE[name] for name in ("erf", "exp", "exp2_normal", "log1p", "saturate", "sigmoid", "tanh")
)


def _gelu(v: Any) -> Any:
    if v.dtype == "float32":
        return _gelu_by(_SINGLE_TAIL, _SINGLE_REACH, v)
    return v * 0.5 * (_erf(v * math.sqrt(0.5)) + 1.0)


_SINGLE_REACH = 7.0
"""The argument beyond which the normal distribution counts as 0 or 1 for float32 results."""
_REACH = 5.5
"""The argument beyond which the normal distribution counts as 0 or 1 for 16-bit results."""
_SINGLE_TAIL = (
    *(0.9999989271, 1.1511235237, 4.5910972357e-01, 5.2733056247e-02, -7.3601049371e-03),
    *(3.4275752841e-04, 1.0693146032e-04, -2.3605945898e-05, 1.5756340872e-06),
)
_TAIL = (1.0004810, 1.1466484, 4.6988407e-01, 4.2733780e-02, -3.5828900e-03)
"""The negative binary logarithm of the normal distribution at -v, as a polynomial of v, the lowest term first.

A minimax fit of v * distribution for v from 0 to 5.5. Errors are weighted by 1 / (1e-5 + 2**-12 * |value|); for
float32, by 1 / (1e-8 + 2**-24 * |value|). The float32 fit extends to 7, so that the tail of the distribution is below
1e-9.
"""


def _gelu_by(tail: tuple[float, ...], reach: float, v: Any) -> Any:
    """max(v, 0) - |v| * distribution(-|v|), which takes fewer instructions than erf and has no cancellation for v <
    0."""
    size = minimum(absolute(v), reach)
    power: Any = -tail[-1]
    for factor in reversed(tail[:-1]):
        power = power * size - factor
    return maximum(v, 0.0) - size * _exp2(power)


_SLOPE = 2 * math.sqrt(2 / math.pi)


def _gelu_tanh(v: Any) -> Any:
    """v * sigmoid(2u), which is v / 2 * (1 + tanh(u)) without its cancellation for negative v."""
    return v * _sigmoid(v * ((_SLOPE * 0.044715) * v * v + _SLOPE))


def _hardswish(v: Any) -> Any:
    """v * saturate(v / 6 + 1 / 2): GPUs saturate in the instruction that adds."""
    return v * _saturate(v * (1 / 6) + 0.5)


def _between(v: Any, low: float, high: float) -> Any:
    return minimum(maximum(v, const(low, v.dtype)), const(high, v.dtype))


def _elu(v: Any) -> Any:
    """v if v > 0, else exp(v) - 1, as `2t / (1 - t)` with `t = tanh(v / 2)`: no cancellation near zero."""
    part = _tanh(v * 0.5)
    return select(v > 0.0, v, part * 2.0 / (1.0 - part))


def _tanh_of_softplus(v: Any) -> Any:
    """tanh(log(1 + exp(v))) as a quotient of polynomials in exp(-|v|), without overflow and cancellation."""
    power, positive = _exp(0.0 - absolute(v)), v > 0.0
    above = select(positive, 1.0 + 2.0 * power, power * (power + 2.0))
    return above / (above + select(positive, 2.0 * power * power, 2.0))


def _softplus(v: Any) -> Any:
    return select(v > 20.0, v, _log1p(_exp(v)))


ACTIVATIONS: Mapping[str, Expression] = {
    "relu": lambda v: maximum(v, const(0.0, v.dtype)),
    "relu6": lambda v: _between(v, 0.0, 6.0),
    "silu": lambda v: v * _sigmoid(v),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "sigmoid": _sigmoid,
    "hardswish": _hardswish,
    "tanh": _tanh,
    "leaky_relu": lambda v: maximum(v, v * 0.01),
    "elu": _elu,
    "mish": lambda v: v * _tanh_of_softplus(v),
    "hardtanh": lambda v: _between(v, -1.0, 1.0),
    "softplus": _softplus,
}
"""Activations by name, as PyTorch defines them. Their values have the type of the sums."""
NARROW: Mapping[str, Expression] = {"gelu": lambda v: _gelu_by(_TAIL, _REACH, v)}
"""Cheaper forms of activations, for float32 sums that are stored in 16 bits.

The error is at most 1e-5 plus half a unit in the last place of the result. An exact form takes more instructions than
the matrix product of a layer with few channels.
"""


def _within(grad: Any, v: Any, low: float, high: float) -> Any:
    """The gradient `grad` if v lies between two bounds, and zero at the bounds and beyond."""
    return select(v <= low, 0.0, select(v >= high, 0.0, grad))


def _silu_gradient(grad: Any, v: Any) -> Any:
    part = _sigmoid(v)
    return grad * part * (1.0 + v * (1.0 - part))


def _gelu_gradient(grad: Any, v: Any) -> Any:
    """The derivative of GELU: the normal distribution at v, plus v times the density."""
    below = 0.5 * (1.0 + _erf(v * math.sqrt(0.5)))
    density = _exp(v * v * -0.5) * (1 / math.sqrt(2 * math.pi))
    return grad * (below + v * density)


def _gelu_tanh_gradient(grad: Any, v: Any) -> Any:
    """The derivative of v * sigmoid(u), with u = slope * (v + 0.044715 v³)."""
    square = v * v
    part = _sigmoid(v * ((_SLOPE * 0.044715) * square + _SLOPE))
    steep = (3 * _SLOPE * 0.044715) * square + _SLOPE
    return grad * part * (1.0 + v * (1.0 - part) * steep)


def _sigmoid_gradient(grad: Any, v: Any) -> Any:
    part = _sigmoid(v)
    return grad * part * (1.0 - part)


def _hardswish_gradient(grad: Any, v: Any) -> Any:
    return select(v <= -3.0, 0.0, select(v >= 3.0, grad, grad * (v * (1 / 3) + 0.5)))


def _tanh_gradient(grad: Any, v: Any) -> Any:
    part = _tanh(v)
    return grad * (1.0 - part * part)


def _mish_gradient(grad: Any, v: Any) -> Any:
    part = _tanh_of_softplus(v)
    return grad * (part + v * _sigmoid(v) * (1.0 - part * part))


GRADIENTS: Mapping[str, Callable[[Any, Any], Any]] = {
    "relu_gradient": lambda grad, v: select(v <= 0.0, 0.0, grad),
    "relu6_gradient": lambda grad, v: _within(grad, v, 0.0, 6.0),
    "silu_gradient": _silu_gradient,
    "gelu_gradient": _gelu_gradient,
    "gelu_tanh_gradient": _gelu_tanh_gradient,
    "sigmoid_gradient": _sigmoid_gradient,
    "hardswish_gradient": _hardswish_gradient,
    "tanh_gradient": _tanh_gradient,
    "leaky_relu_gradient": lambda grad, v: select(v > 0.0, grad, grad * 0.01),
    "elu_gradient": lambda grad, v: select(v > 0.0, grad, grad * _exp(v)),
    "mish_gradient": _mish_gradient,
    "hardtanh_gradient": lambda grad, v: _within(grad, v, -1.0, 1.0),
    "softplus_gradient": lambda grad, v: select(v > 20.0, grad, grad * _sigmoid(v)),
}
"""Backward steps of `ACTIVATIONS`: functions of the gradient of a result and of the sum before the activation.

They return the gradient of the sum. The epilogue passes the gradient of the result as the residual. Bounds, and the
values at bounds, are PyTorch's.
"""


@dataclass(frozen=True)
class BackwardStep:
    """The backward step of a user-defined activation: the gradient of the result times the activation's derivative."""

    activation: Expression

    def __call__(self, grad: Any, v: Any) -> Any:
        """Return the gradient of the sum `v`."""
        at = Var("v", v.dtype)
        slope = derivative(as_expr(self.activation(at)), at)
        return const(0.0, v.dtype) if slope is None else grad * cast(v.dtype, substitute(slope, {at: as_expr(v)}))


@dataclass(frozen=True)
class Epilogue:
    """The operation on each sum: `activation(sum + bias + residual)`, or `gradient(residual, sum + bias)`."""

    bias: bool = False
    """Adds a tensor with one element per output channel."""
    residual: bool = False
    """Adds a tensor of the output's shape."""
    activation: str | Expression | BackwardStep | None = None
    """A name among `ACTIVATIONS`, or a function from an expression to an expression; or a name among `GRADIENTS` or a
    `BackwardStep`, which need a residual."""

    def __post_init__(self) -> None:
        backward = self.residual and self.activation in GRADIENTS
        known = self.activation is None or callable(self.activation) or self.activation in ACTIVATIONS
        if not known and not backward:
            raise UserError(
                f"activation {self.activation!r} is unknown",
                primitive="epilogue",
                fix=f"give {', '.join(ACTIVATIONS)}, or a function of an expression: lambda v: v * 2",
            )

    def placeholders(self, shape: tuple[int, ...], channels: int, dtype: str) -> tuple[Tensor, ...]:
        """Return fresh tensors for the bias and the residual, if they are added."""
        bias = (placeholder((channels,), dtype, "bias"),) if self.bias else ()
        return bias + ((placeholder(shape, dtype, "residual"),) if self.residual else ())

    def expression(self, extras: tuple[Tensor, ...], channel: int | None, result: str = "float32") -> Expression:
        """Return the epilogue as a function of `(sum, *indices)` that reads the tensors `extras`.

        `channel` is the axis of channels; None if there is one channel and no axis. `result` is the type to which the
        value is converted afterwards.
        """

        def computed(v: Any, *indices: Any) -> Any:
            left = list(extras)
            if self.bias:
                v = v + cast(v.dtype, left.pop(0)(0 if channel is None else indices[channel]))
            name = self.activation
            step = name if isinstance(name, BackwardStep) else GRADIENTS.get(name) if isinstance(name, str) else None
            if step is not None:
                return step(cast(v.dtype, left.pop(0)(*indices)), v)
            if self.residual:
                v = v + cast(v.dtype, left.pop(0)(*indices))
            if name is None:
                return v
            if not isinstance(name, str):
                return name(v)  # type: ignore[call-arg]  # not a `BackwardStep`
            narrow = DType(result).is_float and DType(result).bytes == 2 and v.dtype == "float32"
            return (NARROW if narrow and name in NARROW else ACTIVATIONS)[name](v)

        return computed


NO_EPILOGUE = Epilogue()


def _placed(sums: Tensor, indices: tuple[Any, ...]) -> Any:
    """Return a sum at some indices. For a contraction in the result's order, this reads the contraction itself."""
    if sums.op.tag != "contraction":
        return sums(*indices)
    return substitute(sums.op.body[0], {axis.var: as_expr(i) for axis, i in zip(sums.op.axis, indices, strict=True)})


def finish(
    sums: Tensor,
    dtype: str,
    expression: Expression | None,
    shape: tuple[int, ...] | None = None,
    name: str = "result",
) -> Tensor:
    """Return the tensor of results: the expression of every sum, converted to `dtype`.

    `name` is the tensor's name. If there is nothing to compute, the result is `sums` itself. There may be more sums
    than results, which have the given `shape`.
    """
    within = shape is None or tuple(str(e) for e in sums.shape) == tuple(map(str, shape))
    if expression is None and sums.dtype == dtype and within:
        return sums

    def element(*indices: Any) -> Expr:
        value = _placed(sums, indices)
        return cast(dtype, as_expr(value if expression is None else expression(value, *indices)))

    names = [axis.var.name for axis in sums.op.axis]
    made: Tensor = compute(sums.shape if within else shape, element, name, "convolution,epilogue", varargs_names=names)
    return made
