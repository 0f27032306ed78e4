"""pad: a border of one value around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expr.nodes import Expr
from ...expr.operators import all_of, const, if_then_else, is_const
from ...tensor.tensor import Tensor, compute
from ..argument_checks import entries, tensor


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """`data` with pad_before[i] elements of `pad_value` before dimension i and pad_after[i] after it.

    `pad_after` defaults to `pad_before`. Raises UserError where the number of entries is not the rank, and where
    one is negative: that would crop.
    """
    tensor(data, "data", "pad")
    before = entries(pad_before, "pad_before", data, "pad", least=0)
    after = before if pad_after is None else entries(pad_after, "pad_after", data, "pad", least=0)
    shape = tuple(n + b + a for n, b, a in zip(data.shape, before, after, strict=True))
    value = const(getattr(pad_value, "value", pad_value), data.dtype)

    def padded(*indices: Any) -> Expr:
        inside: list[Expr] = []
        source: list[Any] = []
        for i, index in enumerate(indices):
            if is_const(before[i], 0) and is_const(after[i], 0):
                source.append(index)
                continue
            source.append(index - before[i])
            inside += [index >= before[i], index < data.shape[i] + before[i]]
        element = data(*source)
        return if_then_else(all_of(*inside), element, value) if inside else element

    made: Tensor = compute(shape, padded, name=name, tag="injective,pad", attrs=attrs)
    return made
