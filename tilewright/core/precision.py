"""How precisely float32 products are computed."""

from __future__ import annotations

PRECISIONS = ("ieee", "fp32", "tf32", "tf32_cut")
"""The precisions of float32 products, the most precise first; a kernel also serves calls that ask for a later one.

"ieee" multiplies float32 values. "fp32" may split them into parts of 11 bits, and is as exact. "tf32" may round them to
11 bits. "tf32_cut" may cut them to 11 bits: errors of one sign, which add up from layer to layer.
"""
REDUCED = PRECISIONS[2:]
"""The precisions in which products may lose bits."""


def as_precise_as(precision: str) -> tuple[str, ...]:
    """Return the precisions that are sufficient for calls with a precision: itself, and all more precise ones."""
    return PRECISIONS[: PRECISIONS.index(precision) + 1]
