"""Tuning the tutorial's layer: how long it takes, how good it gets, and the model against chance.

    python -m benchmarks.tuning --tuner XGBTuner RandomTuner --seeds 3 --trials 500 --logs DIR

Every run writes a log of its own, DIR/TUNER-SEED.log; runs whose log is there already are read from it.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import tune_conv2d  # noqa: F401  # defines the template

import tilewright as tw
from tilewright import autotvm

LAYER = (1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))
SMALL = (1, 7, 7, 32, 32, 3, 3, (1, 1), (1, 1))
MARKS = (20, 50, 100, 200, 300, 500, 1000)


def main() -> None:
    """Run the searches of the command line and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--tuner", nargs="+", default=["XGBTuner", "RandomTuner"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--logs", type=Path, default=Path("tuning-logs"))
    parser.add_argument("--min-repeat-ms", type=float, default=10)
    parser.add_argument("--cooldown", type=float, default=0.0)
    parser.add_argument("--feature-type", default="itervar")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    logging.getLogger("autotvm").setLevel(logging.DEBUG if given.verbose else logging.INFO)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    marks = [m for m in MARKS if m < given.trials] + [given.trials]
    rows = []
    for name in given.tuner:
        for seed in range(given.first_seed, given.first_seed + given.seeds):
            rates, seconds, busy = tune(name, seed, given)
            best = np.maximum.accumulate(rates) / 1e9
            shown = [f"{best[min(m, len(best)) - 1]:9.1f}" for m in marks]
            rows.append(f"{name:16} {seed:4} {seconds:8.1f} {seconds / busy:6.2f} {' '.join(shown)}")
            print(rows[-1], flush=True)
    marked = " ".join(f"{m:9}" for m in marks)
    print(f"\n{'tuner':16} {'seed':>4} {'seconds':>8} {'÷ busy':>6} {marked}  best GFLOPS by trials")
    print("\n".join(rows))


def tune(name: str, seed: int, given: argparse.Namespace) -> tuple[list[float], float, float]:
    """One run: the rate of every trial, the total seconds, and the seconds of measuring and cooling."""
    target, layer = ("cuda", LAYER) if tw.cuda().exist else ("opencl", SMALL)
    task = autotvm.task.create("examples/conv2d", layer, target)
    log = given.logs / f"{name}-{seed}.log"
    options = {"feature_type": given.feature_type} if name == "XGBTuner" else {}
    if name != "GridSearchTuner":
        options["seed"] = seed
    tuner = getattr(autotvm.tuner, name)(task, **options)
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(),
        runner=autotvm.LocalRunner(
            repeat=3, min_repeat_ms=given.min_repeat_ms, timeout=4, cooldown_interval=given.cooldown
        ),
    )
    began = time.perf_counter()
    tuner.tune(given.trials, measure, callbacks=[autotvm.callback.log_to_file(log)])
    seconds = time.perf_counter() - began
    rates = [
        0.0 if result.error_no else task.flop / float(np.mean(result.costs))
        for inp, result in autotvm.record.load_from_file(log)
        if not inp.notes.refused and not inp.notes.confirmed
    ]
    busy = tuner.measuring_seconds + given.cooldown * len(rates)
    return rates or [0.0], seconds, max(busy, 1e-9)


if __name__ == "__main__":
    main()
