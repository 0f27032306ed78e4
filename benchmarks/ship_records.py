"""Put records and rows of decisions into the package, as `benchmarks.networks --ship` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tilewright.functional import rivals
from tilewright.functional.problem import Problem
from tilewright.functional.shipped import RECORDS

_GAIN = 0.99
"""Part of the time of the record that ships that a new one may take at most, in one run."""
_LOG = "h200_networks.log"
Record = dict[str, Any]


def ship(lines: list[dict[str, Any]]) -> str:
    """Merge layers that were measured into the package, and say in a line what became of them.

    A record comes in place of that of its layer and strategy, and of those of other strategies that are said to be
    faster, which other runs measured. One that is less than 1% faster than what ships is left out.
    """
    logs = {path: read(path) for path in RECORDS.glob("*.log") if not path.stem.endswith("epilogues")}
    known = {_workload(record) for own in logs.values() for record in own}
    better = [
        line["record"]
        for line in lines
        if _workload(line["record"]) not in known or line["ours"] <= _GAIN * line["tried"][0][2]
    ]
    for path, own in logs.items():
        left = [record for record in own if not any(_yields(record, other) for other in better)]
        _write(path, left + better if path.name == _LOG else left)
    write_rivals(rivals.TABLE, [{key: line[key] for key in ("problem", "device", "ours", "theirs")} for line in lines])
    return f"{len(better)} records of {len(lines)} layers"


def _yields(record: Record, to: Record) -> bool:
    """Whether a record gives way to a new one."""
    return _workload(record) == _workload(to) and (
        record["input"][1] == to["input"][1] or _seconds(record) < _seconds(to)
    )


def _workload(record: Record) -> str:
    """The operator and its arguments, whatever the strategy."""
    _, template, args, _ = record["input"]
    return json.dumps([template.partition(".")[0], args])


def _seconds(record: Record) -> float:
    costs: list[float] = record["result"][0]
    return sum(costs) / len(costs)


def read(path: Path) -> list[Any]:
    """The lines of a file, each of which is JSON; none of one that is not there."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def _write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")


def write_rivals(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows into a table of decisions, in place of those that it has of the same layers on that device."""
    _write(path, [*{(Problem.read(row["problem"]), row["device"]): row for row in (*read(path), *rows)}.values()])
