"""Normalisation: of layers, instances, by root mean square, by the L2 norm, and across channels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from ...core.errors import UserError
from ...expr.intrinsics import TABLE
from ...expr.operators import all_of, cast, const, if_then_else, maximum, multiply
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import dimension, dimensions, integer, rank_of, same, tensor
from .sums import sum_type

_rsqrt, _sqrt, _pow = TABLE["rsqrt"], TABLE["sqrt"], TABLE["pow"]


def floats(given: Any, primitive: str) -> Tensor:
    """The data, which must be a tensor of floats."""
    data = tensor(given, "data", primitive)
    if not data.dtype.is_float:
        raise UserError(
            f"data {data.name!r} has type {data.dtype}, which is not a floating-point type",
            primitive=primitive,
            fix='convert it: topi.cast(data, "float32")',
        )
    return data


class NormalizedGroup:
    """Elements that are normalised together: all elements along some dimensions of a tensor."""

    def __init__(self, data: Any, axis: Any, primitive: str) -> None:
        self.data = floats(data, primitive)
        self.axes = dimensions(axis, self.data.ndim, primitive)
        if not self.axes:
            raise UserError(
                f"argument 'axis' is {axis!r}, and data {self.data.name!r} has the shape {list(self.data.shape)}",
                primitive=primitive,
                fix="name at least one dimension: axis=-1",
            )
        self.kind = sum_type(self.data.dtype)
        self.kept = [n for d, n in enumerate(self.data.shape) if d not in self.axes]
        # The count is a float: there may be more elements than an integer of an extent's type counts.
        self.size: Any = reduce(multiply, (cast(self.kind, self.data.shape[d]) for d in self.axes))

    def value(self, indices: Sequence[Any]) -> Any:
        """An element, in the type of the sums."""
        return cast(self.kind, self.data(*indices))

    def of(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of an element without those along the group."""
        return [i for d, i in enumerate(indices) if d not in self.axes]

    def inside(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of an element along the group."""
        return [indices[d] for d in self.axes]

    def sum(self, value: Callable[..., Any], name: str) -> Tensor:
        """The sum of `value(indices of the group, indices of the element)` over each group."""
        terms = [reduce_axis((0, self.data.shape[d]), name=f"k{d}") for d in self.axes]

        def total(*group: Any) -> Any:
            kept, inner = iter(group), iter(terms)
            at = [next(inner) if d in self.axes else next(kept) for d in range(self.data.ndim)]
            return reduce_sum(value(group, at), axis=terms)

        made: Tensor = compute(self.kept, total, name)
        return made

    def moments(self, name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """The mean of a group, and the mean square of the deviations."""
        total = self.sum(lambda group, at: self.value(at), f"{name}_sum")

        def mean(group: Sequence[Any]) -> Any:
            return total(*group) / self.size

        def square(group: Sequence[Any], at: Sequence[Any]) -> Any:
            rest = self.value(at) - mean(group)
            return multiply(rest, rest)

        spread = self.sum(square, f"{name}_square")
        return mean, lambda group: spread(*group) / self.size

    def each(self, value: Callable[..., Any], name: str) -> Tensor:
        """The tensor of `value(indices)`, in the type of the data."""
        made: Tensor = compute(self.data.shape, lambda *i: cast(self.data.dtype, value(i)), name, "row_output")
        return made


def weights(given: Any, name: str, group: NormalizedGroup, dims: Sequence[int], primitive: str) -> Tensor:
    found = tensor(given, name, primitive)
    rank_of(found, len(dims), name, primitive)
    for n, d in zip(found.shape, dims, strict=True):
        same(n, group.data.shape[d], f"extents of {name} and of dimension {d} of data", primitive)
    return found


def layer_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Normalise by mean and variance along dimensions, and scale each place there.

    Parameters
    ----------
    data
        A tensor of floats; the sums are float32, or float64 for float64.
    gamma, beta
        The factor and the summand of each place along `axis`; `beta` may be None.
    axis
        The dimensions that are normalised together: an int or several.
    epsilon
        Added to the variance.

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        For integers, and for shapes that do not fit each other.
    """
    return _scaled(data, gamma, beta, axis, epsilon, "layer_norm")


def instance_norm(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """The same as `layer_norm`, as in the legacy API; `group_norm` with a group per channel scales by channel.

    See `layer_norm` for the parameters.
    """
    return _scaled(data, gamma, beta, axis, epsilon, "instance_norm")


def _scaled(data: Tensor, gamma: Tensor, beta: Tensor | None, axis: Any, epsilon: float, name: str) -> Tensor:
    group = NormalizedGroup(data, axis, name)
    factor = weights(gamma, "gamma", group, group.axes, name)
    shift = None if beta is None else weights(beta, "beta", group, group.axes, name)
    mean, variance = group.moments(f"T_{name}")

    def value(i: Sequence[Any]) -> Any:
        at, place = group.of(i), group.inside(i)
        scaled = (group.value(i) - mean(at)) * _rsqrt(variance(at) + const(epsilon, group.kind))
        scaled = scaled * cast(group.kind, factor(*place))
        return scaled if shift is None else scaled + cast(group.kind, shift(*place))

    return group.each(value, f"T_{name}")


def rms_norm(data: Tensor, weight: Tensor, axis: Any, epsilon: float = 1e-5) -> Tensor:
    """Divide by the root of the mean square along dimensions, and scale each place there.

    Parameters
    ----------
    data
        A tensor of floats.
    weight
        The factor of each place along `axis`.
    axis
        The dimensions that are normalised together: an int or several.
    epsilon
        Added to the mean square.

    Returns
    -------
    A tensor of the shape and type of `data`.
    """
    group = NormalizedGroup(data, axis, "rms_norm")
    factor = weights(weight, "weight", group, group.axes, "rms_norm")
    square = group.sum(lambda _, at: multiply(group.value(at), group.value(at)), "T_rms_norm_square")

    def value(i: Sequence[Any]) -> Any:
        scale = _rsqrt(square(*group.of(i)) / group.size + const(epsilon, group.kind))
        return group.value(i) * scale * cast(group.kind, factor(*group.inside(i)))

    return group.each(value, "T_rms_norm")


def l2_normalize(data: Tensor, eps: float, axis: Any = None) -> Tensor:
    """Divide by the L2 norm along dimensions.

    Parameters
    ----------
    data
        A tensor of floats.
    eps
        The least sum of squares that is divided by.
    axis
        The dimensions that are normalised together: an int, several, or None for all.

    Returns
    -------
    A tensor of the shape and type of `data`.
    """
    group = NormalizedGroup(data, axis, "l2_normalize")
    square = group.sum(lambda _, at: multiply(group.value(at), group.value(at)), "T_l2_square")

    def value(i: Sequence[Any]) -> Any:
        return group.value(i) / _sqrt(maximum(square(*group.of(i)), const(eps, group.kind)))

    return group.each(value, "T_l2_normalize")


def lrn(data: Tensor, size: int, axis: int = 1, alpha: float = 0.0001, beta: float = 0.75, bias: float = 2.0) -> Tensor:
    """Divide by a power of the squares of neighbouring channels: local response normalisation.

    Each element is divided by `(bias + alpha / size * sum of squares) ** beta`. The sum runs over the existing channels
    among the `size` channels around it.

    Parameters
    ----------
    data
        A tensor of floats; the sums are float32, or float64 for float64.
    size
        How many channels there are in a window: an odd number.
    axis
        The dimension of channels.
    alpha, beta, bias
        The numbers of the formula.

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        For integers, and for a window of an even number of channels.
    """
    data = floats(data, "lrn")
    channel, width = dimension(axis, data.ndim, "lrn"), integer(size, "size", "lrn", 1)
    if width % 2 == 0:
        raise UserError(
            f"argument 'size' is {size}, which is even", primitive="lrn", fix="give an odd number of channels: size=5"
        )
    k, kind = reduce_axis((0, width), name="k"), sum_type(data.dtype)

    def squares(*i: Any) -> Any:
        c = i[channel] + k - width // 2
        value = cast(kind, data(*i[:channel], c, *i[channel + 1 :]))
        inside = if_then_else(all_of(c >= 0, c < data.shape[channel]), multiply(value, value), const(0.0, kind))
        return reduce_sum(inside, axis=k)

    square: Tensor = compute(data.shape, squares, "T_lrn_square")

    def element(*i: Any) -> Any:
        divisor = _pow(const(bias, kind) + const(alpha / width, kind) * square(*i), const(beta, kind))
        return cast(data.dtype, cast(kind, data(*i)) / divisor)

    made: Tensor = compute(data.shape, element, "T_lrn", "broadcast,lrn")
    return made
