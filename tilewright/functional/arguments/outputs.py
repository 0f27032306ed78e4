"""The rules for the argument `out`, for arrays of every library."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.errors import UserError


def check_places(shape: Iterable[int], strides: Iterable[int], noun: str = "an array", name: str = "") -> None:
    """Raise UserError for an `out` with several elements in one place of memory; `name` is the operator's."""
    if any(step == 0 and size > 1 for size, step in zip(shape, strides, strict=False)):
        raise UserError(
            "several elements of out are one place in memory", primitive=name, fix=f"pass {noun} of its own memory"
        )


def check_apart(shares: bool, noun: str = "an array", name: str = "") -> None:
    """Raise UserError for an `out` that shares memory with an input."""
    if shares:
        raise UserError(
            "out shares memory with an input, which is read while it is written",
            primitive=name,
            fix=f"pass another {noun.split()[1]}",
        )
