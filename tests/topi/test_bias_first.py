"""Sums that start at a bias, or get it last: where kernels load it, and that all compute the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_pair
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.topi.test_direct import check, problem
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.topi.templates import Depthwise, Epilogue, PackagedTemplate, named

DEPTHWISE = named("topi/depthwise")
DEPTHWISE_DIRECT = named("topi/depthwise.direct")
DEPTHWISE_MMA = named("topi/depthwise.mma")

CUDA = Target("cuda -arch=sm_90")
WHOLE = Epilogue(bias=True, activation="relu")
PLANES = next(t for t in DEPTHWISE.strategies if t.name == "topi/depthwise.planes")


def source_of(template: PackagedTemplate[Depthwise], of: Depthwise, epilogue: Epilogue, **choices: object) -> str:
    config = template.gpu.nearest(of, choices)
    return build(*template.program(config, of, CUDA, epilogue), CUDA).program.source


def run(template: PackagedTemplate[Depthwise], of: Depthwise, epilogue: Epilogue, **choices: object) -> str:
    """Run a kernel in the emulator and check its results; return its source."""
    inputs, right, allowed = problem(of, epilogue)
    with emulation():
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
        config = template.gpu.nearest(of, choices)
        assert {name: config[name].val for name in choices if name == "bias"} == {"bias": choices["bias"]}
        module = emulated(*template.program(config, of, CUDA, epilogue))
        module(*arrays)
        found = arrays[-1].numpy()
    check(found, right, allowed)
    return str(module.program.source)


@pytest.mark.parametrize("bias", ["first", "held"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_bias_of_matrix_instructions_is_loaded_before_they_end(dtype: str, bias: str) -> None:
    """Behind the products a block would wait for it."""
    of = Depthwise.of((2, 4, 20, 24), 7, dtype=dtype)
    text = source_of(DEPTHWISE_MMA, of, WHOLE, bias=bias)
    (load,) = (m.start() for m in re.finditer(r"\bbias\[", text))
    kernel = text.index("main_kernel")
    if bias == "first":
        assert load < text.index("mma_", kernel)
    else:  # no condition keeps the compiler from moving it there
        assert not re.search(r"if \(|\?", text[text.rindex("\n", 0, load) : load])
    plain = source_of(DEPTHWISE_MMA, of, Epilogue(), bias=bias)
    assert (plain.count(" + ") == text.count(" + ")) is (bias == "first")  # then nothing is added to the results


@emulates
@pytest.mark.parametrize("bias", ["first", "last", "held"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("residual", [False, True])
def test_a_bias_of_direct_sums(layout: str, residual: bool, bias: str) -> None:
    of = Depthwise.of((1, 6, 7, 9), 3, dtype="float16", layout=layout)
    epilogue = Epilogue(bias=True, activation="relu", residual=residual)
    source = run(DEPTHWISE_DIRECT, of, epilogue, tile_y=[2, 2], tile_x=[2, 3], bias=bias)
    starts = re.search(r"sums\[[^\]]*\] = .*bias(_local)?\[", source)
    assert (starts is not None) is (bias == "first")
    assert ("bias_local[" in source) is (bias == "held")


@emulates
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("multiplier", [1, 2])
def test_a_held_bias_is_read_once_outside_of_conditions(multiplier: int, activation: str) -> None:
    """Each row of results is tested against the end of the image; an activation in float32 has a stage of its own."""
    of = Depthwise.of((1, 3, 7, 13), 3, dtype="float32", multiplier=multiplier)
    tiles = {"tile_f": [multiplier], "tile_y": [2, 3], "tile_x": [4, 4], "chunk": 1}
    source = run(DEPTHWISE_DIRECT, of, Epilogue(bias=True, activation=activation), bias="held", **tiles)
    (line,) = (line for line in source.splitlines() if re.search(r"\bbias\[|\(bias \+", line))
    assert not re.search(r"if \(|\?", line)


@emulates
@pytest.mark.parametrize(
    ("bias", "store", "held", "residual"),
    each_pair(
        ["first", "held"], ["straight", "together"], [(1, "memory"), (2, "memory"), (2, "registers")], [False, True]
    ),
)
def test_a_bias_of_planes(bias: str, store: str, held: tuple[int, str], residual: bool) -> None:
    images, weights = held
    of = Depthwise.of((4, 6, 7, 7), 3, dtype="float16")
    wanted = {"planes": 2, "images": images, "rows": 7, "columns": 1, "copies": 1, "store": store, "weights": weights}
    run(PLANES, of, Epilogue(bias=True, residual=residual, activation="relu"), bias=bias, **wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_are_only_moved_keep_their_bits(dtype: str) -> None:
    """Planes that pass through shared memory one element at a time are neither widened nor rounded."""
    of = Depthwise.of((1, 4, 21, 21), dtype=dtype)
    wanted = {"planes": 1, "images": 1, "rows": 7, "columns": 1, "copies": 1, "store": "straight"}
    text = source_of(PLANES, of, Epilogue(), **wanted)
    (copied,) = re.findall(r"data_shared\[.*\] = (.*);", text)
    assert re.fullmatch(r"data\[[^\]]*\]", copied)


@pytest.mark.parametrize("template", [DEPTHWISE_DIRECT, DEPTHWISE_MMA, PLANES], ids=lambda each: each.name)
def test_a_search_without_an_epilogue_tries_no_kernel_twice_for_what_is_done_to_a_bias(
    template: PackagedTemplate[Depthwise],
) -> None:
    of = Depthwise.of((2, 8, 14, 14), 7, dtype="float16")
    whole, searched = template.strategy(CUDA).space(of), template.task(of, CUDA).config_space
    forms = len(whole["bias"])
    assert searched.range_length * forms == whole.range_length
    at = next(iter(searched))
    for form in range(forms):
        logged = whole.get(at + form * searched.range_length)
        assert logged["bias"].val == whole["bias"][form].val
        assert searched.find(logged) == at  # a log that names another form means the same kernel
    assert str(searched.get(at)) == str(whole.get(at))
    assert template.default_config(of, CUDA).index == searched.find(template.default_config(of, CUDA))
