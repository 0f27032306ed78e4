"""Padding: the zeros around an input, as numbers, as a word of PyTorch or NumPy, or as a word of the legacy API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import UserError

PYTORCH_WORDS = ("same", "valid")
"""PyTorch's words. "same": the result is as large as the input; an odd number of zeros has the additional one after."""
TEMPLATE_WORDS = (*PYTORCH_WORDS, "full")
"""The words of workloads. "full": a result at every place at which the window meets the input, as in
`numpy.convolve`."""
LEGACY_WORDS = ("SAME", "VALID")
"""The words of the legacy API. "SAME" differs from "same": the additional zero is before, and any stride is allowed."""
_FORMS = {
    1: ("(before, after)",),
    2: ("(vertical, horizontal)", "(top, left, bottom, right)", "((top, bottom), (left, right))"),
    3: ("(depth, height, width)", "(front, top, left, back, bottom, right)"),
}


def padding_of(
    who: str, given: Any, covered: Sequence[int], stride: Sequence[Any], words: Sequence[str] = PYTORCH_WORDS
) -> tuple[int, ...]:
    """Return the zeros before each dimension, then those after each.

    Parameters
    ----------
    who : str
        The function with this argument `padding`, for messages.
    given : int, tuple or str
        A number for all sides; one per dimension; all before and then all after; a pair (before, after) per dimension;
        or one of `words`.
    covered : sequence of int
        Extent of the window in each dimension, dilation included.
    stride : sequence of int
        Steps of the window; "same" requires 1, as in PyTorch.
    words : sequence of str
        The words that `who` accepts.

    Raises
    ------
    UserError
        For any other value.
    """
    if isinstance(given, str):
        found = _of_word(who, given, covered, stride) if given in words else None
    else:
        found = _of_numbers(given, len(covered))
    if found is None:
        choices = ("an int of at least 0", *_FORMS[len(covered)], *(f'"{word}"' for word in words))
        fix = f"give {', '.join(choices[:-1])} or {choices[-1]}"
        raise UserError(
            f"padding is {given!r}, which is not a padding of {len(covered)} dimensions", primitive=who, fix=fix
        )
    return found


def centred(covered: Sequence[int]) -> tuple[int, ...]:
    """Return the zeros of "same", before and then after, for any stride."""
    before = [(c - 1) // 2 for c in covered]
    return (*before, *(c - 1 - b for c, b in zip(covered, before, strict=True)))


def _of_word(who: str, word: str, covered: Sequence[int], stride: Sequence[Any]) -> tuple[int, ...]:
    if word == "full":
        return tuple(c - 1 for c in covered) * 2
    if word == "SAME":
        after = [(c - 1) // 2 for c in covered]
        return (*(c - 1 - a for c, a in zip(covered, after, strict=True)), *after)
    if word == "same":
        if any(step != 1 for step in stride):
            raise UserError(
                'padding="same" needs a convolution of stride 1', primitive=who, fix="give the padding in numbers"
            )
        return centred(covered)
    return (0,) * (2 * len(covered))


def _of_numbers(given: Any, rank: int) -> tuple[int, ...] | None:
    """Return a padding of numbers in full; None for anything else."""
    if is_int(given):
        return (int(given),) * (2 * rank) if given >= 0 else None
    if not isinstance(given, (tuple, list)):
        return None
    if len(given) == rank and all(isinstance(part, (tuple, list)) and len(part) == 2 for part in given):
        given = [*(before for before, _ in given), *(after for _, after in given)]
    if not all(is_int(part) and part >= 0 for part in given):
        return None
    each = tuple(int(part) for part in given)
    return {1: each * (2 * rank), rank: each * 2, 2 * rank: each}.get(len(each))


def is_int(value: Any) -> bool:
    """Return whether a value is a number of Python, NumPy or PyTorch that counts something."""
    if isinstance(value, int):  # PyTorch's compiler allows only this question about a traced number
        return not isinstance(value, bool)
    return hasattr(value, "__index__") and not getattr(value, "ndim", 0)
