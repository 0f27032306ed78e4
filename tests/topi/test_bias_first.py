"""Sums that start at a bias, or get it last: where kernels load it, and that both compute the same."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.topi.test_direct import check, problem
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.topi.templates import DEPTHWISE, DEPTHWISE_DIRECT, DEPTHWISE_MMA, Depthwise, Epilogue, PackagedTemplate

CUDA = Target("cuda -arch=sm_90")
WHOLE = Epilogue(bias=True, activation="relu")


def source_of(template: PackagedTemplate[Depthwise], of: Depthwise, epilogue: Epilogue, **choices: object) -> str:
    config = template.gpu.nearest(of, choices)
    return build(*template.program(config, of, CUDA, epilogue), CUDA).program.source


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_matrix_instructions_start_at_the_bias(dtype: str) -> None:
    """It is loaded while the image is, before the barrier: behind the products a block would wait for it."""
    of = Depthwise.of((2, 4, 20, 24), 7, dtype=dtype)
    text = source_of(DEPTHWISE_MMA, of, WHOLE)
    assert [m.start() < text.index("__syncthreads") for m in re.finditer(r"bias\[", text)] == [True]
    plain = source_of(DEPTHWISE_MMA, of, Epilogue())
    assert plain.count(" + ") == text.count(" + ")  # nothing is added to the results


@emulates
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("residual", [False, True])
def test_a_bias_first_or_last(layout: str, residual: bool, last: bool) -> None:
    of = Depthwise.of((1, 6, 7, 9), 3, dtype="float16", layout=layout)
    epilogue = Epilogue(bias=True, activation="relu", residual=residual)
    config = DEPTHWISE_DIRECT.gpu.nearest(of, {"tile_y": [2, 2], "tile_x": [2, 3], "bias": "last" if last else "first"})
    inputs, right, allowed = problem(of, epilogue)
    with emulation():
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
        module = emulated(*DEPTHWISE_DIRECT.program(config, of, CUDA, epilogue))
        module(*arrays)
        found = arrays[-1].numpy()
    check(found, right, allowed)
    starts = re.search(r"sums\[[^\]]*\] = .*bias\[", module.program.source)
    assert (starts is None) is last


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_elements_that_are_only_moved_keep_their_bits(dtype: str) -> None:
    """Planes that pass through shared memory one element at a time are neither widened nor rounded."""
    of = Depthwise.of((1, 4, 21, 21), dtype=dtype)
    wanted = {"planes": 1, "images": 1, "rows": 7, "columns": 1, "copies": 1, "store": "straight"}
    template = next(t for t in DEPTHWISE.strategies if t.name == "topi/depthwise.planes")
    text = source_of(template, of, Epilogue(), **wanted)
    (copied,) = re.findall(r"data_shared\[.*\] = (.*);", text)
    assert re.fullmatch(r"data\[[^\]]*\]", copied)
