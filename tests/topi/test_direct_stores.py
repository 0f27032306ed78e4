"""When the direct strategy computes and stores results: activations before the first store, and row after row."""

from __future__ import annotations

import re
from itertools import groupby, pairwise
from typing import Any

import numpy as np
import pytest

from tests.topi.random_direct import CUDA, own, template_of
from tests.topi.test_direct import check, problem
from tilewright.codegen.nvrtc import compile_users
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import Conv2dLayer, Depthwise, Epilogue
from tilewright.topi.templates.direct import finishes_tiles

PARTED = {"tile_c": [4, 1], "tile_y": [3, 2], "tile_x": [2, 4], "chunk": 2, "window": "all"}
"""Tiles of 8 columns: the last one leaves a row of 10, whose results are stored two by two."""
LAYER = Depthwise.of((1, 4, 9, 10), 3)
RELU = Epilogue(bias=True, activation="relu")
NAMED = ("relu", "silu", "gelu", "hardswish")


def configured(of: Any, wanted: dict[str, Any]) -> Any:
    """The configuration of exactly these choices."""
    config = template_of(of).gpu.nearest(of, wanted)
    for name, value in wanted.items():
        found = list(config[name].size[1:]) if hasattr(config[name], "size") else config[name].val
        assert found == value, f"{name} is {found}"
    return config


def source_of(of: Any, wanted: dict[str, Any], epilogue: Epilogue) -> str:
    """The source of the kernel, which NVRTC compiles."""
    program = template_of(of).program(configured(of, wanted), of, CUDA, epilogue)
    return str(build(*program, CUDA).program.source)


def gaps(source: str) -> list[list[str]]:
    """What stands between one store to global memory and the next in PTX, without tests, branches and addresses."""
    text = compile_users(source, "ptx", "sm_90a", ("--minimal",)).decode()
    lines = [line.strip() for line in text.splitlines()]
    at = [n for n, line in enumerate(lines) if "st.global" in line]
    address = r"[@$}{]|bra|setp|(and|or|not)\.pred|(add|sub|mul|mad)\.\w*\.?[su]\d+|//|$"
    return [[line for line in lines[a + 1 : b] if not re.match(address, line)] for a, b in pairwise(at)]


@pytest.mark.parametrize("activation", [*NAMED, own], ids=lambda a: getattr(a, "__name__", a))
@pytest.mark.parametrize("order", ["terms", "rows"])
def test_no_activation_stands_between_two_stores(activation: Any, order: str) -> None:
    """Nor in PTX, of those that have a name: NVVM moves plain arithmetic back to where it is used."""
    source = source_of(LAYER, {**PARTED, "order": order}, Epilogue(bias=True, activation=activation))
    before, _, stored = re.split(r"(finished\[.*\] = .*;\n)", source)[-3:]
    assert "(result + " not in before
    values = re.findall(r"\*\)\(result .*\) = (.*);", stored)
    assert values == ["*(float2*)(finished + y_inner_inner * 4 + x_inner_inner_outer * 2)"]
    assert re.findall(r"(\w+)\[.* = bias\[", source) == ["sums"]  # which start there
    assert activation is own or gaps(source) == [[], [], []]


@pytest.mark.parametrize("activation", NAMED)
def test_an_activation_of_a_row_stands_between_no_two_stores_of_it(activation: Any) -> None:
    """Two rows a thread, of two stores each."""
    wanted = {**PARTED, "window": "row", "order": "stores"}
    first, row, second = gaps(source_of(LAYER, wanted, Epilogue(bias=True, activation=activation)))
    assert first == second == []
    assert row != []


def test_with_a_residual_there_is_something_between_stores() -> None:
    """So the tests above would notice an activation there."""
    assert all(gaps(source_of(LAYER, PARTED, Epilogue(bias=True, residual=True, activation="relu"))))


def test_of_rows_that_are_stored_one_by_one_each_is_finished_before_its_stores() -> None:
    wanted = {**PARTED, "window": "row", "order": "stores"}
    events = re.findall(
        r"^ *(sums|finished|\*\(float2\*\)\(result)\b.* = ", source_of(LAYER, wanted, RELU), re.MULTILINE
    )
    assert [name for name, _ in groupby(events)] == ["sums", "finished", "*(float2*)(result"] * 2


NOT_FINISHED: dict[str, tuple[Any, dict[str, Any], Epilogue]] = {
    "a residual": (LAYER, PARTED, Epilogue(bias=True, residual=True, activation="relu")),
    "a residual alone": (LAYER, PARTED, Epilogue(residual=True)),
    "a bias alone": (LAYER, PARTED, Epilogue(bias=True)),
    "nothing": (LAYER, PARTED, Epilogue()),
    "rows of whole tiles": (Depthwise.of((1, 4, 9, 16), 3), PARTED, RELU),
    "all columns stored at once": (Depthwise.of((1, 4, 9, 12), 3), PARTED, RELU),
    "one column": (LAYER, {**PARTED, "tile_x": [4, 1], "chunk": 1}, RELU),
    "16 bits": (Depthwise.of((1, 4, 9, 10), 3, dtype="float16"), PARTED, RELU),
    "channels last": (Depthwise.of((1, 8, 9, 10), 3, layout="NHWC"), {**PARTED, "tile_c": [4, 2]}, RELU),
}


@pytest.mark.parametrize(("of", "wanted", "epilogue"), NOT_FINISHED.values(), ids=NOT_FINISHED)
def test_where_results_are_stored_as_they_are_computed(of: Any, wanted: dict[str, Any], epilogue: Epilogue) -> None:
    assert "finished" not in source_of(of, wanted, epilogue)


FINISHED: dict[str, tuple[Any, dict[str, Any], Epilogue]] = {
    "double precision": (Depthwise.of((1, 4, 9, 10), 3, dtype="float64"), {**PARTED, "tile_x": [2, 4]}, RELU),
    "without a bias": (LAYER, PARTED, Epilogue(activation="silu")),
    "columns one by one": (Depthwise.of((1, 4, 9, 11), 3), {**PARTED, "chunk": 1}, RELU),
    "several filters": (Depthwise.of((1, 4, 9, 10), 3, multiplier=2), {**PARTED, "tile_f": [2]}, RELU),
    "groups": (Conv2dLayer.of((1, 8, 9, 10), 12, groups=4), {**PARTED, "tile_f": [3]}, RELU),
    "a line": (Depthwise.of((2, 4, 22), 5, layout="NCW"), {"tile_c": [4, 1], "tile_y": [1, 1], "tile_x": [4, 4]}, RELU),
}


@pytest.mark.parametrize(("of", "wanted", "epilogue"), FINISHED.values(), ids=FINISHED)
def test_where_a_tile_is_finished_first(of: Any, wanted: dict[str, Any], epilogue: Epilogue) -> None:
    assert finishes_tiles(of, configured(of, wanted))
    assert "finished" in source_of(of, wanted, epilogue)


@pytest.mark.parametrize(("layout", "window"), [("NCHW", "row"), ("NHWC", "row"), ("NHWC", "sliding")])
def test_a_row_is_stored_before_the_next_begins(layout: str, window: str) -> None:
    of = Depthwise.of((1, 8, 9, 8), 3, layout=layout)
    wanted = {"tile_c": [2, 2 if layout == "NHWC" else 1], "tile_y": [1, 3], "tile_x": [2, 2], "window": window}
    for order, times in (("terms", 1), ("stores", 3)):
        source = source_of(of, {**wanted, "order": order}, RELU)
        events = re.findall(r"^ *(sums)\[.* = bias|^ *(?:\*\(float2\*\)\()?(result)\b.* = ", source, re.MULTILINE)
        assert [name for name, _ in groupby("".join(each) for each in events)] == ["sums", "result"] * times


def test_with_a_whole_window_there_are_sums_of_one_row_where_rows_are_stored() -> None:
    of = Depthwise.of((1, 8, 9, 8), 3)
    wanted = {"tile_c": [2, 1], "tile_y": [1, 3], "tile_x": [2, 2], "window": "all"}
    sizes = [
        int(re.findall(r" sums\[(\d+)\];", source_of(of, {**wanted, "order": order}, RELU))[0])
        for order in ("terms", "rows", "stores")
    ]
    assert sizes == [6, 6, 2]


@pytest.mark.opencl
def test_finished_rows_under_opencl() -> None:
    config, target = configured(LAYER, {**PARTED, "window": "row", "order": "stores"}), Target("opencl")
    inputs, right, allowed = problem(LAYER, RELU)
    module = build(*template_of(LAYER).program(config, LAYER, target, RELU), target)
    assert "finished" in module.program.source
    out = array(np.full(right.shape, np.nan, "float32"), device=device("opencl"))
    module(*(array(each, device=device("opencl")) for each in inputs), out)
    check(out.numpy(), right, allowed)
