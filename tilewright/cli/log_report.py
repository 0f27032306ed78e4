"""`tilewright log report`: logs as one page for a browser or as JSON."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.boards import BOARDS
from ..report.files import write_text
from ..tune.records.format import MeasureInput, Pair, mean_cost
from ..tune.records.insight import Insight, insights
from ..tune.records.log import SkippedLine
from .console import print_lines
from .log import read_log, workload_name
from .log_page import LoggedWorkload, whole_page
from .winner import CompiledWinner, Winners


@dataclass(frozen=True)
class _Log:
    path: Path
    problems: list[SkippedLine]
    found: list[Insight]


def report(paths: Sequence[Path], out: Path, as_json: bool, programs: int, compile_seconds: float = 2.0) -> int:
    """Write the report; returns the exit status.

    `programs` is how many winners are compiled to show them, in at most `compile_seconds` all together.
    """
    logs = [_read(path) for path in dict.fromkeys(paths)]
    runs: list[LoggedWorkload] = []
    winners = Winners(compile_seconds)
    for log in logs:
        for found in log.found:
            made = winners.compiled(found.winner[0]) if found.winner is not None and len(runs) < programs else None
            runs.append(LoggedWorkload(str(log.path), workload_name(found.workload), found, made, _bound(found, made)))
    if as_json:
        sys.stdout.write(json.dumps([_data(run) for run in runs], indent=1) + "\n")
    else:
        skipped = [(str(log.path), len(log.problems)) for log in logs if log.problems]
        write_text(out, whole_page([str(log.path) for log in logs], runs, skipped))
        print_lines([f"{out}: {len(runs)} workload{'s' * (len(runs) != 1)} of {len(logs)} log{'s' * (len(logs) != 1)}"])
    return 1 if any(log.problems or not log.found for log in logs) else 0


def _read(path: Path) -> _Log:
    # Nothing of a log is garbage before all of it is read: looking for some takes as long as the reading.
    enabled = gc.isenabled()
    gc.disable()
    try:
        pairs, problems = read_log(path)
        return _Log(path, problems, insights(pairs))
    finally:
        if enabled:
            gc.enable()


def _bound(found: Insight, made: CompiledWinner | None) -> float:
    """Return the least seconds that the roofline of the device allows for float32; 0 if unknown."""
    board = BOARDS.get(found.device)
    if board is None or made is None or not made.moved or not found.flop:
        return 0.0
    if "float32" not in map(str, found.workload):
        return 0.0
    return board.bound(found.flop, made.moved)


def _data(run: LoggedWorkload) -> dict[str, Any]:
    found = run.found
    return {
        "log": run.log, "workload": run.name, "target": found.target, "device": found.device,
        "trials": found.trials, "seconds": found.seconds, "counts": found.counts, "spent_seconds": found.spent,
        "improvements": [vars(point) for point in found.points],
        "failures": [vars(cause) for cause in found.causes],
        "knobs": [{**vars(knob), "choices": [vars(choice) for choice in knob.choices]} for knob in found.knobs],
        "winner": _record(found.winner), "runner_up": _record(found.runner_up), "flop": found.flop,
        "roofline_seconds": run.bound or None,
        "program": None if run.program is None else vars(run.program),
    }  # fmt: skip


def _record(pair: Pair | None) -> dict[str, Any] | None:
    if pair is None:
        return None
    inp: MeasureInput = pair[0]
    return {"seconds": mean_cost(pair[1]), "costs": list(pair[1].costs), "config": inp.config.to_json_dict(),
            "checked": inp.notes.checked, "confirmed": inp.notes.confirmed}  # fmt: skip
