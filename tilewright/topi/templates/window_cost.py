"""What a thread's window of a convolution costs: registers, and products that its code writes out."""

from __future__ import annotations

from .images import Images

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
REGISTERS = 208
"""That a thread can fill with inputs and sums: of 255, some are for addresses and weights."""
_ACCESS = 16
"""Bytes of the widest access."""


def widest(of: Images) -> int:
    """How many neighbours of the input can be loaded at once, so that every row begins at a multiple of them."""
    extent = of.shape[1] if of.layout == "NHWC" else of.shape[3]
    if of.layout == "NHWC" and (of.groups != of.shape[1] or of.filters != of.shape[1]):
        return 1  # neighbouring results do not read neighbouring channels
    width = _ACCESS // BYTES[of.dtype]
    while extent % width:
        width //= 2
    return width


def rows_of(of: Images, axis: int, count: int) -> int:
    """How many rows (axis 0) or columns of the input so many results need."""
    return (count - 1) * of.stride[axis] + (of.kernel[axis] - 1) * of.dilation[axis] + 1


def columns_loaded(of: Images, columns: int, chunk: int) -> int:
    """How many columns of whole chunks so many results need, wherever their window begins in a chunk."""
    if of.layout == "NHWC" or chunk == 1:
        return rows_of(of, 1, columns)
    shift = -of.padding[1] % chunk
    return ((shift + rows_of(of, 1, columns) - 1) // chunk + 1) * chunk


def own_filters_of(of: Images) -> list[int]:
    """How many filters of a group a thread may compute (channels last: its channels are filters)."""
    per_group = of.filters // of.groups
    return [1] if of.layout == "NHWC" else [f for f in range(1, min(per_group, 16) + 1) if per_group % f == 0]


def registers(of: Images, channels: int, filters: int, rows: int, columns: int, chunk: int, whole: bool) -> int:
    """Registers, of four bytes, for a thread's sums, and for its window or for one row of it for each of its rows."""
    height = rows_of(of, 0, rows) if whole else rows
    window = channels * height * columns_loaded(of, columns, chunk)
    return (channels * filters * rows * columns + window) * (2 if of.dtype == "float64" else 1)


def steps(of: Images, channels: int, filters: int, rows: int, columns: int, whole: bool) -> int:
    """Products that are written out: of all rows of the window, or of one."""
    return channels * filters * rows * columns * of.kernel[1] * (of.kernel[0] if whole else 1)
