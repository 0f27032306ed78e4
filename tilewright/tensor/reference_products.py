"""Products of tensors in NumPy: reductions that add the products of two tensors' elements, such as convolutions.

Large ones take minutes term by term. A library of linear algebra computes them in seconds, as exactly in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr.nodes import TRUE, Expr, IntImm, Var
from ..expr.traverse import variables
from .reduction import Reduce, adds_from_zero
from .tensor import ComputeOp, Tensor

_LEAST_TERMS = 1 << 22
"""Terms below which the general way is fast enough."""
_MOST_COPIED = 1 << 27
"""Elements of a factor that are copied into the order of a matrix."""


def factors_of(op: ComputeOp) -> tuple[n.Load, n.Load] | None:
    """Return the loads that a large sum of products multiplies; None if it is another reduction."""
    reduce, axes = op.body[0], op.loop_axes
    if not isinstance(reduce, Reduce) or len(op.body) > 1 or reduce.init or reduce.ends or not op.dtypes[0].is_float:
        return None
    if reduce.condition is not TRUE or not adds_from_zero(reduce.combiner):
        return None
    sizes = {axis.var: _size(axis.dom.extent) for axis in axes if axis.dom is not None and _is_zero(axis.dom.min)}
    if len(sizes) < len(axes) or 0 in sizes.values() or prod(sizes.values()) < _LEAST_TERMS:
        return None
    term = reduce.source[0]
    parts = [_load(part) for part in ((term.a, term.b) if isinstance(term, n.Mul) else ())]
    if len(parts) != 2 or not isinstance(parts[0], n.Load) or not isinstance(parts[1], n.Load):
        return None
    reads = parts[0], parts[1]
    strides = [_strides(read, sizes) for read in reads]
    return reads if None not in strides and _groups(op, reads) is not None else None


def product(
    op: ComputeOp,
    reads: tuple[n.Load, n.Load],
    left: np.ndarray,
    right: np.ndarray,
    chosen: Mapping[Var, np.ndarray] | None = None,
) -> np.ndarray:
    """Return the values of a sum of products, given the values of the two tensors.

    `chosen` has positions along some axes of the result; by default, all positions are computed.
    """
    groups = _groups(op, reads)
    if groups is None:
        raise InternalError(f"the sums of {op} are no products of matrices")
    sizes = {axis.var: _size(axis.dom.extent) for axis in op.loop_axes if axis.dom is not None}
    a, b = (_view(read, values, sizes, chosen or {}) for read, values in zip(reads, (left, right), strict=True))
    sizes |= {var: at.size for var, at in (chosen or {}).items()}
    if not groups[1] or not groups[2] or max(a[0].size, b[0].size) > _MOST_COPIED:
        numbers = {var: at for at, var in enumerate(sizes)}
        terms = (part for view, axes in (a, b) for part in (view, [numbers[var] for var in axes]))
        return np.asarray(np.einsum(*terms, [numbers[axis.var] for axis in op.axis]))
    batch, rows, columns, depth = groups
    found = [*batch, *rows, *columns]
    made = (_matrices(*a, batch, rows, depth) @ _matrices(*b, batch, depth, columns)).reshape([sizes[v] for v in found])
    return np.asarray(made.transpose([found.index(axis.var) for axis in op.axis]))


def _load(e: Expr) -> Expr:
    while isinstance(e, n.Cast) and e.dtype.is_float and e.value.dtype.is_float:
        e = e.value
    return e


def _size(extent: object) -> int:
    return extent.value if isinstance(extent, IntImm) else 0


def _is_zero(e: object) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _strides(read: n.Load, sizes: Mapping[Var, int]) -> list[dict[Var | None, int]] | None:
    """The steps of each index of a load per variable, and its start; None if one is not linear or may be outside."""
    if not isinstance(read.source, Tensor):
        return None
    found = [_linear(index) for index in read.indices]
    for steps, extent in zip(found, read.source.shape, strict=True):
        if steps is None or not set(steps) <= {*sizes, None}:
            return None
        moves = [step * (sizes[var] - 1) for var, step in steps.items() if var is not None]
        start = steps.get(None, 0)
        if start + sum(m for m in moves if m < 0) < 0 or start + sum(m for m in moves if m > 0) >= _size(extent):
            return None
    return [steps for steps in found if steps is not None]


def _linear(e: Expr) -> dict[Var | None, int] | None:
    """The factor of each variable of an index, and of None the constant; None if the index is not linear."""
    if isinstance(e, Var):
        return {e: 1}
    if isinstance(e, IntImm):
        return {None: e.value}
    if not isinstance(e, (n.Add, n.Sub, n.Mul)):
        return None
    a, b = _linear(e.a), _linear(e.b)
    if a is None or b is None:
        return None
    if isinstance(e, n.Mul):
        a, b = (a, b) if set(b) <= {None} else (b, a)
        return {var: step * b.get(None, 0) for var, step in a.items()} if set(b) <= {None} else None
    sign = 1 if isinstance(e, n.Add) else -1
    return {var: a.get(var, 0) + sign * b.get(var, 0) for var in {**a, **b}}


def _view(
    read: n.Load, values: np.ndarray, sizes: Mapping[Var, int], chosen: Mapping[Var, np.ndarray]
) -> tuple[np.ndarray, list[Var]]:
    """The elements that a load reads, with a dimension for each variable of its indices."""
    steps = _strides(read, sizes)
    if steps is None:
        raise InternalError(f"the indices of {read} are not linear")
    start = values[tuple(slice(each.get(None, 0), None) for each in steps)]
    axes = [var for var in sizes if any(var in each for each in steps)]
    strides = [sum(each.get(var, 0) * own for each, own in zip(steps, values.strides, strict=True)) for var in axes]
    view = np.lib.stride_tricks.as_strided(start, [sizes[var] for var in axes], strides, writeable=False)
    for at, var in enumerate(axes):
        if var in chosen:
            view = view.take(chosen[var], at)
    return view, axes


def _groups(op: ComputeOp, reads: tuple[n.Load, n.Load]) -> tuple[Sequence[Var], ...] | None:
    """Return the variables of batches, rows, columns and terms; None if an axis is none of these."""
    left, right = (set(variables(*read.indices)) for read in reads)
    data, reduced = ([axis.var for axis in axes] for axes in (op.axis, op.reduce_axis))
    if any(var not in left or var not in right for var in reduced) or any(var not in left | right for var in data):
        return None
    batch = [var for var in data if var in left and var in right]
    return batch, [v for v in data if v not in right], [v for v in data if v not in left], reduced


def _matrices(view: np.ndarray, axes: Sequence[Var], *groups: Sequence[Var]) -> np.ndarray:
    """Return a tensor as matrices of three dimensions, each of one group of variables."""
    turned = view.transpose([axes.index(var) for group in groups for var in group])
    sizes = dict(zip(axes, view.shape, strict=True))
    return np.asarray(turned.reshape([prod(sizes[var] for var in group) for group in groups]))
