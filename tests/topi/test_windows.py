"""The templates of transposed convolutions and pooling: every configuration, wherever it runs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device
from tilewright.topi.templates import Epilogue, Pooling, Transposed, named

POOLING = named("topi/pool")
TRANSPOSED = named("topi/conv_transpose")

WORKLOADS: list[tuple[Any, Any]] = [
    *((POOLING, workload) for workload in (
        Pooling.of((2, 3, 13, 17), "max", 3, 2, 1),
        Pooling.of((2, 3, 13, 17), "average inside", (3, 2), 2, (1, 0, 1, 1), layout="NHWC"),
        Pooling.of((1, 5, 9, 9), "average", 2, 2, dtype="float64"),
        Pooling.of((1, 5, 19, 9), "max", 2, 1, 0, 2, dtype="float16"),
    )),
    *((TRANSPOSED, workload) for workload in (
        Transposed.of((2, 6, 7, 5), 4, 3, 2, 1, 1),
        Transposed.of((2, 6, 7, 5), 4, 4, 2, 1, layout="NHWC"),
        Transposed.of((1, 6, 7, 9), 6, (2, 3), (2, 3), groups=6),
        Transposed.of((1, 6, 7, 9), 12, 3, 2, (1, 0, 2, 1), groups=3, dilation=2, dtype="float64"),
        Transposed.of((1, 4, 7, 9), 4, 3, 1, 1, dtype="bfloat16", layout="NHWC"),
    )),
]  # fmt: skip


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90", pytest.param("opencl", marks=pytest.mark.opencl)])
@pytest.mark.parametrize(
    ("template", "workload"), WORKLOADS, ids=[f"{w.name}-{i}" for i, (_, w) in enumerate(WORKLOADS)]
)
def test_configurations_compute_the_same(template: Any, workload: Any, target: str) -> None:
    if target == "opencl" and "16" in workload.dtype:
        pytest.skip("OpenCL on the CPU has no 16-bit floats")
    on = Target(target)
    task = template.task(workload, on)
    space = task.config_space
    drawn = (space.get(i) for i in space.indices(space.draw(np.random.default_rng(0), 8)))
    given, (wanted,) = workload.sample()
    for config in [template.default_config(template.workload(task.args), on), *itertools.islice(drawn, 2)]:
        schedule, tensors = template.instantiate(config, task.args, on)
        function = build(schedule, tensors, on)
        if on.kind == "cuda":  # compiled here, run where there is a GPU
            continue
        place = device(str(on.kind))
        arrays = [*(array(values, place) for values in given), empty(wanted.shape, workload.dtype, place)]
        function(*arrays)
        tolerance = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-5, "float64": 1e-12}[workload.dtype]
        np.testing.assert_allclose(arrays[-1].numpy().astype(np.float64), wanted, atol=tolerance, rtol=tolerance)


def test_mistakes_are_named() -> None:
    with pytest.raises(UserError, match="groups 4 does not divide 6 channels"):
        Transposed.of((1, 6, 5, 5), 8, groups=4)
    with pytest.raises(UserError, match="leaves an empty result"):
        Transposed.of((1, 6, 1, 1), 8, 3, padding=2)
    with pytest.raises(UserError, match="how smallest is unknown"):
        Pooling.of((1, 6, 5, 5), "smallest")
    workload = Pooling.of((1, 6, 5, 5))
    config = POOLING.default_config(workload, None)
    with pytest.raises(UserError, match="pool has no epilogue"):
        POOLING.program(config, workload, None, Epilogue(bias=True))
