"""What callers give to operators, checked: tensors, and lists of one entry a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
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


def entries(given: Any, argument: str, data: Tensor, primitive: str) -> Sequence[Any]:
    """`given`, which must be a list of one entry for each dimension of `data`."""
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
    return given
