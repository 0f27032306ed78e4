"""Whether runs of `accelerate` on a loaded machine decide alike: `python -m benchmarks.loaded_decisions [--runs 5]`.

Each run is a process with an empty cache, and accelerates a small model. Meanwhile, `--load` other processes compute. A
layer that one run replaces and another one calls slower is a contradiction; "too close to call" contradicts nothing.
Ends with status 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BUSY = "import numpy as np\na = np.random.rand(400, 400)\nwhile True: a = a @ a; a /= abs(a).max()"
REPLACED, SLOWER, CLOSE, LEFT = "replaced", "slower", "too close to call", "not measured"


def model() -> tuple[Any, Any]:
    """Return a network of depthwise, grouped and dense layers, and its input."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers: list[Any] = [nn.Conv2d(3, 32, 3, 2, 1), nn.ReLU()]
    for size, stride in ((3, 1), (5, 2), (7, 1), (9, 1)):
        layers += [nn.Conv2d(32, 32, size, stride, size // 2, groups=32), nn.Conv2d(32, 32, 1), nn.ReLU()]
    layers += [nn.Conv2d(32, 64, 3, 2, 1, groups=8), nn.Conv2d(64, 64, 3, 1, 1), nn.MaxPool2d(2)]
    return nn.Sequential(*layers).eval(), torch.randn(2, 3, 112, 112)


def decisions() -> dict[str, str]:
    """Accelerate the model; return the outcome of each layer and of the fused graph."""
    import tilewright as tw

    done = tw.accelerate(*model())
    found = {}
    for row in done.rows:
        outcome = REPLACED if row.spread[0] > 1 else CLOSE if row.spread[1] >= 1 else SLOWER
        found[f"{row.name}: {row.text}"] = outcome if row.ours else LEFT
    fused = done.fusion.rpartition("; ")[2]
    found["the fused graph"] = CLOSE if CLOSE in fused else fused
    return found


@contextmanager
def loaded(processes: int) -> Iterator[None]:
    """Have other processes compute meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def run() -> dict[str, str]:
    """Return the decisions of a process with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "TILEWRIGHT_CACHE": folder}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.loaded_decisions", "--once"]
        made = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Run, compare, and print a line for each layer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--load", type=int, default=os.cpu_count(), help="processes that compute meanwhile")
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(decisions()))
        return 0
    with loaded(given.load):
        runs = [run() for _ in range(given.runs)]
    contradictions = 0
    for name in runs[0]:
        seen = [each[name] for each in runs]
        bad = len(set(seen) - {CLOSE}) > 1
        contradictions += bad
        counts = ", ".join(f"{seen.count(outcome)} × {outcome}" for outcome in dict.fromkeys(seen))
        print(f"{'CONTRADICTION  ' if bad else ''}{counts}  {name}", flush=True)
    print(f"{contradictions} contradictions in {len(runs[0])} decisions of {given.runs} runs")
    return 1 if contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
