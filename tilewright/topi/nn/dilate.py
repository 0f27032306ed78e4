"""dilate: the elements of a tensor apart, with a value in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...expr.nodes import Expr
from ...expr.operators import all_of, const, equal, floordiv, floormod, if_then_else, is_const
from ...tensor.tensor import Tensor, compute
from ..argument_checks import entries, known, tensor


def dilate(data: Tensor, strides: Sequence[Any], dilation_value: Any = 0.0, name: str = "DilatedInput") -> Tensor:
    """`data` with strides[i] - 1 elements of `dilation_value` between neighbours along dimension i.

    Raises UserError if the number of strides is not the rank, or one is less than 1.
    """
    tensor(data, "data", "dilate")
    steps = entries(strides, "strides", data, "dilate", least=1)
    shape = tuple(n if known(n) == 0 else (n - 1) * s + 1 for n, s in zip(data.shape, steps, strict=True))
    value = const(getattr(dilation_value, "value", dilation_value), data.dtype)

    def dilated(*indices: Any) -> Expr:
        source = [i if is_const(s, 1) else floordiv(i, s) for i, s in zip(indices, steps, strict=True)]
        on_grid = [equal(floormod(i, s), 0) for i, s in zip(indices, steps, strict=True) if not is_const(s, 1)]
        element = data(*source)
        return if_then_else(all_of(*on_grid), element, value) if on_grid else element

    made: Tensor = compute(shape, dilated, name=name, tag="injective,dilate")
    return made
