"""Computations of several elements at a time: regions of tensors, and calls of intrinsics on them.

`te.compute((n, 16), lambda i: intrinsic(A[i, 0:16], B[i, 0:16]))` declares the axes that the function takes; the last
dimensions belong to the intrinsic; its meaning becomes the value of an element.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.own_code import calling
from ..core.text import one_line, quantity
from ..expr.nodes import Expr, Load, Var
from ..expr.operand import Operand
from ..expr.operators import add, as_expr, cast, const, subtract
from ..expr.runtime_value import declaring
from ..expr.traverse import constant_value, rewrite, substitute
from .axis import AxisKind, IterVar, Range
from .reduction import Reduce, ends_of


class TensorRegion(Operand):
    """Part of a tensor, for a call of an intrinsic: `A[i, 0:16]`."""

    __slots__ = ("parts", "tensor")

    def __init__(self, tensor: Any, parts: tuple[Any, ...]) -> None:
        self.tensor = tensor
        self.parts = parts

    def as_expr(self) -> NoReturn:
        raise UserError(
            f"tensor {self.tensor.name!r} is indexed with the slice {next(filter(_is_slice, self.parts))!r}",
            fix="an expression reads one element: give an index for every dimension",
        )

    def __getitem__(self, more: Any) -> NoReturn:
        self.as_expr()

    def __iter__(self) -> NoReturn:
        self.as_expr()

    def __repr__(self) -> str:
        return one_line(f"{self.tensor.name}[{', '.join(map(repr, self.parts))}]")


def _is_slice(part: Any) -> bool:
    return isinstance(part, slice) or part is Ellipsis


@dataclass(frozen=True, eq=False)
class IntrinsicCall:
    """An intrinsic on regions of tensors, reduced over `axes` in addition to its own reduction axes."""

    intrin: Any
    regions: tuple[tuple[Any, tuple[Expr, ...], tuple[int, ...]], ...]
    """For each input: the tensor, the beginning of the region, and the dimensions that the intrinsic's own run over."""
    axes: tuple[IterVar, ...]
    scalars: tuple[Expr, ...] = ()
    """The values of the intrinsic's numbers."""
    sizes: Mapping[Var, Expr] = field(default_factory=dict)
    """The values of the intrinsic's axis extents that are variables."""

    def dimensions(self) -> int:
        """The number of last dimensions that the intrinsic computes, without leading dimensions of extent 1."""
        return len(self._moving())

    def _moving(self) -> list[IterVar]:
        own = list(self.intrin.op.axis)
        while len(own) > 1 and self._extent(own[0]) == 1:
            own.pop(0)
        return own

    def _range(self, axis: IterVar) -> Range | None:
        known = axis.dom is None or not isinstance(axis.dom.extent, Var)
        return axis.dom if known else Range(substitute(axis.dom.extent, self.sizes))  # type: ignore[union-attr]

    def _extent(self, axis: IterVar) -> int | None:
        return constant_value(substitute(axis.dom.extent, self.sizes)) if axis.dom is not None else None

    def element(self, own: Sequence[IterVar]) -> tuple[Expr, ...]:
        """The values of an element; `own`: the last axes of the computation, which replace the intrinsic's."""
        op = self.intrin.op
        values: dict[Var, Expr] = {axis.var: const(0, axis.var.dtype) for axis in op.axis}
        values.update(self.sizes)
        values.update(zip(self.intrin.scalar_params, self.scalars, strict=True))
        for axis, theirs in zip(own, self._moving(), strict=True):
            wanted = self._extent(theirs)
            if axis.dom is None or constant_value(axis.dom.extent) != wanted:
                self._refuse(
                    f"computes {wanted} elements along {theirs.name!r}, and the tensor has "
                    f"{axis.dom.extent if axis.dom else None} there",
                    "give the tensor the extents of the intrinsic in its last dimensions",
                )
            values[theirs.var] = as_expr(axis)
        inner = {axis: IterVar(axis.name, self._range(axis), AxisKind.REDUCE) for axis in op.reduce_axis}
        values.update({axis.var: as_expr(fresh) for axis, fresh in inner.items()})
        made = tuple(rewrite(substitute(e, values), self._on_regions) for e in op.body)
        return tuple(self._reduced(e, inner) for e in made)

    def _reduced(self, e: Expr, inner: dict[IterVar, IterVar]) -> Expr:
        if isinstance(e, Reduce):
            axes = (*self.axes, *(inner[axis] for axis in e.axes))
            return Reduce(e.combiner, e.source, axes, e.condition, e.value_index, e.init, ends_of(axes))
        if self.axes:
            self._refuse(
                f"is called with reduce_axis={list(self.axes)!r}, and computes no reduction", "leave reduce_axis out"
            )
        return e

    def _on_regions(self, e: Any) -> Any:
        inputs = self.intrin.op.input_tensors
        if not isinstance(e, Load) or not any(e.source is tensor for tensor in inputs):
            return e
        tensor, origin, along = self.regions[next(k for k, t in enumerate(inputs) if t is e.source)]
        indices = list(origin)
        for d, index in zip(along, e.indices[len(e.indices) - len(along) :], strict=True):
            indices[d] = add(indices[d], index)
        return Load(tensor, tuple(indices))

    def _refuse(self, what: str, fix: str) -> NoReturn:
        raise UserError(f"the intrinsic {self.intrin.name!r} {what}", primitive="compute", fix=fix)


def declared_by_call(
    fcompute: Any, sizes: tuple[Expr, ...], name: str
) -> tuple[tuple[IterVar, ...], tuple[Expr, ...], IntrinsicCall] | None:
    """Return the axes and values of a computation by a function that takes fewer axes than there are and calls an
    intrinsic.

    None for every other function.
    """
    code = getattr(fcompute, "__code__", None)
    if code is None or hasattr(fcompute, "__self__") or code.co_flags & _VARARGS or code.co_argcount >= len(sizes):
        return None
    names = code.co_varnames[: code.co_argcount]
    outer = [IterVar(a, Range(extent), AxisKind.DATA) for a, extent in zip(names, sizes, strict=False)]
    variables = tuple(axis.var for axis in outer)
    with declaring(variables), calling(f"the function of te.compute {name!r}"):
        call = fcompute(*variables)
    if not isinstance(call, IntrinsicCall):
        return None
    inner = [IterVar(f"ax{d}", Range(extent), AxisKind.DATA) for d, extent in enumerate(sizes[len(outer) :])]
    if len(inner) != call.dimensions():
        raise UserError(
            f"the intrinsic {call.intrin.name!r} computes "
            f"{quantity(call.dimensions(), 'dimension')}, but the function of "
            f"{name!r}, of {len(sizes)} dimensions, takes {len(outer)} axes",
            primitive="compute",
            fix="give the function one parameter for each dimension that the intrinsic does not compute",
        )
    return (*outer, *inner), call.element(inner), call


_VARARGS = 0x04


def call_intrinsic(intrin: Any, args: Sequence[Any], reduce_axis: Any) -> IntrinsicCall:
    """The call of a declared intrinsic on regions, one per input."""
    inputs, numbers = intrin.op.input_tensors, intrin.scalar_params
    scalars = [arg for arg in args if not isinstance(arg, TensorRegion)] if numbers else []
    args = [arg for arg in args if not any(arg is scalar for scalar in scalars)]
    if len(scalars) != len(numbers):
        raise UserError(
            f"the intrinsic {intrin.name!r} of {quantity(len(numbers), 'number')} is called with {len(scalars)}",
            primitive="compute",
            fix=f"give one for each of {', '.join(var.name for var in numbers)}, in order",
        )
    if len(args) != len(inputs) or not all(isinstance(arg, TensorRegion) for arg in args):
        raise UserError(
            f"the intrinsic {intrin.name!r} of {quantity(len(inputs), 'input')} is called with "
            f"{', '.join(map(repr, args))}",
            primitive="compute",
            fix="give a region of a tensor for each input, intrinsic(A[i, 0:16], B[i, 0:16]), or declare the values "
            "with te.compute and tensorize its loops: s[C].tensorize(axis, intrinsic)",
        )
    axes = tuple(reduce_axis) if isinstance(reduce_axis, (list, tuple)) else (reduce_axis,)
    axes = () if reduce_axis is None else axes
    wrong = next((a for a in axes if not isinstance(a, IterVar) or a.kind is not AxisKind.REDUCE), None)
    if wrong is not None:
        raise UserError(
            f"reduce_axis={wrong!r} of the intrinsic {intrin.name!r} is not a reduction axis",
            primitive="compute",
            fix='make it with te.reduce_axis((0, n), name="k")',
        )
    sizes: dict[Var, Expr] = {}
    regions = tuple(_region(intrin, arg, tensor, sizes) for arg, tensor in zip(args, inputs, strict=True))
    values = tuple(cast(var.dtype, as_expr(given)) for var, given in zip(numbers, scalars, strict=True))
    return IntrinsicCall(intrin, regions, axes, values, sizes)


def _region(
    intrin: Any, given: TensorRegion, wanted: Any, sizes: dict[Var, Expr]
) -> tuple[Any, tuple[Expr, ...], tuple[int, ...]]:
    tensor = given.tensor
    parts = list(given.parts)
    if Ellipsis in [part for part in parts if part is Ellipsis] or len(parts) > tensor.ndim:
        raise _wrong_region(intrin, given, wanted)
    parts += [slice(None)] * (tensor.ndim - len(parts))
    origin, along, extents = [], [], []
    for d, part in enumerate(parts):
        if not isinstance(part, slice):
            origin.append(as_expr(part))
            continue
        begin = as_expr(0 if part.start is None else part.start)
        end = as_expr(tensor.shape[d] if part.stop is None else part.stop)
        if part.step not in (None, 1):
            raise _wrong_region(intrin, given, wanted)
        origin.append(begin)
        along.append(d)
        extents.append(constant_value(simplify(subtract(end, begin))))
    open_sizes = [extent for extent in wanted.shape if isinstance(extent, Var) and extent not in sizes]
    if open_sizes and len(wanted.shape) == len(extents):
        ends = zip(wanted.shape, extents, strict=True)
        sizes.update({size: const(e, size.dtype) for size, e in ends if size in open_sizes and e is not None})
    shape = [constant_value(substitute(extent, sizes)) for extent in wanted.shape]
    while len(shape) > len(extents) and shape[0] == 1:
        shape.pop(0)
    if shape != extents or None in extents:
        raise _wrong_region(intrin, given, wanted)
    return tensor, tuple(origin), tuple(along)


def _wrong_region(intrin: Any, given: TensorRegion, wanted: Any) -> UserError:
    return UserError(
        f"the intrinsic {intrin.name!r} is called with {given!r} for its input {wanted.name!r} of shape "
        f"{list(wanted.shape)}",
        primitive="compute",
        fix="give begin:end in each dimension that the intrinsic runs over, as far apart as its input is long, and an "
        "index in the others",
    )
