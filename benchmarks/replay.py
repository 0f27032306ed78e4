"""Judge searches by replaying tables of measured configurations: no device, the same answers every time.

    python -m benchmarks.replay DIR [--tuner guided annealing random] [--seeds 5] [--trials 100] [NAME ...]

A space is cut down to the choices that its table has; a configuration missing in the table counts as refused, and costs
no trial. The output for each table and search is the best rate after several numbers of trials, as a fraction of the
table's best rate. It is the median over the seeds; the last column has the worst seed.
"""

from __future__ import annotations

import argparse
import json
import lzma
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import TABLES
from tilewright.core.target import Target
from tilewright.tune.search.annealing import AnnealingSearch
from tilewright.tune.search.genetic import GeneticSearch
from tilewright.tune.search.guided import GuidedSearch
from tilewright.tune.search.search import Search, Seen
from tilewright.tune.search.simple import RandomSearch
from tilewright.tune.space.config import Config
from tilewright.tune.space.space import Space
from tilewright.tune.task import Declared, Program, Task, Template

MARKS = (1, 8, 16, 32, 64, 100, 200, 500)
SEARCHES: dict[str, Callable[[Task, int], Search]] = {
    "guided": lambda task, seed: GuidedSearch(task, seed),
    "annealing": lambda task, seed: AnnealingSearch(task.config_space, "knob", seed),
    "genetic": lambda task, seed: GeneticSearch(task.config_space, 32, seed=seed),
    "random": lambda task, seed: RandomSearch(task.config_space, seed),
}


@dataclass(frozen=True)
class _Cut:
    """A template with a smaller space."""

    whole: Template
    space: Space
    flop: float

    @property
    def name(self) -> str:
        return self.whole.name

    def declare(self, args: tuple[Any, ...], target: Target | None) -> Declared:
        return Declared(self.space, self.flop)

    def instantiate(self, config: Config, args: tuple[Any, ...], target: Target | None) -> Program:
        return self.whole.instantiate(config, args, target)


@dataclass(frozen=True)
class Table:
    """A cut-down task, and the seconds of each of its configurations that was measured, by index."""

    task: Task
    seconds: dict[int, float]

    @property
    def best(self) -> float:
        """The seconds of the fastest."""
        return min(self.seconds.values())


def read(path: Path, target: Target) -> Table:
    """Read a table as a task with a space of the choices that occur in it."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    measured: dict[int, float] = {}
    for line in text.splitlines():
        found = json.loads(line)
        if found["result"][1] == 0:
            measured[found["config"]["index"]] = float(np.median(found["result"][0]))
    whole = TABLES[path.name.partition(".log")[0]].task(target)
    space = whole.config_space
    points = np.array([space.point(i) for i in measured], dtype=np.int64)
    kept = [np.unique(column) for column in points.T]
    knobs = [replace(knob, choices=tuple(knob.choices[i] for i in places))
             for knob, places in zip(space.knobs, kept, strict=True)]  # fmt: skip
    cut = Space(knobs)
    task = Task(whole.name, whole.args, target, _Cut(whole.template, cut, whole.flop))
    places = np.stack([np.searchsorted(some, column) for some, column in zip(kept, points.T, strict=True)], axis=1)
    return Table(task, dict(zip(cut.indices(places), measured.values(), strict=True)))


def searched(table: Table, strategy: Search, trials: int) -> list[float]:
    """The best seconds after each trial of a search, batch by batch as in a run."""
    best, curve, size = np.inf, [], 8
    refused = 0
    while len(curve) < trials and refused < 4096:
        proposed = strategy.propose(min(size, trials - len(curve)))
        if not proposed:
            break
        known = [i for i in proposed if i in table.seconds]
        refused = 0 if known else refused + len(proposed)
        for index in known:
            best = min(best, table.seconds[index])
            curve.append(best)
        strategy.learn([Seen(i, table.task.flop / table.seconds[i] if i in table.seconds else 0.0) for i in proposed])
        if len(known) == len(proposed):
            size = min(2 * size, 32)
    return curve + [best] * (trials - len(curve))


def main() -> None:
    """Replay the tables of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--tuner", nargs="+", default=list(SEARCHES), choices=list(SEARCHES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--trials", type=int, default=100)
    given = parser.parse_args()
    target = Target.parse("cuda -arch=sm_90")
    marks = [mark for mark in MARKS if mark <= given.trials]
    print(f"{'table':18} {'search':10} {' '.join(f'{mark:>6}' for mark in marks)} {'worst':>6} {'s each':>6}")
    for path in sorted(given.folder.glob("*.log*")):
        if given.names and path.name.partition(".log")[0] not in given.names:
            continue
        table = read(path, target)
        for name in given.tuner:
            began = time.perf_counter()
            curves = np.array(
                [searched(table, SEARCHES[name](table.task, seed), given.trials) for seed in range(given.seeds)]
            )
            parts = table.best / curves
            figures = " ".join(f"{np.median(parts[:, mark - 1]):6.3f}" for mark in marks)
            seconds = (time.perf_counter() - began) / given.seeds
            print(
                f"{path.name.partition('.')[0]:18} {name:10} {figures} {parts[:, -1].min():6.3f} {seconds:6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
