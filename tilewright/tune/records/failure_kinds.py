"""The kinds of outcomes, and reasons of failures that count as one."""

from __future__ import annotations

import re

from ...measure.outcome import MeasureErrorNo

_NUMBERS = re.compile(r"\d[\d,.]*")
_KINDS = {
    MeasureErrorNo.NO_ERROR: "measured",
    MeasureErrorNo.INSTANTIATION_ERROR: "no kernel",
    MeasureErrorNo.COMPILE_HOST: "compile error",
    MeasureErrorNo.COMPILE_DEVICE: "compile error",
    MeasureErrorNo.RUNTIME_DEVICE: "runtime error",
    MeasureErrorNo.WRONG_ANSWER: "wrong answer",
    MeasureErrorNo.BUILD_TIMEOUT: "build timeout",
    MeasureErrorNo.RUN_TIMEOUT: "run timeout",
    MeasureErrorNo.UNKNOWN_ERROR: "unknown error",
}


def gist(reason: str) -> str:
    """Return a reason without numbers and details: reasons that differ only in these count as one."""
    return _NUMBERS.sub("#", reason.partition("\n")[0].partition(" (")[0])


def kind_of(error_no: int, refused: bool = False) -> str:
    """Return the kind of an outcome in a word or two, by its legacy number. `refused` candidates exceeded a limit."""
    return "refused" if refused else _KINDS.get(error_no, f"error number {error_no}")
