"""Files of measurements: a line of JSON for each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ...core.errors import UserError, warn_caller
from ...core.paths import file_path
from ...core.target import Target
from ...core.text import quantity
from .compute_dag import ComputeDAG, State, Workload
from .measure import MeasureInput, MeasureResult, PythonBasedMeasureCallback

VERSION = "tilewright 1"
Pair = tuple[MeasureInput, MeasureResult]
Lists = tuple[list[MeasureInput], list[MeasureResult]]


class RecordToFile(PythonBasedMeasureCallback):
    """Appends measurements to a file."""

    def __init__(self, filename: Any) -> None:
        self.filename = str(filename)

    def callback(self, policy: Any, inputs: Sequence[MeasureInput], results: Sequence[MeasureResult]) -> None:
        """Append a line for each measurement."""
        save_records(self.filename, inputs, results)


class RecordReader:
    """Reads measurements from a file."""

    def __init__(self, filename: Any) -> None:
        self.filename = str(filename)

    def read_lines(self, max_lines: int | None = None, skip_lines: int = 0) -> Lists:
        """Return the inputs and the results of the lines."""
        pairs = list(self)[skip_lines:][:max_lines]
        return [given for given, _ in pairs], [result for _, result in pairs]

    def __iter__(self) -> Iterator[Pair]:
        yield from load_records(self.filename)


def save_records(filename: Any, inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]) -> None:
    """Append measurements to a file."""
    with file_path(filename, "save_records", "records.json").open("a", encoding="utf-8") as file:
        for given, result in zip(inputs, results, strict=True):
            costs = [list(result.costs), int(result.error_no), result.all_cost, result.timestamp]
            file.write(json.dumps({"i": given.serialize(), "r": costs, "v": VERSION}) + "\n")


def load_records(filename: Any) -> Iterator[Pair]:
    """Yield the measurements of a file. Lines of other compilers are skipped, with a warning.

    Raises UserError if the file cannot be read.
    """
    skipped = 0
    for line in _lines(file_path(filename, "load_records", "records.json")):
        try:
            data = json.loads(line)
            (key, target), (_, steps) = data["i"]
            costs, error, cost, stamp = data["r"]
            known = data["v"] == VERSION
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            skipped += 1
            continue
        task = Workload(ComputeDAG(key), key, target)
        yield MeasureInput(task, State(task.compute_dag, steps)), MeasureResult(tuple(costs), error, "", cost, stamp)
    if skipped:
        warn_caller(
            f"{quantity(skipped, 'line')} of {filename} are no records of Tilewright, such as steps of TVM's "
            "auto_scheduler, and are skipped",
            UserWarning,
        )


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", primitive="load_records", fix="give a file that is there"
        ) from None


def load_best_record(
    filename: Any, workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """Return the fastest measurement of a file, of one key and one kind of target if they are given."""
    kind = None if target is None else Target.parse(target).kind
    fitting = (
        pair
        for pair in load_records(filename)
        if workload_key in (None, pair[0].task.workload_key)
        and kind in (None, pair[0].task.target.kind)
        and not pair[1].error_no
    )
    return min(fitting, key=lambda pair: pair[1].mean, default=(None, None))
