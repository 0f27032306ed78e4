"""Fitted quantities of cost models, one row per kind of kernel; rates of the hardware are elsewhere.

A row of `fitted.json` has the board, the measured kernels, and the command that fits the row again. Each quantity has a
value, a unit and a meaning. A quantity that `scales_with` a rate grows with that rate on other machines.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "fitted.json"


class Quantities:
    """The quantities of one row, as attributes."""

    def __init__(self, values: Mapping[str, float]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> float:
        raise AttributeError(f"the row of fitted.json has no quantity {name!r}, only {', '.join(vars(self))}")

    def changed(self, factors: Mapping[str, float]) -> Quantities:
        """Return a copy with some quantities multiplied by factors."""
        return Quantities(
            {name: value * factors[name] if name in factors else value for name, value in vars(self).items()}
        )


@cache
def rows() -> dict[str, dict[str, Any]]:
    """Return the rows of the file by name."""
    found: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def scaled(row: str, factors: Mapping[str, float]) -> Quantities:
    """Return the quantities of a row on a machine; `factors` are its rates over the rates of the row's board."""
    quantities = rows()[row]["quantities"]
    return Quantities(
        {
            name: each["value"] * factors[each["scales_with"]] if "scales_with" in each else each["value"]
            for name, each in quantities.items()
        }
    )
