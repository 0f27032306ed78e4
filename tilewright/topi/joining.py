"""Operators that join tensors, repeat them, and take parts of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..core.text import quantity
from ..expr import operators as o
from ..expr.nodes import Expr
from ..expr.variables import size_var
from ..tensor.tensor import Tensor, extents
from .argument_checks import (
    dimension,
    divisor,
    index_tensor,
    integer,
    integers,
    known,
    one_of,
    sizes,
    tensor,
    wide_index,
)
from .argument_checks import tensors as tensor_list
from .shapes import moved


def concatenate(a_tuple: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors along a dimension.

    Parameters
    ----------
    a_tuple
        At least one tensor; they differ at most in the extent of `axis`.
    axis
        The dimension.

    Returns
    -------
    The joined tensor.

    Raises
    ------
    UserError
        If types or other extents differ.
    """
    parts = tensor_list(a_tuple, "a_tuple", "concatenate")
    at = dimension(axis, parts[0].ndim, "concatenate")
    _alike(parts, at, "concatenate")
    starts: list[Any] = [o.const(0)]
    for part in parts:
        starts.append(starts[-1] + part.shape[at])

    def element(i: list[Any]) -> Expr:
        def of(part: Tensor, start: Any) -> Expr:
            return part(*i[:at], i[at] - start, *i[at + 1 :])

        value = of(parts[-1], starts[len(parts) - 1])
        for number in reversed(range(len(parts) - 1)):
            value = o.if_then_else(o.less(i[at], starts[number + 1]), of(parts[number], starts[number]), value)
        return value

    return moved([*parts[0].shape[:at], starts[-1], *parts[0].shape[at + 1 :]], element, "concat")


def _alike(parts: list[Tensor], free: int | None, primitive: str) -> None:
    """Check that tensors have the same type and, except in dimension `free`, the same shape."""
    first = parts[0]
    for part in parts[1:]:
        fits = part.ndim == first.ndim and part.dtype == first.dtype
        if not fits or any(
            known(m) != known(n) for d, (m, n) in enumerate(zip(part.shape, first.shape, strict=True)) if d != free
        ):
            raise UserError(
                f"{first.name!r} is {first.dtype} of shape {list(first.shape)}, and {part.name!r} is {part.dtype} of "
                f"shape {list(part.shape)}",
                primitive=primitive,
                fix="give tensors of one type and shape" + (f", but for dimension {free}" if free is not None else ""),
            )


def stack(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Join tensors of one shape along a new dimension.

    Parameters
    ----------
    tensors
        At least one tensor.
    axis
        The position of the new dimension in the result.

    Returns
    -------
    A tensor with one more dimension.

    Raises
    ------
    UserError
        If types or shapes differ.
    """
    parts = tensor_list(tensors, "tensors", "stack")
    at = dimension(axis, parts[0].ndim + 1, "stack")
    _alike(parts, None, "stack")

    def element(i: list[Any]) -> Expr:
        rest = [*i[:at], *i[at + 1 :]]
        value = parts[-1](*rest)
        for number in reversed(range(len(parts) - 1)):
            value = o.if_then_else(o.equal(i[at], number), parts[number](*rest), value)
        return value

    shape = parts[0].shape
    return moved([*shape[:at], o.const(len(parts)), *shape[at:]], element, "stack")


def split(ary: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Divide a tensor along a dimension.

    Parameters
    ----------
    ary
        The tensor.
    indices_or_sections
        The number of equal parts, or the places at which new parts begin, in ascending order.
    axis
        The dimension; its extent must be constant.

    Returns
    -------
    The parts, as a list of tensors.

    Raises
    ------
    UserError
        If the parts would not be equal, or places are out of order.
    """
    data = tensor(ary, "ary", "split")
    at = dimension(axis, data.ndim, "split")
    (size,) = sizes(data, [at], "split")
    if isinstance(indices_or_sections, (list, tuple)):
        cuts = [0, *(integer(c, "indices_or_sections", "split", 0) for c in indices_or_sections), size]
        if cuts != sorted(cuts):
            raise UserError(
                f"argument 'indices_or_sections' is {indices_or_sections!r}, which are not ascending positions",
                primitive="split",
                fix=f"give positions in ascending order, up to {size}",
            )
    else:
        count = integer(indices_or_sections, "indices_or_sections", "split", 1)
        if size % count:
            raise UserError(
                f"dimension {at} of {data.name!r}, of extent {size}, does not divide into {count} equal parts",
                primitive="split",
                fix="give a divisor, or a list of the places at which parts begin",
            )
        cuts = [size // count * part for part in range(count + 1)]
    return [_part(data, at, begin, end) for begin, end in pairwise(cuts)]


def _part(data: Tensor, at: int, begin: int, end: int) -> Tensor:
    shape = [*data.shape[:at], o.const(end - begin), *data.shape[at + 1 :]]
    return moved(shape, lambda i: data(*i[:at], i[at] + begin, *i[at + 1 :]), "split_sections")


def repeat(a: Tensor, repeats: int, axis: int) -> Tensor:
    """Repeat each element along a dimension.

    Parameters
    ----------
    a
        The tensor.
    repeats
        How many copies of each element stand side by side.
    axis
        The dimension.

    Returns
    -------
    A tensor with an extent of `axis` that is `repeats` times as large.
    """
    data, times = tensor(a, "a", "repeat"), integer(repeats, "repeats", "repeat", 1)
    at = dimension(axis, data.ndim, "repeat")
    shape = [*data.shape[:at], data.shape[at] * times, *data.shape[at + 1 :]]
    return moved(shape, lambda i: data(*i[:at], o.floordiv(i[at], times), *i[at + 1 :]), "repeat")


def tile(a: Tensor, reps: Any) -> Tensor:
    """Repeat a whole tensor along dimensions.

    Parameters
    ----------
    a
        The tensor.
    reps
        How many copies there are along each dimension, counted from the last one; more entries than dimensions add
        dimensions in front.

    Returns
    -------
    The repeated tensor.
    """
    data = tensor(a, "a", "tile")
    given = list(reps) if isinstance(reps, (list, tuple)) else [reps]
    rank = max(len(given), data.ndim)
    times = [1] * (rank - len(given)) + integers(given, len(given), "reps", "tile", 1)
    shape = [o.const(1)] * (rank - data.ndim) + list(data.shape)

    def element(i: list[Any]) -> Expr:
        mine = zip(i[rank - data.ndim :], data.shape, times[rank - data.ndim :], strict=True)
        return data(*(e if t == 1 else o.floormod(e, divisor(n)) for e, n, t in mine))

    return moved([n * t for n, t in zip(shape, times, strict=True)], element, "tile")


def strided_slice(
    a: Tensor, begin: Any, end: Any, strides: Any = None, axes: Any = None, slice_mode: str = "end"
) -> Tensor:
    """Take every stride-th element from `begin` up to `end`, along each dimension: a slice of NumPy's.

    Parameters
    ----------
    a
        The tensor; the dimensions that are sliced have constant extents.
    begin, end
        The first place of each dimension, and the first one behind; negative ones count from the end, and None stands
        for the whole. If they and `strides` are tensors, this is `dynamic_strided_slice`; the output given at the call
        has the shape.
    strides
        The steps, by default 1; negative ones go backwards.
    axes
        The dimensions that the lists are for, by default the first ones.
    slice_mode
        "end", or "size": then `end` holds numbers of elements, -1 meaning up to the last one, and steps are 1.

    Returns
    -------
    The part, as a tensor of the same rank. As in NumPy, it has no elements if `end` is not behind `begin`.

    Raises
    ------
    UserError
        For lists of different lengths, and for a stride of 0.
    """
    data = tensor(a, "a", "strided_slice")
    if any(isinstance(cut, Tensor) for cut in (begin, end, strides)):
        if axes is not None or slice_mode != "end":
            raise UserError(
                f"axes={axes!r} and slice_mode={slice_mode!r} are given with tensors",
                primitive="strided_slice",
                fix="leave both out, and give tensors with an entry for each of the first dimensions",
            )
        unknown = [size_var(f"{data.name}_extent{d}") for d in range(data.ndim)]
        return dynamic_strided_slice(data, begin, end, strides, unknown)
    mode = one_of(slice_mode, ("end", "size"), "slice_mode", "strided_slice")
    first, last = (list(x) if isinstance(x, (list, tuple)) else [x] for x in (begin, end))
    steps = list(strides) if isinstance(strides, (list, tuple)) else [1 if strides is None else strides] * len(first)
    along = (
        list(range(len(first))) if axes is None else [dimension(d, data.ndim, "strided_slice", "axes") for d in axes]
    )
    if mode == "size":
        last = [None if n == -1 else b + n for b, n in zip(first, last, strict=False)]
        steps = [1] * len(first)
    steps += [1] * (len(first) - len(steps))
    if not len(first) == len(last) == len(steps) == len(along) <= data.ndim:
        raise UserError(
            f"begin={begin!r}, end={end!r} and strides={strides!r} do not fit dimensions {along} of {data.name!r}",
            primitive="strided_slice",
            fix="give an entry of each for each dimension that is sliced",
        )
    parts = {}
    for d, size, *cut in zip(along, sizes(data, along, "strided_slice"), first, last, steps, strict=True):
        each = [c if c is None else integer(c, "begin, end, strides", "strided_slice") for c in cut]
        if each[2] == 0:
            raise UserError("a stride is 0", primitive="strided_slice", fix="give steps of 1 and more, or below 0")
        parts[d] = range(*slice(*each).indices(size))
    shape = [o.const(len(parts[d])) if d in parts else n for d, n in enumerate(data.shape)]
    return moved(
        shape,
        lambda i: data(*(e * parts[d].step + parts[d].start if d in parts else e for d, e in enumerate(i))),
        "strided_slice",
    )


def _within(index: Expr, size: Expr) -> Expr:
    """The nearest index of a dimension."""
    return o.minimum(o.maximum(index, o.const(0, index.dtype)), size - 1)


def dynamic_strided_slice(a: Tensor, begin: Tensor, end: Tensor, strides: Tensor, output_shape: Any) -> Tensor:
    """Take every stride-th element from `begin` on, along each dimension, with ranges given by tensors.

    Parameters
    ----------
    a
        The tensor.
    begin, end, strides
        Integers, one for each of the first dimensions, which are sliced. A `begin` below 0 counts from the end of its
        dimension, and one outside of it is moved to its nearest element.
    output_shape
        The shape of the result. It must be given, as the values of `end` are not known before the call; `end` is not
        read. Indices beyond the last element read the last element.

    Returns
    -------
    A tensor of shape `output_shape`.

    Raises
    ------
    UserError
        For tensors of other shapes, and for a shape of another rank.
    """
    name = "dynamic_strided_slice"
    data = tensor(a, "a", name)
    cuts = {argument: index_tensor(t, argument, name) for argument, t in
            (("begin", begin), ("end", end), ("strides", strides))}  # fmt: skip
    counts = [known(t.shape[0]) if t.ndim == 1 else None for t in cuts.values()]
    if None in counts or len(set(counts)) > 1 or (counts[0] or 0) > data.ndim:
        shown = ", ".join(f"{argument} {list(t.shape)}" for argument, t in cuts.items())
        raise UserError(
            f"the shapes are {shown}, and {data.name!r} has {quantity(data.ndim, 'dimension')}",
            primitive=name,
            fix="give three tensors of one dimension, with an entry for each dimension that is sliced",
        )
    shape = extents(list(output_shape) if isinstance(output_shape, (list, tuple)) else [output_shape], name, data.name)
    if len(shape) != data.ndim:
        raise UserError(
            f"output_shape has {len(shape)} extents, and {data.name!r} {quantity(data.ndim, 'dimension')}",
            primitive=name,
            fix="give an extent for each dimension",
        )

    def place(d: int, i: Any) -> Any:
        first, step = (wide_index(cuts[argument](d)) for argument in ("begin", "strides"))
        size = o.cast(first.dtype, data.shape[d])
        start = o.if_then_else(o.less(first, 0), first + size, first)
        start = _within(start, size)
        return _within(start + o.cast(first.dtype, i) * o.cast(first.dtype, step), size)

    sliced = range(counts[0] or 0)
    return moved(shape, lambda i: data(*(place(d, e) if d in sliced else e for d, e in enumerate(i))), name)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
