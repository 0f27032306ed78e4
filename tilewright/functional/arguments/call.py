"""One call of an operator as a value, from its public function to its plan.

A public function passes on names, arrays and options unchanged, so that looking up a prepared call costs little. An
`OperatorCall` is created if there is no prepared call.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .problem import AVG_POOL, CONV, GRADIENTS, MAX_POOL, TRANSPOSED

ARRAYS = ("x", "weight", "bias", "residual", "out")
"""The names of a call's arrays, in the order of arguments."""


class Operator(NamedTuple):
    """A public function, or the gradient of one: its operation, and its number of spatial dimensions."""

    name: str
    op: str
    rank: int
    depthwise: bool = False


OPERATORS = {
    operator.name: operator
    for operator in (
        Operator("conv1d", CONV, 1),
        Operator("conv2d", CONV, 2),
        Operator("depthwise_conv2d", CONV, 2, depthwise=True),
        Operator("conv_transpose1d", TRANSPOSED, 1),
        Operator("conv_transpose2d", TRANSPOSED, 2),
        Operator("max_pool2d", MAX_POOL, 2),
        Operator("avg_pool2d", AVG_POOL, 2),
        *(Operator(f"{op}{rank}d", op, rank) for op in GRADIENTS for rank in (1, 2)),
    )
}
PUBLIC = tuple(name for name, operator in OPERATORS.items() if operator.op not in GRADIENTS)
"""The names of the public functions."""


class CallOptions(NamedTuple):
    """The options of a call as given; each operator uses some of them."""

    stride: Any = 1
    padding: Any = 0
    dilation: Any = 1
    groups: Any = 1
    """The number of groups. None, the default of a depthwise convolution, means one group per channel."""
    activation: Any = None
    layout: Any = None
    output_padding: Any = 0
    kernel_size: Any = None
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: Any = None
    return_indices: bool = False
    tune: Any = None
    precision: Any = "fp32"
    biased: bool = False
    """Whether a weight gradient includes the gradient of the bias."""
    wide: bool = False
    """Whether a weight gradient has the type of its sums, unrounded."""


_WINDOW = ("stride", "padding", "dilation", "groups", "activation", "layout", "tune")
_FIELDS = {
    CONV: (*_WINDOW, "precision"),
    TRANSPOSED: (*_WINDOW, "output_padding"),
    MAX_POOL: ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices", "layout", "tune"),
    AVG_POOL: (
        *("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override", "layout", "tune"),
    ),
}
"""The options of each operation, in the order in which its public functions pass them on."""


class OperatorCall(NamedTuple):
    """One call: the operator's name, the arrays (all but `x` may be None), and the options as given."""

    name: str
    x: Any
    weight: Any
    bias: Any
    residual: Any
    out: Any
    options: CallOptions

    @property
    def arrays(self) -> tuple[Any, ...]:
        """The arrays, in the order of `ARRAYS`."""
        return self.x, self.weight, self.bias, self.residual, self.out

    @property
    def operator(self) -> Operator:
        """The operator."""
        return OPERATORS[self.name]


def operator_call(
    name: str, x: Any, weight: Any, bias: Any, residual: Any, out: Any, options: tuple[Any, ...]
) -> OperatorCall:
    """Return the call of a public function; `options` are in the order of the operator's fields."""
    named = CallOptions(**dict(zip(_FIELDS[OPERATORS[name].op], options, strict=True)))
    return OperatorCall(name, x, weight, bias, residual, out, named)


def is_left_out(stride: Any) -> bool:
    """Return whether a pooling's stride is missing, so that it defaults to the kernel size: None, or an empty
    sequence."""
    return stride is None or (isinstance(stride, (tuple, list)) and not stride)
