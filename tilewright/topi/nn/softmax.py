"""softmax and its logarithm."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import UserError
from ...expr.intrinsics import TABLE
from ...expr.nodes import Expr
from ...expr.operators import cast
from ...tensor import reduction as te
from ...tensor.axis import IterVar, reduce_axis
from ...tensor.tensor import Tensor, compute
from ..argument_checks import dimension, tensor
from .sums import sum_type

_exp, _log = TABLE["exp"], TABLE["log"]


class Rows:
    """The rows of a tensor along one dimension, and where their elements stand."""

    def __init__(self, x: Any, axis: Any, primitive: str) -> None:
        self.x = tensor(x, "x", primitive)
        if not self.x.dtype.is_float:
            raise UserError(
                f"x {self.x.name!r} has type {self.x.dtype}, which is not a floating-point type",
                primitive=primitive,
                fix='convert it: topi.cast(x, "float32")',
            )
        self.axis = dimension(axis, self.x.ndim, primitive)
        self.kept = [n for d, n in enumerate(self.x.shape) if d != self.axis]
        self.kind = sum_type(self.x.dtype)

    def value(self, indices: Sequence[Any]) -> Expr:
        """An element, in the type of the sums."""
        return cast(self.kind, self.x(*indices))

    def of(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of an element without its place in the row."""
        return [i for d, i in enumerate(indices) if d != self.axis]

    def element(self, row: Sequence[Any], k: IterVar) -> list[Any]:
        """The indices of the element `k` of a row."""
        return [*row[: self.axis], k, *row[self.axis :]]

    def reduce(self, reducer: Callable[..., Any], value: Callable[..., Any], name: str) -> Tensor:
        """The tensor that holds for each row the reduction of `value(indices of the row, indices of the element)`."""
        k = reduce_axis((0, self.x.shape[self.axis]), name="k")
        made: Tensor = compute(self.kept, lambda *row: reducer(value(row, self.element(row, k)), axis=k), name)
        return made

    def each(self, value: Callable[..., Expr], name: str, tag: str) -> Tensor:
        """The tensor of `value(indices of the row, indices of the element)`, in the type of the data."""
        made: Tensor = compute(
            self.x.shape,
            lambda *i: cast(self.x.dtype, value(self.of(i), i)),
            name,
            tag,
            {"axis": self.axis},
        )
        return made


def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Compute exp(x - max) / sum(exp(x - max)) of each row.

    Parameters
    ----------
    x
        A tensor of floats; the sums are float32, or float64 for float64.
    axis
        The dimension along which rows lie.

    Returns
    -------
    A tensor of the shape and type of `x`.

    Raises
    ------
    UserError
        For integers, and for a dimension that the tensor does not have.
    """
    rows = Rows(x, axis, "softmax")
    high = rows.reduce(te.max, lambda row, at: rows.x(*at), "T_softmax_maxelem")

    def power(*i: Any) -> Expr:
        return _exp(rows.value(i) - cast(rows.kind, high(*rows.of(i))))

    part: Tensor = compute(rows.x.shape, power, "T_softmax_exp", "elemwise")
    total = rows.reduce(te.sum, lambda row, at: part(*at), "T_softmax_expsum")
    return rows.each(lambda row, at: part(*at) / total(*row), "T_softmax_norm", "softmax_output")


fast_softmax = softmax  # the legacy name of an approximation; this function is exact


def softmax_common(x: Tensor, axis: int, use_fast_exp: bool = False) -> Tensor:
    """Compute `softmax`; its exponential function is exact, and `use_fast_exp` of old scripts has no effect."""
    return softmax(x, axis)


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """Compute the logarithm of `softmax`, with its arguments, of each row without overflow."""
    rows = Rows(x, axis, "log_softmax")
    high = rows.reduce(te.max, lambda row, at: rows.x(*at), "T_softmax_maxelem")

    def rest(row: Sequence[Any], at: Sequence[Any]) -> Expr:
        return rows.value(at) - cast(rows.kind, high(*row))

    total = rows.reduce(te.sum, lambda row, at: _exp(rest(row, at)), "T_softmax_expsum")
    return rows.each(lambda row, at: rest(row, at) - _log(total(*row)), "T_log_softmax", "log_softmax_output")
