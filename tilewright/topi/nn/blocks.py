"""Operators between the spatial dimensions of images, their channels, and their batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.errors import UserError
from ...expr.nodes import Expr
from ...expr.operators import all_of, const, floordiv, floormod, if_then_else
from ...tensor.tensor import Tensor
from ..argument_checks import divisor, integer, integers, known, one_of, rank_of, sizes, tensor
from ..shapes import moved, ravelled, reshape


def flatten(data: Tensor) -> Tensor:
    """Make one dimension of all but the first.

    Parameters
    ----------
    data
        A tensor of at least one dimension.

    Returns
    -------
    A tensor of two dimensions.
    """
    source = tensor(data, "data", "flatten")
    if not source.ndim:
        raise UserError(
            f"data {source.name!r} has no dimensions",
            primitive="flatten",
            fix="give a tensor with at least one dimension",
        )
    rest: Any = const(1)
    for n in source.shape[1:]:
        rest = rest * n
    return reshape(source, (source.shape[0], rest))


batch_flatten = flatten


def depth_to_space(data: Tensor, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Tensor:
    """Move blocks of channels into the spatial dimensions.

    Parameters
    ----------
    data
        Images of layout `layout`; the number of channels is a multiple of block_size².
    block_size
        How many times as high and wide the result is.
    layout
        "NCHW" or "NHWC".
    mode
        Whether the channels of the result vary fastest ("DCR": block before channel) or slowest ("CRD"; the legacy
        API's documents spell it "CDR").

    Returns
    -------
    Images with a fraction 1 / block_size² of the channels.

    Raises
    ------
    UserError
        If the channels are not such a multiple.
    """
    size, source = _block(data, block_size, layout, "depth_to_space")
    one_of(mode, ("DCR", "CRD", "CDR"), "mode", "depth_to_space")
    at = dict(zip(layout, source.shape, strict=True))
    (channels,) = sizes(source, [layout.index("C")], "depth_to_space")
    if channels % size**2:
        raise UserError(
            f"{channels} channels do not divide into blocks of {size}×{size}",
            primitive="depth_to_space",
            fix=f"give a multiple of {size**2} channels",
        )
    left = channels // size**2
    shape = {**at, "C": const(left), "H": at["H"] * size, "W": at["W"] * size}

    def element(i: list[Any]) -> Expr:
        p = dict(zip(layout, i, strict=True))
        place = floormod(p["H"], size) * size + floormod(p["W"], size)
        channel = place * left + p["C"] if mode == "DCR" else p["C"] * size**2 + place
        p = {**p, "C": channel, "H": floordiv(p["H"], size), "W": floordiv(p["W"], size)}
        return source(*(p[d] for d in layout))

    return moved([shape[d] for d in layout], element, "depth_to_space")


def space_to_depth(data: Tensor, block_size: int, layout: str = "NCHW") -> Tensor:
    """Move blocks of the spatial dimensions into channels, block before channel.

    Parameters
    ----------
    data
        Images of layout `layout`; height and width are multiples of `block_size`.
    block_size
        How many times as high and wide the images are as the result.
    layout
        "NCHW" or "NHWC".

    Returns
    -------
    Images with block_size² times as many channels.

    Raises
    ------
    UserError
        If height or width is not such a multiple.
    """
    size, source = _block(data, block_size, layout, "space_to_depth")
    at = dict(zip(layout, source.shape, strict=True))
    for d in "HW":
        if (known(at[d]) or 0) % size:
            raise UserError(
                f"{d} has the extent {at[d]}, which blocks of {size} do not divide",
                primitive="space_to_depth",
                fix="pad the images first (topi.nn.pad), or use another block",
            )
    shape = {**at, "C": at["C"] * size**2, "H": floordiv(at["H"], size), "W": floordiv(at["W"], size)}

    def element(i: list[Any]) -> Expr:
        p = dict(zip(layout, i, strict=True))
        place = floordiv(p["C"], divisor(at["C"]))
        row, column = floordiv(place, size), floormod(place, size)
        p = {**p, "C": floormod(p["C"], divisor(at["C"])), "H": p["H"] * size + row, "W": p["W"] * size + column}
        return source(*(p[d] for d in layout))

    return moved([shape[d] for d in layout], element, "space_to_depth")


def _block(data: Any, block_size: Any, layout: Any, primitive: str) -> tuple[int, Tensor]:
    one_of(layout, ("NCHW", "NHWC"), "layout", primitive)
    source = rank_of(tensor(data, "data", primitive), 4, "data", primitive, f"images of layout {layout}")
    return integer(block_size, "block_size", primitive, 1), source


def space_to_batch_nd(
    data: Tensor,
    block_shape: Sequence[int],
    pad_before: Sequence[int],
    pad_after: Sequence[int],
    pad_value: float = 0.0,
) -> Tensor:
    """Move blocks of the spatial dimensions, which a border surrounds, into the batch.

    Parameters
    ----------
    data
        A tensor of shape (batch, spatial dimensions, rest).
    block_shape
        The block size of each spatial dimension.
    pad_before, pad_after
        How many elements the border has before and after each of them.
    pad_value
        The value of the border.

    Returns
    -------
    A tensor with the batch multiplied by the number of elements of a block.

    Raises
    ------
    UserError
        If blocks do not divide a padded dimension.
    """
    source, blocks = _spatial(data, block_shape, "space_to_batch_nd")
    count = len(blocks)
    before, after = (
        integers(p, count, n, "space_to_batch_nd", 0) for p, n in ((pad_before, "pad_before"), (pad_after, "pad_after"))
    )
    spatial = sizes(source, range(1, count + 1), "space_to_batch_nd")
    padded = [n + b + a for n, b, a in zip(spatial, before, after, strict=True)]
    for n, size in zip(padded, blocks, strict=True):
        if n % size:
            raise UserError(
                f"a padded extent is {n}, which blocks of {size} do not divide",
                primitive="space_to_batch_nd",
                fix=f"pad to a multiple of {size}",
            )
    batch, value = source.shape[0], const(pad_value, source.dtype)
    shape = [batch * _times(blocks), *(n // b for n, b in zip(padded, blocks, strict=True)), *source.shape[count + 1 :]]

    def element(i: list[Any]) -> Expr:
        block, at = floordiv(i[0], divisor(batch)), []
        for d in reversed(range(count)):
            at.append(i[d + 1] * blocks[d] + floormod(block, blocks[d]) - before[d])
            block = floordiv(block, blocks[d])
        at.reverse()
        read = source(floormod(i[0], divisor(batch)), *at, *i[count + 1 :])
        inside = [c for a, n in zip(at, spatial, strict=True) for c in (a >= 0, a < n)]
        return if_then_else(all_of(*inside), read, value) if any(before) or any(after) else read

    return moved(shape, element, "space_to_batch_nd")


def batch_to_space_nd(
    data: Tensor, block_shape: Sequence[int], crop_begin_list: Sequence[int], crop_end_list: Sequence[int]
) -> Tensor:
    """Move blocks of the batch into the spatial dimensions, and cut off a border: undo `space_to_batch_nd`.

    Parameters
    ----------
    data
        A tensor of shape (batch, spatial dimensions, rest); the batch is a multiple of the number of elements of a
        block.
    block_shape
        The block size of each spatial dimension.
    crop_begin_list, crop_end_list
        How many elements are cut off before and after each of them.

    Returns
    -------
    The tensor with a smaller batch.

    Raises
    ------
    UserError
        If the batch is not such a multiple, or nothing would be left.
    """
    source, blocks = _spatial(data, block_shape, "batch_to_space_nd")
    count = len(blocks)
    begin, end = (
        integers(c, count, n, "batch_to_space_nd", 0)
        for c, n in ((crop_begin_list, "crop_begin_list"), (crop_end_list, "crop_end_list"))
    )
    batch, *spatial = sizes(source, range(count + 1), "batch_to_space_nd")
    left = [n * b - c - e for n, b, c, e in zip(spatial, blocks, begin, end, strict=True)]
    if batch % _times(blocks) or min(left) < 1:
        raise UserError(
            f"a batch of {batch} with blocks {blocks} and crops {begin}, {end} gives no whole result",
            primitive="batch_to_space_nd",
            fix=f"give a batch that is a multiple of {_times(blocks)}, and smaller crops",
        )
    batch //= _times(blocks)

    def element(i: list[Any]) -> Expr:
        at = [e + c for e, c in zip(i[1 : count + 1], begin, strict=True)]
        block = ravelled([floormod(a, b) for a, b in zip(at, blocks, strict=True)], blocks)
        inner = [floordiv(a, b) for a, b in zip(at, blocks, strict=True)]
        return source(block * batch + i[0], *inner, *i[count + 1 :])

    return moved([const(batch), *map(const, left), *source.shape[count + 1 :]], element, "batch_to_space_nd")


def _spatial(data: Any, block_shape: Any, primitive: str) -> tuple[Tensor, list[int]]:
    source = tensor(data, "data", primitive)
    given = block_shape if isinstance(block_shape, (list, tuple)) else [block_shape]
    if not given or len(given) >= source.ndim:
        raise UserError(
            f"argument 'block_shape' is {block_shape!r}, for a tensor of {source.ndim} dimensions",
            primitive=primitive,
            fix="give one block size for each spatial dimension; these follow the batch dimension",
        )
    return source, integers(given, len(given), "block_shape", primitive, 1)


def _times(blocks: Sequence[int]) -> int:
    total = 1
    for size in blocks:
        total *= size
    return total
