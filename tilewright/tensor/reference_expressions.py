"""Expressions in NumPy: values over arrays of points, and the faults of their evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..expr import nodes as n
from ..expr.bits import REINTERPRET
from ..expr.nodes import Expr, Var
from .tensor import Tensor


class TensorValues(Protocol):
    """The values of tensors and size variables."""

    lenient: bool
    """Whether an undefined value, as of a read outside a tensor, is arbitrary instead of an error."""
    sizes: dict[Var, np.ndarray]

    def numpy(self, dtype: DType) -> np.dtype:
        """The type in which elements of `dtype` are held."""

    def shape_of(self, tensor: Tensor) -> tuple[int, ...]: ...
    def read(self, tensor: Tensor, indices: Sequence[np.ndarray]) -> np.ndarray:
        """The elements of a tensor at indices inside it."""


class ExpressionValues:
    """TensorValues of expressions, for given values of the variables; all arrays broadcast against each other.

    Each expression has one value, computed once, for all conditions above it. If it reads outside a tensor or divides
    by zero, its value is arbitrary, and a fault: an error if the expression is evaluated there.
    """

    def __init__(self, graph: TensorValues, env: Mapping[Var, np.ndarray]) -> None:
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
        shape = self.graph.shape_of(e.source)
        inside = np.asarray(True)
        for index, extent in zip(indices, shape, strict=True):
            inside = inside & (index >= 0) & (index < extent)
        if not inside.all():
            self.own_faults[e] = ~inside
            if 0 in shape:
                return np.zeros(inside.shape, self.graph.numpy(e.dtype))
            indices = [np.where(inside, index, 0) for index in indices]
        return self.graph.read(e.source, indices)

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
        shape = list(self.graph.shape_of(e.source)) if isinstance(e.source, Tensor) else []
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
