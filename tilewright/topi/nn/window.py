"""The window of a convolution: layouts, strides, dilations and every accepted form of padding, checked.

A layout is a word with one letter per dimension: N for images, C for channels, D, H and W for depth, height and width.
For kernels, O is for filters and I for channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import UserError
from ...core.padding import LEGACY_WORDS, padding_of
from ...expr.nodes import Expr, IntImm
from ...expr.operators import as_expr, floordiv
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor
from ..argument_checks import tensor
from .pad import pad

SPATIAL = {"D": "depth", "H": "height", "W": "width"}


class SlidingWindow:
    """A window that slides over the spatial dimensions of a tensor, which zeros may surround.

    `axes` are the reduction axes over the window, `extents` how many positions it has, by the letters of dimensions.
    """

    def __init__(
        self,
        data: Tensor,
        layout: str,
        kernel: Mapping[str, Expr],
        options: tuple[Any, Any, Any],
        primitive: str,
        axes: Mapping[str, str],
        name: str,
    ) -> None:
        """`options`: strides, padding and dilation as callers give them; `axes`: names of the reduction axes;
        `name`: that of the padded tensor."""
        letters = [letter for letter in SPATIAL if letter in layout]
        sizes = dict(zip(layout, data.shape, strict=True))
        strides, padding, dilation = options
        self._strides = dict(zip(letters, numbers(strides, len(letters), "stride", primitive), strict=True))
        self._dilation = dict(zip(letters, numbers(dilation, len(letters), "dilation", primitive), strict=True))
        covered = {d: (kernel[d] - 1) * self._dilation[d] + 1 for d in letters}
        before, after = (
            dict(zip(letters, side, strict=True)) for side in padding_sides(padding, list(covered.values()), primitive)
        )
        self.extents = {
            d: positions(sizes[d], covered[d], before[d], after[d], self._strides[d], primitive, d) for d in letters
        }
        self.axes = {d: reduce_axis((0, kernel[d]), name=axes[d]) for d in letters}
        zeros = [[side.get(letter, 0) for letter in layout] for side in (before, after)]
        self._padded = pad(data, zeros[0], zeros[1], name=name)
        self._layout = layout

    def element(self, at: Mapping[str, Any]) -> Any:
        """What the window shows at position `at`, an index by letter for each dimension; of images or channels, that
        one of the tensor."""
        steps = self._strides
        return self._padded[
            tuple(
                at[d] * steps[d] + self.axes[d] * self._dilation[d] if d in self.axes else at[d] for d in self._layout
            )
        ]


def numbers(value: Any, count: int, argument: str, primitive: str, least: int = 1) -> tuple[int, ...]:
    """Return `value` as one integer per dimension, for `count` dimensions; a single integer stands for all."""
    each = tuple(value) if isinstance(value, (tuple, list)) else (value,) * count
    if len(each) != count or any(not isinstance(v, int) or isinstance(v, bool) or v < least for v in each):
        raise UserError(
            f"argument {argument!r} is {value!r}, which is not a whole number of at least {least}"
            + f", or {count} of them" * (count > 1),
            primitive=primitive,
            fix=f"give an int >= {least}" + (f", or a {'pair' if count == 2 else 'tuple'} of them" * (count > 1)),
        )
    return each


def padding_sides(padding: Any, kernel: Sequence[Any], primitive: str) -> tuple[Sequence[int], Sequence[int]]:
    """Return the zeros before and after each dimension, for a kernel after dilation.

    `padding` is as in `core.padding.padding_of`, or a word of the legacy API. "VALID" means none. "SAME" means an
    output as large as the input at stride 1; an odd row or column is added at the top or left. Raises UserError for
    anything else.
    """
    covered = [_constant(k, primitive) for k in kernel] if isinstance(padding, str) and padding == "SAME" else kernel
    each = padding_of(primitive, padding, covered, (), LEGACY_WORDS)
    return each[: len(kernel)], each[len(kernel) :]


def _constant(e: Any, primitive: str) -> int:
    extent = as_expr(e)
    if not isinstance(extent, IntImm):
        raise UserError(
            f'padding="SAME" needs a kernel of constant size, but it is `{extent}`',
            primitive=primitive,
            fix="give the padding in numbers",
        )
    return extent.value


def positions(size: Any, kernel: Any, before: int, after: int, stride: int, primitive: str, letter: str) -> Expr:
    """How many positions a window of `kernel` has; raises UserError if it does not fit once."""
    extent = floordiv(as_expr(size) - kernel + before + after, stride) + 1
    if isinstance(extent, IntImm) and extent.value < 1:
        raise UserError(
            f"the kernel's {SPATIAL[letter]} {kernel} is larger than the padded input's, {size} + {before} + {after}",
            primitive=primitive,
            fix="pad more, or use a smaller kernel or dilation",
        )
    return extent


def extents(given: Any, argument: str, layout: str, primitive: str) -> dict[str, Expr]:
    """The extents of a tensor by the letters of its layout; UserError for another rank, and for no tensor."""
    data = tensor(given, argument, primitive)
    if data.ndim != len(layout):
        raise UserError(
            f"{argument} {data.name!r} has the shape {list(data.shape)}",
            primitive=primitive,
            fix=f"give a {len(layout)}-dimensional tensor of layout {layout}",
        )
    return dict(zip(layout, data.shape, strict=True))


def same_extent(a: Expr, b: Expr, what: str, primitive: str) -> None:
    """Check that two extents agree where both are known."""
    if isinstance(a, IntImm) and isinstance(b, IntImm) and a.value != b.value:
        raise UserError(f"{what}: {a.value} and {b.value} differ", primitive=primitive, fix="make the shapes agree")
