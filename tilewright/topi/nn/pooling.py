"""Pooling: the largest value or the average of each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...core.dtype import DType
from ...core.errors import UserError
from ...core.refusals import old_name as _old_name
from ...expr import operators as o
from ...expr.nodes import Expr, IntImm
from ...tensor import reduction as te
from ...tensor.axis import IterVar, reduce_axis
from ...tensor.reduction import min_value
from ...tensor.tensor import Tensor, compute
from ..argument_checks import flag, integers, known, one_of, tensor
from ..layout import spatial_of
from .sliding import Sliding
from .sums import quotient, sum_type

HOW = ("max", "avg")


@dataclass(frozen=True)
class Pool:
    """Windows over the spatial dimensions of a tensor: for each its place, and how many there are."""

    data: Tensor
    dims: tuple[int, ...]
    """The places of the spatial dimensions."""
    kernel: tuple[int, ...]
    slide: Sliding
    places: tuple[Any, ...]
    """The number of windows along each spatial dimension."""
    after: tuple[int, ...] = ()
    """The number of elements of padding after the tensor along each spatial dimension."""
    up: bool = False
    """Whether windows that stick out at the end count: `ceil_mode`."""
    within: bool = False
    """Whether every window shows elements of the tensor only, as without padding."""

    def shape(self) -> list[Any]:
        """The shape of the result."""
        return [self.places[self.dims.index(d)] if d in self.dims else n for d, n in enumerate(self.data.shape)]

    def element(self, indices: Sequence[Any], taps: Sequence[Any], outside: Expr) -> Expr:
        """The element in the window at `indices` at `taps`; `outside` is the value around the tensor."""
        at, inside = self.shown(indices, taps)
        return self.data(*at) if self.within else o.if_then_else(inside, self.data(*at), outside)

    def shown(self, indices: Sequence[Any], taps: Sequence[Any]) -> tuple[list[Any], Expr]:
        """The element that the window at `indices` shows at `taps`, and whether it is there."""
        extents = [self.data.shape[d] for d in self.dims]
        places, inside = self.slide.shown([indices[d] for d in self.dims], taps, extents)
        at = list(indices)
        for d, place in zip(self.dims, places, strict=True):
            at[d] = place
        return at, o.all_of(*inside)

    def counted(self, indices: Sequence[Any], padding: bool) -> Any:
        """Return how many elements of the tensor, and of its padding if wanted, the window at `indices` shows.

        With `ceil_mode`, the last window may reach beyond the padding; no average counts the elements there.
        """
        total: Any = o.const(1)
        for number, d in enumerate(self.dims):
            start, step, taps = self.slide.start(number, indices[d]), self.slide.dilation[number], self.kernel[number]
            if padding and self._ends_within(number):
                total = total * taps
                continue
            size = self.data.shape[d] + (self.after[number] if padding else 0)
            first = 0 if padding else o.maximum(o.floordiv(step - 1 - start, step), 0)
            total = total * (o.minimum(o.floordiv(size - start + step - 1, step), taps) - first)
        return total if isinstance(total, IntImm) else o.maximum(total, 1)

    def _ends_within(self, number: int) -> bool:
        """Return whether no window reaches beyond the padding of a dimension."""
        size, places = known(self.data.shape[self.dims[number]]), known(self.places[number])
        if size is None or places is None:
            return not self.up
        last = self.slide.start(number, places - 1) + (self.kernel[number] - 1) * self.slide.dilation[number]
        return bool(last < size + self.after[number])

    def taps(self) -> list[IterVar]:
        """Axes over the window."""
        return [reduce_axis((0, k), name=f"r{'dhw'[-len(self.kernel) :][i]}") for i, k in enumerate(self.kernel)]


def pool_of(
    data: Any, options: tuple[Any, Any, Any, Any], ceil_mode: Any, layout: Any, spatial: str, primitive: str
) -> Pool:
    source = tensor(data, "data", primitive)
    dims = spatial_of(source, layout, spatial, primitive)
    kernel, stride, dilation, padding = options
    count = len(dims)
    taps = integers(kernel, count, "kernel", primitive, 1)
    steps = integers(stride, count, "stride", primitive, 1)
    apart = integers(dilation, count, "dilation", primitive, 1)
    around = list(padding) if isinstance(padding, (list, tuple)) and len(padding) == 2 * count else None
    each = integers(around if around else padding, 2 * count if around else count, "padding", primitive, 0)
    before, after = each[:count], each[-count:]
    up = flag(ceil_mode, "ceil_mode", primitive)
    places = []
    for d, k, s, a, b, e in zip(dims, taps, steps, apart, before, after, strict=True):
        room = source.shape[d] + b + e - ((k - 1) * a + 1)
        number = o.floordiv(room + (s - 1 if up else 0), s) + 1
        if (known(room) or 0) < 0:
            raise UserError(
                f"argument 'kernel' is {k} for dimension {d}: a window covers {(k - 1) * a + 1} elements with dilation "
                f"{a}, but the padded dimension has {source.shape[d]} + {b} + {e}",
                primitive=primitive,
                fix="pad more, or use a smaller kernel or dilation",
            )
        places.append(number)
    slide = Sliding(tuple(steps), tuple(before), tuple(apart))
    within = not up and all(known(e) == 0 for e in (*before, *after))
    return Pool(source, tuple(dims), tuple(taps), slide, tuple(places), tuple(after), up, within)


def pool1d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pool windows of lines, as `pool2d` for images; `layout` has a W."""
    options = kernel, stride, dilation, padding
    return _pooled(pool_of(data, options, ceil_mode, layout, "W", "pool1d"), pool_type, count_include_pad, "pool1d")


def pool2d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pool windows of images.

    Parameters
    ----------
    data
        A tensor of layout `layout`.
    kernel, stride, dilation
        The size of the window, the distance of windows, and that of elements in a window: ints or pairs.
    padding
        How many elements surround the data: an int, a pair, or (top, left, bottom, right).
    pool_type
        "max" or "avg"; elements of fewer than 32 bits are added up in 32, and an average of integers rounds towards 0.
    ceil_mode
        Whether windows that stick out at the end count.
    layout
        A letter per dimension, H and W among them, such as "NCHW", "NHWC" or "NCHW16c".
    count_include_pad
        Whether an average counts the padding, as zeros. Elements beyond the padding, which the last window of
        `ceil_mode` may cover, never count.

    Returns
    -------
    A tensor of the same layout.

    Raises
    ------
    UserError
        For options and layouts that do not fit the data.
    """
    options = kernel, stride, dilation, padding
    return _pooled(pool_of(data, options, ceil_mode, layout, "HW", "pool2d"), pool_type, count_include_pad, "pool2d")


def pool3d(
    data: Tensor,
    kernel: Any,
    stride: Any,
    dilation: Any,
    padding: Any,
    pool_type: str,
    ceil_mode: bool = False,
    layout: str = "NCDHW",
    count_include_pad: bool = True,
) -> Tensor:
    """Pool windows of volumes, as `pool2d` for images; `layout` has D, H and W."""
    options = kernel, stride, dilation, padding
    return _pooled(pool_of(data, options, ceil_mode, layout, "DHW", "pool3d"), pool_type, count_include_pad, "pool3d")


def lowest(data: Tensor) -> Expr:
    return o.const(float("-inf"), data.dtype) if data.dtype.is_float else min_value(str(data.dtype))


def _pooled(pool: Pool, how: Any, count_include_pad: Any, primitive: str) -> Tensor:
    one_of(how, HOW, "pool_type", primitive)
    taps = pool.taps()
    largest = how == "max"
    outside = lowest(pool.data) if largest else o.const(0, pool.data.dtype)
    made = pooled(pool.shape(), lambda i: pool.element(i, taps, outside), taps, f"pool_{how}")
    if largest:
        return made
    whole = flag(count_include_pad, "count_include_pad", primitive)
    return average(made, lambda i: pool.counted(i, whole), pool.data.dtype)


def pooled(shape: Sequence[Any], value: Callable[[Sequence[Any]], Expr], taps: Sequence[IterVar], name: str) -> Tensor:
    """The largest of the values at `taps`, or for an average their sum, in a type that holds it."""

    def element(*i: Any) -> Any:
        found = value(i)
        if name.endswith("max"):
            return te.max(found, axis=taps)
        return te.sum(o.cast(sum_type(found.dtype), found), axis=taps)

    made: Tensor = compute(shape, element, name, name)
    return made


def average(total: Tensor, count: Callable[[Sequence[Any]], Any], kind: DType) -> Tensor:
    """Return sums divided by the number of their elements, as elements of type `kind`."""

    def element(*i: Any) -> Expr:
        number = o.cast(total.dtype, count(i))
        return o.cast(kind, quotient(total(*i), number))

    made: Tensor = compute(total.shape, element, "pool_avg_out", "elemwise")
    return made


if not TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
