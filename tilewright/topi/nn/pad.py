"""pad: a border of one value around a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
from ...expr.nodes import Expr
from ...expr.operators import all_of, const, if_then_else, is_const
from ...tensor.tensor import Tensor, compute
from ..argument_checks import entries, known, one_of, tensor


def pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    pad_value: Any = 0.0,
    name: str = "PadInput",
    attrs: Any = None,
) -> Tensor:
    """`data` with pad_before[i] elements of `pad_value` before dimension i and pad_after[i] after it.

    `pad_after` defaults to `pad_before`. Raises UserError if the number of entries is not the rank, or one is negative,
    which would crop.
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


def mirror_pad(
    data: Tensor,
    pad_before: Sequence[Any],
    pad_after: Sequence[Any] | None = None,
    mode: str = "SYMMETRIC",
    name: str = "MirrorPadInput",
) -> Tensor:
    """`data` with a border that mirrors it.

    Parameters
    ----------
    data
        The tensor.
    pad_before, pad_after
        For each dimension, how many elements the border has before and after it; `pad_after` defaults to
        `pad_before`.
    mode
        "SYMMETRIC" mirrors the outermost elements too, "REFLECT" only the inner ones.
    name
        The name of the result.

    Returns
    -------
    The tensor with its border.

    Raises
    ------
    UserError
        If a border is wider than the mirrored elements.
    """
    tensor(data, "data", "mirror_pad")
    edge = int(one_of(mode, ("SYMMETRIC", "REFLECT"), "mode", "mirror_pad") == "REFLECT")
    before = entries(pad_before, "pad_before", data, "mirror_pad", least=0)
    after = before if pad_after is None else entries(pad_after, "pad_after", data, "mirror_pad", least=0)
    for d, n in enumerate(data.shape):
        size, wide = known(n), max((known(w) or 0 for w in (before[d], after[d])), default=0)
        if size is not None and wide > size - edge:
            raise UserError(
                f"the border of dimension {d} has {wide} elements, but only {size - edge} can be mirrored",
                primitive="mirror_pad",
                fix="pad less, or twice",
            )
    shape = tuple(n + b + a for n, b, a in zip(data.shape, before, after, strict=True))

    def mirrored(*indices: Any) -> Expr:
        source = []
        for i, b, a, n in zip(indices, before, after, data.shape, strict=True):
            at = i - b
            if not is_const(b, 0):
                at = if_then_else(at < 0, edge - 1 - at, at)
            if not is_const(a, 0):
                at = if_then_else(i - b >= n, 2 * n - 1 - edge - (i - b), at)
            source.append(at)
        return data(*source)

    made: Tensor = compute(shape, mirrored, name=name, tag="injective,pad")
    return made
