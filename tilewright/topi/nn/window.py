"""The window of a convolution: strides, dilations and every accepted form of padding, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...core.errors import UserError
from ...expr.nodes import Expr, IntImm
from ...expr.operators import as_expr, floordiv
from .given import tensor


def pair(value: Any, argument: str, primitive: str, least: int = 1) -> tuple[int, int]:
    """`value` as (vertical, horizontal): an int stands for both."""
    both = tuple(value) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or any(not isinstance(v, int) or v < least for v in both):
        raise UserError(
            f"argument {argument!r} is {value!r}", primitive=primitive, fix=f"give an int >= {least}, or a pair of them"
        )
    return both[0], both[1]


@dataclass(frozen=True)
class Padding:
    """Rows and columns of zeros around an image."""

    top: int
    left: int
    bottom: int
    right: int


def padding_of(padding: Any, kernel: tuple[Any, Any], primitive: str) -> Padding:
    """The padding that the legacy API's forms mean, for a kernel of `kernel` = (height, width) after dilation.

    An int for all sides; (vertical, horizontal); (top, left, bottom, right); "VALID" for none; "SAME" for an
    output as large as the input at stride 1 (an odd row or column goes to the bottom right). Raises UserError
    for anything else.
    """
    if isinstance(padding, str):
        if padding == "VALID":
            return Padding(0, 0, 0, 0)
        if padding == "SAME":
            height, width = (_constant(k, primitive) - 1 for k in kernel)
            return Padding((height + 1) // 2, (width + 1) // 2, height // 2, width // 2)
    elif isinstance(padding, int) and padding >= 0:
        return Padding(padding, padding, padding, padding)
    elif isinstance(padding, (tuple, list)) and all(isinstance(p, int) and p >= 0 for p in padding):
        if len(padding) == 2:
            return Padding(padding[0], padding[1], padding[0], padding[1])
        if len(padding) == 4:
            return Padding(*padding)
    raise UserError(
        f"argument 'padding' is {padding!r}",
        primitive=primitive,
        fix='give an int, (vertical, horizontal), (top, left, bottom, right), "SAME" or "VALID"; none below 0',
    )


def _constant(e: Any, primitive: str) -> int:
    extent = as_expr(e)
    if not isinstance(extent, IntImm):
        raise UserError(
            f'padding="SAME" needs a kernel of constant size, but it is `{extent}`',
            primitive=primitive,
            fix="give the padding in numbers",
        )
    return extent.value


def dilated(kernel: Any, dilation: int) -> Any:
    """The extent that a dilated kernel covers."""
    return (kernel - 1) * dilation + 1


def output_extent(size: Any, kernel: Any, before: int, after: int, stride: int, primitive: str, side: str) -> Expr:
    """How many positions a window of `kernel` has; UserError where it does not fit once."""
    extent = floordiv(as_expr(size) - kernel + before + after, stride) + 1
    if isinstance(extent, IntImm) and extent.value < 1:
        raise UserError(
            f"the kernel's {side} {kernel} is larger than the padded input's, {size} + {before} + {after}",
            primitive=primitive,
            fix="pad more, or use a smaller kernel or dilation",
        )
    return extent


def four(given: Any, argument: str, layout: str, primitive: str) -> tuple[Expr, Expr, Expr, Expr]:
    """The four extents of a tensor; UserError for another rank, and for no tensor."""
    data = tensor(given, argument, primitive)
    if data.ndim != 4:
        raise UserError(
            f"{argument} {data.name!r} has the shape {list(data.shape)}",
            primitive=primitive,
            fix=f"give a 4-dimensional tensor of layout {layout}",
        )
    a, b, c, d = data.shape
    return a, b, c, d


def same_extent(a: Expr, b: Expr, what: str, primitive: str) -> None:
    """Check that two extents agree where both are known."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise UserError(f"{what}: {a.value} and {b.value} differ", primitive=primitive, fix="make the shapes agree")
