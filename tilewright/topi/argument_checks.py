"""Checks of operators' arguments: tensors, axes, types, and lists of one whole number per dimension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..arith.simplify import simplify
from ..core.dtype import FLOAT32, DType
from ..core.errors import UserError
from ..core.text import brief, quantity
from ..expr.nodes import Expr, IntImm
from ..expr.operators import as_expr, cast, const
from ..runtime.argument_checks import flag as flag  # the same rule for modules and operators
from ..tensor.axis import whole
from ..tensor.tensor import Tensor


def tensor(given: Any, argument: str, primitive: str) -> Tensor:
    """`given`, which must be a tensor."""
    if not isinstance(given, Tensor):
        raise UserError(
            f"argument {argument!r} is {brief(given)}, which is not a tensor",
            primitive=primitive,
            fix='give one: te.placeholder((1, 64, 56, 56), name="A"), or the result of an operator',
        )
    return given


def tensors(given: Any, argument: str, primitive: str) -> list[Tensor]:
    """`given`, which must be a list of at least one tensor."""
    if not isinstance(given, (list, tuple)) or not given:
        raise UserError(
            f"argument {argument!r} is {brief(given)}, which is not a list of tensors",
            primitive=primitive,
            fix="give at least one tensor in a list: [A, B]",
        )
    return [tensor(each, f"{argument}[{i}]", primitive) for i, each in enumerate(given)]


def entries(given: Any, argument: str, data: Tensor, primitive: str, least: int) -> list[Expr]:
    """`given` as one integer per dimension of `data`; constants must be >= `least`."""
    if not isinstance(given, (list, tuple)):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is not a list",
            primitive=primitive,
            fix=f"give one entry for each dimension of {data.name!r}: {[given] * data.ndim}",
        )
    if len(given) != data.ndim:
        raise UserError(
            f"{data.name!r} has {data.ndim} dimensions, but {argument} has {len(given)} entries",
            primitive=primitive,
            fix="give one entry per dimension",
        )
    found = [whole(each) for each in given]
    for each, number in zip(given, found, strict=True):
        if number is None or getattr(number, "value", least) < least:
            raise UserError(
                f"{argument} is {list(given)}, and {each!r} is not a whole number of at least {least}",
                primitive=primitive,
                fix=f"give whole numbers from {least} on, or integer variables; "
                "to leave elements out, read only the others: te.compute(shape, lambda i: A[i + 1])",
            )
    return [number for number in found if number is not None]


def integer(given: Any, argument: str, primitive: str, least: int | None = None) -> int:
    """Return `given`, which must be an integer, and at least `least` if that is not None."""
    number = given.value if isinstance(given, IntImm) else given
    if isinstance(number, bool) or not isinstance(number, int) or (least is not None and number < least):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is not a whole number"
            + (f" of at least {least}" if least is not None else ""),
            primitive=primitive,
            fix=f"give an int >= {least}" if least is not None else "give an int",
        )
    return number


def integers(given: Any, count: int, argument: str, primitive: str, least: int | None = None) -> list[int]:
    """Return `given` as `count` integers of at least `least`; a single integer stands for all."""
    each = list(given) if isinstance(given, (list, tuple)) else [given] * count
    if len(each) != count:
        raise UserError(
            f"argument {argument!r} is {given!r}, which has {len(each)} entries instead of {count}",
            primitive=primitive,
            fix=f"give an int, or a tuple of {count}",
        )
    return [integer(value, argument, primitive, least) for value in each]


def dimension(given: Any, rank: int, primitive: str, argument: str = "axis") -> int:
    """`given`, which must be one of `rank` dimensions, counted from the first one; -1 is the last one."""
    number = given.value if isinstance(given, IntImm) else given
    if isinstance(number, bool) or not isinstance(number, int) or not -rank <= number < rank:
        raise UserError(
            f"argument {argument!r} is {given!r}, which is not one of {quantity(rank, 'dimension')}",
            primitive=primitive,
            fix=f"give an int from {-rank} to {rank - 1}" if rank else "give a tensor that has dimensions",
        )
    return number % rank


def dimensions(given: Any, rank: int, primitive: str, argument: str = "axis") -> list[int]:
    """`given` as different dimensions in ascending order: one, several, or all of them if it is None."""
    if given is None:
        return list(range(rank))
    each = given if isinstance(given, (list, tuple)) else [given]
    found = sorted(dimension(one, rank, primitive, argument) for one in each)
    if len(set(found)) != len(found):
        raise UserError(
            f"argument {argument!r} is {given!r}, which names a dimension twice",
            primitive=primitive,
            fix="name each dimension once",
        )
    return found


def rank_of(data: Tensor, ranks: int | Sequence[int], argument: str, primitive: str, shown: str = "") -> Tensor:
    """`data`, which must have one of these numbers of dimensions; `shown` writes the shape: "(batch, channels)"."""
    wanted = (ranks,) if isinstance(ranks, int) else tuple(ranks)
    if data.ndim not in wanted:
        count = " or ".join([*map(str, wanted[:-1]), quantity(wanted[-1], "dimension")])
        raise UserError(
            f"{argument} {data.name!r} has the shape {list(data.shape)}",
            primitive=primitive,
            fix=f"give a tensor of {count}" + f": {shown}" * bool(shown),
        )
    return data


def index_tensor(given: Any, argument: str, primitive: str) -> Tensor:
    """`given`, which must be a tensor of integers."""
    found = tensor(given, argument, primitive)
    if not found.dtype.is_int:
        raise UserError(
            f"{argument} {found.name!r} has type {found.dtype}, but indices are integers",
            primitive=primitive,
            fix='convert it: topi.cast(indices, "int32")',
        )
    return found


def wide_index(index: Expr) -> Expr:
    """An index in a signed type that holds every extent: one of int8 cannot be compared with 300."""
    if index.dtype == "int64" or (index.dtype.kind == "int" and index.dtype.bits == 32):
        return index
    return cast("int32" if index.dtype.bits < 32 else "int64", index)


def one_of(given: Any, choices: Sequence[Any], argument: str, primitive: str) -> Any:
    """`given`, which must be one of `choices`."""
    if not any(given is choice or (type(given) is type(choice) and given == choice) for choice in choices):
        raise UserError(
            f"argument {argument!r} is {given!r}, which is not one of its choices",
            primitive=primitive,
            fix=f"use one of {', '.join(map(repr, choices))}",
        )
    return given


def same(a: Any, b: Any, what: str, primitive: str) -> None:
    """Check that two extents agree if both are constant; `what` names them."""
    first, second = (e.value if isinstance(e, IntImm) else e for e in (a, b))
    if isinstance(first, int) and isinstance(second, int) and first != second:
        raise UserError(f"{what}: {first} and {second} differ", primitive=primitive, fix="make the shapes agree")


def known(extent: Any) -> int | None:
    """The value of an extent; None if it is known only at the call."""
    found = simplify(as_expr(extent))
    return found.value if isinstance(found, IntImm) else None


def divisor(extent: Any) -> Expr:
    """A divisor for indices: the extent, or 1 if the extent is 0 and no index exists."""
    return const(1) if known(extent) == 0 else as_expr(extent)


def check_any(data: Tensor, extent: Any, where: Tensor, shape: Sequence[Any], primitive: str) -> None:
    """Check that there is something to index, unless the result, of that shape, is empty."""
    if known(extent) == 0 and not any(known(n) == 0 for n in shape):
        raise UserError(
            f"indices {where.name!r} of shape {list(where.shape)} index a dimension without "
            f"elements: {data.name!r} has the shape {list(data.shape)}",
            primitive=primitive,
            fix="give a tensor with at least one element in the dimension that is indexed, or no indices",
        )


def wide_float(dtype: DType) -> DType:
    """Return the type for places between elements, and for interpolated values: float32, or float64 for float64."""
    return dtype if dtype == "float64" else FLOAT32


def sizes(data: Tensor, dims: Sequence[int], primitive: str) -> list[int]:
    """The extents of some dimensions, which must be constant."""
    found = [known(data.shape[d]) for d in dims]
    for d, n in zip(dims, found, strict=True):
        if n is None:
            raise UserError(
                f"dimension {d} of {data.name!r} has the extent `{data.shape[d]}`, which is not constant",
                primitive=primitive,
                fix="give a tensor of constant extents, or declare this with te.compute",
            )
    return [n for n in found if n is not None]


def result_type(given: Any, data: Tensor, primitive: str) -> DType:
    """Return `given` as an element type; the type of `data` if `given` is None or empty."""
    is_named = given is not None and not (isinstance(given, str) and not given)  # comparing an array gives an array
    return element_type(given, primitive) if is_named else data.dtype


def element_type(given: Any, primitive: str) -> DType:
    """`given` as a type of elements."""
    try:
        return DType(given)
    except (UserError, TypeError, ValueError):
        raise UserError(
            f"argument 'dtype' is {given!r}, which is not a type",
            primitive=primitive,
            fix='name a type: dtype="float32"',
        ) from None
