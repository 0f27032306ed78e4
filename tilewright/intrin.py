"""Matrix instructions for `s[T].tensorize(axis, atom)`.

from tilewright import intrin as ti

s[D].tensorize(i, ti.mma("float16"))  # the 32 lanes of a warp of an NVIDIA GPU, together
s[D].tensorize(i, ti.wgmma("float16"))  # the four warps of a warpgroup of a Hopper GPU, together
s[D].tensorize(k, ti.dp4a("int8"))  # one thread of it: four products a sum
s[D].tensorize(j, ti.vnni())  # one thread of a CPU: four products for each of 16 sums
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .core.atoms import ATOMS as _ATOMS
from .core.atoms import DOTS as _DOTS
from .core.atoms import WARPGROUP_ATOMS as _WARPGROUP_ATOMS
from .core.atoms import Atom as Atom
from .core.errors import UserError as _UserError
from .core.refusals import old_name as _old_name


def mma(operands: str, accumulator: str = "") -> Atom:
    """Return the matrix instruction of a warp for operands of one type.

    Parameters
    ----------
    operands
        "float16", "bfloat16": float32 sums. "int8", "uint8": int32 sums. "float64": float64 sums. For float32 operands
        and sums, a precision: "tf32" rounds each operand to 11 significant bits. "3xtf32" splits each operand into a
        high and a low part, adds three products, and is about as exact as float32 arithmetic. "bf16x6" splits it into
        three parts of bfloat16 and adds the six products that count. "3xtf32_one" is "3xtf32" with one set of partial
        sums instead of two, which it adds to the others more often. It takes a third fewer registers for sums, and is
        as exact.
    accumulator
        The type of the sums, if there is a choice. "float16" for float16 operands takes half the registers, and rounds
        each sum of 16 products to float16.

    Raises
    ------
    UserError
        For any other name.
    """
    named = isinstance(operands, str) and isinstance(accumulator, str)
    found = _ATOMS.get(operands) if named else None
    if found is not None and accumulator not in ("", found.accumulator):
        other = _ATOMS.get(f"{operands}_{accumulator}")
        if other is None:
            raise _UserError(
                f"there is no matrix instruction for operands {operands!r} with sums in {accumulator!r}",
                primitive="mma",
                fix=f"leave the accumulator out: the sums of {operands!r} are {found.accumulator}",
            )
        return other
    if found is None or not named:
        raise _UserError(
            f"there is no matrix instruction for operands {operands!r}"
            + ("" if isinstance(accumulator, str) and not accumulator else f" with sums in {accumulator!r}"),
            primitive="mma",
            fix=f"use one of {', '.join(repr(name) for name in _ATOMS if '16_' not in name)}",
        )
    return found


def wgmma(operands: str, accumulator: str = "") -> Atom:
    """Return the matrix instruction of a warpgroup: `wgmma` of sm_90, for operands of one type.

    Four warps, counted by threadIdx.y of extent 4, execute it together. The tensorized loops belong to one of them: 16
    rows, after the previous warp's, and as many columns as registers hold. The hardware reads both operands from shared
    memory, in rows of 128 bytes of terms (64 of float16, 32 of float32, 128 of int8). The compiler swizzles the pieces
    of these rows. Rows of a right operand of 16-bit elements may also be 64 columns of one term.

    Parameters
    ----------
    operands
        "float16", "bfloat16": float32 sums. "int8", "uint8": int32 sums. "tf32": float32 operands and sums; the
        hardware ignores the bits of an operand beyond the 11 significant ones.
    accumulator
        "float16" for float16 operands: float16 sums, in half the registers.

    Raises
    ------
    UserError
        For any other name.
    """
    given = (operands, accumulator)
    name = f"wgmma_{operands}" if all(isinstance(each, str) for each in given) else ""
    found = _WARPGROUP_ATOMS.get(f"{name}_{accumulator}") or _WARPGROUP_ATOMS.get(name)
    if found is None or accumulator not in ("", found.accumulator):
        sums = "" if isinstance(accumulator, str) and not accumulator else f" with sums in {accumulator!r}"
        raise _UserError(
            f"there is no wgmma for operands {operands!r}{sums}",
            primitive="wgmma",
            fix='give "float16", "bfloat16", "tf32", "int8" or "uint8"; only of "float16" may sums be "float16" too',
        )
    return found


def dp4a(operands: str = "int8") -> Atom:
    """Return the dot product of four neighbouring bytes: `dp4a` of NVIDIA GPUs since sm_61.

    One thread executes it. The tensorized loops sum up a multiple of four terms, for any number of rows and columns.
    Operands and sums may lie in any memory; words of four neighbouring terms, aligned to 4 bytes, are loaded at once.

    Parameters
    ----------
    operands
        "int8" or "uint8", of both operands. The sums are int32 and wrap around, as the loops do.

    Raises
    ------
    UserError
        For any other type.
    """
    name = f"dp4a_{operands}"
    if not isinstance(operands, str) or name not in _DOTS:
        raise _UserError(f"there is no dp4a of operands {operands!r}", primitive="dp4a", fix='give "int8" or "uint8"')
    return _DOTS[name]


def vnni() -> Atom:
    """Return the dot products of four bytes for 16 sums at a time: `vpdpbusd` of AVX-512 VNNI.

    One operand is uint8, the other int8; the sums are int32 and wrap around, as the loops do. The tensorized loops have
    a multiple of 16 columns and of four terms, for any number of rows. The operand that has columns lies *packed*: its
    last dimension counts four terms, the one before columns, as `Bp[k // 4, j, k % 4]`. The terms of a row are
    neighbours, and the columns of the sums are. Processors without the instruction run the loops.
    """
    return _DOTS["vnni"]


_LARGEST_ROW = 1 << 18
"""Bytes: more than any multiprocessor has of shared memory."""


def draw_swizzle(row: int = 128) -> str:
    """Return a drawing of `storage_swizzle` for eight lines: the row and piece at each place.

    Parameters
    ----------
    row
        Bytes of a row: a power of two of at least 16. A piece has 16 bytes, and eight of them lie in all banks.

    Raises
    ------
    UserError
        For rows of another size.
    """
    if not isinstance(row, int) or not 16 <= row <= _LARGEST_ROW or row & (row - 1):
        raise _UserError(
            f"rows of {row!r} bytes are not swizzled",
            primitive="draw_swizzle",
            fix=f"give a power of two of at least 16, such as 128, and at most {_LARGEST_ROW:,}",
        )
    line = max(row, 128)
    lines = [f"row.piece at each 16 of {line} bytes:"]
    for number in range(8):
        at = [number * line + 16 * (place ^ number) for place in range(line // 16)]
        lines.append("".join(f"{start // row}.{start % row // 16}".rjust(6) for start in at))
    return "\n".join(lines)


if not _TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
