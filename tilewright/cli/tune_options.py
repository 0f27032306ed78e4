"""The options of `tilewright tune` other than sizes and strategies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..core.errors import UserError
from ..tune.records.log import RecordLog
from ..tune.search.by_name import SEARCHES
from ..tune.session.durations import duration
from .log import check_figure


@dataclass(frozen=True)
class TuneOptions:
    """The command's options, other than sizes."""

    target: str | None
    trials: int
    tuner: str
    seed: int | None
    early_stopping: int | None
    timeout: float
    number: int
    repeat: int
    min_repeat_ms: float
    check: bool
    log: Path
    resume: bool
    plot: Path | None
    budget: float | None = None
    """Seconds."""
    workers: str | None = None
    """The address of a fleet's scheduler."""
    key: str = ""
    insecure: bool = False
    least_gain: float = 0.0

    def examined(self) -> None:
        """Raise UserError for an invalid option now rather than in the middle of the work."""
        least = {"trials": 1, "early_stopping": 1, "number": 1, "repeat": 1, "min_repeat_ms": 0, "seed": 0}
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and not value >= smallest:  # NaN is not, either
                fix = f"give {smallest} or more"
                raise UserError(f"{_flag(name)} {value} is less than {smallest}", fix=fix, where="")
        if not self.timeout > 0:
            raise UserError(
                f"--timeout {self.timeout:g} is not a positive time", fix="give seconds, such as 10", where=""
            )
        if self.tuner not in SEARCHES:
            raise UserError(f"--tuner {self.tuner} is unknown", fix=f"use {', '.join(SEARCHES)}", where="")
        if not 0 <= self.least_gain < 1:
            raise UserError(
                f"--least-gain {self.least_gain:g} is not a fraction",
                fix="give a fraction from 0 to 1, such as 0.01",
                where="",
            )
        if self.least_gain and self.tuner != "auto":
            raise UserError(
                f"--least-gain: the tuner {self.tuner} expects nothing of its candidates",
                fix="use --tuner auto, or --early-stopping N",
                where="",
            )
        if self.plot is not None:
            check_figure(self.plot)
        try:
            RecordLog(self.log).close()
        except (UserError, OSError) as error:
            reason = error.message if isinstance(error, UserError) else str(error)
            raise UserError(f"--log {self.log}: {reason}", fix="name a file that can be written", where="") from error


def seconds_of_option(text: str | None) -> float | None:
    """The seconds of a budget such as 15s, 2m or 1h; raises UserError for other text."""
    if text is None:
        return None
    found = duration(text)
    if found is None:
        raise UserError(
            f"--budget {text!r} is not a duration", fix="give seconds, minutes or hours: 15s, 2m, 1h", where=""
        )
    return found


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
