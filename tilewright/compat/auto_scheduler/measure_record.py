"""Files of measurements: a line of JSON for each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Any

from ...core.errors import UserError, warn_caller
from ...core.files import replacing
from ...core.paths import file_path
from ...core.target import Target
from ...core.text import quantity
from ...tune.records.best import best_of
from .compute_dag import Workload
from .loop_state import State
from .measure import MeasureInput, MeasureResult, PythonBasedMeasureCallback
from .transform_step import STEPS
from .workload_registry import workload_key_to_tensors

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

    def check_workload_key(self, inputs: Sequence[MeasureInput]) -> None:
        """Raise UserError if the function of an input's key is not registered."""
        for given in inputs:
            workload_key_to_tensors(given.task.workload_key)

    def __iter__(self) -> Iterator[Pair]:
        yield from load_records(self.filename)


def save_records(filename: Any, inputs: Iterable[MeasureInput], results: Iterable[MeasureResult]) -> None:
    """Append measurements to a file."""
    with file_path(filename, "save_records", "records.json").open("a", encoding="utf-8") as file:
        for given, result in zip(inputs, results, strict=True):
            file.write(dump_record_to_string(given, result) + "\n")


def dump_record_to_string(inp: MeasureInput, res: MeasureResult) -> str:
    """Return a measurement as a line of a file."""
    costs = [list(res.costs), int(res.error_no), res.all_cost, res.timestamp]
    return json.dumps({"i": inp.serialize(), "r": costs, "v": VERSION})


def load_record_from_string(record: str) -> Pair:
    """Return the measurement of a line; raises UserError if it is neither Tilewright's nor TVM's."""
    found = _pair(record)
    if found is None:
        raise UserError(
            f"{record[:60]!r} is no record of Tilewright",
            primitive="load_record_from_string",
            fix="give a line that dump_record_to_string or RecordToFile has written",
        )
    return found


def _pair(line: str) -> Pair | None:
    """The measurement of a line; None if the line is damaged."""
    try:
        data = json.loads(line)
        task, (_, steps), *record = data["i"]
        costs, error, cost, stamp = data["r"]
        workload = _workload(*task)
        given = MeasureInput(workload, State(steps, workload), *record)
        whole = isinstance(workload.workload_key, str)
        times = isinstance(costs, list) and all(0.0 < float(each) < inf for each in costs)
        times = times and float(cost) >= 0.0 and float(stamp) >= 0.0
        result = MeasureResult(costs, int(error), "", cost, stamp)
        lists = isinstance(steps, list) and all(isinstance(step, list) for step in steps)
        given.as_tuned(result)
        known = data["v"] == VERSION or (data["v"].startswith("v0.") and all(step[0] in STEPS for step in steps))
        return (given, result) if whole and times and lists and known else None
    except (ValueError, KeyError, TypeError, RecursionError, UserError):
        return None


def _workload(
    key: str, target: str, hardware: Any = None, host: str = "", layout: Any = None, inputs: Sequence[Any] = ()
) -> Workload:
    """The workload of a line. The keys of a target follow from its kind."""
    plain, around = (re.sub(r" -keys=\S+", "", each) for each in (target, host))
    names = [each for each in inputs if isinstance(each, str)]
    return Workload(None, key, Target(plain, around or None), layout, names)


def load_records(filename: Any) -> Iterator[Pair]:
    """Yield the measurements of a file, lines of TVM's auto_scheduler included.

    Damaged lines are skipped, with a warning. Raises UserError if the file cannot be read.
    """
    skipped = 0
    for line in _lines(file_path(filename, "load_records", "records.json")):
        found = _pair(line)
        if found is not None:
            yield found
        skipped += found is None
    if skipped:
        warn_caller(
            f"{quantity(skipped, 'line')} of {filename} are no records of Tilewright or of TVM's auto_scheduler, "
            "and are skipped",
            UserWarning,
        )


def _lines(path: Path) -> list[str]:
    """The lines of a file but comments and empty ones."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in lines if line.strip() and not line.startswith("#")]
    except OSError as error:
        raise UserError(
            f"{path} cannot be read: {error.strerror}", primitive="load_records", fix="give a file that is there"
        ) from None


def load_best_record(
    filename: Any, workload_key: str | None = None, target: Any = None, include_compatible: bool = False
) -> tuple[MeasureInput | None, MeasureResult | None]:
    """Return the fastest measurement of a file, of one key and one kind of target if they are given.

    A schedule that a search measured again at its end counts with that measurement.
    """
    kind = None if target is None else Target.parse(target).kind
    pairs = [
        pair
        for pair in load_records(filename)
        if workload_key in (None, pair[0].task.workload_key) and kind in (None, pair[0].task.target.kind)
    ]
    return best_pair(pairs) or (None, None)


load_best = load_best_record
"""The name of v0.7."""


def distill_record_file(in_file: Any, out_file: Any) -> None:
    """Write the best measurements of two files, for each key and kind of target, to the second file."""
    target = file_path(out_file, "distill_record_file", "best.json")
    pairs = [*load_records(in_file), *(load_records(target) if target.exists() else ())]
    workloads: dict[tuple[str, str], list[Pair]] = {}
    for given, result in pairs:
        workloads.setdefault((given.task.workload_key, given.task.target.kind), []).append((given, result))
    found = [pair for pair in map(best_pair, workloads.values()) if pair is not None]
    with replacing(target) as file:
        file.write("".join(f"{dump_record_to_string(*pair)}\n" for pair in found).encode())


def best_pair(pairs: Iterable[Pair]) -> Pair | None:
    """Return the best of the measurements of a computation, as a search chooses it; None if all failed.

    Lines of one state with several results have the last one.
    """
    tuned = [(given.as_tuned(result), (given, result)) for given, result in pairs]
    best = best_of([record for record, _ in tuned])
    return next((pair for record, pair in tuned if record is best), None)
