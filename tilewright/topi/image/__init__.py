"""Operators on images, under the names of the legacy `topi.image`."""

from typing import TYPE_CHECKING

from ...core.refusals import old_name as _old_name
from ..resizing import resize1d as resize1d
from ..resizing import resize2d as resize2d
from ..resizing import resize3d as resize3d
from .crop import crop_and_resize as crop_and_resize
from .dilation2d import dilation2d_nchw as dilation2d_nchw
from .dilation2d import dilation2d_nhwc as dilation2d_nhwc
from .grid_sample import affine_grid as affine_grid
from .grid_sample import grid_sample as grid_sample

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
