"""Convolutions and their gradients, recognised in a declaration of any form.

A convolution, its data gradient and its weight gradient are sums of the same products. They multiply images, weights
and results, and each of them is the sum over the other two. The tables of a sum (`bilinear.py`) tell the tensors apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import prod
from typing import Any

import numpy as np

from ...arith.facts import EMPTY
from ...arith.simplify import simplify
from ...core.windows import positions
from ...expr.nodes import Load
from ...expr.operators import as_expr
from ...expr.traverse import rewrite, substitute
from ...tensor.tensor import ComputeOp, Tensor, compute, placeholder
from ..templates.convolutions import Conv2dLayer, Depthwise
from ..templates.layouts import LAYOUTS, from_layout, in_layout
from ..templates.transposed import Transposed
from ..templates.weight_gradient import WeightGradient
from ..templates.workload import DTYPES, sum_dtype
from .bilinear import Bilinear, IndexTable, bilinear
from .chosen import choice_of, operands_of, weights_index

Index = Callable[..., Sequence[Any]]
_RESULT = 0
_MOSTLY_INSIDE = 16
"""Window taps with at least one inside the images. Tables of channels have fewer entries."""


@dataclass(frozen=True)
class _SpatialWindow:
    """One spatial dimension: its dimension in images, results and weights (None: one tap), and the window there."""

    dims: tuple[int | None, int | None, int | None]
    size: int
    places: int
    taps: int
    stride: int
    before: int
    dilation: int

    @property
    def after(self) -> int:
        """The zeros behind the images that the last window sees."""
        return max(0, (self.places - 1) * self.stride + (self.taps - 1) * self.dilation + 1 - self.before - self.size)


_ONE_ROW = _SpatialWindow((None, None, None), 1, 1, 1, 1, 0, 1)


@dataclass(frozen=True)
class _LayerChannels:
    """The channels: for each weight its channel of the images, its filter, and its index in the dimensions `dims`."""

    images: int | None
    places: int | None
    dims: tuple[int, ...]
    channels: int
    filters: int
    groups: int
    indices: tuple[np.ndarray, ...]
    """For each of `dims`, an array over filters and channels of a group."""


@dataclass(frozen=True)
class RecognisedLayer:
    """A workload, and the views under which a program's tensors are its tensors.

    Attributes
    ----------
    workload
        The layer, or the gradient of one.
    data, weights : Tensor
        The tensors of the program.
    data_index, weights_index : callable
        Return the index in a tensor of the program for an index of the workload's tensor.
    result_index : callable
        Returns the index of the workload's result for an index of the program's.
    """

    workload: Any
    data: Tensor
    weights: Tensor
    data_index: Index
    weights_index: Index
    result_index: Index

    @property
    def is_gradient(self) -> bool:
        """Whether it is the gradient of a layer, or a layer with a window that runs backwards."""
        return isinstance(self.workload, (Transposed, WeightGradient)) or self.workload.backwards

    def inputs(self) -> tuple[Tensor, Tensor]:
        """Return data and weights as the workload declares them: the program's tensors, or views of them."""
        data, given = self.workload.placeholders()
        return (
            _view(data, data, self.data, self.data_index, "data"),
            _view(self.workload.kernels_in(given), given, self.weights, self.weights_index, "weights"),
        )

    def result(self, made: Tensor, shape: Sequence[Any]) -> Tensor:
        """Return the program's result: the workload's, or a view of it."""
        return _moved(made, tuple(shape), lambda *at: made(*self.result_index(*at)), "view")

    def reorders(self, shape: Sequence[Any]) -> bool:
        """Return whether the program's result, of this shape, differs from the workload's in the order or shape of its
        dimensions."""
        made = placeholder(self.workload.out_shape, self.workload.result)
        return self.result(made, shape) is not made


def _same(*at: Any) -> Sequence[Any]:
    return at


def _view(wanted: Tensor, given: Tensor, source: Tensor, index: Index, name: str) -> Tensor:
    """Return a tensor as `wanted`, which reads `given`, with `source` at `index` in its place."""

    def element(*at: Any) -> Any:
        own = wanted.op
        if not isinstance(own, ComputeOp):
            return source(*index(*at))
        there = {axis.var: i for axis, i in zip(own.axis, at, strict=True)}
        read = substitute(own.body[0], there)
        return rewrite(read, lambda e: source(*index(*e.indices)) if isinstance(e, Load) and e.source is given else e)

    return _moved(source, wanted.shape, element, name)


def _moved(source: Tensor, shape: Sequence[Any], element: Callable[..., Any], name: str) -> Tensor:
    """Declare elements of a tensor in another order; return the tensor itself if the order is the same."""
    made: Tensor = compute(tuple(shape), element, name, f"injective,{name}")
    one = [axis.var for axis in made.op.axis]
    body: Any = simplify(
        made.op.body[0], EMPTY.bind_all({v: (as_expr(0), e) for v, e in zip(one, made.shape, strict=True)})
    )
    same = isinstance(body, Load) and body.source is source and len(body.indices) == len(one)
    sizes = [str(e) for e in source.shape] == [str(e) for e in shape]
    if same and sizes and all(i is var or str(e) == "1" for i, var, e in zip(body.indices, one, shape, strict=True)):
        return source
    return made


@lru_cache(maxsize=32)
def recognised(op: ComputeOp) -> RecognisedLayer | None:
    """Return the layer, or the gradient of one, that a reduction computes; None if it is neither.

    Layers have one or two spatial dimensions and a window of more than one tap, unless the declaration names a choice.
    """
    choice = choice_of(op)
    if choice is not None:
        data, weights = operands_of(op, choice.workload)
        given = tuple(int(e) for e in choice.workload.placeholders()[1].shape)
        return RecognisedLayer(choice.workload, data, weights, _same, weights_index(weights, given), _same)
    form = bilinear(op)
    if form is None:
        return None
    kinds = {str(factor.dtype) for factor in form.factors}
    dtype = kinds.pop()
    if kinds or dtype not in DTYPES or str(op.dtypes[0]) not in (dtype, sum_dtype(dtype)):
        return None
    found = [layer for roles in permutations(range(3)) if (layer := _layer(form, roles, dtype)) is not None]
    return min(found, key=lambda layer: prod(layer.workload.kernel), default=None)


def _layer(form: Bilinear, roles: tuple[int, ...], dtype: str) -> RecognisedLayer | None:
    """The layer in which result and factors have these roles: `roles` has the numbers of images, results, weights."""
    sorted_tables = _sorted(form, roles)
    channels = None if sorted_tables is None else _channels(form, roles, sorted_tables[2])
    if sorted_tables is None or channels is None:
        return None
    slides, pairs, _ = sorted_tables
    for batch in (*(p for p in pairs if (p.size, p.stride, p.before) == (p.places, 1, 0)), _ONE_ROW):
        space = sorted([*slides, *(p for p in pairs if p is not batch)], key=lambda s: s.dims[0] or 0)
        if 1 <= len(space) <= 2:
            rows, columns = [_ONE_ROW] * (2 - len(space)) + space
            made = _with_roles(form, roles, dtype, (batch, channels, rows, columns))
            if made is not None:
                return made
    return None


def _sorted(
    form: Bilinear, roles: tuple[int, ...]
) -> tuple[list[_SpatialWindow], list[_SpatialWindow], list[IndexTable]] | None:
    """The tables as windows, as dimensions of images and results without a window, and as channels."""
    slides: list[_SpatialWindow] = []
    pairs: list[_SpatialWindow] = []
    channels = []
    for table in form.tables:
        dims = [table.dims[role] for role in roles]
        slide = _slide(form, roles, table) if dims[0] and dims[1] else None
        if slide is not None:
            (slides if slide.taps > 1 else pairs).append(slide)
        elif dims[2]:
            channels.append(table)
        else:
            return None
    return (slides, pairs, channels) if slides else None


def _slide(form: Bilinear, roles: tuple[int, ...], table: IndexTable) -> _SpatialWindow | None:
    """The window that a table describes; None if it describes none."""
    if any(len(table.dims[role]) > 1 for role in roles) or not table.length:
        return None
    images, places, taps = (table.columns[role][0] if table.columns[role] else None for role in roles)
    dims = [table.dims[role][0] if table.dims[role] else None for role in roles]
    size, count, kernel = (1 if d is None else form.shapes[role][d] for role, d in zip(roles, dims, strict=True))
    assert images is not None
    assert places is not None
    taps = np.zeros_like(images) if taps is None else taps
    stride, dilation = _step(images, places, taps), _step(images, taps, places)
    before = int(places[0]) * stride + int(taps[0]) * dilation - int(images[0])
    few = count * kernel > _MOSTLY_INSIDE * (table.length + 1)
    if stride < 1 or dilation < 1 or before < 0 or few:
        return None
    at, tap = np.indices((count, kernel)).reshape(2, -1)
    seen = at * stride + tap * dilation - before
    inside = (seen >= 0) & (seen < size)
    wanted = (at[inside] * kernel + tap[inside]) * size + seen[inside]
    given = (places.astype(np.int64) * kernel + taps) * size + images
    if len(given) != len(wanted) or not np.array_equal(np.sort(given), np.sort(wanted)):
        return None
    return _SpatialWindow((dims[0], dims[1], dims[2]), size, count, kernel, stride, before, dilation)


def _step(of: np.ndarray, along: np.ndarray, fixed: np.ndarray) -> int:
    """Return the step of index `of` per step of index `along` while `fixed` stays; 1 if `along` never moves."""
    order = np.lexsort((along, fixed))
    together = np.flatnonzero((np.diff(fixed[order]) == 0) & (np.diff(along[order]) != 0))
    if not len(together):
        return 1
    first, then = order[together[0]], order[together[0] + 1]
    moved, steps = int(of[then]) - int(of[first]), int(along[then]) - int(along[first])
    return moved // steps if moved % steps == 0 else 0


def _channels(form: Bilinear, roles: tuple[int, ...], tables: list[IndexTable]) -> _LayerChannels | None:
    """The channels that tables describe together; None if no layer in groups has them."""
    dims = [[d for table in tables for d in table.dims[role]] for role in roles]
    if len(dims[0]) > 1 or len(dims[1]) > 1:
        return None
    columns = [_combined([table.columns[role] for table in tables], [t.length for t in tables]) for role in roles]
    count = prod(table.length for table in tables)
    nothing = np.zeros(count, np.int64)
    c, f = (own[0].astype(np.int64) if own else nothing for own in columns[:2])
    channels, filters = (form.shapes[role][own[0]] if own else 1 for role, own in zip(roles, dims[:2], strict=False))
    weights = prod(form.shapes[roles[2]][d] for d in dims[2])
    if weights != count or channels * filters % count:
        return None
    groups = channels * filters // count
    per, shared = channels // groups, filters // groups
    if channels % groups or filters % groups or not np.array_equal(c // per, f // shared):
        return None
    order = np.argsort(f * per + c % per, kind="stable")
    place = (f * per + c % per)[order]
    if not np.array_equal(place, np.arange(count)):
        return None
    indices = tuple(column[order].reshape(filters, per) for column in columns[2])
    one = (own[0] if own else None for own in dims[:2])
    images, places = one
    return _LayerChannels(images, places, tuple(dims[2]), channels, filters, groups, indices)


def _combined(columns: list[tuple[np.ndarray, ...]], lengths: list[int]) -> list[np.ndarray]:
    """The columns of tables in all combinations of their rows."""
    found = []
    for k, own in enumerate(columns):
        before, after = prod(lengths[:k]), prod(lengths[k + 1 :])
        found += [np.tile(np.repeat(column, after), before) for column in own]
    return found


Parts = tuple[_SpatialWindow, _LayerChannels, _SpatialWindow, _SpatialWindow]


def _with_roles(form: Bilinear, roles: tuple[int, ...], dtype: str, parts: Parts) -> RecognisedLayer | None:
    """The layer of batch, channels, rows and columns; None if its tensors have no common layout."""
    batch, channels, *space = parts
    of_images = (batch.dims[0], channels.images, *(s.dims[0] for s in space))
    of_places = (batch.dims[1], channels.places, *(s.dims[1] for s in space))
    layout = next((each for each in LAYOUTS if _lies_in(each, of_images) and _lies_in(each, of_places)), None)
    weights = _weights(channels, [s.dims[2] for s in space], len(form.shapes[roles[2]]))
    workload = None if layout is None else _workload(roles.index(_RESULT), dtype, layout, parts)
    if layout is None or weights is None or workload is None:
        return None
    to_tensor, from_tensor = weights
    ranks = [len(form.shapes[role]) for role in roles]
    indices: list[Index] = [
        _into(layout, of_images, ranks[0]), _into(layout, of_places, ranks[1]),
        to_tensor if not isinstance(workload, Depthwise) or workload.backwards else _of_multiples(workload, to_tensor),
    ]  # fmt: skip
    result = roles.index(_RESULT)
    data, other = [(1, 2), (0, 2), (0, 1)][result] if result else (1, 2)
    out: Index = from_tensor if result == 2 else _out_of(layout, of_images if result == 0 else of_places)
    return RecognisedLayer(
        workload, form.factors[roles[data] - 1], form.factors[roles[other] - 1], indices[data], indices[other], out
    )


def _lies_in(layout: str, dims: tuple[int | None, ...]) -> bool:
    """Whether dimensions of batch, channels, rows, columns are in the order of a layout, as far as they exist."""
    there = [d for d in in_layout(layout, dims) if d is not None]
    return there == sorted(there)


def _into(layout: str, dims: tuple[int | None, ...], rank: int) -> Index:
    """The index in a tensor for an index in a layout."""

    def index(*at: Any) -> Sequence[Any]:
        found: list[Any] = [0] * rank
        for d, i in zip(dims, from_layout(layout, at), strict=True):
            if d is not None:
                found[d] = i
        return found

    return index


def _out_of(layout: str, dims: tuple[int | None, ...]) -> Index:
    """The index in a layout for an index in a tensor."""
    return lambda *at: in_layout(layout, tuple(0 if d is None else at[d] for d in dims))


def _of_multiples(of: Depthwise, index: Index) -> Index:
    """The index for one in the weights of a depthwise layer: channel, filter of the channel, row, column."""
    return lambda c, m, ky, kx: index(c * of.multiplier + m if of.multiplier > 1 else c, 0, ky, kx)


def _weights(of: _LayerChannels, taps: list[int | None], rank: int) -> tuple[Index, Index] | None:
    """The index in the weights' tensor for filter, channel of a group, row and column, and the opposite."""
    per, shared = of.channels // of.groups, of.filters // of.groups
    forms: list[Callable[[Any, Any], Any]] = [
        lambda f, rc: f, lambda f, rc: rc, lambda f, rc: f % shared, lambda f, rc: f // shared,
        lambda f, rc: f // shared * per + rc,
    ]  # fmt: skip
    f, rc = np.indices((of.filters, per))
    own = [next((form for form in forms if np.array_equal(form(f, rc), v)), None) for v in of.indices]
    back = [_inverse(of, f), _inverse(of, rc)]
    if None in own or None in back:
        return None

    def into(*at: Any) -> Sequence[Any]:
        found: list[Any] = [0] * rank
        for d, form in zip(of.dims, own, strict=True):
            found[d] = form(at[0], at[1]) if form is not None else 0
        for tap, i in zip(taps, at[2:], strict=True):
            if tap is not None:
                found[tap] = i
        return found

    def out_of(*at: Any) -> Sequence[Any]:
        channels = [form(*(at[d] for d in of.dims)) if form is not None else 0 for form in back]
        return (*channels, *(0 if d is None else at[d] for d in taps))

    return into, out_of


def _inverse(of: _LayerChannels, wanted: np.ndarray) -> Callable[..., Any] | None:
    """How `wanted`, an array over filters and channels of a group, follows from the weights' indices."""
    per, shared = of.channels // of.groups, of.filters // of.groups

    def forms() -> Iterator[Callable[..., Any]]:
        yield lambda *at: 0
        for k in range(len(of.indices)):
            yield lambda *at, k=k: at[k]
            yield lambda *at, k=k: at[k] % per
            for j, other in enumerate(of.indices):
                extent = int(other.max()) + 1
                yield lambda *at, k=k, j=j, extent=extent: at[k] * extent + at[j]
                yield lambda *at, k=k, j=j: at[k] // per * shared + at[j]

    equal = (f for f in forms() if np.array_equal(np.broadcast_to(f(*of.indices), wanted.shape), wanted))
    return next(equal, None)


def _workload(result: int, dtype: str, layout: str, parts: Parts) -> Any:
    """The workload that computes the images (0), the results (1) or the weights (2) of a layer; None if none fits."""
    batch, channels, *space = parts
    images = (batch.size, channels.channels, *(s.size for s in space))
    kernel, stride, dilation = (tuple(getattr(s, name) for s in space) for name in ("taps", "stride", "dilation"))
    padding = (*(s.before for s in space), *(s.after for s in space))
    places = tuple(s.places for s in space)
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))
    if result == 0:
        above = (batch.places, channels.filters, *places)
        left = tuple(
            s.size - ((s.places - 1) * s.stride + r - s.before - s.after) for s, r in zip(space, reach, strict=True)
        )
        made = Transposed.of(
            above, channels.channels, kernel, stride, padding, left, dilation, channels.groups, dtype, layout
        )
        return made.as_convolution or made
    if positions(images[2:], reach, stride, padding) != places:
        return None
    window = (kernel, stride, padding, dilation)
    if result == 2:
        return WeightGradient.of(images, channels.filters, *window, channels.groups, dtype, layout)
    if channels.groups == channels.channels:
        return Depthwise.of(images, *window, channels.filters // channels.channels, dtype, layout)
    return Conv2dLayer.of(images, channels.filters, *window, channels.groups, dtype, layout)
