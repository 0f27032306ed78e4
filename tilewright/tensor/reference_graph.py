"""The tensors of a graph with their values in NumPy, whole or at the elements that others need.

An operation is evaluated over a grid of elements, the combinations of positions along each dimension, or over a list
of elements. A scan evaluates only the row of its update that comes next, and a sampled reference only the elements that
its sample depends on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from ..expr.traverse import post_order
from .axis import IterVar, extent_or
from .extern import ExternOp
from .partial_results import combines_parts
from .reduction import Reduce
from .reference_expressions import ExpressionValues
from .reference_products import factors_of, product
from .reference_terms import Terms, no_range
from .scan import ScanOp
from .script import ScriptOp
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological

AT_ONCE = 1 << 20
"""Elements of a reduction that are evaluated together."""
_STRETCH = 1 << 17
"""Elements of an operation that are evaluated together."""
_CALL_STEPS = 8
"""The steps of a call of a function, such as an exponential, as many as it takes additions' time."""
_PRODUCT_STEPS = 0.02
"""The steps of a term in a product of matrices."""


class OverBudgetError(Exception):
    """The evaluation would take more steps than allowed."""


def steps_of(op: Operation, as_product: bool) -> float:
    """Return the steps of NumPy for one element of an operation: one step handles a number as an addition does.

    `as_product`: whether a sum of products is computed by a library.
    """
    if not isinstance(op, ComputeOp):
        return 0.0 if isinstance(op, PlaceholderOp) else 1.0
    terms = math.prod(extent_or(axis, 1) for axis in op.reduce_axis)
    if as_product and factors_of(op) is not None:
        return terms * _PRODUCT_STEPS
    return float(terms * sum(_steps_of_node(e) for e in set(post_order(*op.body))))


def _steps_of_node(e: Any) -> int:
    if isinstance(e, n.Load):
        return 1 + len(e.indices)
    return _CALL_STEPS if isinstance(e, n.Call) else int(bool(e.children()))


def ordered(outputs: Sequence[Operation]) -> list[Operation]:
    """Return the operations that `outputs` depend on, producers first, without the steps and states of scans."""
    order = topological(outputs)
    scans = [op for op in order if isinstance(op, ScanOp)]
    within = {each for op in scans for each in (*op.steps(), *(state.op for state in op.state))}
    return [op for op in order if op not in within]


class ReferenceGraph:
    """The tensors with known values, and the sizes. An evaluation of more than `steps` raises OverBudgetError."""

    def __init__(
        self, inputs: Mapping[Any, Any], floats: np.dtype, lenient: bool = False, steps: float = math.inf
    ) -> None:
        self.inputs = inputs
        self.floats = floats
        self.lenient = lenient
        self.steps = steps
        self.arrays: dict[Tensor, np.ndarray] = {}
        """The tensors with all of their values."""
        self.sizes: dict[Var, np.ndarray] = {
            key: np.asarray(value, key.dtype.numpy) for key, value in inputs.items() if isinstance(key, Var)
        }
        self._points: dict[Operation, tuple[np.ndarray, list[np.ndarray]]] = {}
        """The positions and values of the known elements of other operations; positions count in C order."""

    def numpy(self, dtype: DType) -> np.dtype:
        """The type in which elements of `dtype` are held."""
        return self.floats if dtype.is_float else dtype.numpy

    def evaluate(self, op: Operation) -> None:
        """Fill in all values of the operation's outputs, and of inputs that have none if they are needed."""
        if isinstance(op, PlaceholderOp):
            for tensor in op.outputs:
                self.arrays[tensor] = self._given(tensor)
        elif isinstance(op, ComputeOp):
            values = self._on_grid(op, [np.arange(self.size(extent)) for extent in op.shape])
            self.arrays.update(zip(op.outputs, values, strict=True))
        elif isinstance(op, ScriptOp):
            found = op.emulation([self.arrays[t].copy() for t in op.inputs], lambda name: self.numpy(DType(name)))
            self.arrays.update(zip(op.outputs, found, strict=True))
        elif isinstance(op, ScanOp):
            self._scan(op)
        elif isinstance(op, ExternOp):
            if all(tensor in self.inputs for tensor in op.outputs):
                self.arrays.update((tensor, self._given(tensor)) for tensor in op.outputs)
                return
            raise UserError(
                f"{op.name!r} is a te.extern: its statement has no NumPy reference",
                primitive="reference",
                fix=f"give its values as an input: {{{op.name}: array}}",
            )
        else:
            raise InternalError(f"no reference for {op!r}")

    def complete(self, op: Operation) -> None:
        """Fill in all values of an operation, and of its inputs."""
        for each in ordered([op]):
            if each.outputs[0] not in self.arrays:
                self._spend(each, math.prod(self.shape_of(each.outputs[0])))
                self.evaluate(each)

    def at(self, op: Operation, points: np.ndarray) -> list[np.ndarray]:
        """Return the values of an operation's outputs at positions in C order."""
        shape = self.shape_of(op.outputs[0])
        if op.outputs[0] not in self.arrays and (not isinstance(op, ComputeOp) or 2 * points.size >= math.prod(shape)):
            self.complete(op)
        if op.outputs[0] in self.arrays or not isinstance(op, ComputeOp):
            return [self.arrays[tensor].reshape(-1)[points] for tensor in op.outputs]
        known, values = self._points.get(op, (np.empty(0, np.int64), []))
        new = np.setdiff1d(points, known)
        if new.size:
            self._spend(op, new.size)
            made = self._at_new(op, new, shape)
            order = np.argsort(np.concatenate([known, new]))
            pairs = zip(values, made, strict=True) if values else ((each,) for each in made)
            known, values = np.concatenate([known, new])[order], [np.concatenate(each)[order] for each in pairs]
            self._points[op] = known, values
        places = np.searchsorted(known, points)
        return [each[places] for each in values]

    def row(self, tensor: Tensor, row: int) -> np.ndarray:
        """Return an element of a tensor along the first dimension."""
        if isinstance(tensor.op, ComputeOp):
            others = [np.arange(extent) for extent in self.shape_of(tensor)[1:]]
            return np.asarray(self._on_grid(tensor.op, [np.array([row]), *others])[tensor.value_index][0])
        self.complete(tensor.op)
        return np.asarray(self.arrays[tensor][row])

    def read(self, tensor: Tensor, indices: Sequence[np.ndarray]) -> np.ndarray:
        """The elements of a tensor at indices inside it."""
        if tensor not in self.arrays:
            shape = self.shape_of(tensor)
            flat = np.ravel_multi_index([*np.broadcast_arrays(*indices)], shape) if indices else np.zeros((), np.int64)
            if isinstance(tensor.op, ComputeOp):
                points, places = _distinct(flat, math.prod(shape))
                return np.asarray(self.at(tensor.op, points)[tensor.value_index][places])
            self.complete(tensor.op)
        return np.asarray(self.arrays[tensor][tuple(indices)])

    def shape_of(self, tensor: Tensor) -> tuple[int, ...]:
        if tensor in self.arrays:
            return self.arrays[tensor].shape
        return tuple(self.size(extent) for extent in tensor.shape)

    def size(self, extent: Expr) -> int:
        """An extent as a number."""
        return int(ExpressionValues(self, {}).value(extent))

    def _spend(self, op: Operation, elements: int) -> None:
        self.steps -= elements * steps_of(op, self._factors(op, elements) is not None)
        if self.steps < 0:
            raise OverBudgetError

    def _on_grid(self, op: ComputeOp, places: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The values of the outputs at all combinations of positions, in an array with a dimension for each."""
        shape = tuple(each.size for each in places)
        factors = self._factors(op, math.prod(shape))
        if factors is not None:
            return [np.array(self._product(op, factors, places), self.numpy(op.dtypes[0]))]
        found = [np.empty(shape, self.numpy(tensor.dtype)) for tensor in op.outputs]
        # Stretches of the first dimension keep temporary arrays in the cache.
        rows = max(1, _STRETCH // max(1, math.prod(shape[1:])))
        for begin in range(0, shape[0] if shape else 1, rows):
            part = [places[0][begin : begin + rows], *places[1:]] if shape else []
            for whole, values in zip(found, self._values(op, part), strict=True):
                whole[slice(begin, begin + rows) if shape else ()] = values
        return found

    def _values(self, op: ComputeOp, places: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The values of the outputs at combinations of positions, in arrays that broadcast to their shape."""
        first, rank = op.body[0], len(places)
        if isinstance(first, Reduce):
            return _reduction(self, first, self._axes(op, places, rank + 1), tuple(each.size for each in places))
        body = ExpressionValues(self, self._axes(op, places, rank))
        return [body.value(e) for e in op.body]

    def _factors(self, op: Operation, elements: int) -> tuple[n.Load, n.Load] | None:
        """The factors of a sum of products that a library computes, because it reads whole tensors."""
        factors = factors_of(op) if isinstance(op, ComputeOp) and self.floats == np.float64 else None
        if factors is None or elements == math.prod(self.shape_of(op.outputs[0])):
            return factors
        sources = [read.source for read in factors]
        known = all(s in self.arrays or (isinstance(s, Tensor) and isinstance(s.op, PlaceholderOp)) for s in sources)
        return factors if known else None

    def _product(self, op: ComputeOp, factors: tuple[n.Load, n.Load], places: Sequence[np.ndarray]) -> np.ndarray:
        sources = [read.source for read in factors if isinstance(read.source, Tensor)]
        for source in sources:
            if source not in self.arrays:
                self.complete(source.op)
        left, right = (self.arrays[source] for source in sources)
        chosen = {axis.var: at for axis, at in zip(op.axis, places, strict=True) if at.size != extent_or(axis, -1)}
        return product(op, factors, left, right, chosen)

    def _at_new(self, op: ComputeOp, points: np.ndarray, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Evaluate an operation at sorted positions."""
        places = np.unravel_index(points, shape)
        grid = [np.unique(each) for each in places]
        if math.prod(each.size for each in grid) == points.size:
            return [values.reshape(-1) for values in self._on_grid(op, grid)]
        first = op.body[0]
        reduced = isinstance(first, Reduce)
        env = {
            axis.var: (at + self._span(axis)[0]).astype(axis.var.dtype.numpy).reshape((-1, 1) if reduced else (-1,))
            for axis, at in zip(op.axis, places, strict=True)
        }
        if isinstance(first, Reduce):
            values = _reduction(self, first, env, points.shape)
        else:
            body = ExpressionValues(self, env)
            values = [body.value(e) for e in op.body]
        made = zip(op.outputs, values, strict=True)
        return [np.array(np.broadcast_to(value, points.shape), self.numpy(t.dtype)) for t, value in made]

    def _axes(self, op: ComputeOp, places: Sequence[np.ndarray], rank: int) -> dict[Var, np.ndarray]:
        """The values of each data axis, as an array of `rank` dimensions that varies along its own dimension alone."""
        env = {}
        for d, (axis, at) in enumerate(zip(op.axis, places, strict=True)):
            values = (at + self._span(axis)[0]).astype(axis.var.dtype.numpy)
            env[axis.var] = values.reshape([-1 if i == d else 1 for i in range(rank)])
        return env

    def _span(self, axis: IterVar) -> tuple[int, int]:
        if axis.dom is None:
            raise no_range(axis)
        return self.size(axis.dom.min), self.size(axis.dom.extent)

    def _scan(self, op: ScanOp) -> None:
        """Fill in the rows of a scan one after the other, each from the update's values for the rows so far."""
        rows = [np.zeros([self.size(extent) for extent in state.shape], self.numpy(state.dtype)) for state in op.state]
        first = self.size(op.init[0].shape[0])
        for values, init in zip(rows, op.init, strict=True):
            values[:first] = self.arrays[init]
        for row in range(first, rows[0].shape[0]):
            step = ReferenceGraph(
                self.inputs, self.floats, lenient=True
            )  # elements that no condition selects mean nothing
            step.sizes.update(self.sizes)
            step.arrays = {**self.arrays, **dict(zip(op.state, rows, strict=True))}
            for values, update in zip(rows, op.update, strict=True):
                values[row] = step.row(update, row)
        self.arrays.update(zip(op.outputs, rows, strict=True))

    def _given(self, tensor: Tensor) -> np.ndarray:
        if tensor not in self.inputs:
            raise UserError(
                f"no value is given for the input {tensor.name!r}",
                primitive="reference",
                fix=f"give inputs={{{tensor.name}: an array of shape {list(tensor.shape)}, ...}}",
            )
        array = np.asarray(self.inputs[tensor], self.numpy(tensor.dtype))
        if array.ndim == tensor.ndim:
            for extent, size in zip(tensor.shape, array.shape, strict=True):
                if isinstance(extent, Var):
                    self.sizes.setdefault(extent, np.asarray(size, extent.dtype.numpy))
        if array.ndim != tensor.ndim or array.shape != tuple(self.size(extent) for extent in tensor.shape):
            raise UserError(
                f"the value of {tensor.name!r} has shape {list(array.shape)}, but the tensor has {list(tensor.shape)}",
                primitive="reference",
                fix="give an array of the declared shape",
            )
        return array


def _distinct(positions: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct positions in a tensor of `size` elements, sorted, and the place of each position in them."""
    if positions.size * 16 < size:
        points, places = np.unique(positions, return_inverse=True)
        return points, places.reshape(positions.shape)
    wanted = np.zeros(size, np.bool_)
    wanted[positions.reshape(-1)] = True
    return np.flatnonzero(wanted), (np.cumsum(wanted) - 1)[positions]


def _reduction(
    graph: ReferenceGraph, reduce: Reduce, data: Mapping[Var, np.ndarray], shape: tuple[int, ...]
) -> list[np.ndarray]:
    """The values of a reduction: a stretch of the reduction's points at a time, each combined pairwise, in order."""
    rank = len(shape) + 1
    terms = Terms(reduce, data, partial(ExpressionValues, graph))
    extents = terms.extents
    total = math.prod(extents)
    in_parts = combines_parts(reduce.combiner)  # otherwise point by point, without the points left out
    step = max(1, AT_ONCE // max(1, math.prod(shape))) if in_parts else 1
    start = ExpressionValues(graph, data)
    result = [start.value(e) for e in reduce.init or reduce.combiner.identity]
    neutral = [start.value(e) for e in reduce.combiner.identity]
    for first in range(0, total, step):
        points = np.unravel_index(np.arange(first, min(total, first + step)), extents)
        env, inside = terms.at(points)
        body = ExpressionValues(graph, env)
        kept = np.logical_and(inside, body.value(reduce.condition, inside))
        wide = (*shape, len(points[0]))
        sources = [
            np.broadcast_to(np.where(kept, body.value(e, kept), zero), wide)
            for e, zero in zip(reduce.source, neutral, strict=True)
        ]
        made = _combine(graph, reduce, result, _fold(graph, reduce, sources))
        result = made if in_parts else [np.where(kept, m, r) for m, r in zip(made, result, strict=True)]
    return [np.asarray(r)[..., 0] if np.ndim(r) == rank else np.asarray(r) for r in result]


def _fold(graph: ReferenceGraph, reduce: Reduce, values: list[np.ndarray]) -> list[np.ndarray]:
    """Combine values along their last dimension, neighbour with neighbour, until one value is left."""
    while (count := values[0].shape[-1]) > 1:
        even = count - count % 2
        pairs = _combine(graph, reduce, [v[..., 0:even:2] for v in values], [v[..., 1:even:2] for v in values])
        shape = (*values[0].shape[:-1], even // 2)
        pairs = [np.broadcast_to(p, shape) for p in pairs]
        if count % 2:
            pairs = [np.concatenate([p, v[..., -1:]], axis=-1) for p, v in zip(pairs, values, strict=True)]
        values = pairs
    return values


def _combine(graph: ReferenceGraph, reduce: Reduce, lhs: list[np.ndarray], rhs: list[np.ndarray]) -> list[np.ndarray]:
    combiner = reduce.combiner
    env = {**dict(zip(combiner.lhs, lhs, strict=True)), **dict(zip(combiner.rhs, rhs, strict=True))}
    body = ExpressionValues(graph, env)
    return [body.value(e) for e in combiner.result]
