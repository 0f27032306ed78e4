"""The geometry of windows that slide over an input: their extents, and the number of their positions.

All values are per spatial dimension. A padding has the zeros before each dimension, then the zeros after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Sizes = Sequence[Any]
"""An int per dimension, or a symbolic one of PyTorch's compiler."""


def extents(kernel: Sizes, dilation: Sizes) -> tuple[Any, ...]:
    """Return the extent of a window, from its first tap to its last."""
    return tuple((taps - 1) * apart + 1 for taps, apart in zip(kernel, dilation, strict=True))


def around(padding: Sizes) -> tuple[Any, ...]:
    """Return the number of zeros that pad each dimension, before and after it together."""
    half = len(padding) // 2
    return tuple(before + after for before, after in zip(padding[:half], padding[half:], strict=True))


def padded(sizes: Sizes, padding: Sizes) -> tuple[Any, ...]:
    """Return the sizes of the padded input."""
    return tuple(size + zeros for size, zeros in zip(sizes, around(padding), strict=True))


def positions(sizes: Sizes, window: Sizes, stride: Sizes, padding: Sizes) -> tuple[Any, ...]:
    """Return the number of positions of a window of these extents in the padded input."""
    each = zip(padded(sizes, padding), window, stride, strict=True)
    return tuple((size - covered) // step + 1 for size, covered, step in each)


def transposed_positions(
    sizes: Sizes, window: Sizes, stride: Sizes, padding: Sizes, output_padding: Sizes
) -> tuple[Any, ...]:
    """Return the sizes of the result of a transposed convolution."""
    each = zip(sizes, window, stride, around(padding), output_padding, strict=True)
    return tuple((size - 1) * step - cut + covered + more for size, covered, step, cut, more in each)


def reach_beyond(size: int, before: int, after: int, covered: int, stride: int) -> int:
    """Return how far the last window of a pooling with `ceil_mode` reaches beyond the padded input.

    As in PyTorch, each window begins in the input or in the padding in front of it.
    """
    places = -(-(size + before + after - covered) // stride) + 1
    if (places - 1) * stride >= size + before:
        places -= 1
    return max(0, (places - 1) * stride + covered - size - before - after)


def is_short(kernel: Sizes, dilation: Sizes, padding: Sizes) -> bool:
    """Return whether a window slides along a line, and registers hold several windows.

    No window may see only padding.
    """
    (top, left, bottom, right), (rows, reach) = padding, (extent - 1 for extent in extents(kernel, dilation))
    line = rows == top == bottom == 0
    return bool(line and kernel[1] <= _MOST_SHORT_TAPS and reach <= _MOST_SHORT_REACH and max(left, right) <= reach)


_MOST_SHORT_TAPS = 8
_MOST_SHORT_REACH = 12
"""The taps, and the elements that they span, up to which a window along a line is short."""
