"""How precisely float32 products are computed."""

from __future__ import annotations

PRECISIONS = ("ieee", "fp32", "tf32")
"""The precisions of float32 products, the most precise first; a kernel also serves calls that ask for a later one.

"ieee" multiplies float32 values. "fp32" may split them into parts of 11 bits, and is as exact. "tf32" may round them to
11 bits.
"""
