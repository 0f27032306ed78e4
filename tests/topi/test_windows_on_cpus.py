"""First configurations of depthwise convolutions on a CPU: right, and without lanes that are fetched one by one."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_value
from tilewright.core.target import Target
from tilewright.topi.templates import Conv2dLayer, Depthwise, Epilogue, default_strategy, named

CONV2D = named("topi/conv2d")
DEPTHWISE = named("topi/depthwise")

LLVM = Target("llvm")


def built(family: Any, of: Any) -> Any:
    """The program that a call runs without records."""
    template = default_strategy([each for each in family.strategies if each.covers(of, LLVM)], of, LLVM)
    schedule, args = template.program(template.default_config(of, LLVM), of, LLVM, Epilogue())
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


@pytest.mark.parametrize(
    ("options", "dtype"), each_value([*WINDOWS[1:3], WINDOWS[7]], ["float64", "float16", "bfloat16"]), ids=str
)
def test_rows_of_other_types(options: dict[str, Any], dtype: str) -> None:
    of = Depthwise.of(**options, dtype=dtype)
    check(built(DEPTHWISE, of), of)


@pytest.mark.parametrize(
    ("multiplier", "stride", "dtype"), each_value([1, 2, 3, 4, 5, 8, 16, 32], [1, 2], ["float32", "bfloat16"])
)
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
    of = Conv2dLayer.of((1, channels, 7, 9), filters, 3, padding=1, groups=groups, layout="NHWC")
    template = default_strategy([each for each in CONV2D.strategies if each.covers(of, LLVM)], of, LLVM)
    lanes = template.default_config(of, LLVM)["tile_c"].size[-1]
    own = filters // groups
    assert lanes > own if near else lanes <= max(own, 16)
    check(built(CONV2D, of), of)


LONG = [
    {"kernel": (1, 4096), "layout": "NCHW"},
    {"kernel": (1, 4096), "padding": (0, 2048), "layout": "NHWC"},
    {"kernel": (1, 4096), "padding": (0, 2048), "layout": "NCHW", "groups": 4},
    {"kernel": (1, 4096), "layout": "NHWC", "groups": 4},
    {"kernel": (1, 4096), "padding": (0, 2048), "layout": "NHWC", "groups": 1},
    {"kernel": (2, 1100), "padding": (0, 300), "layout": "NCHW"},
    {"kernel": (1, 60), "stride": (1, 3), "padding": (0, 30), "layout": "NCHW"},
]


@pytest.mark.parametrize("options", LONG, ids=str)
def test_programs_of_long_windows_are_short(options: dict[str, Any]) -> None:
    """A copy for each tap would take LLVM a minute, or be refused."""
    groups = options.get("groups", 16)
    shape = (1, 16, options["kernel"][0], 5000)
    given = {name: value for name, value in options.items() if name != "groups"}
    family = DEPTHWISE if groups == 16 else CONV2D
    of = Depthwise.of(shape, **given) if groups == 16 else Conv2dLayer.of(shape, 16, groups=groups, **given)
    template = default_strategy([each for each in family.strategies if each.covers(of, LLVM)], of, LLVM)
    schedule, args = template.program(template.default_config(of, LLVM), of, LLVM, Epilogue())
    assert str(tw.lower(schedule, args, simple_mode=True)).count("\n") < 300


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("stride", [2, 3])
def test_long_windows_whose_columns_lie_apart(stride: int, dtype: str) -> None:
    of = Depthwise.of((2, 3, 1, 500), (1, 70), (1, stride), (0, 30), dtype=dtype)
    check(built(DEPTHWISE, of), of)


@pytest.mark.parametrize(
    ("groups", "layout", "dtype"), each_value([8, 2, 1], ["NCHW", "NHWC"], ["float32", "bfloat16", "float64"])
)
def test_long_windows(groups: int, layout: str, dtype: str) -> None:
    """Taps and columns that no unrolling and no vector divides."""
    given: dict[str, Any] = {"kernel": (1, 131), "padding": (0, 7), "dtype": dtype, "layout": layout}
    shape = (1, 8, 1, 333)
    if groups == 8:
        check(built(DEPTHWISE, Depthwise.of(shape, **given)), Depthwise.of(shape, **given))
    else:
        of = Conv2dLayer.of(shape, 8, groups=groups, **given)
        check(built(CONV2D, of), of)


@pytest.mark.parametrize(("name", "lanes"), [("znver4", 64), ("haswell", 64), ("x86-64", 32)])
def test_taps_of_a_long_row_serve_several_vectors(name: str, lanes: int) -> None:
    of = Depthwise.of((1, 16, 1, 16000), (1, 128), padding=0)
    config = DEPTHWISE.default_config(of, Target(f"llvm -mcpu={name}"))
    assert config["tile_x"].size[-1] == lanes
