"""A task to try tuners on, under the legacy names: a matrix product, and a runner that measures nothing."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.target import Target
from ...schedule.handle import ScheduleHandle, create_schedule
from ...tensor.axis import reduce_axis
from ...tensor.reduction import sum as reduce_sum
from ...tensor.tensor import Tensor, compute, placeholder
from ...tune.task import Task
from ..autotvm import MeasureInput, MeasureResult, get_config, task, template
from ..autotvm.measure import Runner


class DummyRunner(Runner):
    """Returns random times and runs nothing."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def run(self, measure_inputs: Sequence[Any], build_results: Sequence[Any]) -> list[MeasureResult]:
        """Return a time between 0 and 1 s for each candidate."""
        rng = np.random.default_rng()
        return [MeasureResult((float(1 - rng.random()),), 0, 0.2, time.time()) for _ in measure_inputs]


def matmul(n: int, depth: int, m: int, dtype: str) -> tuple[ScheduleHandle, list[Tensor]]:
    """Multiply an n x depth matrix by a depth x m one, in tiles that two knobs choose."""
    a, b = placeholder((n, depth), dtype, "A"), placeholder((depth, m), dtype, "B")
    k = reduce_axis((0, depth), name="k")
    c = compute((n, m), lambda i, j: reduce_sum(a[i, k] * b[k, j], axis=k), name="C")
    s, cfg = create_schedule(c.op), get_config()
    y, x = s[c].op.axis
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, c, y)
    xo, xi = cfg["tile_x"].apply(s, c, x)
    s[c].reorder(yo, xo, s[c].op.reduce_axis[0], yi, xi)
    return s, [a, b, c]


template("testing/matmul", matmul)


def get_sample_task(n: int = 128) -> tuple[Task, Target]:
    """Return the task of that product of n x n matrices, and its target."""
    target = Target("llvm")
    return task.create("testing/matmul", (n, n, n, "float32"), target), target


def get_sample_records(n: int) -> list[tuple[MeasureInput, MeasureResult]]:
    """Return made-up measurements of the first n configurations; the i-th takes i + 1 seconds."""
    made, target = get_sample_task()
    return [
        (MeasureInput(target, made, made.config_space.get(i)), MeasureResult((i + 1,), 0, i, time.time()))
        for i in range(n)
    ]
