"""Stand-ins: a template whose schedules cost nothing, and a measurer that computes times from configurations."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from tilewright import autotvm, te
from tilewright.core.target import Target
from tilewright.measure.job import Job
from tilewright.measure.outcome import Measured, Outcome
from tilewright.runtime.driver import DeviceAttributes
from tilewright.tune.space.knobs import split_knob, value_knob
from tilewright.tune.space.space import Space


@autotvm.template("tests/add")
def add(n: int, limit: int = 1024) -> Any:
    """Threads and a vector length for an addition; more than 1,024 threads per block are too many."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    cfg = autotvm.get_config()
    cfg.define_split("x", B.op.axis[0], num_outputs=3)
    cfg.define_knob("unroll", [0, 1])
    bx, tx, xi = cfg["x"].apply(s, B, B.op.axis[0])
    s[B].bind(bx, te.thread_axis("blockIdx.x"))
    s[B].bind(tx, te.thread_axis("threadIdx.x"))
    if cfg["unroll"].val:
        s[B].unroll(xi)
    return s, [A, B]


@functools.cache
def add_task(n: int = 4096) -> Any:
    """A task of that template."""
    return autotvm.task.create("tests/add", (n,), "opencl")


class FakeMeasurer:
    """Measures jobs by a function of the configuration's index; remembers what it was asked."""

    def __init__(self, judge: Callable[[int], float | Outcome], device: str = "Fake 1", target: str = "opencl") -> None:
        self.judge = judge
        self.asked: list[int] = []
        self.attributes = DeviceAttributes(device)
        self.target = Target(target)
        self.clock = time.time()

    processes = 1

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """The outcomes, last job first: results come in the order in which they are done."""
        for job in reversed(jobs):
            index = job.instantiate.config.index
            self.asked.append(index)
            found = self.judge(index)
            yield job, found if isinstance(found, Outcome) else Measured(costs=(found,), timestamp=self.clock)

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """One batch after the other."""
        for jobs in batches:
            yield from self.measure(jobs)


def surface() -> tuple[Space, Callable[[int], float]]:
    """A space of a million configurations, and how fast each is: a smooth hill with a cliff and some noise."""
    knobs = [split_knob(f"t{i}", 512, num_outputs=3) for i in range(3)]
    space = Space([*knobs, value_knob("unroll", [0, 16, 64, 512]), value_knob("flag", [0, 1])])
    best = {"t0": (8, 4), "t1": (2, 64), "t2": (16, 1)}

    def rate(index: int) -> float:
        config = space.get(index)
        score = 1.0
        for name, wanted in best.items():
            for size, aim in zip(config[name].sizes[1:], wanted, strict=True):
                score /= 1 + 0.35 * abs(size.bit_length() - aim.bit_length())
        score *= 1.0 if config["unroll"].val == 64 else 0.6
        score *= 1.2 if config["flag"].val else 1.0
        threads = config["t0"].sizes[1] * config["t1"].sizes[1]
        noise = 0.97 + 0.06 * ((index * 2654435761) % 1000) / 1000
        return 0.0 if threads > 1024 else score * noise

    return space, rate
