"""The conversion of a tensor from one layout, such as "NCHW", to another, such as "NCHW16c"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr.operators import as_expr
from ..tensor.data_layout import Layout
from ..tensor.tensor import Tensor
from .argument_checks import known, tensor
from .shapes import moved


def layout_transform(array: Tensor, src_layout: str, dst_layout: str, schedule_rule: str = "None") -> Tensor:
    """Convert a tensor from one layout to another.

    Parameters
    ----------
    array
        The tensor.
    src_layout, dst_layout
        The layouts of the tensor and of the result, such as "NCHW" and "NCHW16c". A capital letter names a dimension, a
        size and a small letter its blocks.
    schedule_rule
        Accepted for old scripts, without effect.

    Returns
    -------
    The tensor in the other layout.

    Raises
    ------
    UserError
        If the layouts have other dimensions, or blocks do not divide an extent.
    """
    data = tensor(array, "array", "layout_transform")
    source = Layout(src_layout, "src_layout", "layout_transform")
    target = Layout(dst_layout, "dst_layout", "layout_transform")
    if len(source.dims) != data.ndim or source.letters != target.letters:
        raise UserError(
            f"{data.name!r} of {data.ndim} dimensions cannot be converted from {src_layout} to {dst_layout}",
            primitive="layout_transform",
            fix="give layouts of the same letters, the first of them with one part per dimension",
        )
    shape = dict(zip(source.dims, data.shape, strict=True))
    for letter, block in source.blocks.items():
        if known(shape[letter.lower()]) not in (None, block):
            raise UserError(
                f"{data.name!r} has blocks of {shape[letter.lower()]} along {letter}, but {src_layout} says {block}",
                primitive="layout_transform",
                fix="give the layout that the tensor has",
            )
    whole = {d: as_expr(shape[d] * source.blocks.get(d, 1)) for d in source.letters}
    for letter, block in target.blocks.items():
        size = known(whole[letter])
        if size is None or size % block:
            raise UserError(
                f"{letter} has the extent {whole[letter]}, which blocks of {block} do not divide",
                primitive="layout_transform",
                fix="pad the tensor first (topi.nn.pad), or use another block",
            )
    return moved(target.extents(whole), lambda i: data(*source.indices(target.places(i))), "layout_trans")


def spatial_of(data: Tensor, layout: Any, spatial: str, primitive: str) -> list[int]:
    """The places of the spatial dimensions in a layout, which has a part per dimension of `data`."""
    parsed = Layout(layout, "layout", primitive)
    if len(parsed.dims) != data.ndim or not set(spatial) <= parsed.letters or set(spatial) & set(parsed.blocks):
        raise UserError(
            f"layout {layout!r} does not fit {data.name!r} of shape {list(data.shape)}",
            primitive=primitive,
            fix=f"give a letter per dimension, {', '.join(spatial)} among them and not in blocks",
        )
    return [parsed.dims.index(letter) for letter in spatial]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
