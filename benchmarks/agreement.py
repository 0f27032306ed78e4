"""Whether all who read a log name the same best: `python -m benchmarks.agreement [--trials N]`.

Twelve small tunings on the CPU, each by `tilewright tune`. The configuration that it prints as the best must be the one
that `tilewright log best` shows and that `apply_history_best` uses. Ends with status 1 if they differ.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tilewright import autotvm
from tilewright.target import Target
from tilewright.topi.templates import Conv1dVector, named

CONV1D = named("topi/conv1d")

SHAPES = [(size, kernel) for size in (512, 1024, 2048, 4096) for kernel in (3, 5, 9)]


def command(*words: str) -> str:
    """The output of a command of `tilewright`."""
    made = [sys.executable, "-m", "tilewright", *words]
    return subprocess.run(made, capture_output=True, text=True, check=True).stdout


def disagreement(size: int, kernel: int, trials: int, log: Path) -> str:
    """Return how the readers of the log of a tuning differ; empty if they agree."""
    shape = ("--shape", str(size), "--kernel", str(kernel), "--target", "llvm")
    short = ("--trials", str(trials), "--repeat", "1", "--min-repeat-ms", "1", "--log", str(log))
    told = re.search(r"^best: .* index (\d+)$", command("tune", "conv1d", *shape, *short), re.M)
    shown = dict(re.findall(r"^  (\w+) {2,}(\S.*)$", command("log", "best", str(log)), re.M))
    target = Target("llvm")
    with autotvm.apply_history_best(str(log)) as context, target:
        used = context.query(target, CONV1D.task(Conv1dVector.of(size, kernel), target).workload)
    if told is None or int(told[1]) != used.index:
        return f"tune says {told and told[1]}, apply_history_best {used.index}"
    wanted = {name: str(choice) for name, choice in used.items()}
    return "" if shown == wanted else f"log best says {shown}, apply_history_best {wanted}"


def main() -> int:
    """Tune, compare, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=6)
    given = parser.parse_args()
    agreed = 0
    with tempfile.TemporaryDirectory() as folder:
        for size, kernel in SHAPES:
            found = disagreement(size, kernel, given.trials, Path(folder) / f"{size}-{kernel}.log")
            agreed += not found
            print(f"conv1d {size:5d} {kernel}  {found or 'agree'}", flush=True)
    print(f"{agreed} of {len(SHAPES)} agree")
    return 0 if agreed == len(SHAPES) else 1


if __name__ == "__main__":
    sys.exit(main())
