"""Broadcasting operators: dimensions of extent 1 are repeated, and missing ones are added in front, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arith.simplify import simplify
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.intrinsics import TABLE
from ..expr.nodes import Expr
from ..expr.operand import Operand
from ..tensor.tensor import Tensor, compute, extents
from .argument_checks import tensor, wide_float
from .tag import BROADCAST, ELEMWISE

Binary = Callable[[Any, Any], Any]


def broadcast_to(data: Tensor, shape: Sequence[Any]) -> Tensor:
    """Repeat a tensor along dimensions of extent 1 and along new ones in front.

    Parameters
    ----------
    data
        The tensor to repeat.
    shape
        The shape of the result, of at least as many dimensions as `data`.

    Returns
    -------
    A tensor of the given shape.

    Raises
    ------
    UserError
        If an extent of `data` is neither 1 nor that of `shape`.
    """
    data = tensor(data, "data", "broadcast_to")
    wanted = extents(shape, "broadcast_to", data.name)
    if broadcast_shape(data.shape, wanted, "broadcast_to") != tuple(map(simplify, wanted)):
        raise UserError(
            f"{data.name!r} of shape {list(data.shape)} does not broadcast to {list(wanted)}",
            primitive="broadcast_to",
            fix="give a shape that ends with the extents of the tensor; only extents of 1 may differ",
        )
    return compute_broadcast(wanted, lambda *e: e[0], [data], "broadcast_to")


def broadcast_shape(a: Sequence[Expr], b: Sequence[Expr], primitive: str) -> tuple[Expr, ...]:
    """The shape that tensors of the shapes `a` and `b` broadcast to; raises UserError if there is none."""
    rank = max(len(a), len(b))
    one = o.const(1)
    padded = [[one] * (rank - len(s)) + [simplify(e) for e in s] for s in (a, b)]
    made = []
    for x, y in zip(*padded, strict=True):
        if x is not y and not o.is_const(x, 1) and not o.is_const(y, 1):
            raise UserError(
                f"the shapes {list(a)} and {list(b)} do not broadcast: the extents {x} and {y} differ",
                primitive=primitive,
                fix="give tensors with extents that are equal or 1, counted from the last dimension",
            )
        made.append(y if o.is_const(x, 1) else x)
    return tuple(made)


def compute_broadcast(shape: Sequence[Expr], value: Callable[..., Any], read: Sequence[Any], name: str) -> Tensor:
    """Return the tensor that `value` computes from one element of each of `read`: tensors, broadcast to `shape`, or
    numbers."""

    def element(*indices: Any) -> Any:
        return value(*(_at(each, indices) if isinstance(each, Tensor) else each for each in read))

    names = [f"ax{i}" for i in range(len(shape))]
    with_numbers = any(not isinstance(each, Tensor) for each in read)
    tag = ELEMWISE if with_numbers else BROADCAST
    made: Tensor = compute(tuple(shape), element, f"T_{name}", tag, varargs_names=names)
    return made


def _at(data: Tensor, indices: Sequence[Any]) -> Expr:
    """Return the element of `data` at `indices` of the broadcast result."""
    mine = indices[len(indices) - data.ndim :]
    return data(*(0 if o.is_const(simplify(n), 1) else i for i, n in zip(mine, data.shape, strict=True)))


def _binary(name: str, value: Binary, doc: str, arguments: tuple[str, str] = ("lhs", "rhs")) -> Binary:
    def operator(lhs: Any, rhs: Any) -> Any:
        given = [_operand(each, argument, name) for each, argument in zip((lhs, rhs), arguments, strict=True)]
        shapes = [each.shape for each in given if isinstance(each, Tensor)]
        if not shapes:
            return value(*given)
        shape = broadcast_shape(shapes[0], shapes[-1], name)
        return compute_broadcast(shape, value, given, name)

    operator.__name__ = operator.__qualname__ = name
    operator.__doc__ = f"""{doc}

    Parameters
    ----------
    {arguments[0]}, {arguments[1]}
        Tensors, numbers or scalar expressions; the wider type wins, and numbers take the type of the tensor.

    Returns
    -------
    A tensor of the broadcast shape; an expression where neither argument is a tensor.

    Raises
    ------
    UserError
        Where the shapes do not broadcast.
    """
    return operator


def _operand(given: Any, argument: str, primitive: str) -> Any:
    number = isinstance(given, (Operand, bool, int, float, np.generic))
    return given if number else tensor(given, argument, primitive)


def _mod(a: Any, b: Any) -> Expr:
    x, y = o.match_types(a, b)
    return TABLE["fmod"](x, y) if x.dtype.is_float else o.truncmod(x, y)


def _divide(a: Any, b: Any) -> Expr:
    x, y = o.match_types(a, b)
    return o.divide(x, y) if x.dtype.is_float else o.truncdiv(x, y)


def _floor_divide(a: Any, b: Any) -> Expr:
    x, y = o.match_types(a, b)
    if not x.dtype.is_float or x.dtype.bits >= 32:
        return o.floordiv(x, y)
    # A quotient of 16 bits may be rounded to the next whole number.
    return o.cast(x.dtype, o.floordiv(o.cast("float32", x), o.cast("float32", y)))


def _log_add_exp(a: Any, b: Any) -> Expr:
    x, y = o.match_types(a, b)
    wide = wide_float(x.dtype)
    high, low = (o.cast(wide, e) for e in (o.maximum(x, y), o.minimum(x, y)))
    apart = o.select(o.equal(high, low), o.const(0, wide), o.subtract(low, high))  # 0 for equal infinities, too
    made = o.add(high, TABLE["log1p"](TABLE["exp"](apart)))
    return o.cast(x.dtype, made) if x.dtype.is_float else made  # 16 bits are rounded once


def _logical_xor(a: Any, b: Any) -> Expr:
    return o.not_equal(o.condition(a, "logical_xor"), o.condition(b, "logical_xor"))


add = _binary("add", o.add, "Add element by element.")
subtract = _binary("subtract", o.subtract, "Subtract `rhs` from `lhs`, element by element.")
multiply = _binary("multiply", o.multiply, "Multiply element by element.")
divide = _binary("divide", _divide, "Divide `lhs` by `rhs`; quotients of integers are rounded towards zero.")
floor_divide = _binary("floor_divide", _floor_divide, "Divide `lhs` by `rhs` and round down.")
trunc_divide = _binary("trunc_divide", o.truncdiv, "Divide `lhs` by `rhs` and round towards zero.")
mod = _binary("mod", _mod, "Compute the remainder of `divide`, which has the sign of `lhs`.")
floor_mod = _binary("floor_mod", o.floormod, "Compute the remainder of `floor_divide`, which has the sign of `rhs`.")
trunc_mod = _binary("trunc_mod", o.truncmod, "Compute the remainder of `trunc_divide`, which has the sign of `lhs`.")
power = _binary("power", TABLE["pow"], "Raise `lhs` to the power `rhs`; integers are taken as float32.")
maximum = _binary("maximum", o.maximum, "Take the larger one, element by element.")
minimum = _binary("minimum", o.minimum, "Take the smaller one, element by element.")
log_add_exp = _binary("log_add_exp", _log_add_exp, "Compute log(exp(lhs) + exp(rhs)) without overflow.")
greater = _binary("greater", o.greater, "Test whether `lhs` > `rhs`, as bool.")
less = _binary("less", o.less, "Test whether `lhs` < `rhs`, as bool.")
greater_equal = _binary("greater_equal", o.greater_equal, "Test whether `lhs` >= `rhs`, as bool.")
less_equal = _binary("less_equal", o.less_equal, "Test whether `lhs` <= `rhs`, as bool.")
equal = _binary("equal", o.equal, "Test whether `lhs` equals `rhs`, as bool.")
not_equal = _binary("not_equal", o.not_equal, "Test whether `lhs` differs from `rhs`, as bool.")
logical_and = _binary("logical_and", o.logical_and, "Test whether both are true; both are of type bool.")
logical_or = _binary("logical_or", o.logical_or, "Test whether at least one is true; both are of type bool.")
logical_xor = _binary("logical_xor", _logical_xor, "Test whether exactly one is true; both are of type bool.")
bitwise_and = _binary("bitwise_and", o.bitwise_and, "Combine the bits of integers by and.")
bitwise_or = _binary("bitwise_or", o.bitwise_or, "Combine the bits of integers by or.")
bitwise_xor = _binary("bitwise_xor", o.bitwise_xor, "Combine the bits of integers by exclusive or.")
left_shift = _binary("left_shift", o.shift_left, "Shift the bits of `lhs` left by `rhs`.")
right_shift = _binary("right_shift", o.shift_right, "Shift the bits of `lhs` right by `rhs`, keeping the sign.")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
