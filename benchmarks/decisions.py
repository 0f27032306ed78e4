"""How well a call decides between our kernel and PyTorch's: python -m benchmarks.decisions [FILE ...]

Each layer of the table that ships is decided by the others, as a call decides a layer that was never measured. FILEs
are outputs of `benchmarks.untuned --out`: their layers are decided by the whole table. Needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning.rivals import MeasuredLayer, reason_on_gpu, table
from tilewright.report.table import Column
from tilewright.report.table import table as shown


def held_out() -> list[tuple[str, float, bool]]:
    """For each layer its kind, how many times as fast our kernel is, and whether a call runs it."""
    known = table()
    return [(_kind(one.problem), 1 / one.ratio, _ours(one.problem, _others(one, known))) for one in known]


def _others(one: MeasuredLayer, known: list[MeasuredLayer]) -> Iterable[MeasuredLayer]:
    return [other for other in known if other.problem != one.problem]


def of_file(path: Path) -> list[tuple[str, float, bool]]:
    """The same for the layers of a file, by the whole table."""
    known = table()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    problems = [Problem.read(row["problem"]) for row in rows]
    return [
        (path.name, row["theirs"] / row["ours"], _ours(problem, known))
        for problem, row in zip(problems, rows, strict=True)
    ]


def _ours(problem: Problem, known: Iterable[MeasuredLayer]) -> bool:
    return not reason_on_gpu(problem, known)


def _kind(of: Problem) -> str:
    what = of.op if of.op != CONV else "dense" if of.groups == 1 else "depthwise" if of.depthwise else "grouped"
    return f"{what} {of.dtype} {of.layout}"


def summary(rows: list[tuple[str, float, bool]]) -> list[str]:
    """A table: our kernel, the better of both, and the call, each beside PyTorch's kernel."""
    names = ("layers", "kernel", "better", "call", "least", "below 0.95", "ours by mistake", "theirs by mistake")
    lines = []
    for kind in [*dict.fromkeys(row[0] for row in rows), "all"]:
        own = [(ratio, ours) for name, ratio, ours in rows if kind in (name, "all")]
        calls = [ratio if ours else 1.0 for ratio, ours in own]
        means = (_mean(r for r, _ in own), _mean(max(1.0, r) for r, _ in own), _mean(calls))
        wrong = (sum(ours and r < 0.95 for r, ours in own), sum(not ours and r > 1.05 for r, ours in own))
        cells: list[Any] = [len(own), *(f"{m:.2f}" for m in means), f"{min(calls):.2f}", sum(c < 0.95 for c in calls)]
        lines.append([kind, *map(str, (*cells, *wrong))])
    return shown([Column("kind", right=False), *map(Column, names)], lines)


def _mean(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) for ratio in ratios]
    return math.exp(sum(logs) / len(logs))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path)
    given = parser.parse_args()
    print("\n".join(summary(held_out())))
    for path in given.files:
        print("\n".join(["", *summary(of_file(path))]))


if __name__ == "__main__":
    main()
