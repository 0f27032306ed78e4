"""Reductions over some or all dimensions, under the legacy names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.nodes import Expr
from ..tensor import reduction as te
from ..tensor.axis import IterVar, reduce_axis
from ..tensor.tensor import Tensor, compute
from .argument_checks import dimensions, flag, tensor
from .tag import COMM_REDUCE, COMM_REDUCE_IDX

Reduction = Callable[..., Any]
_HIGHEST_INDEX = 2**31 - 1


class Plan:
    """The reduced dimensions of a tensor, and the places of the elements read meanwhile."""

    def __init__(self, data: Tensor, axis: Any, keepdims: Any, primitive: str) -> None:
        self.data = tensor(data, "data", primitive)
        if self.data.ndim == 0:
            raise UserError(
                f"data {self.data.name!r} has no dimensions",
                primitive=primitive,
                fix="give a tensor with at least one dimension",
            )
        self.reduced = dimensions(axis, self.data.ndim, primitive)
        if not self.reduced:
            raise UserError("no dimension is to be reduced", primitive=primitive, fix="give at least one: axis=-1")
        self.keepdims = flag(keepdims, "keepdims", primitive)
        shape = self.data.shape
        self.axes = [reduce_axis((0, shape[d]), name=f"k{d}") for d in self.reduced]
        kept = (o.const(1) if d in self.reduced else n for d, n in enumerate(shape))
        self.shape = tuple(n for d, n in enumerate(kept) if self.keepdims or d not in self.reduced)

    def position(self, indices: Sequence[Any]) -> list[Any]:
        """The place of the element that contributes to the result at `indices`."""
        left, terms = list(indices), iter(self.axes)
        if self.keepdims:
            return [next(terms) if d in self.reduced else left[d] for d in range(self.data.ndim)]
        kept = iter(left)
        return [next(terms) if d in self.reduced else next(kept) for d in range(self.data.ndim)]

    def flat_index(self) -> Expr:
        """Return the position of the element among all elements that are reduced together, in row-major order."""
        index: Any = o.const(0)
        for axis, d in zip(self.axes, self.reduced, strict=True):
            index = index * self.data.shape[d] + axis.var
        return o.as_expr(index)

    def compute(self, value: Callable[[Expr, list[IterVar]], Any], name: str, tag: str) -> Any:
        """Return the reduced tensor or tensors; `value` computes a term from an element and the reduction axes."""
        names = [f"ax{i}" for i in range(len(self.shape))]
        return compute(
            self.shape,
            lambda *i: value(self.data(*self.position(i)), self.axes),
            name,
            tag,
            {"reduced": tuple(self.reduced), "keepdims": self.keepdims},
            varargs_names=names,
        )


def _reduction(name: str, reducer: Callable[..., Any], doc: str, of_conditions: bool = False) -> Reduction:
    def operator(data: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
        plan = Plan(data, axis, keepdims, name)
        if (plan.data.dtype == "bool") != of_conditions:
            raise UserError(
                f"data {data.name!r} has type {data.dtype}, but {name} reduces "
                + ("conditions" if of_conditions else "numbers"),
                primitive=name,
                fix="compare it first: topi.not_equal(data, 0)"
                if of_conditions
                else 'convert it: topi.cast(data, "int32")',
            )
        made: Tensor = plan.compute(lambda e, axes: reducer(e, axis=axes), f"{data.op.name}_red", COMM_REDUCE)
        return made

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"""{doc}

    Parameters
    ----------
    data
        A tensor{" of type bool" if of_conditions else ""}.
    axis
        The dimensions to reduce: an int, several, or None for all.
    keepdims
        Whether reduced dimensions stay, with extent 1.

    Returns
    -------
    A tensor of the type of `data`.

    Raises
    ------
    UserError
        For dimensions that the tensor does not have, and for elements of another type.
    """
    return operator


_all = te.comm_reducer(o.logical_and, lambda _: o.const(True), name="all")
_any = te.comm_reducer(o.logical_or, lambda _: o.const(False), name="any")
_SUM_DOC = """Add the elements along dimensions, in their own type.

    So does the legacy library; NumPy adds neighbours of float16 up in float32, and int8 in int64. A float16 that has
    grown to 2048 stays there when 1 is added, and an int8 wraps: `topi.sum(topi.cast(data, "float32"))` does not."""
sum = _reduction("sum", te.sum, _SUM_DOC)
prod = _reduction("prod", te.prod, "Multiply the elements along dimensions.")
max = _reduction("max", te.max, "Find the largest element along dimensions; NaN if there is one.")
min = _reduction("min", te.min, "Find the smallest element along dimensions; NaN if there is one.")
all = _reduction("all", _all, "Tell whether all elements along dimensions are true.", of_conditions=True)
any = _reduction("any", _any, "Tell whether any element along dimensions is true.", of_conditions=True)


def _first_of(better: Callable[[Expr, Expr], Expr], last: bool) -> Callable[[Any, Any], Any]:
    """Combine two (index, value) pairs: keep the better value, and the first or the last of equal values."""

    def combine(a: Any, b: Any) -> Any:
        ahead, equal = better(a[1], b[1]), o.equal(a[1], b[1])
        if a[1].dtype.is_float:  # NaN counts as better than every number, as for max and min
            nan_a, nan_b = o.not_equal(a[1], a[1]), o.not_equal(b[1], b[1])
            ahead = o.logical_or(ahead, o.logical_and(nan_a, o.logical_not(nan_b)))
            equal = o.logical_or(equal, o.logical_and(nan_a, nan_b))
        earlier = o.greater(a[0], b[0]) if last else o.less(a[0], b[0])
        take = o.logical_or(ahead, o.logical_and(equal, earlier))
        return o.select(take, a[0], b[0]), o.select(take, a[1], b[1])

    return combine


def _identity(worst: Callable[..., Any], last: bool) -> Callable[..., Any]:
    def identity(index: Any, value: Any) -> Any:
        nothing = o.const(float("inf"), value) if value.is_float else worst(str(value))
        if value.is_float and worst is te.min_value:
            nothing = o.const(float("-inf"), value)
        return o.const(-1 if last else _HIGHEST_INDEX, index), nothing

    return identity


_PAIRS = {
    (name, last): te.comm_reducer(_first_of(better, last), _identity(worst, last), name=name)
    for name, better, worst in (("argmax", o.greater, te.min_value), ("argmin", o.less, te.max_value))
    for last in (False, True)
}


def argmax(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Find the place of the largest element along dimensions.

    Parameters
    ----------
    data
        A tensor of numbers. NaN counts as the largest.
    axis
        The dimensions to search: an int, several, or None for all. If there are several, places count in row-major
        order.
    keepdims
        Whether reduced dimensions stay, with extent 1.
    select_last_index
        Whether the last one of equal elements is found, instead of the first.

    Returns
    -------
    A tensor of type int32.
    """
    return _place("argmax", data, axis, keepdims, select_last_index)


def argmin(data: Tensor, axis: Any = None, keepdims: bool = False, select_last_index: bool = False) -> Tensor:
    """Find the place of the smallest element along dimensions, as `argmax` the largest; NaN counts as the smallest."""
    return _place("argmin", data, axis, keepdims, select_last_index)


def _place(name: str, data: Tensor, axis: Any, keepdims: Any, select_last_index: Any) -> Tensor:
    plan = Plan(data, axis, keepdims, name)
    if data.dtype == "bool":
        raise UserError(
            f"data {data.name!r} has type bool, but {name} compares numbers",
            primitive=name,
            fix='convert it: topi.cast(data, "int32")',
        )
    reducer = _PAIRS[name, flag(select_last_index, "select_last_index", name)]
    pairs = plan.compute(
        lambda e, axes: reducer((plan.flat_index(), e), axis=axes), f"{data.op.name}_red_temp", COMM_REDUCE_IDX
    )
    names = [f"ax{i}" for i in range(len(plan.shape))]
    made: Tensor = compute(
        plan.shape, lambda *i: pairs[0](*i), f"{data.op.name}_red", COMM_REDUCE_IDX, varargs_names=names
    )
    return made


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
