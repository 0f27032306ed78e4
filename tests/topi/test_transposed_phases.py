"""Transposed depthwise convolutions by phases on the emulated GPU, against sums from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.covering import each_value
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright.core.target import Target
from tilewright.topi.templates import Epilogue, Transposed, named

PHASES, CUDA = named("topi/conv_transpose.phases"), Target("cuda -arch=sm_90")
TOLERANCES = {"float32": 2e-6, "float64": 1e-12, "float16": 2e-3, "bfloat16": 1e-2}
LAYERS: dict[str, dict[str, Any]] = {
    "3x3, step 2": {"shape": (2, 4, 6, 8), "stride": 2, "padding": 1, "output_padding": 1},
    "whole windows": {"shape": (1, 8, 3, 4), "kernel": 4, "stride": 2, "padding": 1, "dtype": "float16"},
    "odd sizes": {"shape": (1, 5, 5, 6), "kernel": (5, 3), "stride": (2, 3), "padding": (2, 0), "dtype": "float64"},
    "fewer taps than phases": {"shape": (1, 4, 5, 6), "kernel": (2, 1), "stride": (3, 2), "output_padding": 1},
    "uneven border": {"shape": (1, 4, 6, 4), "kernel": 4, "stride": 2, "padding": (1, 0, 2, 1), "dtype": "bfloat16"},
    "a window that is cut off": {"shape": (1, 2, 4, 4), "kernel": 5, "stride": 2, "padding": 3},
    "a line": {"shape": (2, 8, 1, 16), "kernel": (1, 7), "stride": (1, 2), "padding": (0, 3), "output_padding": (0, 1)},
    "one dimension dilated": {"shape": (1, 4, 6, 10), "stride": (1, 2), "dilation": (2, 1), "padding": (2, 1)},
}


def scattered(of: Transposed, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Compute it as its definition says: each input adds to the results it reaches."""
    images = (x if of.layout == "NCHW" else x.transpose(0, 3, 1, 2)).astype("float64")
    batch, channels, height, width = images.shape
    (top, left, *_), (sy, sx), (dy, dx), (rows, columns) = of.padding, of.stride, of.dilation, of.places
    whole = np.zeros((batch, channels, top + rows + 99, left + columns + 99))
    for c, ky, kx, y, x_ in np.ndindex(channels, *of.kernel, height, width):
        at = y * sy + ky * dy, x_ * sx + kx * dx
        whole[:, c, at[0], at[1]] += images[:, c, y, x_] * float(weights[c, 0, ky, kx])
    cut = whole[:, :, top : top + rows, left : left + columns]
    return cut if of.layout == "NCHW" else cut.transpose(0, 2, 3, 1)


@emulates
@pytest.mark.parametrize(("name", "layout"), each_value(LAYERS, ["NCHW", "NHWC"]))
def test_results(name: str, layout: str) -> None:
    """In the default configuration and a random one, with and without an epilogue, on poisoned output."""
    options = LAYERS[name]
    of = Transposed.of(**options, groups=options["shape"][1], layout=layout)
    rng = np.random.default_rng(len(name))
    x, weights = of.inputs(rng)
    bias = rng.uniform(-1, 1, of.filters).astype(x.dtype)
    sums = scattered(of, x, weights)
    biased = np.maximum(sums + (bias.astype("float64")[:, None, None] if layout == "NCHW" else bias), 0)
    space = PHASES.strategy(CUDA).space(of)
    drawn = [space.get(index) for index in space.indices(space.draw(rng, 1))]
    with emulation(1):
        for config in (PHASES.default_config(of, CUDA), *drawn):
            epilogue = Epilogue(bias=True, activation="relu") if config in drawn else Epilogue()
            given = [x, weights, bias] if epilogue.bias else [x, weights]
            out = tw.nd.array(np.full(sums.shape, np.nan, x.dtype), tw.cuda())
            emulated(*PHASES.program(config, of, CUDA, epilogue))(*[tw.nd.array(a, tw.cuda()) for a in given], out)
            wanted = biased if epilogue.bias else sums
            missed = np.linalg.norm(out.numpy().astype("float64") - wanted) / np.linalg.norm(wanted)
            assert missed <= TOLERANCES[of.dtype], config


def test_no_tap_is_computed_that_a_phase_does_not_have() -> None:
    """Of a 3 × 3 window with step 2, the four phases have 1, 2, 2 and 4 taps: 9 products for 4 results."""
    of = Transposed.of((1, 4, 8, 8), 4, 3, 2, 1, 1, groups=4)
    config = PHASES.strategy(CUDA).nearest(of, {"tile_y": [1, 2], "tile_x": [1, 4], "chunk": 2})
    source = emulated(*PHASES.program(config, of, CUDA)).program.source
    assert source.count(" * weights[") == 18


@pytest.mark.parametrize(
    "options",
    [
        {"filters": 8, "groups": 2},
        {"filters": 8, "groups": 4},
        {"groups": 4},
        {"groups": 4, "stride": 2, "dilation": 2},
    ],
)
def test_other_layers_are_left_to_the_general_strategy(options: dict[str, Any]) -> None:
    assert not PHASES.covers(Transposed.of((1, 4, 8, 8), **options), CUDA)
