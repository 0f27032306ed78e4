"""Element-wise operators that follow convolutions."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.nodes import Expr
from ...expr.operators import const, greater, maximum, multiply, select
from ...tensor.tensor import Tensor, compute
from ..argument_checks import dimension, rank_of, same, tensor
from .sums import rounded_once


def relu(x: Tensor) -> Tensor:
    """max(x, 0), element by element."""
    tensor(x, "x", "relu")
    made: Tensor = compute(x.shape, lambda *i: maximum(x(*i), const(0, x.dtype)), tag="elemwise")
    return made


def leaky_relu(x: Tensor, alpha: float) -> Tensor:
    """x if x > 0, else alpha * x."""
    tensor(x, "x", "leaky_relu")

    def element(*indices: Any) -> Any:
        value = x(*indices)
        return select(greater(value, 0), value, multiply(value, const(alpha, x.dtype)))

    made: Tensor = compute(x.shape, element, tag="elemwise")
    return made


def prelu(x: Tensor, slope: Tensor, axis: int = 1) -> Tensor:
    """Compute x if x > 0, else x times the slope of its channel.

    Parameters
    ----------
    x
        A tensor of floats.
    slope
        A slope per channel: a tensor of one dimension.
    axis
        The dimension of channels.

    Returns
    -------
    A tensor of the shape and type of `x`.

    Raises
    ------
    UserError
        If there is not one slope per channel.
    """
    data = tensor(x, "x", "prelu")
    channel = dimension(axis, data.ndim, "prelu")
    factor = rank_of(tensor(slope, "slope", "prelu"), 1, "slope", "prelu", "(channels,)")
    same(factor.shape[0], data.shape[channel], "elements of slope and channels of x", "prelu")

    def element(*indices: Any) -> Any:
        value = data(*indices)
        return select(greater(value, 0), value, multiply(value, factor(indices[channel])))

    made: Tensor = compute(data.shape, element, tag="broadcast")
    return made


def scale_shift_nchw(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input[n, c, h, w] * Scale[c] + Shift[c]."""
    _channels(Input, (1,), Scale, Shift)
    made: Tensor = compute(
        Input.shape,
        lambda b, c, i, j: _scaled(Input[b, c, i, j], Scale[c], Shift[c]),
        name="ScaleShift",
        tag="scale_shift_nchw",
    )
    return made


def scale_shift_nhwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input[n, h, w, c] * Scale[c] + Shift[c]."""
    _channels(Input, (3,), Scale, Shift)
    made: Tensor = compute(
        Input.shape,
        lambda b, i, j, c: _scaled(Input[b, i, j, c], Scale[c], Shift[c]),
        name="ScaleShift",
        tag="scale_shift_nhwc",
    )
    return made


def scale_shift_nchwc(Input: Tensor, Scale: Tensor, Shift: Tensor) -> Tensor:
    """Input[n, C, h, w, c] * Scale[C, c] + Shift[C, c], for images in blocks of channels."""
    _channels(Input, (1, 4), Scale, Shift)
    made: Tensor = compute(
        Input.shape,
        lambda b, block, i, j, c: _scaled(Input[b, block, i, j, c], Scale[block, c], Shift[block, c]),
        name="ScaleShift",
        tag="scale_shift_nchwc",
    )
    return made


scale_shift = scale_shift_nchw  # the oldest scripts' name


def _scaled(value: Expr, factor: Expr, shift: Expr) -> Expr:
    return rounded_once(lambda v, f, s: v * f + s, value, factor, shift)


def _channels(data: Tensor, axes: tuple[int, ...], scale: Tensor, shift: Tensor) -> None:
    tensor(data, "Input", "scale_shift")
    for name, factor in (("Scale", scale), ("Shift", shift)):
        tensor(factor, name, "scale_shift")
        if data.ndim != 3 + len(axes) or factor.ndim != len(axes):
            raise UserError(
                f"Input has the shape {list(data.shape)} and {name} {list(factor.shape)}",
                primitive="scale_shift",
                fix=f"give a {3 + len(axes)}-dimensional Input and a {len(axes)}-dimensional {name} of its channels",
            )
        for of_factor, axis in enumerate(axes):
            have, want = getattr(factor.shape[of_factor], "value", None), getattr(data.shape[axis], "value", None)
            if have is not None and want is not None and have != want:
                raise UserError(
                    f"{name} has {have} elements, but Input has {want} channels",
                    primitive="scale_shift",
                    fix="make them agree",
                )
