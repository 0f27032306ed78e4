"""Depthwise convolutions along lines with channels last, on the emulated GPU, against sums from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tilewright.core.target import Target
from tilewright.topi.templates import Depthwise, Epilogue, named

LINES, CUDA = named("topi/depthwise.lines"), Target("cuda -arch=sm_90")
TOLERANCES = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 1e-2}
LAYERS: dict[str, dict[str, Any]] = {
    "centred": {"shape": (2, 32, 100), "kernel": 31, "padding": 15, "dtype": "bfloat16"},
    "causal, odd channels": {"shape": (1, 24, 70), "kernel": 12, "padding": (11, 0), "dtype": "float16"},
    "dilated": {"shape": (1, 16, 90), "kernel": 13, "padding": (24, 0), "dilation": 2},
    "shorter than a stretch": {"shape": (3, 8, 20), "kernel": 15, "padding": 7, "dtype": "float16"},
    "no padding": {"shape": (1, 64, 150), "kernel": 16, "padding": 0, "dtype": "bfloat16"},
}


def summed(of: Depthwise, x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sum the taps of each place, in float64."""
    (_, left, _, right), apart = of.padding, of.dilation[1]
    padded = np.pad(x.astype("float64"), ((0, 0), (0, 0), (left, right), (0, 0)))
    places = of.places[1]
    parts = [
        padded[:, :, i * apart : i * apart + places] * weights[:, 0, 0, i].astype("float64")
        for i in range(of.kernel[1])
    ]
    made: np.ndarray = np.sum(parts, axis=0)
    return made


@emulates
@pytest.mark.parametrize("name", LAYERS)
def test_results(name: str) -> None:
    """In the default configuration and random ones, with and without an epilogue, on poisoned output."""
    of = Depthwise.of(**LAYERS[name], layout="NWC")
    rng = np.random.default_rng(len(name))
    x, weights = of.inputs(rng)
    bias = rng.uniform(-1, 1, of.filters).astype(x.dtype)
    space = LINES.strategy(CUDA).space(of)
    drawn = [space.get(index) for index in space.indices(space.draw(rng, 2))]
    with emulation(1):
        for config in (LINES.default_config(of, CUDA), *drawn):
            fused = config in drawn
            wanted = summed(of, x, weights)
            wanted = np.maximum(wanted + bias.astype("float64"), 0) if fused else wanted
            out = tw.nd.array(np.full(wanted.shape, np.nan, x.dtype), tw.cuda())
            made = LINES.program(config, of, CUDA, Epilogue(bias=fused, activation="relu" if fused else None))
            emulated(*made)(*[tw.nd.array(a, tw.cuda()) for a in ([x, weights, bias] if fused else [x, weights])], out)
            missed = np.linalg.norm(out.numpy().astype("float64") - wanted) / np.linalg.norm(wanted)
            assert missed <= TOLERANCES[of.dtype], config


def test_copies_are_under_way_during_the_sums() -> None:
    """A loop over stretches waits for the oldest copies only, and all threads meet once in it."""
    of = Depthwise.of((2, 64, 512), 31, padding=15, layout="NWC", dtype="bfloat16")
    config = LINES.strategy(CUDA).nearest(of, {"tile_c": [32, 2], "tile_x": [4, 4, 16], "copies": 3})
    source = emulated(*LINES.program(config, of, CUDA)).program.source
    loop = source[source.index("_slot[0] = 0") :]
    assert loop.count("wait_group") == loop.count("__syncthreads") == 1
    assert "wait_group 1" in loop


@pytest.mark.parametrize(
    "options",
    [{"kernel": 7}, {"kernel": 31, "stride": 2}, {"kernel": 31, "layout": "NCW"}, {"kernel": 31, "dtype": "float64"}],
)
def test_other_layers_are_left_to_other_strategies(options: dict[str, Any]) -> None:
    assert not LINES.covers(Depthwise.of((1, 16, 200), **{"layout": "NWC", **options}), CUDA)
