"""What callers give to operators, checked: tensors, and lists of one whole number a dimension."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.nodes import Expr
from ...tensor.axis import whole
from ...tensor.tensor import Tensor


def tensor(given: Any, argument: str, primitive: str) -> Tensor:
    """`given`, which must be a tensor."""
    if not isinstance(given, Tensor):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is no tensor",
            primitive=primitive,
            fix='give one: te.placeholder((1, 64, 56, 56), name="A"), or what an operator gave',
        )
    return given


def entries(given: Any, argument: str, data: Tensor, primitive: str, least: int) -> list[Expr]:
    """`given`, which must be a list of one integer, known to be less than `least` nowhere, a dimension of `data`."""
    if not isinstance(given, (list, tuple)):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is no list",
            primitive=primitive,
            fix=f"give one entry for each dimension of {data.name!r}: {[given] * data.ndim}",
        )
    if len(given) != data.ndim:
        raise UserError(
            f"{data.name!r} has {data.ndim} dimensions, but {argument} has {len(given)} entries",
            primitive=primitive,
            fix="give one entry a dimension",
        )
    found = [whole(each) for each in given]
    for each, number in zip(given, found, strict=True):
        if number is None or getattr(number, "value", least) < least:
            raise UserError(
                f"{argument} is {list(given)}, and {each!r} is no whole number of at least {least}",
                primitive=primitive,
                fix=f"give whole numbers from {least} on, or integer variables; "
                "to leave elements out, read only the others: te.compute(shape, lambda i: A[i + 1])",
            )
    return [number for number in found if number is not None]
