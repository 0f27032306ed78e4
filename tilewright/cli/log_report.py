"""`tilewright log report`: what logs say, as one page for a browser or as JSON."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.boards import BOARDS
from ..core.errors import UserError
from ..driver import build, lower_for
from ..report.files import write_text
from ..tune.analysis.candidate import inspect_candidate
from ..tune.records.format import MeasureInput, Pair, mean_cost
from ..tune.records.log import SkippedLine
from ..tune.session.insight import Insight, insights
from .console import print_lines
from .log import read_log, workload_name
from .log_page import CompiledWinner, LoggedWorkload, whole_page

_MOST_TEXT = 60_000
"""Characters of a program or a source that the page shows."""


@dataclass(frozen=True)
class _Log:
    path: Path
    problems: list[SkippedLine]
    found: list[Insight]


def report(paths: Sequence[Path], out: Path, as_json: bool, programs: int) -> int:
    """Write the report; `programs` is how many winners are compiled to show them. Returns the exit status."""
    logs = [_read(path) for path in dict.fromkeys(paths)]
    runs: list[LoggedWorkload] = []
    for log in logs:
        for found in log.found:
            made = _program(found.winner) if found.winner is not None and len(runs) < programs else None
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


def _program(winner: Pair) -> CompiledWinner:
    """Compile a winner, as far as that goes here."""
    inp, _ = winner
    refusal = inspect_candidate(inp.task, inp.config, inp.target).refusal
    if refusal is not None:
        return CompiledWinner(missing=refusal.reason)
    text, source, moved, missing, resources = "", "", 0.0, "", {}
    try:
        schedule, args = inp.task.instantiate(inp.config)
        text = lower_for(inp.target, schedule, args).script()
        moved = float(sum(_bytes(tensor) for tensor in args))
        module = build(schedule, args, inp.target)
        kernels = "\n".join(part.get_source() for part in module.imported_modules)
        source = kernels or module.get_source()
        resources = {name: vars(taken) for name, taken in module.resources.items()}
    except UserError as error:
        missing = error.message
    except Exception as error:  # a template of another version may raise anything; the rest of the page stands
        missing = f"{type(error).__name__}: {error}"
    return CompiledWinner(_cut(text), _cut(source), moved, resources, missing)


def _bytes(tensor: Any) -> float:
    size = 1.0
    for extent in tensor.shape:
        size *= int(extent)
    return size * float(tensor.dtype.bits) / 8 if hasattr(tensor.dtype, "bits") else size * 4


def _cut(text: str) -> str:
    return (
        text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n... and {len(text) - _MOST_TEXT:,} characters more"
    )


def _bound(found: Insight, made: CompiledWinner | None) -> float:
    """Return the least seconds that the roofline of the device allows for float32; 0 where it is not known."""
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
