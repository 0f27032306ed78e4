"""What windows mean in numbers, under the names of the legacy `topi.nn.utils`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.refusals import old_name as _old_name
from ...expr.nodes import Expr
from ...expr.operators import as_expr, floordiv
from ...tensor.tensor import Tensor
from ..utils import get_const_int
from .window import padding_sides


def _pad(padding: Any, kernel: Any, count: int, primitive: str) -> tuple[int, ...]:
    given = tuple(kernel) if isinstance(kernel, (tuple, list)) else (kernel,) * count
    before, after = padding_sides(padding, [as_expr(k) for k in given], primitive)
    return (*before, *after)


def get_pad_tuple1d(padding: Any, kernel: Any) -> tuple[int, int]:
    """Return the zeros (left, right) that a padding means for a kernel of this size.

    Parameters
    ----------
    padding : int, tuple or str
        A number for both sides, both in a tuple, "SAME" or "VALID".
    kernel : int or tuple of int
        How much of the line the kernel covers, dilation included.
    """
    left, right = _pad(padding, kernel, 1, "get_pad_tuple1d")
    return left, right


def get_pad_tuple(padding: Any, kernel: Any) -> tuple[int, int, int, int]:
    """Return the zeros (top, left, bottom, right) that a padding means for a kernel of this size.

    Parameters
    ----------
    padding : int, tuple or str
        A number for all sides, (vertical, horizontal), all four, "SAME" or "VALID".
    kernel : tuple of int
        How much of the image the kernel covers, dilation included.
    """
    top, left, bottom, right = _pad(padding, kernel, 2, "get_pad_tuple")
    return top, left, bottom, right


def get_pad_tuple3d(padding: Any, kernel: Any) -> tuple[int, int, int, int, int, int]:
    """Return the zeros (front, top, left, back, bottom, right) that a padding means for a kernel of this size."""
    front, top, left, back, bottom, right = _pad(padding, kernel, 3, "get_pad_tuple3d")
    return front, top, left, back, bottom, right


def infer_pad(data: Tensor, data_pad: Tensor | None) -> tuple[Any, Any]:
    """Return the zeros (vertical, horizontal) on each side of images NCHW, of a tensor and its padded form."""
    if data_pad is None:
        return 0, 0
    sides = zip(data.shape[2:4], data_pad.shape[2:4], strict=True)
    vertical, horizontal = (get_const_int(floordiv(as_expr(b) - a, 2)) for a, b in sides)
    return vertical, horizontal


def infer_stride(data: Tensor, kernel: Tensor, out: Tensor) -> tuple[Any, Any]:
    """Return the strides (vertical, horizontal) of a convolution of images NCHW that makes `out` of `data`."""

    def stride(size: Any, window: Any, places: Any) -> Any:
        positions: Expr = as_expr(places)
        return get_const_int(floordiv(as_expr(size) - window, positions - 1)) if get_const_int(positions) > 1 else 1

    sizes: Sequence[Any] = data.shape[2:4]
    vertical, horizontal = map(stride, sizes, kernel.shape[2:4], out.shape[2:4])
    return vertical, horizontal


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
