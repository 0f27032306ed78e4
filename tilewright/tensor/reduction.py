"""Reductions: commutative combiners, and the `Reduce` expression that `te.sum` and others build."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial, reduce
from typing import Any

import ml_dtypes

from ..core.dtype import DType
from ..core.errors import UserError
from ..core.node import node
from ..core.own_code import calling
from ..core.refusals import not_made
from ..core.text import one_line, quantity
from ..expr import nodes as n
from ..expr.nodes import Expr, Var
from ..expr.operators import (
    add,
    as_expr,
    condition,
    const,
    if_then_else,
    is_const,
    match_types,
    maximum,
    minimum,
    multiply,
)  # fmt: skip
from ..expr.traverse import loads, substitute, uses_any
from .axis import AxisKind, IterVar, Range


class CommReducer:
    """An associative, commutative way to combine tuples of values, with its identity.

    `result` combines `lhs` (the accumulated value) and `rhs` (the next value).
    """

    __slots__ = ("__weakref__", "identity", "lhs", "name", "result", "rhs")

    def __init__(
        self,
        name: str,
        lhs: tuple[Var, ...],
        rhs: tuple[Var, ...],
        result: tuple[Expr, ...],
        identity: tuple[Expr, ...],
    ) -> None:
        parts = (lhs, rhs, result, identity)
        whole = all(isinstance(part, tuple) and all(isinstance(e, Expr) for e in part) for part in parts)
        if not isinstance(name, str) or not whole or len({len(part) for part in parts}) != 1:
            raise not_made("CommReducer", "make a reduction with te.comm_reducer(fcombine, fidentity)")
        self.name = name
        self.lhs = lhs
        self.rhs = rhs
        self.result = result
        self.identity = identity

    def __repr__(self) -> str:
        combined = f"({', '.join(map(str, self.lhs))}) and ({', '.join(map(str, self.rhs))}) give {list(self.result)}"
        return one_line(f"CommReducer({self.name}: {combined}, starting at {list(self.identity)})")

    def combine(self, lhs: Sequence[Expr], rhs: Sequence[Expr]) -> tuple[Expr, ...]:
        """The combination of two tuples of values."""
        mapping = {**dict(zip(self.lhs, lhs, strict=True)), **dict(zip(self.rhs, rhs, strict=True))}
        return tuple(substitute(e, mapping) for e in self.result)

    def where(self, values: Mapping[Any, Expr]) -> CommReducer:
        """Return the combiner with values for variables, such as the axes of the element."""
        if not values or not any(uses_any(e, values) for e in (*self.result, *self.identity)):
            return self
        result, identity = (tuple(substitute(e, values) for e in part) for part in (self.result, self.identity))
        return CommReducer(self.name, self.lhs, self.rhs, result, identity)


def adds(combiner: CommReducer) -> bool:
    """Return whether a reducer adds single values."""
    (a, *_), (b, *_), (value, *more) = combiner.lhs, combiner.rhs, combiner.result
    return not more and isinstance(value, n.Add) and (value.a, value.b) in ((a, b), (b, a))


def adds_from_zero(combiner: CommReducer) -> bool:
    """Return whether a reducer adds single values, from 0 on."""
    return adds(combiner) and is_const(combiner.identity[0], 0)


@node(derived={"dtype": "source[value_index].dtype"})
class Reduce(Expr):
    """The `value_index`-th result of combining `source` over all values of `axes` that satisfy `condition`.

    It may only be the whole body of a `te.compute`. `init` replaces the identity if it is given. `ends` holds the
    minimum and the extent of each axis in turn, if one of them is read from a tensor; else it is empty.
    """

    combiner: CommReducer
    source: tuple[Expr, ...]
    axes: tuple[IterVar, ...]
    condition: Expr
    value_index: int
    init: tuple[Expr, ...]
    ends: tuple[Expr, ...]

    def ranges(self) -> tuple[Range | None, ...]:
        """The range of each axis."""
        if not self.ends:
            return tuple(axis.dom for axis in self.axes)
        pairs = zip(self.ends[::2], self.ends[1::2], strict=True)
        return tuple(Range.from_min_extent(low, extent) for low, extent in pairs)


def ends_of(axes: Sequence[IterVar]) -> tuple[Expr, ...]:
    """The `ends` of a `Reduce` over these axes."""
    ends = tuple(end for axis in axes if axis.dom is not None for end in (axis.dom.min, axis.dom.extent))
    return ends if loads(*ends) and len(ends) == 2 * len(axes) else ()


def comm_reducer(
    fcombine: Callable[..., Any], fidentity: Callable[..., Any], name: str = "reduce"
) -> Callable[..., Any]:
    """Make a new kind of reduction.

    Parameters
    ----------
    fcombine : callable
        Combines two values, `fcombine(x, y)`, or two tuples of values of one length; associative and commutative.
    fidentity : callable
        Returns the neutral value for a dtype, `fidentity(dtype)`, or one for each of several: `fidentity(dtype, ...)`.
    name : str
        The name in programs and errors.

    Returns
    -------
    callable
        Called like `te.sum`: with an expression or a tuple of them, and the reduction axis or axes, `axis`.

    Raises
    ------
    UserError
        For a name that is not text; at its first use, for functions that do not fit the values.
    """
    if not isinstance(name, str):
        raise UserError(
            f"the name of the reducer is {name!r}, which is not text",
            primitive="comm_reducer",
            fix='give some text: name="both"',
        )

    combiner = cache(partial(_combiner, name, fcombine, fidentity))

    def reduction(expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
        if axis is None and values and _names_axes(values[0]):
            axis, where, init = _in_order(values, where, init, name)
        elif values and axis is None:
            return _folded(fcombine, (expr, *values), where, init, name)
        elif values or axis is None:
            given = f"both values and axis={axis!r}" if values else "neither an axis nor a second value"
            raise UserError(
                f"{given}: it reduces one value over axes, or combines several",
                primitive=name,
                fix=f'k = te.reduce_axis((0, n), name="k") and {name}(A[k], axis=k), or {name}(a, b)',
            )
        axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
        _check_axes(axes, name)
        sources = tuple(as_expr(e) for e in (expr if isinstance(expr, (list, tuple)) else [expr]))
        keep = n.TRUE if where is None else condition(where, name)
        start = () if init is None else _start(init, sources, axes, name)
        chosen = combiner(tuple(s.dtype for s in sources))
        if not axes:
            return _of_one(chosen, sources, keep, start)
        ends = ends_of(axes)
        made = tuple(Reduce(chosen, sources, axes, keep, i, start, ends) for i in range(len(sources)))
        return made if len(made) > 1 else made[0]

    reduction.__name__ = name
    reduction.__doc__ = (
        f"{name} of `expr` over the reduction axis (or axes) `axis` under the condition `where`; starts at `init`. "
        f"With values instead of axes: {name}(a, b), {name}(a, b, c)."
    )
    return reduction


def _of_one(
    combiner: CommReducer, sources: tuple[Expr, ...], keep: Expr, start: tuple[Expr, ...]
) -> Expr | tuple[Expr, ...]:
    """A reduction over no axes: of one tuple of values, if `keep` holds."""
    reached = combiner.combine(start, sources) if start else sources
    if keep is not n.TRUE:
        before = start or combiner.identity
        reached = tuple(if_then_else(keep, value, other) for value, other in zip(reached, before, strict=True))
    return reached if len(reached) > 1 else reached[0]


def _combiner(
    name: str, fcombine: Callable[..., Any], fidentity: Callable[..., Any], dtypes: tuple[DType, ...]
) -> CommReducer:
    """Return the reducer for values of these types, from the functions that `comm_reducer` was called with."""
    single = len(dtypes) == 1
    lhs = tuple(Var(f"x{i}" if i else "x", d) for i, d in enumerate(dtypes))
    rhs = tuple(Var(f"y{i}" if i else "y", d) for i, d in enumerate(dtypes))
    result = _called(name, "fcombine", fcombine, (lhs[0], rhs[0]) if single else (lhs, rhs))
    neutral = _called(name, "fidentity", fidentity, dtypes)
    results, identity = ((x,) if single or not isinstance(x, (tuple, list)) else tuple(x) for x in (result, neutral))
    if len(results) != len(dtypes) or len(identity) != len(dtypes):
        raise UserError(
            f"{name} combines {len(dtypes)} values, but its combiner returns {len(results)} and its identity "
            f"{len(identity)}",
            primitive="comm_reducer",
            fix=f"return {len(dtypes)} values from fcombine and fidentity, or reduce {len(results)} of them",
        )
    kinds = [as_expr(e, d) for e, d in zip(results, dtypes, strict=True)]
    for e, d in zip(kinds, dtypes, strict=True):
        if e.dtype != d:
            raise UserError(
                f"fcombine of the reducer {name!r} returns `{e}` of type {e.dtype} for values of type {d}",
                primitive="comm_reducer",
                fix=f'give a value of their type, such as te.if_then_else(x > y, x, y), or convert: .astype("{d}")',
            )
    return CommReducer(name, lhs, rhs, tuple(kinds), tuple(const(e, d) for e, d in zip(identity, dtypes, strict=True)))


def _names_axes(given: Any) -> bool:
    return isinstance(given, (list, tuple)) or (isinstance(given, IterVar) and given.kind is AxisKind.REDUCE)


def _in_order(values: tuple[Any, ...], where: Any, init: Any, name: str) -> tuple[Any, Any, Any]:
    """`axis`, `where` and `init` as given in their places."""
    axis, *rest = values
    named = {"where": where, "init": init}
    for argument, value in zip(named, rest, strict=False):
        if named[argument] is not None and value is not None:
            raise UserError(f"{argument} is given twice: {value!r} and {named[argument]!r}", primitive=name, fix="once")
        named[argument] = value if named[argument] is None else named[argument]
    if len(rest) > len(named):
        raise UserError(
            f"takes a value, axes, a condition and a start, but is given {rest[2:]!r} as well",
            primitive=name,
            fix=f"{name}(A[k], axis=k, where=..., init=...), or {name}(a, b, c) of values only",
        )
    return axis, named["where"], named["init"]


def _folded(fcombine: Callable[..., Any], values: tuple[Any, ...], where: Any, init: Any, name: str) -> Any:
    """Combine the values one after the other."""
    if where is not None or init is not None:
        raise UserError(
            f"`where` and `init` are for reductions, but {len(values)} values are to be combined: {values!r}",
            primitive=name,
            fix=f"over an axis: {name}(A[k], axis=k, where=...); of values: te.if_then_else(condition, a, b)",
        )
    with calling(f"fcombine of the reducer {name!r}"):
        return reduce(fcombine, map(as_expr, values))


def _start(init: Any, sources: tuple[Expr, ...], axes: tuple[IterVar, ...], name: str) -> tuple[Expr, ...]:
    """Return the initial values of a reduction."""
    given = init if isinstance(init, (list, tuple)) else [init]
    if len(given) != len(sources):
        raise UserError(
            f"init={init!r} holds {quantity(len(given), 'value')}, but {len(sources)} are reduced",
            primitive=name,
            fix=f"give {quantity(len(sources), 'value')}",
        )
    start = tuple(match_types(e, s)[0] for e, s in zip(given, sources, strict=True))
    for value, source in zip(start, sources, strict=True):
        if value.dtype != source.dtype:
            raise UserError(
                f"init, `{value}`, has type {value.dtype}, but values of type {source.dtype} are reduced",
                primitive=name,
                fix=f'convert one of them, such as init.astype("{source.dtype}")',
            )
        used = next((axis for axis in axes if uses_any(value, {axis.var})), None)
        if used is not None:
            raise UserError(
                f"init, `{value}`, uses the reduction axis {used.name!r}, which has no value before the first step",
                primitive=name,
                fix="start from a value that is the same for all steps: a number, or an element A[i]",
            )
    return start


def _called(name: str, role: str, function: Any, args: tuple[Any, ...]) -> Any:
    """The result of the caller's function for these arguments, after a check that it takes them."""
    try:
        inspect.signature(function).bind(*args)
    except (TypeError, ValueError) as error:
        raise UserError(
            f"{role} of the reducer {name!r} is {function!r}, which cannot be called with "
            f"{quantity(len(args), 'argument')} "
            f"({error})",
            primitive="comm_reducer",
            fix="give te.comm_reducer(lambda x, y: ..., lambda dtype: ...): fcombine of two values, fidentity of types",
        ) from None
    with calling(f"{role} of the reducer {name!r}"):
        return function(*args)


def _check_axes(axes: tuple[Any, ...], name: str) -> None:
    for axis in axes:
        if not isinstance(axis, IterVar) or axis.kind is not AxisKind.REDUCE:
            shown = f"axis {axis.name!r}" if isinstance(axis, (IterVar, Var)) else repr(axis)
            raise UserError(
                f"{shown} is not a reduction axis",
                primitive=name,
                fix='make one with k = te.reduce_axis((0, n), name="k") and pass axis=k',
            )
    if len(set(axes)) != len(axes):
        raise UserError(
            f"needs different reduction axes, but got {[a.name for a in axes]}",
            primitive=name,
            fix="name each axis once: axis=k, or axis=[ry, rx]",
        )


def min_value(dtype: str) -> Expr:
    """The smallest finite value of a type."""
    kind = DType(dtype)
    return const(-_largest(kind) if kind.is_float else kind.min_value, kind)


def max_value(dtype: str) -> Expr:
    """The largest finite value of a type."""
    kind = DType(dtype)
    return const(_largest(kind) if kind.is_float else kind.max_value, kind)


def _largest(kind: DType) -> float:
    info = ml_dtypes.finfo(kind.numpy)  # type: ignore[no-untyped-call]  # missing in the stubs
    return float(info.max)


def _extreme(kind: DType, sign: int) -> Expr:
    """The neutral value of max (sign -1) and min (sign 1): infinite for floats, so that infinities reduce rightly."""
    if kind.is_float:
        return const(sign * float("inf"), kind)
    return const(kind.max_value if sign > 0 else kind.min_value, kind)


_sum = comm_reducer(add, lambda t: const(0, t), name="sum")
_prod = comm_reducer(multiply, lambda t: const(1, t), name="prod")
_min = comm_reducer(minimum, lambda t: _extreme(t, 1), name="min")
_max = comm_reducer(maximum, lambda t: _extreme(t, -1), name="max")


def _number(expr: Any, name: str) -> Any:
    """`expr`, which must be one number."""
    if (isinstance(expr, (list, tuple)) and len(expr) != 1) or isinstance(expr, Iterator):
        raise UserError(
            f"several values are given, {expr!r}, but it reduces one",
            primitive=name,
            fix=f"to combine values: te.{name}(*values); to reduce several at once: te.comm_reducer(...)",
        )
    value = as_expr(expr[0] if isinstance(expr, (list, tuple)) else expr)
    if value.dtype.is_bool or value.dtype == "handle":
        raise UserError(
            f"`{value}` of type {value.dtype} is not a number",
            primitive=name,
            fix='convert a condition: (x > 0).astype("int32") is 1 where it holds, and 0 elsewhere',
        )
    return value


def sum(expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
    """The sum of `expr` over the reduction axes `axis` under the condition `where`, starting at `init` (0).

    With values instead of axes: sum(a, b), sum(a, b, c). Axes, condition and start may also be given in this order.
    """
    return _sum(_number(expr, "sum"), *values, axis=axis, where=where, init=init)


def prod(expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
    """The product of `expr` over the reduction axes `axis`, or of the values prod(a, b, c); as `sum`."""
    return _prod(_number(expr, "prod"), *values, axis=axis, where=where, init=init)


def min(expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
    """The minimum of `expr` over the reduction axes `axis`, or of the values min(a, b, c); as `sum`."""
    return _min(_number(expr, "min"), *values, axis=axis, where=where, init=init)


def max(expr: Any, *values: Any, axis: Any = None, where: Any = None, init: Any = None) -> Any:
    """The maximum of `expr` over the reduction axes `axis`, or of the values max(a, b, c); as `sum`."""
    return _max(_number(expr, "max"), *values, axis=axis, where=where, init=init)
