"""Normalisation of channels: of batches, and of groups of channels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...core.errors import UserError
from ...expr.intrinsics import TABLE
from ...expr.nodes import Expr
from ...expr.operators import cast, const, floordiv, floormod
from ...tensor.tensor import Tensor, compute
from ..argument_checks import dimension, dimensions, divisor, flag, integer, rank_of, same, tensor
from .normalization import NormalizedGroup, floats
from .sums import rounded_once

_rsqrt, _sqrt = TABLE["rsqrt"], TABLE["sqrt"]


def batch_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    moving_mean: Tensor,
    moving_var: Tensor,
    axis: int | None = None,
    epsilon: float | None = None,
    center: bool | None = None,
    scale: bool | None = None,
    training: bool | None = None,
    momentum: float | None = None,
) -> list[Tensor]:
    """Normalise each channel by a mean and a variance: in training the data's own, else the moving ones.

    Parameters
    ----------
    data
        A tensor of floats.
    gamma, beta
        The factor and the summand of each channel.
    moving_mean, moving_var
        The mean and the variance of each channel, as training has gathered them so far.
    axis
        The dimension of channels, by default 1.
    epsilon
        Added to the variance, by default 1e-5.
    center, scale
        Whether `beta` is added, and whether `gamma` multiplies; by default both.
    training
        Whether channels are normalised by their own mean and variance, which are gathered; by default they are not.
    momentum
        The fraction of the data's mean and variance in the new ones, in training; by default 0.1.

    Returns
    -------
    [the normalised tensor, moving_mean, moving_var]: the last two as copies, or in training their new values.

    Raises
    ------
    UserError
        For integers, if a channel's tensors do not have an element per channel, or if the momentum is not from 0 to 1.

    Notes
    -----
    The variance is that of all elements of the channel, not divided by one less.
    """
    data = floats(data, "batch_norm")
    channel = dimension(1 if axis is None else axis, data.ndim, "batch_norm")
    given = {"gamma": gamma, "beta": beta, "moving_mean": moving_mean, "moving_var": moving_var}
    _per_channel(given, data, channel, "batch_norm")
    factor, shift = gamma if scale is not False else None, beta if center is not False else None
    small = 1e-5 if epsilon is None else epsilon
    if flag(training, "training", "batch_norm"):
        part = 0.1 if momentum is None else momentum
        return _trained(data, channel, (factor, shift), (moving_mean, moving_var), (small, part))

    def element(*i: Any) -> Any:
        c = i[channel]
        scale = [each(c) for each in (factor, shift) if each is not None]
        return rounded_once(normalized, data(*i), moving_mean(c), moving_var(c), *scale)

    def normalized(value: Expr, mean: Expr, variance: Expr, *scale: Expr) -> Expr:
        value = (value - mean) / _sqrt(variance + const(small, variance.dtype))
        value = value if factor is None else value * scale[0]
        return value if shift is None else value + scale[-1]

    made: Tensor = compute(data.shape, element, "T_batch_norm", "broadcast")
    kept = (
        compute(old.shape, lambda c, old=old: old(c), name, "broadcast")
        for old, name in ((moving_mean, "T_moving_mean"), (moving_var, "T_moving_var"))
    )
    return [made, *kept]


def _trained(
    data: Tensor,
    channel: int,
    affine: tuple[Tensor | None, Tensor | None],
    moving: tuple[Tensor, Tensor],
    numbers: tuple[float, Any],
) -> list[Tensor]:
    """Normalise channels by their own mean and variance, and move the moving averages towards these."""
    small, part = numbers
    if isinstance(part, bool) or not isinstance(part, (int, float)) or not 0 <= part <= 1:
        raise UserError(
            f"argument 'momentum' is {part!r}, which is not a number from 0 to 1",
            primitive="batch_norm",
            fix="give a number from 0 to 1, such as 0.1",
        )
    group = NormalizedGroup(data, [d for d in range(data.ndim) if d != channel], "batch_norm")
    mean, variance = group.moments("T_batch_norm")
    factor, shift = affine

    def element(*i: Any) -> Any:
        c = i[channel]
        value = (group.value(i) - mean([c])) / _sqrt(variance([c]) + const(small, group.kind))
        value = value if factor is None else value * cast(group.kind, factor(c))
        value = value if shift is None else value + cast(group.kind, shift(c))
        return cast(data.dtype, value)

    def moved(old: Tensor, new: Any, name: str) -> Tensor:
        def element(c: Any) -> Any:
            return cast(old.dtype, cast(group.kind, old(c)) * (1.0 - part) + new([c]) * part)

        made: Tensor = compute(old.shape, element, name, "broadcast")
        return made

    made: Tensor = compute(data.shape, element, "T_batch_norm", "broadcast")
    return [made, moved(moving[0], mean, "T_moving_mean"), moved(moving[1], variance, "T_moving_var")]


def _per_channel(given: dict[str, Any], data: Tensor, channel: int, primitive: str) -> None:
    """Check that tensors have an element per channel."""
    for name, each in given.items():
        rank_of(tensor(each, name, primitive), 1, name, primitive, "(channels,)")
        same(each.shape[0], data.shape[channel], f"elements of {name} and channels of data", primitive)


@dataclass(frozen=True)
class _Parts:
    """Channels in `count` groups of `per` neighbours: dimension `channel` as two."""

    channel: int
    count: int
    per: int

    def split(self, i: Sequence[Any]) -> list[Any]:
        """Replace the channel's index by the index of a group and of a channel in it."""
        c, per = i[self.channel], divisor(self.per)
        return [*i[: self.channel], floordiv(c, per), floormod(c, per), *i[self.channel + 1 :]]

    def number(self, i: Sequence[Any]) -> Any:
        """The channel of an element in groups."""
        return i[self.channel] * self.per + i[self.channel + 1]

    def joined(self, i: Sequence[Any]) -> list[Any]:
        """Indices with group and channel as one."""
        return [*i[: self.channel], self.number(i), *i[self.channel + 2 :]]

    def of(self, data: Tensor) -> Tensor:
        """The data in groups."""
        shape = [*data.shape[: self.channel], self.count, self.per]
        made: Tensor = compute(
            [*shape, *data.shape[self.channel + 1 :]], lambda *i: data(*self.joined(i)), "T_group", "injective"
        )
        return made


def group_norm(
    data: Tensor,
    gamma: Tensor,
    beta: Tensor,
    num_groups: int,
    channel_axis: int,
    axes: Any,
    epsilon: float = 1e-5,
) -> Tensor:
    """Normalise groups of channels by their mean and variance, and scale by channel.

    Parameters
    ----------
    data
        A tensor of floats.
    gamma, beta
        The factor and the summand of each channel.
    num_groups
        How many groups the channels are divided into, each of neighbours.
    channel_axis
        The dimension of channels.
    axes
        The other dimensions that are normalised together, the channels' not among them.
    epsilon
        Added to the variance.

    Returns
    -------
    A tensor of the shape and type of `data`.

    Raises
    ------
    UserError
        If the groups do not divide the channels.
    """
    data = floats(data, "group_norm")
    channel = dimension(channel_axis, data.ndim, "group_norm")
    inner = dimensions(axes, data.ndim, "group_norm", "axes")
    parts = _parts(data, channel, integer(num_groups, "num_groups", "group_norm", 1), inner)
    _per_channel({"gamma": gamma, "beta": beta}, data, channel, "group_norm")
    group = NormalizedGroup(parts.of(data), [channel + 1, *(d if d < channel else d + 1 for d in inner)], "group_norm")
    mean, variance = group.moments("T_group_norm")

    def value(i: Sequence[Any]) -> Any:
        at, c = group.of(i), parts.number(i)
        scale = _rsqrt(variance(at) + const(epsilon, group.kind)) * cast(group.kind, gamma(c))
        return (group.value(i) - mean(at)) * scale + cast(group.kind, beta(c))

    normal = group.each(value, "T_group_norm")
    made: Tensor = compute(data.shape, lambda *i: normal(*parts.split(i)), "T_group_norm_out", "injective")
    return made


def _parts(data: Tensor, channel: int, count: int, inner: Sequence[int]) -> _Parts:
    """The channels in `count` groups, which they must divide into."""
    channels = getattr(data.shape[channel], "value", None)
    if channel in inner or channels is None or channels % count:
        raise UserError(
            f"num_groups={count} and axes={list(inner)} do not fit the {data.shape[channel]} channels in dimension "
            f"{channel}",
            primitive="group_norm",
            fix="give a divisor of the channels, and axes without the channel dimension",
        )
    return _Parts(channel, count, channels // count)
