"""Judge cost models by tables of measured configurations, and fit their quantities to them.

    python -m benchmarks.model_fit DIR [--board NAME] [--fit ROW] [--hold NAME ...]

Prints for each table the rank correlation of predicted and measured time. Two more columns are fractions of the optimal
speed: of the configuration that the model ranks first, and of the best of its first ten.

`--fit` searches for better quantities of a row of `tilewright/tune/model/fitted.json`, and prints them. All tables that
depend on the row judge them, except for held-out tables. It starts from the quantities in use and counts at most 400
rows of a table, drawn by the seed. The loss of whole tables, which it prints as well, does not depend on the seed.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.tables import TABLES
from tilewright.core.target import Target
from tilewright.topi.templates import named
from tilewright.tune.model.fitted import Quantities
from tilewright.tune.model.machine import Machine, Rates
from tilewright.tune.model.prediction import Prediction, predict
from tilewright.tune.model.ranking import LATER
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.model.work import NAMES, Counts
from tilewright.tune.task import Task


@dataclass(frozen=True)
class Measured:
    """One table: indices, measured seconds, the counts that the model has of each, and registers as compiled.

    `own` returns the cycles by a template's own model. Without one, `row` names the row of the shared model.
    """

    name: str
    indices: np.ndarray
    seconds: np.ndarray
    counts: Counts
    registers: np.ndarray
    row: str
    own: Callable[[Machine], np.ndarray] | None = None

    def predicted(self, machine: Machine) -> np.ndarray:
        """Return the predicted seconds."""
        return self.prediction(machine).seconds if self.own is None else self.own(machine) / machine.rates.clock_hertz

    def prediction(self, machine: Machine) -> Prediction:
        """Return the prediction of the shared model."""
        return predict(self.counts, machine, machine.fitted[self.row])

    def depends_on(self, row: str, machine: Machine) -> bool:
        """Return whether a row of fitted quantities changes the predictions."""
        changed = machine.with_row(row, machine.fitted[row].changed(dict.fromkeys(vars(machine.fitted[row]), 0.99)))
        return not np.array_equal(self.predicted(changed), self.predicted(machine))


def read(path: Path, target: Target) -> Measured:
    """Read a table, and count the work of its configurations."""
    text = lzma.decompress(path.read_bytes()).decode() if path.suffix == ".xz" else path.read_text()
    name = path.name.partition(".log")[0]
    rows: dict[int, tuple[float, float]] = {}
    for line in text.splitlines():
        found = json.loads(line)
        costs, error, *_ = found["result"]
        if error == 0:
            registers = max((k["registers"] for k in found.get("resources", {}).values()), default=0)
            rows[found["config"]["index"]] = (float(np.median(costs)), registers)
    task = TABLES[name].task(target)
    indices = np.array(list(rows), dtype=np.int64)
    points = np.array([task.config_space.point(i) for i in rows], dtype=np.int64)
    scores = Scorer(task).score(points)
    counts = {key: scores.counts[:, k] for k, key in enumerate(NAMES)}
    seconds, registers = np.array(list(rows.values())).T
    good = np.isfinite(scores.seconds)
    if not good.all():
        print(f"{name}: {(~good).sum()} measured ones have no prediction")
    kept = {key: value[good] for key, value in counts.items()}
    row = "tiled_loops" if task.declared.ranked_default is None else "direct_loops"
    own = None if task.declared.expected is None else own_cycles(task, points[good])
    return Measured(name, indices[good], seconds[good], kept, registers[good], row, own)


def own_cycles(task: Task, points: np.ndarray) -> Callable[[Machine], np.ndarray]:
    """Return the cycles of points of a space on a machine, by the model of their template."""
    template, knobs = named(task.name), task.config_space.knobs
    model, workload = template.gpu.own_model, template.workload(task.args)
    choices = [{k.name: k.choices[at] for k, at in zip(knobs, point, strict=True)} for point in points.tolist()]

    def cycles(machine: Machine) -> np.ndarray:
        return np.array([model.expected(workload, each, machine).cycles for each in choices])

    return cycles


def ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal ones share theirs."""
    order = values.argsort(kind="stable")
    made = np.empty(len(values))
    made[order] = np.arange(len(values))
    _, which = np.unique(values, return_inverse=True)
    return (np.bincount(which, made) / np.bincount(which))[which]


def correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation."""
    return float(np.corrcoef(ranks(a), ranks(b))[0, 1])


def judged(table: Measured, machine: Machine) -> tuple[float, float, float, float]:
    """Correlation; first and best of ten as a part of the optimum; the median of predicted ÷ measured."""
    predicted = table.predicted(machine)
    order = spread(table, predicted)
    best = table.seconds.min()
    first, ten = best / table.seconds[order[0]], best / table.seconds[order[:10]].min()
    return correlation(predicted, table.seconds), first, ten, float(np.median(predicted / table.seconds))


def spread(table: Measured, predicted: np.ndarray) -> np.ndarray:
    """The order of the ranking: by prediction, each further one of the same threads and blocks a little later."""
    kinds = np.stack([table.counts["threads"], table.counts["blocks"]], axis=1)
    _, kind = np.unique(kinds, axis=0, return_inverse=True)
    order = np.lexsort((table.indices, predicted))
    seen: dict[int, int] = {}
    later = np.empty(len(order))
    for place in order.tolist():
        which = int(kind.reshape(-1)[place])
        later[place] = predicted[place] * (1 + LATER * seen.get(which, 0))
        seen[which] = seen.get(which, 0) + 1
    return np.lexsort((table.indices, later))


def loss(tables: list[Measured], machine: Machine) -> float:
    """Return the error of the model: of logarithms, mostly of fast configurations, and of their order."""
    total = 0.0
    for table in tables:
        predicted = table.predicted(machine)
        wrong = np.log(predicted / table.seconds)
        weight = (table.seconds.min() / table.seconds) ** 0.5
        centred = wrong - 0.7 * np.average(wrong, weights=weight)
        rank, first, ten, _ = judged(table, machine)
        soft = np.minimum(np.abs(centred), 1.0)
        total += np.average(soft, weights=weight) + 2 * (1 - rank) + 0.15 * (1 - first) + 0.3 * (1 - ten)
    return total / len(tables)


FITTED_RATES = ("launch_seconds", "l1_bytes_per_cycle", "l2_bytes_per_cycle", "l2_latency_cycles", "block_start_cycles")


def fitted(tables: list[Measured], machine: Machine, row: str, rounds: int, seed: int, rates: bool) -> Machine:
    """Improve quantities (and rates, if asked for) of a machine by random steps."""
    rng = np.random.default_rng(seed)
    best, score = machine, loss(tables, machine)
    scale = 0.6
    for turn in range(rounds):
        names = list(vars(best.fitted[row])) + (list(FITTED_RATES) if rates else [])
        steps = rng.choice(names, size=rng.integers(1, 4), replace=False)
        changes = {str(name): float(np.exp(rng.normal(0, scale))) for name in steps}
        quantities = best.fitted[row].changed(changes)
        if not _is_sensible(quantities):
            continue
        trial = replace(best.with_row(row, quantities), rates=_changed(best.rates, changes))
        found = loss(tables, trial)
        if found < score:
            best, score = trial, found
        if turn % 500 == 499:
            scale = max(0.85 * scale, 0.1)
            print(f"round {turn + 1}: loss {score:.4f}", flush=True)
    return best


def _is_sensible(quantities: Quantities) -> bool:
    values = vars(quantities)
    limits = values.get("sharpness", 1) <= 12 and values.get("sectors", 1) <= 1
    return limits and values.get("dependent", 1) >= 1


def thinned(table: Measured, seed: int, most: int = 400) -> Measured:
    """Return a table of at most `most` rows, drawn at random."""
    if len(table.indices) <= most:
        return table
    kept = np.sort(np.random.default_rng(seed).choice(len(table.indices), most, replace=False))
    whole = table.own
    own = None if whole is None else lambda machine: whole(machine)[kept]
    counts = {name: values[kept] for name, values in table.counts.items()}
    seconds, registers = table.seconds[kept], table.registers[kept]
    return replace(table, indices=table.indices[kept], seconds=seconds, counts=counts, registers=registers, own=own)


def _changed(of: Rates, factors: dict[str, float]) -> Rates:
    return replace(of, **{name: getattr(of, name) * value for name, value in factors.items() if hasattr(of, name)})


def main() -> None:
    """Read the tables, fit if asked, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--board", default="NVIDIA H200", help="the GPU of the tables (default: %(default)s)")
    parser.add_argument("--fit", metavar="ROW")
    parser.add_argument("--rates", action="store_true", help="fit some of the rates as well")
    parser.add_argument("--hold", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    target = Target.parse("cuda -arch=sm_90")
    tables = [read(path, target) for path in sorted(given.folder.glob("*.log*"))]
    machine = Machine.of(target, given.board)
    show(tables, machine)
    if given.fit:
        kind = [table for table in tables if table.depends_on(given.fit, machine)]
        used = [thinned(table, given.seed) for table in kind if table.name not in given.hold]
        print(f"as it is: loss {loss(used, machine):.4f}, of whole tables {loss(kind, machine):.4f}")
        machine = fitted(used, machine, given.fit, given.rounds, given.seed, given.rates)
        print(f"fitted: loss {loss(used, machine):.4f}, of whole tables {loss(kind, machine):.4f}")
        show(kind, machine)
        print(json.dumps(vars(machine.fitted[given.fit]), indent=2))
        print(machine.rates)


def show(tables: list[Measured], machine: Machine) -> None:
    """Print a line for each table."""
    print(f"{'table':22} {'configs':>7} {'rank':>6} {'first':>6} {'of ten':>6} {'÷ time':>6} {'regs':>6}")
    for table in tables:
        rank, first, ten, part = judged(table, machine)
        of_registers = ""
        if table.own is None:
            of_registers = f"{correlation(table.prediction(machine).registers, table.registers):6.2f}"
        print(f"{table.name:22} {len(table.indices):7} {rank:6.3f} {first:6.2f} {ten:6.2f} {part:6.2f} {of_registers}")


if __name__ == "__main__":
    main()
