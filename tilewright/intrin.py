"""Matrix instructions for `s[T].tensorize(axis, atom)`.

from tilewright import intrin as ti

s[D].tensorize(i, ti.mma("float16"))
"""

from .core.atoms import ATOMS as _ATOMS
from .core.atoms import Atom as Atom
from .core.errors import UserError as _UserError


def mma(operands: str) -> Atom:
    """Return the matrix instruction of a warp for operands of one type.

    Parameters
    ----------
    operands
        "float16", "bfloat16": float32 sums. "int8", "uint8": int32 sums. "float64": float64 sums. For float32
        operands and sums, a precision: "tf32" rounds each operand to 11 significant bits; "3xtf32" splits each
        operand into a high and a low part, adds three products, and is about as exact as float32 arithmetic.

    Raises
    ------
    UserError
        For any other name.
    """
    if not isinstance(operands, str) or operands not in _ATOMS:
        raise _UserError(
            f"there is no matrix instruction for operands {operands!r}",
            primitive="mma",
            fix=f"use one of {', '.join(map(repr, _ATOMS))}",
        )
    return _ATOMS[operands]
