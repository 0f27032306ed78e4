"""Transposed convolutions of stride 1 by the strategies of forward layers, which read the weights backwards."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_value
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright.core.target import Target
from tilewright.topi.templates import Depthwise, Epilogue, Transposed, named

CUDA, LLVM = Target("cuda -arch=sm_90"), Target("llvm")
BIASED = Epilogue(bias=True, activation="relu")
TOLERANCES = {"float32": 2e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}
LAYERS: dict[str, dict[str, Any]] = {
    "depthwise": {"shape": (2, 8, 9, 16), "groups": 8, "padding": 1},
    "multiplier": {"shape": (1, 4, 5, 8), "filters": 12, "groups": 4, "kernel": (2, 3), "padding": (0, 1)},
    "several channels into one": {"shape": (1, 12, 6, 7), "filters": 4, "groups": 4, "padding": 1},
    "uneven padding": {"shape": (1, 3, 1, 32), "groups": 3, "kernel": (1, 4), "padding": (0, 0, 0, 3)},
    "dilated": {"shape": (2, 4, 9, 8), "groups": 4, "padding": (2, 1), "dilation": (2, 1), "dtype": "float64"},
    "half": {"shape": (1, 2, 9, 16), "groups": 2, "kernel": 7, "padding": 3, "dtype": "float16"},
    "grouped": {"shape": (1, 16, 8, 16), "filters": 32, "groups": 4, "padding": 1, "dtype": "bfloat16"},
    "dense": {"shape": (1, 16, 4, 8), "filters": 16, "padding": 1, "dtype": "float16"},
}
CASES = list(product(LAYERS, ("NCHW", "NHWC")))
QUICK = (
    ("half", "NCHW"),
    ("several channels into one", "NCHW"),
    ("depthwise", "NHWC"),
    ("grouped", "NHWC"),
    ("dense", "NHWC"),
)


def scattered(of: Transposed, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute it as its definition says, with stride 1: each input adds to the results that it reaches."""
    images = (x if of.layout == "NCHW" else x.transpose(0, 3, 1, 2)).astype("float64")
    batch, channels, height, width = images.shape
    (top, left, bottom, right), (dy, dx), own = of.padding, of.dilation, of.filters // of.groups
    rows, columns = height + (of.kernel[0] - 1) * dy, width + (of.kernel[1] - 1) * dx
    whole = np.zeros((batch, of.filters, rows, columns))
    for c, f, ky, kx in np.ndindex(*weights.shape):
        target = c // (channels // of.groups) * own + f
        reached = whole[:, target, ky * dy : ky * dy + height, kx * dx : kx * dx + width]
        reached += images[:, c] * float(weights[c, f, ky, kx])
    cut = whole[:, :, top : rows - bottom, left : columns - right]
    return cut if of.layout == "NCHW" else cut.transpose(0, 2, 3, 1)


def strategies(of: Any, target: Target) -> list[Any]:
    able = [each for each in named(f"topi/{of.name}").of_precision("fp32") if each.covers(of, target)]
    assert able
    return able


def check(name: str, layout: str, target: Target) -> set[str]:
    """Run every strategy of a layer in its default and a random configuration; return the names of the strategies."""
    transposed = Transposed.of(**LAYERS[name], layout=layout)
    of = transposed.as_convolution
    assert of is not None
    rng = np.random.default_rng(len(name))
    x, weights = of.inputs(rng)
    bias = rng.uniform(-1, 1, of.filters).astype(x.dtype)
    sums = scattered(transposed, x, weights)
    biased = np.maximum(sums + (bias.astype("float64")[:, None, None] if layout == "NCHW" else bias), 0)
    for template in strategies(of, target):
        space = template.strategy(target).space(of)
        drawn = space.get(space.indices(space.draw(rng, 1))[0])
        for config, epilogue in ((template.default_config(of, target), Epilogue()), (drawn, BIASED)):
            made = template.program(config, of, target, epilogue)
            module = emulated(*made) if target.is_gpu else tw.build(*made, target)
            device = tw.cuda() if target.is_gpu else tw.cpu()
            given = [x, weights, bias] if epilogue.bias else [x, weights]
            out = tw.nd.array(np.full(sums.shape, np.nan, x.dtype), device)
            module(*[tw.nd.array(a, device) for a in given], out)
            wanted = biased if epilogue.bias else sums
            missed = np.linalg.norm(out.numpy().astype("float64") - wanted) / np.linalg.norm(wanted)
            assert missed <= TOLERANCES[of.dtype], (template.name, config)
    return {template.name for template in strategies(of, target)}


@pytest.mark.parametrize(("name", "layout"), each_value(LAYERS, ("NCHW", "NHWC")))
def test_results_on_a_cpu(name: str, layout: str) -> None:
    check(name, layout, LLVM)


@emulates
@pytest.mark.parametrize(
    ("name", "layout"), [each if each in QUICK else pytest.param(*each, marks=pytest.mark.slow) for each in CASES]
)
def test_results_on_a_gpu(name: str, layout: str) -> None:
    with emulation(1):
        found = check(name, layout, CUDA)
    if (name, layout) == ("half", "NCHW"):
        assert {"topi/depthwise.direct", "topi/depthwise.mma", "topi/depthwise.planes"} == found


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_the_reference_computes_the_same(name: str, layout: str) -> None:
    transposed = Transposed.of(**LAYERS[name], layout=layout)
    of = transposed.as_convolution
    assert of is not None
    x, weights = (a.astype("float64") for a in of.inputs(np.random.default_rng(0)))
    np.testing.assert_allclose(of.numpy(x, weights), scattered(transposed, x, weights), atol=1e-12)
    assert of.places == transposed.places


@pytest.mark.parametrize(
    "options",
    [{"stride": 2}, {"stride": (1, 2)}, {"padding": 3}, {"padding": (0, 0, 3, 0)}, {"output_padding": 1, "stride": 2}],
)
def test_others_stay_transposed(options: dict[str, Any]) -> None:
    assert Transposed.of((1, 4, 9, 9), groups=4, **options).as_convolution is None


def test_records_of_the_forward_layer_serve_it() -> None:
    forward = Depthwise.of((8, 96, 56, 56), 7)
    backwards = Transposed.of((8, 96, 56, 56), 96, 7, padding=3, groups=96).as_convolution
    assert backwards is not None
    assert backwards.args == forward.args
    assert backwards != forward
