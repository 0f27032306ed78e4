"""Depthwise convolutions by matrix instructions: images of every awkward size, against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import DEPTHWISE_MMA, Depthwise, Epilogue

CUDA = Target("cuda -arch=sm_90")
KINDS = {"float16": (np.dtype("float16"), 1e-3), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 6e-3)}
WORKLOADS = (
    Depthwise.of((2, 4, 9, 16), 7, dtype="float16"),  # half of a tile
    Depthwise.of((1, 2, 21, 23), 5, dtype="bfloat16"),  # odd rows: loads of single elements
    Depthwise.of((1, 2, 10, 12), 6, padding=(1, 2, 3, 4), dtype="float16"),
    Depthwise.of((2, 2, 1, 140), (1, 31), dtype="float16"),  # two matrix instructions deep
    Depthwise.of((3, 2, 1, 130), (1, 5), padding=(0, 4, 0, 0), dtype="bfloat16"),  # causal
    Depthwise.of((1, 2, 17, 30), (3, 9), padding=(0, 0, 0, 0), dtype="float16"),
)
EPILOGUE = Epilogue(bias=True, activation="relu")


def inputs_of(of: Depthwise) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Data, weights and bias; what is right, in float64; and the relative error that is allowed."""
    kind, allowed = KINDS[of.dtype]
    rng = np.random.default_rng(0)
    shapes = (of.shape, (of.shape[1], 1, *of.kernel), (of.shape[1],))
    data, weights, bias = (rng.uniform(-1, 1, shape).astype(kind) for shape in shapes)
    top, left, bottom, right = of.padding
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    sums = np.zeros(of.out_shape)
    for i, j in np.ndindex(*of.kernel):
        window = padded[:, :, i : i + of.places[0], j : j + of.places[1]]
        sums += window * weights[None, :, 0, i, j, None, None].astype("float64")
    return [data, weights, bias], np.maximum(sums + bias[:, None, None].astype("float64"), 0), allowed


def check(found: np.ndarray, wanted: np.ndarray, allowed: float) -> None:
    assert np.linalg.norm(found.astype("float64") - wanted) <= allowed * np.linalg.norm(wanted)


@pytest.mark.parametrize("of", WORKLOADS, ids=lambda of: of.title.replace("  ", ","))
def test_by_the_interpreter(of: Depthwise) -> None:
    order = DEPTHWISE_MMA.gpu.order(of)
    inputs, wanted, allowed = inputs_of(of)
    for choices in (order[0], order[-1]):
        config = DEPTHWISE_MMA.gpu.nearest(of, choices)
        schedule, args = DEPTHWISE_MMA.program(config, of, CUDA, EPILOGUE)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], "cuda -arch=sm_90", check=True)
        out = np.full(of.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, wanted, allowed)


@pytest.mark.parametrize("of", WORKLOADS[:4:3], ids=lambda of: of.title.replace("  ", ","))
def test_kernels_compile_without_spills(of: Depthwise) -> None:
    program = DEPTHWISE_MMA.program(DEPTHWISE_MMA.first(of.args, CUDA), of, CUDA, EPILOGUE)
    made = build(*program, CUDA)
    (used,) = made.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    assert "mma.sync.aligned.m16n8k16" in made.program.source


@pytest.mark.cuda
@pytest.mark.parametrize("of", WORKLOADS, ids=lambda of: of.title.replace("  ", ","))
def test_on_a_gpu(of: Depthwise) -> None:
    order = DEPTHWISE_MMA.gpu.order(of)
    inputs, wanted, allowed = inputs_of(of)
    for choices in order[:: max(1, len(order) // 6)]:
        module = build(*DEPTHWISE_MMA.program(DEPTHWISE_MMA.gpu.nearest(of, choices), of, CUDA, EPILOGUE), CUDA)
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(of.out_shape, np.nan, inputs[0].dtype))]
        module(*arrays)
        check(arrays[-1].numpy(), wanted, allowed)


def test_every_choice_of_the_model_is_in_the_space() -> None:
    of = Depthwise.of((4, 8, 28, 28), 7, dtype="float16")
    order = DEPTHWISE_MMA.gpu.order(of)
    configs = [DEPTHWISE_MMA.gpu.nearest(of, choices) for choices in order[:: len(order) // 9]]
    for choices, config in zip(order[:: len(order) // 9], configs, strict=True):
        assert config["tile_y"].size[1:] == choices["tile_y"]
        assert config["tile_x"].size[1:] == choices["tile_x"]
        assert (config["planes"].val, config["images"].val) == (choices["planes"], choices["images"])


@pytest.mark.parametrize(
    "of",
    [
        Depthwise.of((2, 4, 16, 16), 7),
        Depthwise.of((2, 4, 16, 16), 7, dtype="float16", stride=2),
        Depthwise.of((2, 4, 16, 16), 7, dtype="float16", layout="NHWC"),
        Depthwise.of((2, 4, 16, 16), 7, dtype="float16", multiplier=2),
        Depthwise.of((2, 4, 16, 16), 3, dtype="float16"),
        Depthwise.of((2, 4, 3, 3), 5, dtype="float16"),
    ],
    ids="float32 stride channels-last multiplier narrow small".split(),
)
def test_what_it_leaves_to_others(of: Depthwise) -> None:
    assert not DEPTHWISE_MMA.covers(of, CUDA)
    assert not DEPTHWISE_MMA.covers(Depthwise.of((2, 4, 16, 16), 7, dtype="float16"), Target("cuda -arch=sm_75"))
