"""The accumulation type of operators, and the conversion of their sums to the type of the elements."""

from __future__ import annotations

from collections.abc import Callable

from ...core.dtype import FLOAT32, DType
from ...expr.nodes import Expr
from ...expr.operators import cast, divide, truncdiv
from ...tensor.tensor import Tensor, compute


def sum_type(dtype: DType) -> DType:
    """Return `dtype`, or one of 32 bits for narrower numbers: a float16 stops growing at 2048 ones, an int8 wraps."""
    if dtype.bits >= 32 or dtype.is_bool:
        return dtype
    return FLOAT32 if dtype.is_float else DType(f"{dtype.kind}32")


def quotient(total: Expr, count: Expr) -> Expr:
    """Return a sum divided by the number of its elements; integers round towards 0."""
    return divide(total, count) if total.dtype.is_float else truncdiv(total, count)


def rounded_once(value: Callable[..., Expr], *operands: Expr) -> Expr:
    """Return `value` of some operands; in 16 bits it is computed in float32, so that only the result is rounded."""
    plain = value(*operands)
    kind = sum_type(plain.dtype)
    if kind == plain.dtype or not kind.is_float:
        return plain
    return cast(plain.dtype, value(*(cast(kind, each) for each in operands)))


def narrowed(total: Tensor, kind: DType) -> Tensor:
    """Convert sums to the type `kind`; sums of this type stay as they are."""
    if total.dtype == kind:
        return total
    made: Tensor = compute(total.shape, lambda *i: cast(kind, total(*i)), f"{total.op.name}_narrow", "elemwise")
    return made
