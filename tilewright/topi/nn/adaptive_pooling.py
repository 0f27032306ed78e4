"""Pooling to a given size: of all of an image, or of parts of it that are equal but for an element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
from ...expr import operators as o
from ...tensor.axis import reduce_axis
from ...tensor.tensor import Tensor
from ..argument_checks import integers, known, one_of, tensor
from ..layout import spatial_of
from .pooling import HOW, average, lowest, pooled


def global_pool(data: Tensor, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool each channel of each image to one value.

    Parameters
    ----------
    data
        A tensor of layout `layout`, with constant height and width.
    pool_type
        "max" or "avg".
    layout
        A letter per dimension, H and W among them.

    Returns
    -------
    A tensor of the same layout, of height and width 1.
    """
    return _adaptive(data, 1, pool_type, layout, "HW", "global_pool")


def adaptive_pool(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCHW") -> Tensor:
    """Pool images to a given size: window i of n reaches from floor(i * size / n) to ceil((i + 1) * size / n).

    Parameters
    ----------
    data
        A tensor of layout `layout`, with constant height and width.
    output_size
        The height and width of the result: an int or a pair.
    pool_type
        "max" or "avg".
    layout
        A letter per dimension, H and W among them.

    Returns
    -------
    A tensor of the same layout.
    """
    return _adaptive(data, output_size, pool_type, layout, "HW", "adaptive_pool")


def adaptive_pool1d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCW") -> Tensor:
    """Pool lines to a given length, as `adaptive_pool` does images."""
    return _adaptive(data, output_size, pool_type, layout, "W", "adaptive_pool1d")


def adaptive_pool3d(data: Tensor, output_size: Any, pool_type: str, layout: str = "NCDHW") -> Tensor:
    """Pool volumes to a given size, as `adaptive_pool` does images."""
    return _adaptive(data, output_size, pool_type, layout, "DHW", "adaptive_pool3d")


def _adaptive(data: Any, output_size: Any, how: Any, layout: Any, spatial: str, primitive: str) -> Tensor:
    source = tensor(data, "data", primitive)
    one_of(how, HOW, "pool_type", primitive)
    dims = spatial_of(source, layout, spatial, primitive)
    wanted = integers(output_size, len(dims), "output_size", primitive, 1)
    sizes = [known(source.shape[d]) for d in dims]
    if None in sizes:
        raise UserError(
            f"{source.name!r} has the shape {list(source.shape)}, but its spatial extents must be constant",
            primitive=primitive,
            fix="give a tensor of constant height and width",
        )
    if 0 in sizes:
        raise UserError(
            f"{source.name!r} has the shape {list(source.shape)}, so every window is empty",
            primitive=primitive,
            fix="give a tensor with at least one element in each spatial dimension",
        )
    pairs = [(n or 1, m) for n, m in zip(sizes, wanted, strict=True)]
    # Windows differ by an element at most: the axes run over the largest, and conditions keep to each.
    longest = [max(-(-(i + 1) * n // m) - i * n // m for i in range(m)) for n, m in pairs]
    taps = [reduce_axis((0, k), name=f"r{i}") for i, k in enumerate(longest)]
    shape = [o.const(wanted[dims.index(d)]) if d in dims else n for d, n in enumerate(source.shape)]

    def reach(place: Any, n: int, m: int) -> tuple[Any, Any]:
        return o.floordiv(place * n, m), o.floordiv((place + 1) * n + m - 1, m)

    def value(i: Sequence[Any]) -> Any:
        at, inside = list(i), []
        for d, tap, (n, m) in zip(dims, taps, pairs, strict=True):
            begin, end = reach(i[d], n, m)
            at[d] = begin + tap
            inside += [o.less(at[d], end)] if n % m else []
        outside = lowest(source) if how == "max" else o.const(0, source.dtype)
        return o.if_then_else(o.all_of(*inside), source(*at), outside) if inside else source(*at)

    made = pooled(shape, value, taps, f"adaptive_pool_{how}")
    if how == "max":
        return made

    def count(i: Sequence[Any]) -> Any:
        total: Any = o.const(1)
        for d, (n, m) in zip(dims, pairs, strict=True):
            begin, end = reach(i[d], n, m)
            total = total * (end - begin)
        return total

    return average(made, count, source.dtype)
