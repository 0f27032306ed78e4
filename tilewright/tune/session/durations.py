"""Durations in the notation of users, and numbers of trials."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from ...core.errors import UserError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float | None:
    """Return the seconds of text such as 15s, 2m or 1h; None for other text."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    return float(found[1]) * _UNITS[found[2]] if found is not None and float(found[1]) else None


def in_seconds(budget: Any) -> float | None:
    """Return seconds from a number of them, or from text as `duration` reads it; None for anything else."""
    if isinstance(budget, str):
        return duration(budget)
    return float(budget) if isinstance(budget, (int, float)) and not isinstance(budget, bool) else None


def seconds_of(budget: Any, primitive: str, name: str = "budget") -> float | None:
    """Return a budget in seconds, from a number or text; None without a budget. UserError for anything else."""
    if budget is None:
        return None
    found = in_seconds(budget)
    if found is None or not 0 < found < float("inf"):
        raise UserError(
            f"{name}={budget!r} is not a duration", primitive=primitive, fix='give seconds, or text such as "15m"'
        )
    return found


def check_counts(primitive: str, least: int = 1, **given: Any) -> None:
    """Raise UserError for the first argument that is not an integer of at least `least`."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            fix = f"{name}={100 if least else 3}"
            raise UserError(f"{name}={value!r} is not a whole number of {least} or more", primitive=primitive, fix=fix)
