"""Layouts: the orders in which images, and 1-D data as images of one row, lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.errors import UserError
from ...core.padding import TEMPLATE_WORDS, padding_of

LAYOUTS = ("NCHW", "NHWC")
"""The orders of an image's dimensions in memory; the first is the default."""
IMAGES_LAST = "HWCN"
"""The order with images last. Only dense convolutions of the contraction strategies support it."""
_PLACES = {"NCHW": (0, 1, 2, 3), "NHWC": (0, 2, 3, 1), IMAGES_LAST: (2, 3, 1, 0)}
"""For each dimension of a layout, its index among batch, channels, rows, columns."""
ROWS = {"NCW": "NCHW", "NWC": "NHWC"}
"""Layouts of 1-D data, mapped to the layouts of the one-row images that stand for it."""


def layout_of(who: str, layout: str, further: tuple[str, ...] = ()) -> str:
    """Return a layout of images or one of the `further` layouts; raise UserError for an unknown one."""
    found, known = ROWS.get(layout, layout), (*LAYOUTS, *further)
    if found not in known:
        raise UserError(
            f"layout {layout} is unknown", primitive=who, fix=f"give {', '.join(known)}, or for 1-D {', '.join(ROWS)}"
        )
    return found


def as_images(who: str, layout: Any, shape: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[Any]:
    """Return shape, kernel, stride, padding and dilation of images; 1-D data get a height of one."""
    if layout not in ROWS:
        return [shape, kernel, stride, padding, dilation]
    lengths = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    if len(lengths) != 3:
        raise UserError(
            f"shape {'x'.join(map(str, lengths))} is not NxCxW",
            primitive=who,
            fix="give batch x channels x length: say 8x64x1024",
        )
    taps, step, spread = (
        value[0] if isinstance(value, (tuple, list)) else value for value in (kernel, stride, dilation)
    )
    if padding is not None and not isinstance(padding, str):
        before, after = padding_of(who, padding, (1,), (step,), TEMPLATE_WORDS)  # numbers ignore the window
        padding = (0, before, 0, after)
    return [(*lengths[:2], 1, lengths[2]), (1, taps), (1, step), padding, (1, spread)]


def in_layout(layout: str, sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the values for batch, channels, rows and columns in the order of a layout."""
    return tuple(sizes[place] for place in _PLACES[layout])


def from_layout(layout: str, sizes: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values in the order of a layout as values for batch, channels, rows and columns."""
    return tuple(sizes[place] for place in _back(layout))


def in_order(layout: str, images: np.ndarray) -> np.ndarray:
    """Return a view of images with the dimensions batch, channels, rows, columns."""
    return images.transpose(_back(layout))


def in_memory(layout: str, images: np.ndarray) -> np.ndarray:
    """Return images in the order of a layout; the inverse of `in_order`."""
    return images if layout == LAYOUTS[0] else np.ascontiguousarray(images.transpose(_PLACES[layout]))


def _back(layout: str) -> tuple[int, ...]:
    return tuple(_PLACES[layout].index(place) for place in range(4))
