"""The meaning of a graph of tensors: its values in NumPy, in float64, straight from the declarations.

Every body is evaluated over whole axes at once, with no schedule, no loops and no simplification. So no part of the
compiler stands between a declaration and these numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..core.recursion import deep
from ..expr import nodes as n
from ..expr.bits import REINTERPRET
from ..expr.nodes import Expr, Var
from .axis import IterVar
from .extern import ExternOp
from .partial_results import combines_parts
from .reduction import Reduce
from .reference_products import factors_of, product
from .reference_terms import Terms, no_range
from .scan import ScanOp
from .script import ScriptOp
from .tensor import ComputeOp, Operation, PlaceholderOp, Tensor, topological

AT_ONCE = 1 << 20  # elements of a reduction that are evaluated together


@deep
def reference(
    outputs: Tensor | Sequence[Tensor], inputs: Mapping[Any, Any], dtype: Any = np.float64
) -> list[np.ndarray]:
    """The values of `outputs`, given the values of the tensors (and size variables) that they depend on.

    Floating-point tensors are computed in `dtype` for any type of theirs; integers keep their type, and wrap. Raises
    UserError for an input that is missing or has another shape. Raises it also if a declaration reads outside a tensor,
    or divides an integer by zero.
    """
    wanted = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    graph = _Graph(inputs, np.dtype(dtype))
    order = topological([tensor.op for tensor in wanted])
    scans = [op for op in order if isinstance(op, ScanOp)]
    within = {each for op in scans for each in (*op.steps(), *(state.op for state in op.state))}
    for op in order:
        if op not in within:
            graph.evaluate(op)
    return [graph.arrays[tensor] for tensor in wanted]


class _Graph:
    """The tensors with known values, and the sizes."""

    def __init__(self, inputs: Mapping[Any, Any], floats: np.dtype, lenient: bool = False) -> None:
        self.inputs = inputs
        self.floats = floats
        self.lenient = lenient
        """Whether an undefined value, as of a read outside a tensor, is arbitrary instead of an error."""
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

    def _scan(self, op: ScanOp) -> None:
        """Fill in the rows of a scan one after the other, each from the update's values for the rows so far."""
        rows = [np.zeros([self.size(extent) for extent in state.shape], self.numpy(state.dtype)) for state in op.state]
        first = self.size(op.init[0].shape[0])
        for values, init in zip(rows, op.init, strict=True):
            values[:first] = self.arrays[init]
        steps = topological([update.op for update in op.update])
        inside = set(op.steps())
        for row in range(first, rows[0].shape[0]):
            step = _Graph(self.inputs, self.floats, lenient=True)  # the other rows of an update mean nothing yet
            step.sizes.update(self.sizes)
            step.arrays = {**self.arrays, **dict(zip(op.state, rows, strict=True))}
            for each in steps:
                if each in inside:
                    step.evaluate(each)
            for values, update in zip(rows, op.update, strict=True):
                values[row] = step.arrays[update][row]
        self.arrays.update(zip(op.outputs, rows, strict=True))

    def size(self, extent: Expr) -> int:
        """An extent as a number."""
        return int(_Body(self, {}).value(extent))

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
    """The values of each data axis, as an array of `rank` dimensions that varies along its own dimension alone."""
    env = {}
    for at, axis in enumerate(axes):
        low, extent = _span(graph, axis)
        values = np.arange(low, low + extent, dtype=axis.var.dtype.numpy)
        env[axis.var] = values.reshape([-1 if i == at else 1 for i in range(rank)])
    return env


def _span(graph: _Graph, axis: IterVar) -> tuple[int, int]:
    if axis.dom is None:
        raise no_range(axis)
    return graph.size(axis.dom.min), graph.size(axis.dom.extent)


def _plain(graph: _Graph, op: ComputeOp, shape: tuple[int, ...]) -> list[np.ndarray]:
    body = _Body(graph, _axes(graph, op.axis, len(shape)))
    return [body.value(e) for e in op.body]


def _reduction(graph: _Graph, op: ComputeOp, reduce: Reduce, shape: tuple[int, ...]) -> list[np.ndarray]:
    """The values of a reduction: a stretch of the reduction's points at a time, each combined pairwise, in order."""
    factors = factors_of(op)
    if factors is not None and graph.floats == np.float64:
        left, right = (graph.arrays[read.source] for read in factors if isinstance(read.source, Tensor))
        return [product(op, factors, left, right)]
    rank = len(shape) + 1
    data = _axes(graph, op.axis, rank)
    terms = Terms(reduce, data, partial(_Body, graph))
    extents = terms.extents
    total = math.prod(extents)
    in_parts = combines_parts(reduce.combiner)  # otherwise point by point, without the points left out
    step = max(1, AT_ONCE // max(1, math.prod(shape))) if in_parts else 1
    start = _Body(graph, data)
    result = [start.value(e) for e in reduce.init or reduce.combiner.identity]
    neutral = [start.value(e) for e in reduce.combiner.identity]
    for first in range(0, total, step):
        points = np.unravel_index(np.arange(first, min(total, first + step)), extents)
        env, inside = terms.at(points)
        body = _Body(graph, env)
        kept = np.logical_and(inside, body.value(reduce.condition, inside))
        wide = (*shape, len(points[0]))
        sources = [
            np.broadcast_to(np.where(kept, body.value(e, kept), zero), wide)
            for e, zero in zip(reduce.source, neutral, strict=True)
        ]
        made = _combine(graph, reduce, result, _fold(graph, reduce, sources))
        result = made if in_parts else [np.where(kept, m, r) for m, r in zip(made, result, strict=True)]
    return [np.asarray(r)[..., 0] if np.ndim(r) == rank else np.asarray(r) for r in result]


def _fold(graph: _Graph, reduce: Reduce, values: list[np.ndarray]) -> list[np.ndarray]:
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


def _combine(graph: _Graph, reduce: Reduce, lhs: list[np.ndarray], rhs: list[np.ndarray]) -> list[np.ndarray]:
    combiner = reduce.combiner
    env = {**dict(zip(combiner.lhs, lhs, strict=True)), **dict(zip(combiner.rhs, rhs, strict=True))}
    body = _Body(graph, env)
    return [body.value(e) for e in combiner.result]


class _Body:
    """Values of expressions, for given values of the variables; all arrays broadcast against each other.

    Each expression has one value, computed once, for all conditions above it. If it reads outside a tensor or divides
    by zero, its value is arbitrary, and a fault: an error if the expression is evaluated there.
    """

    def __init__(self, graph: _Graph, env: Mapping[Var, np.ndarray]) -> None:
        self.graph = graph
        self.env = env
        self.memo: dict[Expr, np.ndarray] = {}
        self.own_faults: dict[Expr, np.ndarray] = {}
        self.faults: dict[Expr, np.ndarray | None] = {}

    def value(self, e: Expr, where: np.ndarray | None = None) -> np.ndarray:
        """The value of `e`; raises UserError if evaluating it is a fault (and `where` holds)."""
        with np.errstate(all="ignore"):
            found = self._value(e)
        fault = self._fault(e) if self.own_faults and not self.graph.lenient else None
        if fault is not None:
            wrong = np.asarray(fault if where is None else fault & where)
            if wrong.any():
                raise self._explained(e, wrong)
        return found

    def _value(self, e: Expr) -> np.ndarray:
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = np.asarray(self._compute(e))
        return found

    def _compute(self, e: Expr) -> Any:
        if isinstance(e, Var):
            return self._variable(e)
        if isinstance(e, (n.IntImm, n.FloatImm)):
            return np.asarray(e.value, self.graph.numpy(e.dtype))
        parts = [self._value(child) for child in e.children()]
        if isinstance(e, n.Load):
            return self._load(e, parts)
        if type(e) in _DIVISIONS and e.dtype.is_int:
            zero = parts[1] == 0
            if zero.any():
                self.own_faults[e] = zero
                parts[1] = np.where(zero, parts[1].dtype.type(1), parts[1])
            return _DIVISIONS[type(e)](*parts)
        if type(e) in _OPERATORS:
            return _OPERATORS[type(e)](*parts)
        if isinstance(e, n.Cast):
            return _convert(parts[0], e.dtype, self.graph.numpy(e.dtype))
        if isinstance(e, n.Call) and e.name in _BY_BITS:
            return self._by_bits(e, parts)
        if isinstance(e, n.Call) and e.name in _CALLS:
            return _CALLS[e.name](*parts).astype(self.graph.numpy(e.dtype), copy=False)
        raise InternalError(f"no reference for {type(e).__name__} `{e}`")

    def _by_bits(self, e: n.Call, parts: list[Any]) -> np.ndarray:
        """Compute functions of a number's bits in the number's own type."""
        own, kind = [np.asarray(part, a.dtype.numpy) for part, a in zip(parts, e.args, strict=True)], e.dtype.numpy
        made = own[0].view(kind) if e.name == REINTERPRET else np.nextafter(*own)
        return np.asarray(made.astype(self.graph.numpy(e.dtype), copy=False))

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

    def _load(self, e: n.Load, indices: list[np.ndarray]) -> np.ndarray:
        if not isinstance(e.source, Tensor):
            raise InternalError(f"`{e}` reads {e.source.name}, which is not a tensor")
        array = self.graph.arrays[e.source]
        inside = np.asarray(True)
        for index, extent in zip(indices, array.shape, strict=True):
            inside = inside & (index >= 0) & (index < extent)
        if not inside.all():
            self.own_faults[e] = ~inside
            if array.size == 0:
                return np.zeros(inside.shape, array.dtype)
            indices = [np.where(inside, index, 0) for index in indices]
        return np.asarray(array[tuple(indices)])

    # Faults

    def _fault(self, e: Expr) -> np.ndarray | None:
        """The points at which evaluating `e` is a fault; None: nowhere."""
        if e not in self.faults:
            found = self.own_faults.get(e)
            for child, evaluated in self._evaluated(e):
                fault = self._fault(child)
                if fault is not None:
                    fault = fault if evaluated is None else fault & evaluated
                    found = fault if found is None else found | fault
            self.faults[e] = found
        return self.faults[e]

    def _evaluated(self, e: Expr) -> Iterator[tuple[Expr, np.ndarray | None]]:
        """The parts of an expression, in order, and the points at which each is evaluated; None: everywhere."""
        if isinstance(e, n.IfThenElse):
            taken = self._value(e.condition)
            yield from ((e.condition, None), (e.true_value, taken), (e.false_value, ~taken))
        elif isinstance(e, (n.And, n.Or)):
            first = self._value(e.a)
            yield from ((e.a, None), (e.b, first if isinstance(e, n.And) else ~first))
        else:
            yield from ((child, None) for child in e.children())

    def _explained(self, e: Expr, wrong: np.ndarray) -> UserError:
        """The error for the first of the points at which evaluating `e` is a fault."""
        while True:
            inner = next(((part, at) for part, at in self._inner(e, wrong) if at.any()), None)
            if inner is None:
                break
            e, wrong = inner
        if not isinstance(e, n.Load):
            return UserError(f"`{e}` divides by zero", primitive="reference", fix="guard it with te.if_then_else")
        indices = np.broadcast_arrays(wrong, *(self._value(index) for index in e.indices))
        at = [int(index[indices[0]][0]) for index in indices[1:]]
        shape = list(self.graph.arrays[e.source].shape) if isinstance(e.source, Tensor) else []
        return UserError(
            f"`{e}` reads element {at} of {e.source.name!r}, which has shape {shape}",
            primitive="reference",
            fix="guard the read with te.if_then_else(condition, read, other)",
        )

    def _inner(self, e: Expr, wrong: np.ndarray) -> Iterator[tuple[Expr, np.ndarray]]:
        for child, evaluated in self._evaluated(e):
            fault = self._fault(child)
            if fault is not None:
                yield child, wrong & fault & (True if evaluated is None else evaluated)


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
    n.IfThenElse: np.where,
    n.And: np.logical_and,
    n.Or: np.logical_or,
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
    "exp2_normal": np.exp2,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "saturate": lambda x: np.clip(x, 0.0, 1.0),
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
    "ldexp": np.ldexp,
}
_BY_BITS = (REINTERPRET, "nextafter")
