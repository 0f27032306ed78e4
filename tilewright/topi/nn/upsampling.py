"""Images and volumes of several times the size."""

from __future__ import annotations

from math import inf
from typing import Any

from ...core.errors import UserError
from ...tensor.tensor import Tensor
from ..argument_checks import flag, known, one_of, tensor
from ..layout import spatial_of
from ..resizing import resize2d, resize3d


def upsampling(
    data: Tensor,
    scale_h: float,
    scale_w: float,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
    output_shape: Any = None,
) -> Tensor:
    """Enlarge images.

    Parameters
    ----------
    data
        A tensor of layout `layout`, with constant height and width.
    scale_h, scale_w
        How many times as high and wide the result is.
    layout
        A letter per dimension, H and W among them.
    method
        "nearest_neighbor", "bilinear" or "bicubic".
    align_corners
        Whether the centres of corners are aligned; else places are scaled alone.
    output_shape
        The height and width of the result, in place of the scales.

    Returns
    -------
    A tensor of the same layout.

    Raises
    ------
    UserError
        For unknown methods, and for scales that are not positive numbers.
    """
    names = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "bicubic": "cubic"}
    chosen = names[one_of(method, tuple(names), "method", "upsampling")]
    size = output_shape if output_shape is not None else _scaled(data, (scale_h, scale_w), layout, "HW", "upsampling")
    mode = "align_corners" if flag(align_corners, "align_corners", "upsampling") else "asymmetric"
    return resize2d(data, None, size, layout, chosen, mode)


def upsampling3d(
    data: Tensor,
    scale_d: float,
    scale_h: float,
    scale_w: float,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
    output_shape: Any = None,
) -> Tensor:
    """Enlarge volumes, as `upsampling` does images; `method` is "nearest_neighbor" or "trilinear"."""
    names = {"nearest_neighbor": "nearest_neighbor", "trilinear": "linear"}
    chosen = names[one_of(method, tuple(names), "method", "upsampling3d")]
    size = (
        output_shape
        if output_shape is not None
        else _scaled(data, (scale_d, scale_h, scale_w), layout, "DHW", "upsampling3d")
    )
    return resize3d(data, None, size, layout, chosen, coordinate_transformation_mode)


def _scaled(data: Any, scales: tuple[Any, ...], layout: Any, spatial: str, primitive: str) -> list[int]:
    dims = spatial_of(tensor(data, "data", primitive), layout, spatial, primitive)
    sizes = []
    for scale, d in zip(scales, dims, strict=True):
        size = known(data.shape[d])
        if isinstance(scale, bool) or not isinstance(scale, (int, float)) or not 0 < scale < inf or size is None:
            raise UserError(
                f"scales {scales!r} do not fit the extents {[str(data.shape[d]) for d in dims]}",
                primitive=primitive,
                fix="give finite positive numbers, and a tensor of constant height and width",
            )
        sizes.append(max(1, round(size * scale)))
    return sizes
