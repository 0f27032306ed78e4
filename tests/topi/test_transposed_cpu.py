"""Transposed convolutions on a CPU, by phases, against sums from the definition."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_value
from tilewright.core.target import Target
from tilewright.topi.templates import Epilogue, Transposed, named

TRANSPOSED = named("topi/conv_transpose")

LLVM = Target("llvm")
WORKLOADS = {
    "phases": ((2, 6, 7, 5), 4, 3, 2, 1, 1),
    "fewer taps than phases": ((1, 3, 5, 6), 5, (2, 1), (3, 2), 0, (1, 1)),
    "uneven border": ((1, 4, 9, 7), 8, 4, 2, (1, 0, 2, 1)),
    "filters of groups": ((1, 6, 5, 9), 18, 3, 2, 1, 0, 1, 3),
    "a channel each": ((2, 5, 6, 11), 5, 4, 2, 1, 0, 1, 5),
    "a window that is cut off": ((1, 2, 3, 3), 2, 5, 1, 3),
    "dilated": ((1, 3, 6, 8), 4, 3, 1, 1, 0, 2),
    "dilated and by steps": ((1, 3, 6, 8), 4, 3, 2, 1, 0, 2),
    "one column": ((1, 4, 3, 1), 3, (3, 1), 2, (1, 0)),
    "half precision": ((1, 4, 6, 5), 20, 3, 2, 1, 1, 1, 1, "float16"),
}


@pytest.mark.parametrize(("name", "layout"), each_value(WORKLOADS, ["NCHW", "NHWC"]))
def test_results_of_every_phase(name: str, layout: str) -> None:
    workload = Transposed.of(*WORKLOADS[name], layout=layout)
    space = TRANSPOSED.task(workload, LLVM).config_space
    drawn = space.get(space.indices(space.draw(np.random.default_rng(len(name)), 1))[0])
    given, (wanted,) = workload.sample()
    for config in (TRANSPOSED.default_config(workload, LLVM), drawn):
        schedule, args = TRANSPOSED.program(config, workload, LLVM)
        out = tw.nd.empty(wanted.shape, workload.dtype)
        tw.build(schedule, args, LLVM)(*map(tw.nd.array, given), out)
        tolerance = 1e-2 if workload.dtype == "float16" else 1e-5
        np.testing.assert_allclose(out.numpy().astype("float64"), wanted, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_an_epilogue_follows_the_sums(layout: str) -> None:
    workload = Transposed.of((1, 3, 5, 4), 6, 3, 2, 1, layout=layout)
    config = TRANSPOSED.default_config(workload, LLVM)
    schedule, args = TRANSPOSED.program(config, workload, LLVM, Epilogue(bias=True, activation="relu"))
    (data, weights), (sums,) = workload.sample()
    bias = np.linspace(-1, 1, 6, dtype="float32")
    out = tw.nd.empty(sums.shape)
    tw.build(schedule, args, LLVM)(*map(tw.nd.array, (data, weights, bias)), out)
    wanted = np.maximum(sums + (bias[:, None, None] if layout == "NCHW" else bias), 0)
    np.testing.assert_allclose(out.numpy(), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_no_sum_has_a_condition(layout: str) -> None:
    """The border and the window have zeros instead: conditions within vectors are what made these layers slow."""
    workload = Transposed.of((1, 16, 8, 8), 16, 3, 2, 1, 1, layout=layout)
    schedule, args = TRANSPOSED.program(TRANSPOSED.default_config(workload, LLVM), workload, LLVM)
    lowered = str(tw.lower(schedule, args))
    sums = [line for line in lowered.splitlines() if "turned" in line and "=" in line and "*" in line]
    added = [line for line in sums if " + " in line and "bordered" in line]
    assert added
    assert not any("if_then_else" in line or "Select" in line for line in added)
