"""Tensors of one value, and sums of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr.nodes import Expr
from ..expr.operators import as_expr, cast, const
from ..tensor.tensor import Tensor, compute
from .argument_checks import element_type, tensor, tensors
from .tag import ELEMWISE


def full(shape: Sequence[Any], dtype: Any, fill_value: Any) -> Tensor:
    """Make a tensor of one value.

    Parameters
    ----------
    shape
        Its extents.
    dtype
        The type of its elements.
    fill_value
        A number or a scalar expression, which is converted to `dtype`.

    Returns
    -------
    The tensor.
    """
    kind = element_type(dtype, "full")
    return _filled(shape, _constant(fill_value, kind))


def full_like(x: Tensor, fill_value: Any) -> Tensor:
    """Make a tensor of one value, with the shape and type of another tensor.

    Parameters
    ----------
    x
        The tensor with the shape and type of the result.
    fill_value
        A number or a scalar expression, which is converted to that type.

    Returns
    -------
    The tensor.
    """
    like = tensor(x, "x", "full_like")
    return _filled(like.shape, _constant(fill_value, like.dtype))


def zeros(shape: Sequence[Any], dtype: Any = "float32") -> Tensor:
    """Make a tensor of zeros of the given shape and type."""
    return full(shape, dtype, 0)


def ones(shape: Sequence[Any], dtype: Any = "float32") -> Tensor:
    """Make a tensor of ones of the given shape and type."""
    return full(shape, dtype, 1)


def zeros_like(x: Tensor) -> Tensor:
    """Make a tensor of zeros, with the shape and type of another tensor."""
    return full_like(x, 0)


def ones_like(x: Tensor) -> Tensor:
    """Make a tensor of ones, with the shape and type of another tensor."""
    return full_like(x, 1)


def _constant(value: Any, kind: Any) -> Expr:
    return const(value, kind) if isinstance(value, (bool, int, float)) else cast(kind, as_expr(value))


def _filled(shape: Sequence[Any], value: Expr) -> Tensor:
    made: Tensor = compute(shape, lambda *_: value, "T_full", ELEMWISE)
    return made


def elemwise_sum(xs: Sequence[Tensor]) -> Tensor:
    """Add tensors of one shape.

    Parameters
    ----------
    xs
        At least one tensor; all have the same shape.

    Returns
    -------
    Their sum.

    Raises
    ------
    UserError
        If the shapes differ.
    """
    given = tensors(xs, "xs", "elemwise_sum")
    first = given[0]
    for other in given[1:]:
        if other.ndim != first.ndim or any(
            _number(a) != _number(b) for a, b in zip(other.shape, first.shape, strict=True)
        ):
            raise UserError(
                f"{first.name!r} has the shape {list(first.shape)} and {other.name!r} {list(other.shape)}",
                primitive="elemwise_sum",
                fix="give tensors of one shape; topi.add broadcasts",
            )

    def element(*indices: Any) -> Any:
        total: Any = first(*indices)
        for other in given[1:]:
            total = total + other(*indices)
        return total

    made: Tensor = compute(first.shape, element, "T_elemwise_sum", ELEMWISE)
    return made


def _number(extent: Expr) -> Any:
    return getattr(extent, "value", extent)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
