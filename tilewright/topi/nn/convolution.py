"""Dense convolutions of any layout and number of spatial dimensions, in groups of channels if wanted."""

from __future__ import annotations

from typing import Any

from ...core.errors import UserError
from ...expr.nodes import IntImm
from ...expr.operators import floordiv
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute
from ..argument_checks import divisor, result_type
from .window import SPATIAL, SlidingWindow, extents, same_extent

_POSITION = {"N": "nn", "C": "ff", "D": "zz", "H": "yy", "W": "xx"}
_WINDOW = {"D": "rz", "H": "ry", "W": "rx"}


def convolution(
    data: Tensor,
    kernel: Tensor,
    window: tuple[Any, Any, Any],
    layouts: tuple[str, str],
    groups: int,
    out_dtype: str | None,
    primitive: str,
    arguments: tuple[str, str] = ("Input", "Filter"),
) -> Tensor:
    """`data` convolved with `kernel`, in the layout of `data`.

    `window`: strides, padding and dilation. `layouts`: of data and kernel. Of `groups` equal parts of the channels, the
    i-th is seen by the i-th part of the filters only. `out_dtype`: the type to accumulate in, by default that of
    `data`. `primitive` is the caller's name of it, `arguments` the two tensors. Raises UserError for shapes that do not
    fit each other.
    """
    layout, kernel_layout = layouts
    sizes, weights = (
        extents(data, arguments[0], layout, primitive),
        extents(kernel, arguments[1], kernel_layout, primitive),
    )
    _check_groups(sizes["C"], weights["O"], groups, arguments, primitive)
    whose = "channels" if groups == 1 else "a group's channels"
    same_extent(floordiv(sizes["C"], groups), weights["I"], f"{whose} of {' and '.join(arguments)}", primitive)
    view = SlidingWindow(data, layout, weights, window, primitive, _WINDOW, "pad_temp")
    channel = reduce_axis((0, weights["I"]), name="rc")
    inside = {"I": channel, **view.axes}
    kind = result_type(out_dtype, data, primitive)

    def element(*position: Any) -> Any:
        at = dict(zip(layout, position, strict=True))
        filters = at["C"]
        first = 0 if groups == 1 else floordiv(filters, divisor(floordiv(weights["O"], groups))) * weights["I"]
        value = view.element({**at, "C": first + channel})
        weight = kernel[tuple(filters if d == "O" else inside[d] for d in kernel_layout)]
        # In the order of the kernel's dimensions, so that its elements are read one after the other.
        axes = [inside[d] for d in kernel_layout if d != "O"]
        return reduce_sum(value.astype(kind) * weight.astype(kind), axis=axes)

    name = f"{'group_' if groups > 1 else ''}conv{len(view.axes)}d_{layout.lower()}"
    shape = [{**sizes, **view.extents, "C": weights["O"]}[d] for d in layout]
    made: Tensor = compute(shape, element, name, name, varargs_names=[_POSITION[d] for d in layout])
    return made


def _check_groups(channels: Any, filters: Any, groups: Any, arguments: tuple[str, str], primitive: str) -> None:
    if not isinstance(groups, int):
        raise UserError(
            f"argument 'groups' is {groups!r}, which is not a whole number of at least 1",
            primitive=primitive,
            fix="give a whole number: groups=2",
        )
    for extent, what in ((channels, f"{arguments[0]}'s channels"), (filters, f"{arguments[1]}'s filters")):
        if groups < 1 or (isinstance(extent, IntImm) and extent.value % groups):
            raise UserError(
                f"argument 'groups' is {groups}, which does not divide {what}, {extent}",
                primitive=primitive,
                fix=f"give a common divisor of {channels} channels and {filters} filters",
            )


def layouts_of(data_layout: Any, kernel_layout: Any, spatial: str, primitive: str) -> tuple[str, str]:
    """The layouts of data and kernel, checked; of a kernel without one, the usual one for that of the data."""
    usual = f"OI{spatial}" if str(data_layout).startswith("NC") else f"{spatial}IO"
    unnamed = kernel_layout is None or (isinstance(kernel_layout, str) and not kernel_layout)
    kernel = usual if unnamed else kernel_layout
    given = {"data_layout": (data_layout, f"NC{spatial}"), "kernel_layout": (kernel, f"OI{spatial}")}
    for argument, (layout, letters) in given.items():
        if not isinstance(layout, str) or sorted(layout) != sorted(letters):
            raise UserError(
                f"argument {argument!r} is {layout!r}, which is not an order of {letters}",
                primitive=primitive,
                fix=f"give the letters of {letters} in the order of the dimensions "
                f"({', '.join(f'{d}: {SPATIAL[d]}' for d in spatial)}); a type is given by name: out_dtype=...",
            )
    return given["data_layout"][0], given["kernel_layout"][0]
