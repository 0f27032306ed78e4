"""Convolutions of images of 8-bit integers, packed into blocks of four channels for dot products of four bytes."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError
from ..expr.operators import floordiv
from ..tensor.axis import reduce_axis
from ..tensor.tensor import Tensor, compute
from .argument_checks import integer, rank_of, same, sizes, tensor
from .nn.conv2d_blocked import blocked
from .nn.conv2d_blocked import conv2d_NCHWc_int8 as _of_layouts
from .tag import INJECTIVE

_BLOCK = 4
"""The channels of a block: the bytes of a word."""


def conv2d_NCHWc_int8(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, layout: str, out_dtype: Any = "int32",
    *more: Any,
) -> Tensor:  # fmt: skip
    """Convolve 8-bit integers by dot products of four channels.

    Parameters
    ----------
    data
        Images (N, CI, H, W), or packed ones (N, CI / 4, H, W, 4).
    kernel
        Kernels of shape `(CO, CI, KH, KW)` for plain images; for packed images `(CO / 4, CI / 4, KH, KW, 4, 4)`, with
        the channels of `data` last.
    stride, padding, dilation
        As for `topi.nn.conv2d_nchw`.
    layout
        "NCHW" or "NCHW4c".
    out_dtype
        The type to accumulate in. If a layout of the result is given here instead, the call means
        `topi.nn.conv2d_NCHWc_int8`, with its other arguments behind it.

    Returns
    -------
    A tensor (N, CO / 4, OH, OW, 4).

    Raises
    ------
    UserError
        For shapes that do not fit each other, and channels or filters that are not multiples of 4.
    """
    if isinstance(out_dtype, str) and out_dtype.startswith("NCHW"):
        return _of_layouts(data, kernel, stride, padding, dilation, layout, out_dtype, *more)
    return _convolved(data, kernel, (stride, padding, dilation), 1, out_dtype, "conv2d_NCHWc_int8")


def group_conv2d_NCHWc_int8(
    data: Tensor, kernel: Tensor, stride: Any, padding: Any, dilation: Any, groups: int, out_dtype: Any = "int32"
) -> Tensor:
    """Convolve groups of channels of 8-bit integers by dot products of four channels.

    Parameters
    ----------
    data
        Images (N, CI, H, W), or packed ones (N, CI / 4, H, W, 4).
    kernel
        Kernels (CO, CI / groups, KH, KW) for plain images; for packed ones (CO / 4, CI / groups / 4, KH, KW, 4, 4).
    stride, padding, dilation
        As for `topi.nn.conv2d_nchw`.
    groups
        How many groups of channels there are; each has a multiple of 4 channels and of 4 filters.
    out_dtype
        The type to accumulate in.

    Returns
    -------
    A tensor (N, CO / 4, OH, OW, 4).

    Raises
    ------
    UserError
        For shapes that do not fit each other, and groups with numbers of channels or filters that are not multiples of
        4.
    """
    name = "group_conv2d_NCHWc_int8"
    count = integer(groups, "groups", name, 1)
    return _convolved(data, kernel, (stride, padding, dilation), count, out_dtype, name)


def _convolved(data: Any, kernel: Any, window: Any, groups: int, out_dtype: Any, name: str) -> Tensor:
    x, w = tensor(data, "data", name), tensor(kernel, "kernel", name)
    if x.ndim == 4:
        x = _packed_images(x, groups, name)
        w = _packed_kernels(rank_of(w, 4, "kernel", name, "(filters, channels, height, width)"), groups, name)
    rank_of(x, 5, "data", name, "(N, CI, H, W), or (N, CI / 4, H, W, 4)")
    rank_of(w, 6, "kernel", name, "(CO / 4, CI / 4, KH, KW, 4, 4)")
    chunks, (all_chunks, filters) = sizes(w, [1], name)[0], (sizes(x, [1], name)[0], sizes(w, [0], name)[0])
    same(all_chunks, chunks * groups, "the blocks of channels of data, and of kernel in all groups", name)
    for each, at in ((x, 4), (w, 4), (w, 5)):
        same(each.shape[at], _BLOCK, f"the channels of a block of {each.name}, and 4", name)
    if filters % groups:
        raise UserError(
            f"{filters} blocks of filters do not divide into {groups} groups",
            primitive=name,
            fix="give each group the same number of blocks",
        )
    per_group = filters // groups
    chunk, lane = reduce_axis((0, chunks), name="ic_chunk"), reduce_axis((0, _BLOCK), name="ic_block")

    def channel(o: Any, _kh: Any, _kw: Any, _lane: Any) -> tuple[Any, Any]:
        return (floordiv(o, per_group) * chunks + chunk if groups > 1 else chunk), lane

    return blocked(
        x, (w.shape[0], w.shape[4]), w.shape[2:4], window, out_dtype, name,
        channel, lambda o, kh, kw, i: w(o, chunk, kh, kw, i, lane), [chunk, lane],
    )  # fmt: skip


def _packed_images(x: Tensor, groups: int, name: str) -> Tensor:
    """Images (N, C, H, W) as (N, C / 4, H, W, 4), which general schedules store."""
    (channels,) = sizes(x, [1], name)
    _fits(channels, groups, "channels of data", name)
    n, _, height, width = x.shape
    made: Tensor = compute(
        (n, channels // _BLOCK, height, width, _BLOCK),
        lambda i, c, y, z, k: x(i, c * _BLOCK + k, y, z),
        "packed_data",
        INJECTIVE,
        {"store": True},
    )
    return made


def _packed_kernels(w: Tensor, groups: int, name: str) -> Tensor:
    """Kernels (CO, CI, KH, KW) as (CO / 4, CI / 4, KH, KW, 4, 4), which general schedules store."""
    filters, channels = sizes(w, [0, 1], name)
    _fits(filters, groups, "filters of kernel", name)
    _fits(channels, 1, "channels of kernel", name)
    made: Tensor = compute(
        (filters // _BLOCK, channels // _BLOCK, *w.shape[2:], _BLOCK, _BLOCK),
        lambda o, c, kh, kw, i, k: w(o * _BLOCK + i, c * _BLOCK + k, kh, kw),
        "packed_kernel",
        INJECTIVE,
        {"store": True},
    )
    return made


def _fits(count: int, groups: int, what: str, name: str) -> None:
    if count % (_BLOCK * groups):
        raise UserError(
            f"{count} {what}" + f" in {groups} groups" * (groups > 1) + " do not divide into blocks of 4",
            primitive=name,
            fix="give a multiple of 4 per group, or use topi.nn.group_conv2d_nchw",
        )
