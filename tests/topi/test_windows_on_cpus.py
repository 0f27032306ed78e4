"""First configurations of depthwise convolutions on a CPU: right, and without lanes that are fetched one by one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.target import Target
from tilewright.topi.templates import CONV2D, DEPTHWISE, Conv2d, Depthwise, Epilogue, cheapest

LLVM = Target("llvm")


def built(family: Any, of: Any) -> Any:
    """The program that a call runs without records."""
    template = cheapest([each for each in family.strategies if each.covers(of, LLVM)], of, LLVM)
    schedule, args = template.program(template.first(of.args, LLVM), of, LLVM, Epilogue())
    return tw.build(schedule, args, LLVM)


def check(program: Any, of: Any) -> None:
    """Compare with NumPy in float64."""
    data, weights = of.inputs(np.random.default_rng(1))
    out = tw.nd.empty(of.out_shape, of.dtype)
    program(tw.nd.array(data), tw.nd.array(weights), out)
    wanted = of.numpy(data.astype("float64"), weights.astype("float64"))
    error = np.linalg.norm(out.numpy().astype("float64") - wanted) / np.linalg.norm(wanted)
    assert error < {"float32": 1e-5, "float64": 1e-10, "float16": 2e-3, "bfloat16": 1e-2}[of.dtype]


WINDOWS = [
    {"shape": (1, 6, 112, 112), "kernel": 3, "stride": 2, "padding": 1},
    {"shape": (1, 6, 57, 57), "kernel": 3, "stride": 2, "padding": 1},
    {"shape": (1, 6, 64, 64), "kernel": 5, "stride": 2, "padding": 2},
    {"shape": (1, 6, 80, 80), "kernel": 5, "stride": 3, "padding": 2},
    {"shape": (1, 6, 64, 60), "kernel": 7, "stride": 4, "padding": 3},
    {"shape": (1, 6, 45, 45), "kernel": 13, "padding": 6},
    {"shape": (1, 6, 35, 57), "kernel": 3, "padding": 1},
    {"shape": (1, 6, 39, 39), "kernel": 3},
    {"shape": (1, 6, 59, 63), "kernel": (1, 7), "stride": (1, 2)},
    {"shape": (1, 6, 32, 33), "kernel": (3, 1), "padding": (1, 0)},
]


@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_rows_of_planes(options: dict[str, Any]) -> None:
    of = Depthwise.of(**options)
    program = built(DEPTHWISE, of)
    assert "gather" not in program.get_source()
    check(program, of)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("options", WINDOWS[1::3], ids=str)
def test_rows_of_other_types(options: dict[str, Any], dtype: str) -> None:
    of = Depthwise.of(**options, dtype=dtype)
    check(built(DEPTHWISE, of), of)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("multiplier", [1, 2, 3, 4, 5, 8, 16, 32])
def test_channels_last_with_several_filters_each(multiplier: int, stride: int, dtype: str) -> None:
    of = Depthwise.of((1, 12, 9, 10), 5, stride, 2, multiplier=multiplier, dtype=dtype, layout="NHWC")
    program = built(DEPTHWISE, of)
    if multiplier in (1, 2, 4, 8):
        assert len(re.findall("= call .*gather", program.get_source())) <= 1  # where the weights are turned
    check(program, of)


@pytest.mark.parametrize(
    ("channels", "filters", "groups", "near"),
    [(64, 64, 32, True), (128, 128, 32, True), (64, 32, 8, True), (64, 64, 8, False), (12, 24, 4, False),
     (256, 32, 8, False), (16, 16, 16, True), (32, 16, 16, True), (48, 16, 8, True)],
)  # fmt: skip
def test_vectors_of_near_groups(channels: int, filters: int, groups: int, near: bool) -> None:
    of = Conv2d.of((1, channels, 7, 9), filters, 3, padding=1, groups=groups, layout="NHWC")
    template = cheapest([each for each in CONV2D.strategies if each.covers(of, LLVM)], of, LLVM)
    lanes = template.first(of.args, LLVM)["tile_c"].size[-1]
    own = filters // groups
    assert lanes > own if near else lanes <= max(own, 16)
    check(built(CONV2D, of), of)
