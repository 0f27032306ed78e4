"""Shapes as Python numbers, under the names of the legacy `topi.utils`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arith.simplify import simplify as simplify
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.target import Target
from ..core.text import quantity
from ..expr.convert import const
from ..expr.nodes import Expr, FloatImm, IntImm, Select
from ..expr.operators import all_of, as_expr, floordiv, floormod
from ..schedule.handle import ScheduleHandle
from ..tensor.data_layout import Layout
from ..tensor.tensor import Operation, Tensor, compute
from .tag import is_injective


def get_const_int(expr: Any) -> int:
    """Return the value of a constant integer expression; raise UserError for any other expression."""
    found = simplify(as_expr(expr))
    if not isinstance(found, IntImm):
        raise UserError(
            f"`{found}` is not a constant integer",
            primitive="get_const_int",
            fix="give a number, or the extent of a dimension of known size",
        )
    return found.value


def get_const_tuple(in_tuple: Sequence[Any]) -> tuple[int | Expr, ...]:
    """Return a shape with its constants as Python integers; sizes known only at the call stay expressions."""
    found = [simplify(as_expr(e)) for e in in_tuple]
    return tuple(e.value if isinstance(e, IntImm) else e for e in found)


def get_const_float(expr: Any) -> float:
    """The value of a constant expression; raises UserError if it is none."""
    found = simplify(as_expr(expr))
    if not isinstance(found, (IntImm, FloatImm)):
        raise UserError(f"`{found}` is not a constant", primitive="get_const_float", fix="give a number")
    return float(found.value)


def get_float_tuple(in_tuple: Sequence[Any]) -> tuple[float, ...]:
    """Constants as Python floats."""
    return tuple(map(get_const_float, in_tuple))


def equal_const_int(expr: Any, value: int) -> bool:
    """Whether an expression is this constant."""
    found = simplify(as_expr(expr))
    return isinstance(found, IntImm) and found.value == value


def prod(x: Sequence[Any]) -> Any:
    """Return the product of extents; 1 without extents."""
    total: Any = const(1, "int32")
    for extent in x:
        total = total * extent
    return simplify(as_expr(total))


def ravel_index(indices: Sequence[Any], shape: Sequence[Any]) -> Any:
    """The place of an element among all of an array, row by row."""
    _check_ranks("ravel_index", indices, shape)
    place: Any = const(0, "int32")
    for index, extent in zip(indices, shape, strict=True):
        place = place * extent + index
    return place


def unravel_index(idx: Any, shape: Sequence[Any]) -> list[Any]:
    """The indices of the element at a place, row by row."""
    indices: list[Any] = []
    place = as_expr(idx)
    for extent in reversed(shape):
        indices.append(floormod(place, extent))
        place = floordiv(place, extent)
    return indices[::-1]


def const_matrix(matrix: Any, name: str = "const_matrix") -> Tensor:
    """Return a tensor of two dimensions with the values of an array; the values become part of the code."""
    return _constants("const_matrix", matrix, 2, name)


def const_vector(vector: Any, name: str = "const_vector") -> Tensor:
    """Return a tensor of one dimension with the values of an array; the values become part of the code."""
    return _constants("const_vector", vector, 1, name)


def _constants(primitive: str, given: Any, rank: int, name: str) -> Tensor:
    values = np.asarray(given)
    if values.ndim != rank or values.dtype.kind not in "iuf":
        raise UserError(
            f"{given!r} is not an array of {quantity(rank, 'dimension')} of numbers",
            primitive=primitive,
            fix="give a NumPy array",
        )
    dtype = str(values.dtype)

    def value(*at: Any) -> Any:
        found: Any = const(0, dtype)
        for place in np.ndindex(*values.shape):
            here = [index.equal(i) for index, i in zip(at, place, strict=True)]
            found = Select(all_of(*here), const(values[place].item(), dtype), found)
        return found

    made: Tensor = compute(values.shape, value, name)
    return made


def get_max_power2_factor(n: int, max_value: int | None = None) -> int:
    """The largest power of two that divides a number and is at most `max_value`."""
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise UserError(
            f"n={n!r} is not a whole number of 1 or more",
            primitive="get_max_power2_factor",
            fix="give a whole number: n=96",
        )
    power = 1
    while n % (2 * power) == 0 and (max_value is None or 2 * power <= max_value):
        power *= 2
    return power


def is_empty_shape(shape: Sequence[Any]) -> bool:
    """Whether a dimension has no elements."""
    return any(equal_const_int(extent, 0) for extent in shape)


def ceil_div(a: Any, b: Any) -> Any:
    """The quotient, rounded up."""
    return floordiv(as_expr(a) + b - 1, b)


def within_index(b: Any, e: Any, s: Any, i: Any) -> Any:
    """Whether an index is in the range from `b` to `e` in steps of `s`."""
    begin, end, step, index = map(as_expr, (b, e, s, i))
    ascending = all_of(index >= begin, index < end)
    descending = all_of(index <= begin, index > end)
    inside = Select(step > 0, ascending, descending)
    return all_of(inside, floormod(index - begin, step).equal(0))


def make_idx(b: Any, e: Any, s: Any, z: Any, i: Any) -> Any:
    """Return the position within the slice `b:e:s` of an element at an index of the whole, which has `z` elements."""
    begin, end, step, index = map(as_expr, (b, e, s, i))
    beyond = Select(step > 0, index >= end, index >= begin)
    short = Select(step > 0, index < begin, index <= end)
    return Select(beyond, as_expr(z) - 1, Select(short, const(0, "int32"), floordiv(index - begin, step)))


def get_shape(src_shape: Sequence[Any], src_layout: Any, dst_layout: Any) -> tuple[Any, ...]:
    """A shape in another order of its dimensions: ("NCHW", "NHWC"), ("NCHW16c", "NC16cHW")."""
    if src_layout == dst_layout:
        return get_const_tuple(src_shape)
    shape = get_const_tuple(src_shape)
    source = Layout(str(src_layout), "src_layout", "get_shape")
    target = Layout(str(dst_layout), "dst_layout", "get_shape")
    same = sorted(source.dims) == sorted(target.dims) and source.blocks == target.blocks
    if len(shape) != len(source.dims) or not same:
        raise UserError(
            f"a shape of {len(shape)} dimensions cannot be converted from layout {src_layout} to {dst_layout}",
            primitive="get_shape",
            fix="give two orders of the same letters and blocks, one for each dimension",
        )
    extents = dict(zip(source.dims, shape, strict=True))
    return tuple(extents[letter] for letter in target.dims)


def ncw_pack_layout(layout_info: str) -> bool:
    """Whether a layout is NCW in blocks of images and channels, as "NCW4n8c"."""
    return layout_info[:3] == "NCW" and "c" in layout_info and "n" in layout_info


def ncw_xc_layout(layout_info: str) -> bool:
    """Whether a layout is NCW in blocks of channels, as "NCW8c"."""
    return layout_info[:3] == "NCW" and "c" in layout_info and layout_info[3:-1].isnumeric()


def nchw_pack_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW in blocks of images and channels, as "NCHW4n8c"."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and "n" in layout_info


def nchw_xc_layout(layout_info: str) -> bool:
    """Whether a layout is NCHW in blocks of channels, as "NCHW8c"."""
    return layout_info[:4] == "NCHW" and "c" in layout_info and layout_info[4:-1].isnumeric()


def is_target(names: str | Sequence[str]) -> bool:
    """Whether the current target is of one of the kinds."""
    target = Target.current()
    return target is not None and target.kind in ([names] if isinstance(names, str) else names)


def _check_ranks(primitive: str, indices: Sequence[Any], shape: Sequence[Any]) -> None:
    if len(indices) != len(shape):
        raise UserError(
            f"{len(indices)} indices are given for {len(shape)} dimensions",
            primitive=primitive,
            fix="give one index for each dimension",
        )


def traverse_inline(s: ScheduleHandle, final_op: Operation, callback: Callable[[Operation], Any]) -> None:
    """Call `callback` with every operation that `final_op` is computed from, and compute its kind of elements inline.

    Parameters
    ----------
    s
        The schedule.
    final_op
        The output. Element-wise and moving operations that it reads are computed inline.
    callback
        Called with each operation, readers first, once.

    Raises
    ------
    UserError
        If it is not an operation of the schedule.
    """
    if not isinstance(final_op, Operation):
        raise UserError(
            f"final_op is {final_op!r}, which is not an operation", primitive="traverse_inline", fix="give out.op"
        )
    seen: set[Operation] = set()
    waiting = [final_op]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if is_injective(op.tag) and op is not final_op and op not in s.outputs:
            s[op].compute_inline()
        waiting += [t.op for t in reversed(op.input_tensors)]
        callback(op)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
