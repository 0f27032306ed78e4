"""The output of a climb: the table, and the files of `--save`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..report import units
from ..report.chart import MISSING, Bar, bar_chart, can_draw
from ..report.environment import environment
from ..report.files import folder, write_text
from ..report.table import Column, table
from ..runtime.device import Device
from .climb import RungOutcome
from .rung import Ladder

ENDING = {"cuda": "cu", "opencl": "cl"}
_LEAST_WIDTH = 100
_COLUMNS = (
    Column("variant", right=False),
    Column("description", right=False),
    Column("time"),
    Column("spread"),
    Column("× over naive"),
    Column("× over previous"),
    Column("max error"),
)
_RESOURCES = (Column("registers"), Column("spills B"), Column("shared B"))


def speedups(ladder: Ladder, outcomes: Sequence[RungOutcome]) -> dict[str, tuple[float | None, float | None]]:
    """For each row, how many times as fast it is as the first rung and as the rung before it.

    None if one of the two was not measured, and for the first row.
    """
    times = {outcome.name: outcome.time for outcome in outcomes}
    names = [rung.name for rung in ladder.rungs]
    before = dict(zip(names[1:], names, strict=False))

    def ratio(slow: str | None, fast: str) -> float | None:
        a, b = times.get(slow or ""), times[fast]
        return a / b if a and b else None

    return {name: (ratio(names[0], name), ratio(before.get(name), name)) for name in times}


def lines(ladder: Ladder, outcomes: Sequence[RungOutcome]) -> list[str]:
    """The lines of the table, and below it the failures."""
    ratios = speedups(ladder, outcomes)
    with_resources = any(outcome.resources for outcome in outcomes)
    rows: list[list[str]] = []
    for outcome in outcomes:
        if outcome.kind == "rival" and rows and outcomes[len(rows) - 1].kind == "rung":
            rows.append([])
        rows.append(_row(outcome, *ratios[outcome.name], with_resources=with_resources))
    columns = _COLUMNS + (_RESOURCES if with_resources else ())
    failures = [f"{outcome.name}: {outcome.failure}" for outcome in outcomes if outcome.failure]
    return [*table(columns, rows, _LEAST_WIDTH), *([""] if failures else []), *failures]


def _row(outcome: RungOutcome, first: float | None, before: float | None, with_resources: bool) -> list[str]:
    resources = outcome.resources
    numbers = (
        [resources.registers, resources.spill_store_bytes + resources.spill_load_bytes, resources.shared_bytes]
        if resources
        else [units.NONE] * len(_RESOURCES)
    )
    return [
        outcome.name,
        outcome.does,
        "failed" if outcome.failure else units.duration(outcome.time),
        units.percent(outcome.spread),
        units.factor(first),
        units.factor(before),
        units.error(outcome.max_error),
        *(map(str, numbers) if with_resources else ()),
    ]


def save_rung(where: Path, outcome: RungOutcome, on: Device) -> None:
    """Save the lowered program and the kernel's source of a rung, as far as they exist."""
    if outcome.program:
        write_text(folder(where) / f"{outcome.name}.txt", outcome.program.rstrip() + "\n")
    if outcome.source:
        write_text(folder(where) / f"{outcome.name}.{ENDING[on.kind]}", outcome.source.rstrip() + "\n")


def save_table(where: Path, ladder: Ladder, outcomes: Sequence[RungOutcome], on: Device) -> list[str]:
    """Write `table.json` and the chart; returns the lines that tell of them."""
    write_text(folder(where) / "table.json", json.dumps(as_json(ladder, outcomes, on), indent=2) + "\n")
    if not any(outcome.time for outcome in outcomes):
        return []
    if not can_draw():
        return [MISSING]
    _draw(where, ladder, outcomes, on)
    return []


def as_json(ladder: Ladder, outcomes: Sequence[RungOutcome], on: Device) -> dict[str, Any]:
    """All measurements, times in seconds, and their origin."""
    ratios = speedups(ladder, outcomes)

    def row(outcome: RungOutcome) -> dict[str, Any]:
        first, before = ratios[outcome.name]
        return {
            "name": outcome.name,
            "does": outcome.does,
            "kind": outcome.kind,
            "failure": outcome.failure or None,
            "seconds": outcome.time,
            "spread": outcome.spread,
            "measurements": list(outcome.seconds),
            "runs_per_measurement": outcome.runs,
            "times_over_first": first,
            "times_over_previous": before,
            "max_error": outcome.max_error,
            "resources": asdict(outcome.resources) if outcome.resources else None,
        }

    return {
        "ladder": ladder.title,
        "sizes": asdict(ladder),
        "environment": environment(on),
        "rows": [row(outcome) for outcome in outcomes],
    }


def _draw(where: Path, ladder: Ladder, outcomes: Sequence[RungOutcome], on: Device) -> None:
    """Speedups as bars: over the first rung, or over the slowest row if that was not measured."""
    times = [(outcome, outcome.time) for outcome in outcomes if outcome.time]
    first = ladder.rungs[0].name
    base_name, base = next(
        ((outcome.name, time) for outcome, time in times if outcome.name == first),
        max(((outcome.name, time) for outcome, time in times), key=lambda pair: pair[1]),
    )
    bars = [Bar(o.name, base / time, units.duration(time), o.kind == "rung") for o, time in times]
    title = f"{ladder.title}, {ladder.sizes()}: {on.name}"
    bar_chart(title, f"times as fast as {base_name}", bars, where / "speedup.png", where / "speedup.svg")
