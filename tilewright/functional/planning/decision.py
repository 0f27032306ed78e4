"""The kernel chosen for a problem, ours or the other library's, and the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

Activation = Callable[[Any], Any]
Tune = str | float | None


class Side(StrEnum):
    """The library of a kernel: Tilewright, or the library of the arrays. Tables have these names."""

    OURS = "ours"
    THEIRS = "theirs"


_EARLIER_SIDES = {"tilewright": Side.OURS, "framework": Side.THEIRS}
"""Sides as older versions stored them, under the name `how`."""


class Decision(NamedTuple):
    """The kernel chosen for a problem, and the reason.

    Attributes
    ----------
    side : Side
        The library of the kernel that runs.
    template, config : str
        The template of our kernel, and its configuration in a line for users.
    why : str
        The reason, as one clause for users.
    seconds : float
        The measured time of one run; 0 if it was not measured here.
    rival_seconds : float
        The measured time of the framework's kernel; 0 if it was not measured here.
    tuned : int
        The number of configurations measured for this choice.
    interrupted : bool
        Whether Ctrl-C ended the search early.
    config_index : int, optional
        The index of the configuration in the template's space.
    remark : str
        The compiler's remarks on our kernel, such as spilled sums.
    weights : str
        The order of the weights in our kernel's workload, which may differ from the problem's for 1×1 kernels.
    """

    side: Side
    template: str = ""
    config: str = ""
    why: str = ""
    seconds: float = 0.0
    rival_seconds: float = 0.0
    tuned: int = 0
    interrupted: bool = False
    config_index: int | None = None
    remark: str = ""
    weights: str = ""

    @staticmethod
    def read(stored: Mapping[str, Any]) -> Decision:
        """Return a decision from its fields as stored, by an older version too."""
        rest = dict(stored)
        side = _EARLIER_SIDES[rest.pop("how")] if "how" in rest else Side(rest.pop("side"))
        return Decision(side, **rest)
