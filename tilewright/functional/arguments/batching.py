"""Batching rules: an operator on arrays with an additional dimension becomes one call without that dimension.

`vmap` of PyTorch and of JAX adds the dimension to some of the arrays. If the weights do not have the dimension, it is
merged into the batch. Otherwise it is merged into the channels, as further groups or as further filters of a shared
input.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from .problem import CONV, WEIGHT_GRADIENT

Array = Any


class Case(Enum):
    """The place of the additional dimension in a call that has none."""

    BATCH = "the batch"
    CHANNELS = "the channels"
    SUMS = "the batch of the sums alone: bias, residual and activation follow"


def case(op: str, has: tuple[bool, ...]) -> Case:
    """Return the case of an operator; `has` flags which of input, weights, bias and residual have the dimension."""
    if has[1] or (op == WEIGHT_GRADIENT and has[0]):
        return Case.CHANNELS
    return Case.SUMS if has[2] or not has[0] else Case.BATCH  # kernels read one bias; the sums may be shared


class Merged(NamedTuple):
    """A call with the additional dimension merged into its channels.

    Attributes
    ----------
    arrays : tuple
        Input, weights (or, for a weight gradient, the gradient of the result), bias and residual.
    channels, filters, groups : int
        The factors by which the numbers of channels, filters and groups grow.
    restore : callable
        Returns the result with the additional dimension first.
    """

    arrays: tuple[Array | None, ...]
    channels: int
    filters: int
    groups: int
    restore: Callable[[Array], Array]


def folded(a: Array) -> Array:
    """Merge the first two dimensions of an array: the dimension of `vmap`, and the batch."""
    return a.reshape((a.shape[0] * a.shape[1], *a.shape[2:]))


def unfolded(a: Array, size: int) -> Array:
    """The inverse of `folded`."""
    return a.reshape((size, a.shape[0] // size, *a.shape[1:]))


def merged(
    xp: Any, op: str, arrays: tuple[Array | None, ...], has: tuple[bool, ...], channel: int, groups: int
) -> Merged:
    """Return a call with the additional dimension of all arrays merged into their channels.

    Parameters
    ----------
    xp : module
        PyTorch or `jax.numpy`, which both have `moveaxis` and `broadcast_to`.
    op : str
        A convolution, a transposed convolution, or one of their gradients.
    arrays : tuple
        Input, weights, bias and residual. The last two may be None.
    has : tuple of bool
        Whether each array has the additional dimension, as its first. The input or the weights have it.
    channel : int
        The index of the input's channel dimension, not counting the additional one.
    """
    x, weights, bias, residual = arrays
    size = next(a.shape[0] for a, there in zip(arrays, has, strict=True) if there)  # type: ignore[union-attr]
    of_weight = op == WEIGHT_GRADIENT
    place = channel if of_weight else 0 if op == CONV or has[0] else 1
    """The dimension of the second array into which the additional dimension is merged."""
    if has[0] and has[1]:
        channels, filters, more, apart = size, size, size, 1
    elif has[1]:  # all share the input
        channels, filters, more, apart = 1, size, 1, groups
    else:  # weight gradients that share the gradient of the result
        channels, filters, more, apart = size, 1, 1, groups
    within = 1 if op != CONV and not of_weight else apart
    x = _into(xp, x, channel, apart) if has[0] else x
    weights = _into(xp, weights, place, within) if has[1] else weights
    bias, residual = (
        a if a is None else a if there else xp.broadcast_to(a, (size, *a.shape))
        for a, there in zip((bias, residual), has[2:], strict=True)
    )
    bias = bias if bias is None else _into(xp, bias, 0, apart)
    residual = residual if residual is None else _into(xp, residual, channel, apart)

    def restore(made: Array) -> Array:
        if not of_weight:
            return _out_of(xp, made, channel, size, apart)
        return _out_of(xp, made, 0, size, apart) if has[1] else _out_of(xp, made, 1, size, 1)

    return Merged((x, weights, bias, residual), channels, filters, more, restore)


def _into(xp: Any, a: Array, axis: int, groups: int) -> Array:
    """Merge the first dimension into the dimension `axis` of the rest, between the groups and the members of each
    group."""
    size, *shape = a.shape
    apart = a.reshape((size, *shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :]))
    moved = xp.moveaxis(apart, 0, axis + 1)
    return moved.reshape((*shape[:axis], size * shape[axis], *shape[axis + 1 :]))


def _out_of(xp: Any, a: Array, axis: int, size: int, groups: int) -> Array:
    """The inverse of `_into`."""
    shape = a.shape
    each = shape[axis] // size
    apart = a.reshape((*shape[:axis], groups, size, each // groups, *shape[axis + 1 :]))
    moved = xp.moveaxis(apart, axis + 1, 0)
    return moved.reshape((size, *shape[:axis], each, *shape[axis + 1 :]))
