"""Products of matrices in NumPy: reductions that add the products of two tensors' elements.

Large ones take minutes term by term. A library of linear algebra computes them in seconds, as exactly in float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from ..core.errors import InternalError
from ..expr import nodes as n
from ..expr.nodes import TRUE, Expr, IntImm, Var
from .reduction import Reduce
from .tensor import ComputeOp, Tensor

_LEAST_TERMS = 1 << 22
"""Terms below which the general way is fast enough."""


def factors_of(op: ComputeOp) -> tuple[n.Load, n.Load] | None:
    """Return the loads that a large sum of products multiplies; None if it is another reduction."""
    reduce, axes = op.body[0], op.loop_axes
    if not isinstance(reduce, Reduce) or len(op.body) > 1 or reduce.init or reduce.ends or not op.dtypes[0].is_float:
        return None
    a, b, term = reduce.combiner.lhs[0], reduce.combiner.rhs[0], reduce.source[0]
    if reduce.condition is not TRUE or reduce.combiner.result[0] not in (n.Add(a, b), n.Add(b, a)):
        return None
    sizes = {axis.var: _size(axis.dom.extent) for axis in axes if axis.dom is not None and _is_zero(axis.dom.min)}
    if len(sizes) < len(axes) or 0 in sizes.values() or prod(sizes.values()) < _LEAST_TERMS:
        return None
    parts = [_load(part) for part in ((term.a, term.b) if isinstance(term, n.Mul) else ())]
    if len(parts) != 2 or not isinstance(parts[0], n.Load) or not isinstance(parts[1], n.Load):
        return None
    reads = parts[0], parts[1]
    return reads if all(_is_whole(read, sizes) for read in reads) and _groups(op, reads) is not None else None


def product(op: ComputeOp, reads: tuple[n.Load, n.Load], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the values of a sum of products, given the values of the two tensors."""
    groups = _groups(op, reads)
    if groups is None:
        raise InternalError(f"the sums of {op} are no products of matrices")
    batch, rows, columns, depth = groups
    a, b = _matrices(reads[0], left, batch, rows, depth), _matrices(reads[1], right, batch, depth, columns)
    sizes = {axis.var: _size(axis.dom.extent) for axis in op.axis if axis.dom is not None}
    found = [*batch, *rows, *columns]
    made = (a @ b).reshape([sizes[var] for var in found])
    return np.asarray(made.transpose([found.index(axis.var) for axis in op.axis]))


def _load(e: Expr) -> Expr:
    while isinstance(e, n.Cast) and e.dtype.is_float and e.value.dtype.is_float:
        e = e.value
    return e


def _size(extent: object) -> int:
    return extent.value if isinstance(extent, IntImm) else 0


def _is_zero(e: object) -> bool:
    return isinstance(e, IntImm) and e.value == 0


def _is_whole(read: n.Load, sizes: Mapping[Var, int]) -> bool:
    """Whether a load reads a whole tensor, each dimension by an axis of its own."""
    if not isinstance(read.source, Tensor) or len(set(read.indices)) < len(read.indices):
        return False
    return all(
        isinstance(index, Var) and sizes.get(index) == _size(extent)
        for index, extent in zip(read.indices, read.source.shape, strict=True)
    )


def _groups(op: ComputeOp, reads: tuple[n.Load, n.Load]) -> tuple[Sequence[Var], ...] | None:
    """Return the variables of batches, rows, columns and terms; None if an axis is none of these."""
    left, right = (set(read.indices) for read in reads)
    data, reduced = ([axis.var for axis in axes] for axes in (op.axis, op.reduce_axis))
    if any(var not in left or var not in right for var in reduced) or any(var not in left | right for var in data):
        return None
    batch = [var for var in data if var in left and var in right]
    return batch, [v for v in data if v not in right], [v for v in data if v not in left], reduced


def _matrices(read: n.Load, values: np.ndarray, *groups: Sequence[Var]) -> np.ndarray:
    """Return a tensor as matrices of three dimensions, each of one group of variables."""
    places = {index: at for at, index in enumerate(read.indices)}
    turned = values.transpose([places[var] for group in groups for var in group])
    return np.asarray(turned.reshape([prod(values.shape[places[var]] for var in group) for group in groups]))
