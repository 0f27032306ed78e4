"""The cost of measuring a candidate beyond running it: `python -m benchmarks.trials [target] [--count N] [--quick]`.

Trials of a matrix product from end to end, as requested by a tuner: seconds, trials per second, and the runner's share
of the time. `--quick` measures a small product for a short time, so that the other costs dominate. Processor time
includes this process and the processes that it started. To compare two commits, in pairs:

    python -m benchmarks.compare BASE . --same --benchmark benchmarks.trials --pairs 5 -- opencl --quick --count 100
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from typing import Any

from tilewright import te
from tilewright.core.target import Target
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.session import Job, MeasureSession

SPACE = list(itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64), (False, True)))
BATCH = 64


def matmul(size: int, ty: int, tx: int, unrolled: int, swapped: bool) -> tuple[Any, list[Any]]:
    """A product of matrices; of 512 × 512, one run takes a tenth of a millisecond on a GPU."""
    a, b = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    i_outer, i_inner = s[c].split(i, factor=ty)
    j_outer, j_inner = s[c].split(j, factor=tx)
    _, k_inner = s[c].split(k, factor=unrolled)
    s[c].unroll(k_inner)
    for axis, tag in ((i_outer, "y"), (j_outer, "x")):
        s[c].bind(axis, te.thread_axis(f"blockIdx.{tag}"))
    for axis, tag in ((i_inner, "x" if swapped else "y"), (j_inner, "y" if swapped else "x")):
        s[c].bind(axis, te.thread_axis(f"threadIdx.{tag}"))
    return s, [a, b, c]


def processor_seconds() -> float:
    """Processor time so far, of this process and of its ended children."""
    return sum(os.times()[:4])


def trials(target: str, count: int, quick: bool) -> tuple[float, float, float]:
    """Seconds of a number of trials from end to end, of the processor meanwhile, and of them in the runner."""
    size, space = (32, SPACE[:8]) if quick else (512, SPACE)
    points = itertools.islice(itertools.cycle(space), count)
    jobs = [Job(lambda p=p: matmul(size, *p), p, Target(target)) for p in points]
    runner = LocalRunner(repeat=3, min_repeat_ms=0 if quick else 10, cooldown_interval=0)
    began, worked = time.monotonic(), processor_seconds()
    running = 0.0
    with MeasureSession(target, LocalBuilder(), runner) as session:
        for first in range(0, count, BATCH):
            for job, outcome in session.measure(jobs[first : first + BATCH]):
                if not outcome.ok:
                    raise SystemExit(f"{job.key}: {outcome}")
                running += outcome.run_seconds
    return time.monotonic() - began, processor_seconds() - worked, running


def main() -> None:
    """Time the trials, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", nargs="?", default="opencl")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    seconds, worked, running = trials(given.target, given.count, given.quick)
    print(f"{given.target}, {given.count} trials")
    print("seconds       end to end  processor  in the runner")
    print(f"all trials    {seconds:10.2f}  {worked:9.2f}  {running:13.2f}")
    each = (1e3 * value / given.count for value in (seconds, worked, running))
    print("ms per trial  {:10.2f}  {:9.2f}  {:13.2f}".format(*each))


if __name__ == "__main__":
    main()
