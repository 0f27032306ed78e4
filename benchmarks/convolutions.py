"""Convolutions of well-known networks by the packaged templates, untuned and tuned, against PyTorch's fastest way.

    python -m benchmarks.convolutions --trials 100 --logs DIR [NAME ...]

A name selects all workloads with names that begin with it. Without any, all are run on a GPU, and a few small ones with
fewer trials on a CPU. Every workload has a log of its own in DIR, and goes on from it. PyTorch computes in full
float32, in the better memory order, by the algorithm that cuDNN finds fastest. Both sides are timed in one process, in
CUDA graphs if there is a GPU. Inputs stay in the cache if they fit.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from pathlib import Path

from benchmarks.convolution_rows import WORKLOADS
from tilewright.cli.devices import choose_device
from tilewright.cli.search import search
from tilewright.cli.tune import OPERATORS
from tilewright.cli.tune_options import TuneOptions
from tilewright.cli.verdict import compare
from tilewright.core.target import Target
from tilewright.runtime.compile import target_on
from tilewright.runtime.device import Device

SMALL, FEW = ["dw-3x4x16x32-k7", "dw-256x21-k3", "conv1d-16384-k32"], 16
"""The default rows of a CPU, and the number of trials."""


def main() -> None:
    """Tune the rows of the command line and print a line for each when it is done."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target")
    parser.add_argument("--logs", type=Path, default=Path("convolution-logs"))
    given = parser.parse_args()
    given.logs.mkdir(parents=True, exist_ok=True)
    on, line = choose_device(given.target, ("cuda", "opencl", "llvm"))
    given.names = given.names or ([""] if on.kind == "cuda" else SMALL)
    given.trials = given.trials or (100 if on.kind == "cuda" else FEW)
    print(f"{line}; times in µs, of PyTorch's without its host's time\n")
    heads = ("untuned", "tuned", "PyTorch", "÷ tuned", "GFLOPS", "tuning")
    print(f"{'workload':22} {' '.join(f'{head:>9}' for head in heads)}  PyTorch's way")
    for name in (name for name in WORKLOADS if any(map(name.startswith, given.names))):
        print(row(name, target_on(on), on, given), flush=True)


def row(name: str, target: Target, on: Device, given: argparse.Namespace) -> str:
    """Tune one workload and compare: its line of the table."""
    operator, options = WORKLOADS[name]
    template = OPERATORS[operator]
    workload = template.kind.of(**options)
    strategies = template.able(workload, target)
    tasks = [each.task(workload, target) for each in strategies]
    tune_options = TuneOptions(
        target=None, trials=given.trials, tuner="auto", seed=given.seed, early_stopping=None, timeout=10, number=4,
        repeat=3, min_repeat_ms=10, check=True, log=given.logs / f"{name}.log", resume=True, plot=None,
    )  # fmt: skip
    began = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        best = search(tasks, tune_options).winner
    seconds = time.perf_counter() - began
    assert best is not None, f"{name}: no configuration could be measured; see {tune_options.log}"
    assert best.tally.best is not None
    first, config = strategies[0], best.tally.best.input.config
    programs = {
        "untuned": first.program(first.default_config(workload, target), workload, target),
        "tuned": best.task.instantiate(config),
    }
    rows = {row.name: row for row in compare(programs, workload, target, on)}
    assert not any(row.failure for row in rows.values()), [row.failure for row in rows.values()]
    times = {who: (row.time or 0.0) * 1e6 for who, row in rows.items()}
    theirs = times.get("PyTorch", float("nan"))
    how = rows["PyTorch"].does if "PyTorch" in rows else ""
    return (
        f"{name:22} {times['untuned']:9.2f} {times['tuned']:9.2f} {theirs:9.2f} {theirs / times['tuned']:9.2f} "
        f"{workload.flop / times['tuned'] / 1e3:9.0f} {seconds:8.0f}s  {how}"
    )


if __name__ == "__main__":
    main()
