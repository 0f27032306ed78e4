"""Numbers as people read them."""

from __future__ import annotations

NONE = "–"
"""The placeholder for a missing number."""


def duration(seconds: float | None) -> str:
    """Return seconds with four digits in a suitable unit: "18.29 ms", "129.8 µs"."""
    if seconds is None:
        return NONE
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{_digits(seconds / scale)} {unit}"
    return f"{_digits(seconds * 1e9)} ns"


def factor(value: float | None) -> str:
    """How many times as fast: "0.83×", "42.7×", "1,475×"."""
    if value is None:
        return NONE
    return f"{value:.2f}×" if value < 10 else f"{value:.1f}×" if value < 1000 else f"{value:,.0f}×"


def percent(part: float | None) -> str:
    """A spread: "±0.4%", "±12%"."""
    if part is None:
        return NONE
    return f"±{part:.1%}" if part < 0.0995 else f"±{part:.0%}"


def error(value: float | None) -> str:
    """The size of an error: "1.6e-06"."""
    return NONE if value is None else "0" if value == 0 else f"{value:.1e}"


def _digits(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.2f}" if value < 100 else f"{value:.1f}"
