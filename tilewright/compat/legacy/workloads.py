"""Workloads of convolutions and their default tiles, as templates of the legacy library computed them.

The names here are private ones of legacy modules (`_get_workload`, `_fallback_schedule`), which scripts import.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core.divisors import divisors
from ...core.errors import UserError
from ...core.target import Target
from ...tensor.tensor import Tensor
from ...topi.nn.utils import get_pad_tuple
from ...topi.utils import get_const_tuple
from ..autotvm.task.space import OtherOptionEntity, SplitEntity

_MOST_REGISTERS = 31
"""Accumulators of one tile; the 32nd vector register holds the weights."""


class Conv2dWorkload(NamedTuple):
    """A two-dimensional convolution, by numbers."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    groups: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


class DepthwiseWorkload(NamedTuple):
    """A depthwise convolution, by numbers."""

    in_dtype: str
    out_dtype: str
    height: int
    width: int
    in_filter: int
    out_filter: int
    kernel_h: int
    kernel_w: int
    padt: int
    padl: int
    padb: int
    padr: int
    dilation_h: int
    dilation_w: int
    stride_h: int
    stride_w: int


_CONV2D = {"NCHW": "OIHW", "NHWC": "HWIO", "HWCN": "HWIO"}
_DEPTHWISE = {"NCHW": "CMHW", "NHWC": "HWCM", "NCHWc": "CMHWmc"}


def conv2d_workload(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str,
    data_layout: str = "NCHW",
) -> Conv2dWorkload:
    """Return the workload of a convolution of images of layout "NCHW", "NHWC" or "HWCN"."""
    image, window = _extents("conv2d", data, kernel, data_layout, _CONV2D)
    fixed = _window(window, stride, padding, dilation)
    groups = image["C"] // window["I"]
    sizes = image["H"], image["W"], image["C"], groups, window["O"], window["H"], window["W"]
    return Conv2dWorkload(str(data.dtype), out_dtype, *sizes, *fixed)


def depthwise_workload(
    data: Tensor,
    kernel: Tensor,
    stride: Any,
    padding: Any,
    dilation: Any,
    out_dtype: str,
    data_layout: str = "NCHW",
) -> DepthwiseWorkload:
    """Return the workload of a depthwise convolution of images of layout "NCHW", "NHWC" or "NCHWc"."""
    image, window = _extents("depthwise_conv2d", data, kernel, data_layout, _DEPTHWISE)
    channels = image["C"] * image.get("c", 1)
    filters = window["C"] * window.get("c", 1)
    if channels != filters or image.get("c") != window.get("c"):
        raise UserError(
            f"data has {channels} channels (shape {list(data.shape)}), the kernel {filters} ({list(kernel.shape)})",
            primitive="depthwise_conv2d",
            fix="give one kernel for each channel, in blocks of the same size",
        )
    fixed = _window(window, stride, padding, dilation)
    out = filters * window["M"] * window.get("m", 1)
    sizes = image["H"], image["W"], channels, out, window["H"], window["W"]
    return DepthwiseWorkload(str(data.dtype), out_dtype, *sizes, *fixed)


def _extents(
    primitive: str, data: Tensor, kernel: Tensor, layout: str, kernels: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the extents of images and kernels by the letters of their layouts."""
    if layout not in kernels:
        raise UserError(
            f"data_layout={layout!r} is not known", primitive=primitive, fix=f"use one of {', '.join(kernels)}"
        )
    if data.dtype != kernel.dtype and (str(data.dtype), str(kernel.dtype)) != ("uint8", "int8"):
        raise UserError(
            f"data is {data.dtype} and the kernel {kernel.dtype}", primitive=primitive, fix="give one type for both"
        )
    found = []
    for name, tensor, letters in (("data", data, layout), ("kernel", kernel, kernels[layout])):
        if len(tensor.shape) != len(letters):
            raise UserError(
                f"{name} has the shape {list(tensor.shape)}, which does not fit the layout {letters}",
                primitive=primitive,
                fix=f"give {len(letters)} dimensions, {letters}",
            )
        found.append(dict(zip(letters, get_const_tuple(tensor.shape), strict=True)))
    return found[0], found[1]


def _window(kernel: dict[str, Any], stride: Any, padding: Any, dilation: Any) -> tuple[Any, ...]:
    """Return the padding on four sides, the dilations and the strides."""
    down, across = _pair(dilation)
    covered = (kernel["H"] - 1) * down + 1, (kernel["W"] - 1) * across + 1
    return (*get_pad_tuple(padding, covered), down, across, *_pair(stride))


def _pair(given: Any) -> tuple[Any, Any]:
    vertical, horizontal = given if isinstance(given, (tuple, list)) else (given, given)
    return vertical, horizontal


def vector_lanes() -> int:
    """Return the elements of 32 bits in a vector of the current target, or of the CPU without one."""
    return (Target.current() or Target.parse("llvm")).hardware.vector_bytes // 4


def default_tiles(cfg: Any, wkl: Conv2dWorkload | DepthwiseWorkload) -> None:
    """Set `tile_ic`, `tile_oc`, `tile_ow` and `unroll_kw` of a configuration to their default choices for a CPU."""
    outputs = _largest(wkl.out_filter, vector_lanes())
    _set(cfg, wkl, _largest(wkl.in_filter, outputs), outputs)


def default_tiles_int8(cfg: Any, wkl: Conv2dWorkload, int32_lanes: int, num_int8_elements: int) -> None:
    """Set the same choices for dot products of 8-bit integers.

    Parameters
    ----------
    cfg
        The configuration.
    wkl
        The workload.
    int32_lanes
        The sums of one instruction; they divide the filters.
    num_int8_elements
        The products of one sum; they divide the channels.

    Raises
    ------
    UserError
        If they do not divide them.
    """
    if wkl.out_filter % int32_lanes or wkl.in_filter % num_int8_elements:
        raise UserError(
            f"{wkl.out_filter} filters and {wkl.in_filter} channels are no multiples of {int32_lanes} and "
            f"{num_int8_elements}",
            primitive="fallback_schedule_cpu_common_int8",
            fix="pad the filters and the channels, or name an instruction that divides them",
        )
    outputs = max(int32_lanes, num_int8_elements)
    inputs = next((block for block in range(outputs, 0, -4) if wkl.in_filter % block == 0), 1)
    _set(cfg, wkl, inputs, outputs)


def _set(cfg: Any, wkl: Conv2dWorkload | DepthwiseWorkload, inputs: int, outputs: int) -> None:
    covered = (wkl.kernel_w - 1) * wkl.dilation_w + 1
    columns = (wkl.width + wkl.padl + wkl.padr - covered) // wkl.stride_w + 1
    tile = _largest(columns, _MOST_REGISTERS)
    cfg["tile_ic"] = SplitEntity([wkl.in_filter // inputs, inputs])
    cfg["tile_oc"] = SplitEntity([wkl.out_filter // outputs, outputs])
    cfg["tile_ow"] = SplitEntity([columns // tile, tile])
    cfg["unroll_kw"] = OtherOptionEntity(False)


def _largest(number: int, bound: int) -> int:
    """Return the largest divisor of a number within a bound."""
    return max(d for d in divisors(number) if d <= bound)
