"""Variables that users declare, with known properties."""

from __future__ import annotations

from ..core.dtype import DType
from ..core.errors import UserError
from .nodes import Known, SizeVar, Var


def var(
    name: str = "tindex",
    dtype: str = "int32",
    span: object = None,
    *,
    minimum: int | None = None,
    maximum: int | None = None,
    multiple_of: int = 1,
) -> Var:
    """A scalar variable, such as a size that is known only at the call.

    Its declaration (`minimum`, `maximum`, `multiple_of`) is checked at every call, and leads to better code. Under
    `te.var("n", multiple_of=8)` tiles of 8 need no guard, and rows may be read as vectors.
    """
    return Var(name, dtype, _known("var", name, dtype, minimum, maximum, multiple_of))


def size_var(
    name: str = "size",
    dtype: str = "int32",
    span: object = None,
    *,
    minimum: int = 0,
    maximum: int | None = None,
    multiple_of: int = 1,
) -> SizeVar:
    """A variable that holds a size, and is thus at least 0. More facts may be declared, as for `var`."""
    least = max(0, minimum) if isinstance(minimum, int) else minimum
    return SizeVar(name, dtype, _known("size_var", name, dtype, least, maximum, multiple_of))


def _known(primitive: str, name: str, dtype: str, minimum: int | None, maximum: int | None, multiple_of: int) -> Known:
    """The declared facts, checked; ends of the range are moved to multiples."""
    if not isinstance(name, str):
        raise UserError(
            f"the name of a variable is {name!r}, which is not text",
            primitive=primitive,
            fix=f'give te.{primitive}("n")',
        )
    facts = {"minimum": minimum, "maximum": maximum, "multiple_of": multiple_of}
    for what, value in facts.items():
        given = value is not None or what == "multiple_of"
        if given and (isinstance(value, bool) or not isinstance(value, int)):
            raise UserError(
                f"{what}={value!r} of {name!r} is not a whole number",
                primitive=primitive,
                fix="give an int, or leave it out",
            )
    if multiple_of < 1:
        raise UserError(
            f"multiple_of={multiple_of} of {name!r} is less than 1", primitive=primitive, fix="give an int >= 1"
        )
    if not DType(dtype).is_int and (minimum, maximum, multiple_of) != (None, None, 1):
        raise UserError(
            f"{name!r} has type {dtype}; only integers have a minimum, a maximum or a multiple_of",
            primitive=primitive,
            fix='declare an integer, such as dtype="int32", or leave minimum, maximum and multiple_of out',
        )
    low = None if minimum is None else -(-minimum // multiple_of) * multiple_of
    high = None if maximum is None else maximum // multiple_of * multiple_of
    if low is not None and high is not None and low > high:
        raise UserError(
            f"no value of {name!r} is {Known(minimum, maximum, multiple_of)}, as its declaration asks",
            primitive=primitive,
            fix="leave one of these conditions out",
        )
    return Known(low, high, multiple_of)
