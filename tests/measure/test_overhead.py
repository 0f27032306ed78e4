"""What measuring costs beyond the measurement itself, on a real device."""

from __future__ import annotations

import itertools
import time
from typing import Any

import pytest

from tilewright import te
from tilewright.core.target import Target
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.session import Job, MeasureSession

SIZE = 512
SPACE = list(itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32, 64), (False, True)))


def matmul(ty: int, tx: int, unrolled: int, swapped: bool) -> tuple[Any, list[Any]]:
    """A product of matrices that takes about a tenth of a millisecond."""
    a, b = te.placeholder((SIZE, SIZE), name="A"), te.placeholder((SIZE, SIZE), name="B")
    k = te.reduce_axis((0, SIZE), name="k")
    c = te.compute((SIZE, SIZE), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
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


def trials(target: str, count: int) -> tuple[float, float]:
    """Seconds that so many trials took from end to end, and the seconds of them spent in the runner."""
    jobs = [Job(lambda p=p: matmul(*p), p, Target(target)) for p in itertools.islice(itertools.cycle(SPACE), count)]
    runner = LocalRunner(repeat=3, min_repeat_ms=10, cooldown_interval=0)
    began = time.monotonic()
    running = 0.0
    with MeasureSession(target, LocalBuilder(), runner) as session:
        for first in range(0, count, 64):  # as a tuner asks for them
            for job, outcome in session.measure(jobs[first : first + 64]):
                assert outcome.ok, (job.key, outcome)
                running += outcome.run_seconds
    return time.monotonic() - began, running


@pytest.mark.slow
@pytest.mark.cuda
def test_five_hundred_trials_take_at_most_150_seconds() -> None:
    seconds, running = trials("cuda", 500)
    print(f"500 trials: {seconds:.1f} s, {running:.1f} s of them in the runner")
    assert seconds <= 150
