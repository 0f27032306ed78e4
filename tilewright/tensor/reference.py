"""What a graph of tensors means: its values in NumPy, in float64, straight from the declarations.

Every body is evaluated over whole axes at once, with no schedule, no loops and no simplification, so that nothing
of the compiler stands between a declaration and these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..core.recursion import deep
from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from .axis import IterVar
from .extern import ExternOp
from .reduction import Reduce
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological

AT_ONCE = 1 << 20  # elements of a reduction that are evaluated together
Active = tuple[tuple[Expr, bool], ...]  # the conditions above an expression, and which side of each it is on
EVERYWHERE: Active = ()


@deep
def reference(
    outputs: Tensor | Sequence[Tensor], inputs: Mapping[Any, Any], dtype: Any = np.float64
) -> list[np.ndarray]:
    """The values of `outputs`, given those of the tensors (and size variables) that they depend on.

    Floating-point tensors are computed in `dtype` whatever their own type; integers have theirs, and wrap. Raises
    UserError for an input that is missing or has another shape, and where a declaration reads outside a tensor or
    divides an integer by zero.
    """
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    graph = _Graph(inputs, np.dtype(dtype))
    for op in topological([tensor.op for tensor in wanted]):
        graph.evaluate(op)
    return [graph.arrays[tensor] for tensor in wanted]


class _Graph:
    """The tensors whose values are known, and the sizes."""

    def __init__(self, inputs: Mapping[Any, Any], floats: np.dtype) -> None:
        self.inputs = inputs
        self.floats = floats
        self.arrays: dict[Tensor, np.ndarray] = {}
        self.sizes: dict[Var, np.ndarray] = {
            key: np.asarray(value, key.dtype.numpy) for key, value in inputs.items() if isinstance(key, Var)
        }

    def numpy(self, dtype: DType) -> np.dtype:
        """The type in which elements of `dtype` are held."""
        return self.floats if dtype.is_float else dtype.numpy

    def evaluate(self, op: Operation) -> None:
        """Fill in the values of the operation's outputs."""
        if isinstance(op, PlaceholderOp):
            for tensor in op.outputs:
                self.arrays[tensor] = self._given(tensor)
        elif isinstance(op, ComputeOp):
            shape = tuple(self.size(extent) for extent in op.shape)
            first = op.body[0]
            values = _reduction(self, op, first, shape) if isinstance(first, Reduce) else _plain(self, op, shape)
            for tensor, value in zip(op.outputs, values, strict=True):
                self.arrays[tensor] = np.array(np.broadcast_to(value, shape), self.numpy(tensor.dtype))
        elif isinstance(op, ExternOp):
            if all(tensor in self.inputs for tensor in op.outputs):
                self.arrays.update((tensor, self._given(tensor)) for tensor in op.outputs)
                return
            raise UserError(
                f"{op.name!r} is a te.extern: what its statement computes has no NumPy reference",
                primitive="reference",
                fix=f"give its values as an input: {{{op.name}: array}}",
            )
        else:
            raise InternalError(f"no reference for {op!r}")

    def size(self, extent: Expr) -> int:
        """An extent as a number."""
        return int(_Body(self, {}).value(extent, EVERYWHERE))

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


def _axes(graph: _Graph, axes: Sequence[IterVar], rank: int) -> dict[Var, np.ndarray]:
    """The values of each data axis, laid along the dimension of its own of `rank` dimensions."""
    env = {}
    for at, axis in enumerate(axes):
        low, extent = _span(graph, axis)
        values = np.arange(low, low + extent, dtype=axis.var.dtype.numpy)
        env[axis.var] = values.reshape([-1 if i == at else 1 for i in range(rank)])
    return env


def _span(graph: _Graph, axis: IterVar) -> tuple[int, int]:
    if axis.dom is None:
        raise UserError(
            f"the axis {axis.name!r} has no range", primitive="reference", fix="give it one: te.Range(0, n)"
        )
    return graph.size(axis.dom.min), graph.size(axis.dom.extent)


def _plain(graph: _Graph, op: ComputeOp, shape: tuple[int, ...]) -> list[np.ndarray]:
    body = _Body(graph, _axes(graph, op.axis, len(shape)))
    return [body.value(e, EVERYWHERE) for e in op.body]


def _reduction(graph: _Graph, op: ComputeOp, reduce: Reduce, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The values of a reduction: a stretch of the reduction's points at a time, each combined pairwise, in order."""
    rank = len(shape) + 1
    data = _axes(graph, op.axis, rank)
    spans = [_span(graph, axis) for axis in reduce.axes]
    extents = tuple(max(0, extent) for _, extent in spans)
    total = math.prod(extents)
    step = max(1, AT_ONCE // max(1, math.prod(shape)))
    start = _Body(graph, data)
    result = [start.value(e, EVERYWHERE) for e in reduce.init or reduce.combiner.identity]
    neutral = [start.value(e, EVERYWHERE) for e in reduce.combiner.identity]
    keep: Active = ((reduce.condition, True),)
    for first in range(0, total, step):
        points = np.unravel_index(np.arange(first, min(total, first + step)), extents)
        env = dict(data)
        for axis, (low, _), at in zip(reduce.axes, spans, points, strict=True):
            env[axis.var] = (low + at).astype(axis.var.dtype.numpy).reshape([1] * (rank - 1) + [-1])
        body = _Body(graph, env)
        kept = body.value(reduce.condition, EVERYWHERE)
        wide = (*shape, len(points[0]))
        sources = [
            np.broadcast_to(np.where(kept, body.value(e, keep), zero), wide)
            for e, zero in zip(reduce.source, neutral, strict=True)
        ]
        result = _combine(graph, reduce, result, _fold(graph, reduce, sources))
    return [np.asarray(r)[..., 0] if np.ndim(r) == rank else np.asarray(r) for r in result]


def _fold(graph: _Graph, reduce: Reduce, values: list[np.ndarray]) -> list[np.ndarray]:
    """The values combined along their last dimension, neighbour with neighbour until one is left."""
    while (count := values[0].shape[-1]) > 1:
        even = count - count % 2
        pairs = _combine(graph, reduce, [v[..., 0:even:2] for v in values], [v[..., 1:even:2] for v in values])
        shape = (*values[0].shape[:-1], even // 2)
        pairs = [np.broadcast_to(p, shape) for p in pairs]
        if count % 2:
            pairs = [np.concatenate([p, v[..., -1:]], axis=-1) for p, v in zip(pairs, values, strict=True)]
        values = pairs
    return values


def _combine(graph: _Graph, reduce: Reduce, lhs: list[np.ndarray], rhs: list[np.ndarray]) -> list[np.ndarray]:
    combiner = reduce.combiner
    env = {**dict(zip(combiner.lhs, lhs, strict=True)), **dict(zip(combiner.rhs, rhs, strict=True))}
    body = _Body(graph, env)
    return [body.value(e, EVERYWHERE) for e in combiner.result]


class _Body:
    """Values of expressions, for given values of the variables; all arrays broadcast against each other."""

    def __init__(self, graph: _Graph, env: Mapping[Var, np.ndarray]) -> None:
        self.graph = graph
        self.env = env
        self.memo: dict[tuple[Expr, Active], np.ndarray] = {}

    def value(self, e: Expr, active: Active) -> np.ndarray:
        """The value of `e`; where `active` does not hold it is anything, and no fault."""
        found = self.memo.get((e, active))
        if found is None:
            with np.errstate(all="ignore"):
                found = self.memo[e, active] = np.asarray(self._compute(e, active))
        return found

    def _compute(self, e: Expr, active: Active) -> Any:
        if isinstance(e, Var):
            return self._variable(e)
        if isinstance(e, (n.IntImm, n.FloatImm)):
            return np.asarray(e.value, self.graph.numpy(e.dtype))
        if isinstance(e, n.Load):
            return self._load(e, active)
        if isinstance(e, n.IfThenElse):
            taken = self.value(e.true_value, (*active, (e.condition, True)))
            return np.where(self.value(e.condition, active), taken, self._otherwise(e, active))
        if isinstance(e, (n.And, n.Or)):
            is_and = isinstance(e, n.And)
            second = self.value(e.b, (*active, (e.a, is_and)))
            return (np.logical_and if is_and else np.logical_or)(self.value(e.a, active), second)
        parts = [self.value(child, active) for child in e.children()]
        if type(e) in _DIVISIONS and e.dtype.is_int:
            return _DIVISIONS[type(e)](parts[0], self._divisor(e, parts[1], active))
        if type(e) in _OPERATORS:
            return _OPERATORS[type(e)](*parts)
        if isinstance(e, n.Cast):
            return _convert(parts[0], e.dtype, self.graph.numpy(e.dtype))
        if isinstance(e, n.Call) and e.name in _CALLS:
            return _CALLS[e.name](*parts).astype(self.graph.numpy(e.dtype), copy=False)
        raise InternalError(f"no reference for {type(e).__name__} `{e}`")

    def _otherwise(self, e: n.IfThenElse, active: Active) -> np.ndarray:
        return self.value(e.false_value, (*active, (e.condition, False)))

    def _variable(self, var: Var) -> np.ndarray:
        found = self.env.get(var)
        if found is None:
            found = self.graph.sizes.get(var)
        if found is None:
            raise UserError(
                f"no value is given for the variable {var.name!r}",
                primitive="reference",
                fix=f"give inputs={{{var.name}: a number, ...}}",
            )
        return found

    def _mask(self, active: Active) -> np.ndarray:
        """Where an expression under these conditions is evaluated."""
        mask = np.asarray(True)
        for i, (condition, side) in enumerate(active):
            value = self.value(condition, active[:i])
            mask = mask & (value if side else ~value)
        return mask

    def _load(self, e: n.Load, active: Active) -> np.ndarray:
        if not isinstance(e.source, Tensor):
            raise InternalError(f"`{e}` reads {e.source.name}, which is no tensor")
        array = self.graph.arrays[e.source]
        indices = [self.value(i, active) for i in e.indices]
        inside = np.asarray(True)
        for index, extent in zip(indices, array.shape, strict=True):
            inside = inside & (index >= 0) & (index < extent)
        if not inside.all():
            wrong = np.broadcast_arrays(~inside & self._mask(active), *indices)
            if wrong[0].any():
                at = [int(index[wrong[0]][0]) for index in wrong[1:]]
                raise UserError(
                    f"`{e}` reads element {at} of {e.source.name!r}, which has shape {list(array.shape)}",
                    primitive="reference",
                    fix="guard the read with te.if_then_else(condition, read, other)",
                )
            if array.size == 0:
                return np.zeros(inside.shape, array.dtype)
            indices = [np.where(inside, index, 0) for index in indices]
        return np.asarray(array[tuple(indices)])

    def _divisor(self, e: Expr, divisor: np.ndarray, active: Active) -> np.ndarray:
        zero = divisor == 0
        if zero.any():
            if (zero & self._mask(active)).any():
                raise UserError(f"`{e}` divides by zero", primitive="reference", fix="guard it with te.if_then_else")
            return np.where(zero, divisor.dtype.type(1), divisor)
        return divisor


def _truncated(a: np.ndarray, b: np.ndarray) -> Any:
    """a / b rounded towards zero, in the integers' own type."""
    floor = np.floor_divide(a, b)
    return floor + ((floor < 0) & (floor * b != a)).astype(a.dtype)


_DIVISIONS: dict[type, Callable[[Any, Any], Any]] = {
    n.Div: _truncated,
    n.Mod: lambda a, b: a - _truncated(a, b) * b,
    n.FloorDiv: np.floor_divide,
    n.FloorMod: lambda a, b: a - np.floor_divide(a, b) * b,
}
_OPERATORS: dict[type, Callable[..., Any]] = {
    n.Add: np.add,
    n.Sub: np.subtract,
    n.Mul: np.multiply,
    n.Div: np.divide,
    n.Min: np.minimum,
    n.Max: np.maximum,
    n.EQ: np.equal,
    n.NE: np.not_equal,
    n.LT: np.less,
    n.LE: np.less_equal,
    n.GT: np.greater,
    n.GE: np.greater_equal,
    n.Not: np.logical_not,
    n.Select: np.where,
}


def _convert(value: np.ndarray, to: DType, numpy: np.dtype) -> np.ndarray:
    if to.is_bool:
        return np.asarray(value != 0)
    if to.is_int and value.dtype.kind not in "iub":  # out of range saturates, NaN gives 0
        exact, limits = np.asarray(value, np.float64), np.iinfo(numpy)
        top = np.nextafter(float(limits.max) + 1, 0)  # the largest float that still fits
        inside = np.clip(np.nan_to_num(exact, nan=0.0), float(limits.min), top).astype(numpy)
        return np.where(exact > top, limits.max, inside).astype(numpy)
    return value.astype(numpy)


def _bits(value: np.ndarray) -> list[np.ndarray]:
    """The bits of integers, the lowest first."""
    return [(value >> value.dtype.type(i)) & value.dtype.type(1) for i in range(value.dtype.itemsize * 8)]


def _leading_zeros(value: np.ndarray) -> np.ndarray:
    highest = np.zeros(value.shape, np.int64)
    for i, bit in enumerate(_bits(value)):
        highest = np.where(bit != 0, i + 1, highest)
    return np.asarray(value.dtype.itemsize * 8 - highest)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_CALLS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh".split()},
    **{name: getattr(np, name) for name in "floor ceil trunc fmod hypot copysign isnan isinf isfinite fabs".split()},
    **{f"a{name}": getattr(np, f"arc{name}") for name in "sin cos tan sinh cosh tanh tan2".split()},
    **{f"bitwise_{name}": getattr(np, f"bitwise_{name}") for name in "and or xor not".split()},
    "exp10": lambda x: np.power(10.0, x),
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "sigmoid": lambda x: 1.0 / (1.0 + np.exp(-x)),
    "erf": _erf,
    "round": lambda x: np.trunc(x) + np.copysign(np.abs(x - np.trunc(x)) >= 0.5, x),
    "nearbyint": np.rint,
    "pow": np.power,
    "popcount": lambda x: np.sum([bit != 0 for bit in _bits(x)], axis=0),
    "clz": _leading_zeros,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
    "likely": np.asarray,
}
