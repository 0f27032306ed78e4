"""Callbacks of every trial: a log file, a progress bar, a monitor.

`tune/records/format.py` words the lines of a log, `tune/records/log.py` appends them.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ...core.errors import UserError
from ...core.log import logger
from ...core.refusals import old_name as _old_name
from ...measure.outcome import MeasureResult
from ...tune.records.format import MeasureInput, Pair, encode, only_json
from ...tune.records.log import RecordLog
from ...tune.session.show import scale_of
from ...tune.session.trials import flops_of
from .database import Database


class LogToFile:
    """Appends every result to a log, refused configurations and repeated measurements included."""

    takes_all = True

    def __init__(self, file_out: str | os.PathLike[str] | IO[str]) -> None:
        self._file: IO[str] | None = None
        self._log: RecordLog | None = None
        if isinstance(file_out, (str, os.PathLike)):
            # Opened now: a path that cannot be written is a mistake to hear of before the first trial.
            self._log = RecordLog(file_out)
        else:
            try:
                file_out.write("")
            except (AttributeError, TypeError, ValueError, OSError) as error:
                raise UserError(
                    f"{file_out!r} is not a file that takes text",
                    primitive="log_to_file",
                    fix='give its name: "conv.log"',
                ) from error
            self._file = file_out

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        lines = [encode(inp, result) for inp, result in zip(inputs, results, strict=True)]
        if self._log is not None:
            self._log.append(*lines)
        elif self._file is not None:
            self._file.writelines(f"{line}\n" for line in lines)
            self._file.flush()

    def __repr__(self) -> str:
        return f"log_to_file({str(self._log.path) if self._log else getattr(self._file, 'name', self._file)!r})"

    @property
    def path(self) -> Path | None:
        """The file, unless it is a pipe, a terminal, or a file that somebody else opened."""
        return self._log.regular_file if self._log is not None else None

    def known(self) -> Iterator[Pair]:
        """The measurements that the log holds already; none if `path` is None."""
        return self._log.known() if self._log is not None else iter(())


def log_to_file(file_out: str | os.PathLike[str] | IO[str], protocol: str = "json") -> LogToFile:
    """Append every result to a log file, in the format of `autotvm.record.encode`."""
    only_json(protocol)
    return LogToFile(file_out)


class LogToDatabase:
    """Saves every result in a database."""

    def __init__(self, db: Database) -> None:
        if not isinstance(db, Database):
            raise UserError(
                f"{db!r} is not a database", primitive="log_to_database", fix="give autotvm.database.DummyDatabase()"
            )
        self._db = db

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self._db.save(inp, result, extend=True)


def log_to_database(db: Database) -> LogToDatabase:
    """Save every result in a database, such as `autotvm.database.DummyDatabase()`."""
    return LogToDatabase(db)


class Monitor:
    """Collects the rate (operations per second) and the time stamp of every trial."""

    def __init__(self) -> None:
        self.scores: list[float] = []
        self.timestamps: list[float] = []

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        for inp, result in zip(inputs, results, strict=True):
            self.scores.append(flops_of(inp.task.flop, result))
            self.timestamps.append(result.timestamp)

    def __repr__(self) -> str:
        return f"Monitor({len(self.scores)} trials)"

    def reset(self) -> None:
        """Forget the collected results."""
        self.scores, self.timestamps = [], []

    def trial_scores(self) -> np.ndarray:
        """The rates."""
        return np.array(self.scores)

    def trial_timestamps(self) -> np.ndarray:
        """When each trial was done, in seconds since 1970."""
        return np.array(self.timestamps)


class ProgressBar:
    """The legacy progress line on stdout. `count` has the trials that are done, including trials read from a log."""

    def __init__(self, total: int, prefix: str, si_prefix: str) -> None:
        self.total = total
        self.prefix = prefix
        self.unit = f"{si_prefix}FLOPS"
        self.scale = scale_of(si_prefix)
        self.count = 0
        self.began = time.time()
        self._open = False

    def __repr__(self) -> str:
        return f"progress_bar({self.count}/{self.total})"

    def __call__(self, tuner: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        self.count += len(inputs)
        if logger.isEnabledFor(logging.DEBUG) or sys.stdout is None:  # trials have their own lines, or no output
            return
        rates = [flops_of(inp.task.flop, result) for inp, result in zip(inputs, results, strict=True)]
        sys.stdout.write(
            f"\r{self.prefix} Current/Best: {rates[-1] / self.scale:7.2f}/{tuner.best_flops / self.scale:7.2f} "
            f"{self.unit} | Progress: ({self.count}/{self.total}) | {time.time() - self.began:.2f} s"
        )
        self._open = True
        if self.count >= self.total:
            self.close()
        sys.stdout.flush()

    def close(self) -> None:
        """End the line, as a search may that stops early."""
        if self._open:
            sys.stdout.write(" Done.\n")
            sys.stdout.flush()
        self._open = False


def progress_bar(total: int, prefix: str = "", si_prefix: str = "G") -> ProgressBar:
    """A line on stdout with the current and the best rate, and how many of `total` trials are done."""
    if isinstance(total, bool) or not isinstance(total, int):
        raise UserError(
            f"total={total!r} is not a number of trials", primitive="progress_bar", fix="give n_trial's value"
        )
    return ProgressBar(total, prefix, si_prefix)


if not TYPE_CHECKING:  # type checkers see the names

    def __getattr__(name: str) -> object:
        return _old_name(__name__, name, globals())
