"""The gain of compiling needlessly spilling kernels again: python -m benchmarks.spills [TABLE ...]

The tables were recorded before `codegen/spills.py` existed. Their configurations that spilled with few registers are
measured again, and compared with the recorded times.
"""

from __future__ import annotations

import argparse
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.tables import TABLES, job_of
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured
from tilewright.measure.session import MeasureSession

FOLDER = Path(__file__).parents[1] / "tests" / "data" / "tables"
_LEAST_BYTES, _MOST_REGISTERS = 64, 72


def spilled(name: str) -> Iterator[tuple[int, float]]:
    """Index and recorded seconds of the configurations that spilled with few registers."""
    with lzma.open(FOLDER / f"{name}.log.xz", "rt") as file:
        for found in map(json.loads, file):
            costs, error, *_ = found["result"]
            for used in found.get("resources", {}).values() if not error else ():
                if used.get("spill_store_bytes", 0) >= _LEAST_BYTES and used["registers"] <= _MOST_REGISTERS:
                    yield found["config"]["index"], float(np.median(costs))


def main() -> None:
    """Measure the tables of the command line; print a line for each table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("names", nargs="*", default=["conv2d-steps", "tutorial-filters"], metavar="TABLE")
    given = parser.parse_args()
    runner = LocalRunner(timeout=4, number=1, repeat=3, min_repeat_ms=1, cooldown_interval=0)
    with MeasureSession("cuda", LocalBuilder(timeout=25), runner) as session:
        for name in given.names:
            task, before = TABLES[name].task(session.target), dict(spilled(name))
            jobs = [job_of(task, session.target, index) for index in before]
            ratios = [
                before[job.key] / float(np.median(outcome.costs))
                for job, outcome in session.measure(jobs)
                if isinstance(outcome, Measured)
            ]
            mean = np.exp(np.mean(np.log(ratios)))
            print(
                f"{name}: {len(ratios)} of {len(jobs)}, before ÷ now: geometric mean {mean:.2f}, "
                f"{min(ratios):.2f} to {max(ratios):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
