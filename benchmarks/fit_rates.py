"""The table of rates on CPUs, from layers that were measured: python -m benchmarks.fit_rates SET=FILE ...

SET is AVX2, AVX-512 or AMX, FILE the output of `benchmarks.random_layers --kernels --out FILE`. Writes
`tilewright/functional/planning/records/cpu_rates.json`, and N of the layers (`--rivals N`) into `rivals_cpu.jsonl`
beside it, by which estimates are corrected. `--add` keeps the kinds of layers that FILE does not have. With `--judge`,
it writes nothing. Each of four parts of the layers is then decided by the other three. The first figure is the share of
calls that would be slow by the table alone. The others are the share of first calls that time both kernels, and the
share of calls that are then slow.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from functools import cache, partial
from math import exp, log
from pathlib import Path
from typing import Any

from benchmarks.ship_records import write_rivals
from tilewright.functional.arguments.problem import Problem
from tilewright.functional.planning import cpu_rates, rivals
from tilewright.functional.planning.cpu_rates_fit import Layer, fit

_PARTS = 4
_SLOW = 0.9


def layers_of(path: Path) -> list[Layer]:
    """The layers of a file with times of both kernels."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [(Problem.read(row["problem"]), row["ours"], row["theirs"]) for row in rows if "ours" in row]


def held_out(name: str, layers: Sequence[Layer]) -> str:
    """Judge decisions of each part of the layers by the others."""
    slow = left = asked = 0
    speeds = []
    for part in range(_PARTS):
        others = [layer for at, layer in enumerate(layers) if at % _PARTS != part]
        fitted: cpu_rates.Table = {name: fit(others)}
        known = [
            rivals.MeasuredLayer(problem, rivals.cpu_device(name), ours, theirs) for problem, ours, theirs in others
        ]
        by_rates = cache(partial(cpu_rates.expected_ratio, instructions=name, table=fitted))
        for problem, ours, theirs in layers[part::_PARTS]:
            found = rivals.estimate_on_cpu(
                problem, [one for one in known if one.problem.dtype == problem.dtype], by_rates
            )
            speed = theirs / ours
            close = rivals.is_unsure(found.ratio)
            runs_ours = found.ratio <= 1
            slow += runs_ours and speed < _SLOW
            left += runs_ours and speed < _SLOW and not close
            asked += close
            speeds.append(max(speed, 1) if close else speed if runs_ours else 1.0)
    count, mean = len(layers), exp(sum(map(log, speeds)) / len(speeds))
    return (
        f"{name}: {count} layers; slow by the table alone: {100 * slow / count:.1f}%; "
        f"confirmed: {100 * asked / count:.0f}%; slow then: {100 * left / count:.1f}%; geometric mean {mean:.2f}"
    )


def _added(name: str, fitted: Any) -> Any:
    """Return the shipped rates of an instruction set with further kinds; "any" stays as it is."""
    made = json.loads(cpu_rates.SHIPPED.read_text(encoding="utf-8"))[name]
    for dtype, rows in fitted.items():
        kinds = made.setdefault(dtype, {})
        kinds.update({of: row for of, row in rows.items() if of != "any" or of not in kinds})
    return made


class _Shipped:
    """The output of `main`."""

    def __init__(self) -> None:
        self.table: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []


def main() -> None:
    """Fit, judge, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+", metavar="SET=FILE")
    parser.add_argument("--rivals", type=int, default=0)
    parser.add_argument("--add", action="store_true", help="keep the kinds of layers that FILE does not have")
    parser.add_argument(
        "--judge", action="store_true", help="print how layers are decided by the others, write nothing"
    )
    given = parser.parse_args()
    shipped = _Shipped()
    for each in given.files:
        name, _, path = each.partition("=")
        layers = layers_of(Path(path))
        if given.judge:
            print(held_out(name, layers), flush=True)
            continue
        shipped.table[name] = _added(name, fit(layers)) if given.add else fit(layers)
        for problem, ours, theirs in random.Random(0).sample(layers, min(given.rivals, len(layers))):
            times = {"ours": float(f"{ours:.4g}"), "theirs": float(f"{theirs:.4g}")}
            shipped.rows.append({"problem": problem.description(), "device": rivals.cpu_device(name), **times})
    if not given.judge:
        known = json.loads(cpu_rates.SHIPPED.read_text(encoding="utf-8")) if cpu_rates.SHIPPED.exists() else {}
        text = json.dumps({**known, **shipped.table}, indent=1)
        cpu_rates.SHIPPED.write_text(f"{text}\n", encoding="utf-8")
        write_rivals(rivals.CPU_TABLE, shipped.rows)


if __name__ == "__main__":
    main()
