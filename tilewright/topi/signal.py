"""Discrete Fourier transforms: of whole rows, and of windows that slide over them.

The factors come from a table of cosines and sines of the multiples of a full turn divided by the length. An index into
the table is reduced to the first turn in integers, so that long signals lose no precision.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..core.dtype import INT32
from ..core.errors import UserError
from ..core.refusals import old_name as _old_name
from ..expr import operators as o
from ..expr.intrinsics import TABLE
from ..expr.nodes import Expr
from ..tensor.axis import reduce_axis
from ..tensor.reduction import sum as reduce_sum
from ..tensor.tensor import Tensor, compute
from .argument_checks import flag, integer, known, rank_of, same, sizes, tensor
from .nn.sums import narrowed, sum_type
from .tag import COMM_REDUCE, INJECTIVE


def dft(re_data: Tensor, im_data: Tensor, inverse: Any = False) -> tuple[Tensor, Tensor]:
    """Transform rows of complex numbers into their frequencies, along the last dimension.

    Parameters
    ----------
    re_data, im_data
        The real and the imaginary parts: tensors of floating-point numbers of one shape and type.
    inverse
        Whether frequencies are transformed back, and divided by their number.

    Returns
    -------
    The real and the imaginary parts of the result, each of the shape of `re_data`.

    Raises
    ------
    UserError
        For shapes and types that differ, and for rows of variable length.

    Notes
    -----
    Each result is a sum over its row, as for a product with the matrix of the transform. Sums of 16-bit numbers are
    float32.
    """
    real, imaginary = _signal(re_data, "re_data", "dft"), _signal(im_data, "im_data", "dft")
    rank_of(imaginary, real.ndim, "im_data", "dft")
    for d in range(real.ndim):
        same(real.shape[d], imaginary.shape[d], f"extents of dimension {d} of re_data and im_data", "dft")
    if real.dtype != imaginary.dtype:
        raise UserError(
            f"re_data has type {real.dtype}, and im_data {imaginary.dtype}", primitive="dft", fix="give both one type"
        )
    (length,) = sizes(real, [real.ndim - 1], "dft")
    back, kind = flag(inverse, "inverse", "dft"), sum_type(real.dtype)
    cosines, sines = _table(length, kind)
    scale = o.const(1 / length if back else 1.0, kind)

    def part(name: str, term: Any) -> Tensor:
        k = reduce_axis((0, length), name="k")

        def element(*i: Any) -> Expr:
            turn = _turn(i[-1], k.var, length)
            factors = cosines(turn), sines(turn) if back else -sines(turn)
            value = term(o.cast(kind, real(*i[:-1], k)), o.cast(kind, imaginary(*i[:-1], k)), *factors)
            total: Expr = reduce_sum(value * scale if back else value, axis=k)
            return total

        return narrowed(compute(real.shape, element, name, COMM_REDUCE), real.dtype)

    return (
        part("dft_re", lambda re, im, c, s: re * c - im * s),
        part("dft_im", lambda re, im, c, s: re * s + im * c),
    )


def stft(
    data: Tensor, n_fft: int, hop_length: int, win_length: int, window: Tensor, normalized: Any, onesided: Any,
    output_shape: Any = None,
) -> Tensor:  # fmt: skip
    """Transform windows that slide over signals into their frequencies.

    Parameters
    ----------
    data
        Signals (batch, length), of floating-point numbers.
    n_fft
        The size of the transform: how many frequencies there are.
    hop_length
        The distance between neighbouring windows.
    win_length
        The length of a window.
    window
        The factors of a window's elements: a tensor (win_length,).
    normalized
        Whether results are divided by the square root of `n_fft`.
    onesided
        Whether only the first n_fft // 2 + 1 frequencies are computed: frequencies of real signals mirror each other.
    output_shape
        The shape of the result, by default derived from the other arguments.

    Returns
    -------
    A tensor (batch, frequencies, windows, 2) of real and imaginary parts.

    Raises
    ------
    UserError
        For shapes that do not fit each other, and for signals shorter than a window.
    """
    signal = rank_of(_signal(data, "data", "stft"), 2, "data", "stft", "(batch, length)")
    factors = rank_of(_signal(window, "window", "stft"), 1, "window", "stft")
    count, hop, size = (
        integer(given, name, "stft", 1)
        for given, name in ((n_fft, "n_fft"), (hop_length, "hop_length"), (win_length, "win_length"))
    )
    same(factors.shape[0], size, "the elements of window and win_length", "stft")
    (length,) = sizes(signal, [1], "stft")
    if length < size:
        raise UserError(
            f"data {signal.name!r} has {length} elements, but a window of win_length={size} is longer",
            primitive="stft",
            fix="give a win_length up to the length of the signals",
        )
    rows = count // 2 + 1 if flag(onesided, "onesided", "stft") else count
    shape = (signal.shape[0], rows, (length - size) // hop + 1, 2)
    if output_shape is not None and [known(n) for n in output_shape][1:] != list(shape[1:]):
        raise UserError(
            f"argument 'output_shape' is {output_shape!r}, but the other arguments result in {[*shape]}",
            primitive="stft",
            fix="leave output_shape out",
        )
    result = o.multiply(o.const(1, signal.dtype), o.const(1, factors.dtype)).dtype
    kind = sum_type(result)
    cosines, sines = _table(size, kind)
    scale = o.const(1 / math.sqrt(count) if flag(normalized, "normalized", "stft") else 1.0, kind)
    k = reduce_axis((0, size), name="k")

    def element(batch: Any, row: Any, column: Any, part: Any) -> Expr:
        turn = _turn(row, k.var, size)
        factor = o.select(o.equal(part, 0), cosines(turn), -sines(turn))
        value = o.cast(kind, signal(batch, column * hop + k)) * o.cast(kind, factors(k))
        total: Expr = reduce_sum(value * factor * scale, axis=k)
        return total

    return narrowed(compute(shape, element, "stft", COMM_REDUCE), result)


def _signal(given: Any, argument: str, primitive: str) -> Tensor:
    found = tensor(given, argument, primitive)
    if not found.dtype.is_float or not found.ndim:
        raise UserError(
            f"{argument} {found.name!r} is {found.dtype} of shape {list(found.shape)}, which is not a signal",
            primitive=primitive,
            fix="give floating-point numbers in one dimension or more",
        )
    return found


def _turn(row: Expr, k: Expr, length: int) -> Expr:
    """Return the index in the table of the angle of term `k`."""
    wide = "int64" if length * length > INT32.max_value else "int32"
    return o.cast("int32", o.floormod(o.cast(wide, row) * o.cast(wide, k), length))


def _table(length: int, kind: Any) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines of `length` equal steps of a full turn; general schedules store them."""
    wide = "float64" if kind == "float64" else "float32"

    def of(function: Any, name: str) -> Tensor:
        def element(i: Any) -> Expr:
            # Steps beyond half a turn count backwards: small angles are exact to more digits.
            step = o.select(o.greater(i * 2, length), i - length, i)
            return o.cast(kind, function(o.cast(wide, step) * o.const(2 * math.pi / length, wide)))

        made: Tensor = compute((length,), element, name, INJECTIVE, {"store": True})
        return made

    return of(TABLE["cos"], "T_cosines"), of(TABLE["sin"], "T_sines")


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
