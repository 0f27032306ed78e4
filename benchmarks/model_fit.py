"""Judge the machine model by tables of measured configurations, and fit its weights to them.

    python -m benchmarks.model_fit DIR [--fit] [--hold NAME ...]

Prints for each table: the rank correlation of predicted and measured time, and how good the configuration is that the
model ranks first, and the best of its first ten, as a part of the optimum of the table. `--fit` searches for weights
that do better on all tables except held-out ones, and prints them: for kernels with tiles in shared memory or, with
`--direct`, for kernels that load directly. It begins with the weights in use, counts at most 400 rows of a table, drawn
by the seed, and prints the loss of these and of whole tables. The second one does not depend on the seed.
"""

from __future__ import annotations

import argparse
import json
import lzma
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.tables import TABLES
from tilewright.core.target import Target
from tilewright.tune.model.machine import DIRECT, Machine, Rates, Weights
from tilewright.tune.model.prediction import Prediction, predict
from tilewright.tune.model.ranking import LATER
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.model.work import NAMES, Counts


@dataclass(frozen=True)
class Measured:
    """One table: indices, measured seconds, the counts that the model has of each, and registers as compiled.

    `own` has the predictions of a template with its own model; `weights` are a template's own weights.
    """

    name: str
    indices: np.ndarray
    seconds: np.ndarray
    counts: Counts
    registers: np.ndarray
    own: np.ndarray | None = None
    weights: Weights | None = None

    def predicted(self, machine: Machine) -> np.ndarray:
        """Return the predicted seconds."""
        return self.prediction(machine).seconds if self.own is None else self.own

    def prediction(self, machine: Machine) -> Prediction:
        """Return the predictions of the machine's model."""
        on = machine if self.weights is None else replace(machine, weights=self.weights)
        return predict(self.counts, on)


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
    own = scores.seconds[good] if task.declared.expected is not None else None
    weights = None if task.declared.usual is None else DIRECT
    return Measured(name, indices[good], seconds[good], kept, registers[good], own, weights)


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
    """How wrong the model is: errors of logarithms, errors of fast configurations count most; and errors of the
    order."""
    total = 0.0
    for table in tables:
        predicted = table.prediction(machine).seconds
        wrong = np.log(predicted / table.seconds)
        weight = (table.seconds.min() / table.seconds) ** 0.5
        centred = wrong - 0.7 * np.average(wrong, weights=weight)
        rank, first, ten, _ = judged(table, machine)
        soft = np.minimum(np.abs(centred), 1.0)
        total += np.average(soft, weights=weight) + 2 * (1 - rank) + 0.15 * (1 - first) + 0.3 * (1 - ten)
    return total / len(tables)


FITTED_RATES = ("launch_seconds", "l1_bytes", "l2_bytes", "global_latency", "block_start")


def fitted(tables: list[Measured], machine: Machine, rounds: int, seed: int, rates: bool) -> Machine:
    """Weights (and rates, if requested) that predict the tables better: random steps, one or two at a time."""
    rng = np.random.default_rng(seed)
    best, score = machine, loss(tables, machine)
    scale = 0.6
    for turn in range(rounds):
        names = list(asdict(best.weights)) + (list(FITTED_RATES) if rates else [])
        steps = rng.choice(names, size=rng.integers(1, 4), replace=False)
        changes = {str(name): float(np.exp(rng.normal(0, scale))) for name in steps}
        trial = replace(best, weights=_changed(best.weights, changes), rates=_changed(best.rates, changes))
        if trial.weights.sharpness > 12 or trial.weights.sectors > 1 or trial.weights.dependent < 1:
            continue
        found = loss(tables, trial)
        if found < score:
            best, score = trial, found
        if turn % 500 == 499:
            scale = max(0.85 * scale, 0.1)
            print(f"round {turn + 1}: loss {score:.4f}", flush=True)
    return best


def thinned(table: Measured, seed: int, most: int = 400) -> Measured:
    """A table of a limited number of rows, drawn at random."""
    if len(table.indices) <= most:
        return table
    kept = np.sort(np.random.default_rng(seed).choice(len(table.indices), most, replace=False))
    counts = {name: values[kept] for name, values in table.counts.items()}
    return replace(
        table, indices=table.indices[kept], seconds=table.seconds[kept], counts=counts, registers=table.registers[kept]
    )


def _changed(of: Any, factors: dict[str, float]) -> Any:
    return replace(of, **{k: getattr(of, k) * v for k, v in factors.items() if hasattr(of, k)})


def main() -> None:
    """Read the tables, fit if requested, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--rates", action="store_true", help="fit some of the rates as well")
    parser.add_argument("--direct", action="store_true", help="fit the weights of kernels that load directly")
    parser.add_argument("--hold", nargs="*", default=[], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    target = Target.parse("cuda -arch=sm_90")
    tables = [read(path, target) for path in sorted(given.folder.glob("*.log*"))]
    machine = Machine.of(target, "NVIDIA H200")
    show(tables, machine)
    if given.fit:
        machine = replace(machine, weights=DIRECT) if given.direct else machine
        kind = [table for table in tables if table.own is None and (table.weights is not None) == given.direct]
        kind = [replace(table, weights=None) for table in kind]
        used = [thinned(table, given.seed) for table in kind if table.name not in given.hold]
        print(f"as it is: loss {loss(used, machine):.4f}, of whole tables {loss(kind, machine):.4f}")
        machine = fitted(used, machine, given.rounds, given.seed, given.rates)
        print(f"fitted: loss {loss(used, machine):.4f}, of whole tables {loss(kind, machine):.4f}")
        show(kind, machine)
        print(machine.weights)
        print(machine.rates if given.rates else Rates())
        assert isinstance(machine.weights, Weights)


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
