"""Convolutions in groups by matrix instructions: small groups and depthwise, at awkward sizes, against float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tests.topi.test_direct import exact
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import Conv2dLayer, Depthwise, Epilogue, named

CONV2D_GROUPED = named("topi/conv2d.grouped")
DEPTHWISE_MMA = named("topi/depthwise.mma")

CUDA = Target("cuda -arch=sm_90")
EPSILON = {"float16": 1e-3, "bfloat16": 6e-3}
"""Relative errors in the L2 norm, of results rounded to 16 bits."""
EPILOGUE = Epilogue(bias=True, activation="relu")
GROUPED = (
    Conv2dLayer.of((2, 32, 8, 12), groups=4, dtype="float16"),
    Conv2dLayer.of((1, 16, 9, 17), groups=4, dtype="bfloat16", layout="NHWC"),
    Conv2dLayer.of(
        (1, 48, 7, 11), kernel=(3, 5), groups=24, padding=(1, 2, 3, 4), dtype="bfloat16"
    ),  # two channels each
    Conv2dLayer.of((2, 32, 13, 19), groups=2, stride=2, dtype="float16"),  # groups as large as a matrix
    Conv2dLayer.of((1, 16, 12, 9), groups=2, dilation=2, padding=2, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((2, 32, 1, 40), kernel=(1, 4), groups=8, padding=(0, 3, 0, 0), dtype="float16"),  # causal
)
DEPTHWISE = (
    Depthwise.of((2, 4, 9, 16), 7, dtype="float16"),  # half of a tile
    Depthwise.of((1, 2, 21, 23), 5, dtype="bfloat16"),  # odd rows: loads of single elements
    Depthwise.of((1, 2, 10, 12), 6, padding=(1, 2, 3, 4), dtype="float16"),
    Depthwise.of((2, 2, 1, 140), (1, 31), dtype="float16"),  # two matrix instructions deep
    Depthwise.of((3, 2, 1, 130), (1, 5), padding=(0, 4, 0, 0), dtype="bfloat16"),  # causal
    Depthwise.of((1, 2, 17, 30), (3, 9), padding=(0, 0, 0, 0), dtype="float16"),
)
OTHERS = {
    "float32": Conv2dLayer.of((2, 32, 16, 16), groups=4),
    "depthwise": Conv2dLayer.of((2, 32, 16, 16), groups=32, dtype="float16"),
    "rest": Conv2dLayer.of((2, 24, 16, 16), groups=3, dtype="float16"),
    "more filters": Conv2dLayer.of((2, 32, 16, 16), 64, groups=4, dtype="float16"),
    "narrow image": Conv2dLayer.of((2, 32, 16, 7), groups=4, dtype="float16"),
    "dense": Conv2dLayer.of((2, 32, 16, 16), dtype="float16"),
    "depthwise float32": Depthwise.of((2, 4, 16, 16), 7),
    "stride": Depthwise.of((2, 4, 16, 16), 7, dtype="float16", stride=2),
    "channels last": Depthwise.of((2, 4, 16, 16), 7, dtype="float16", layout="NHWC"),
    "multiplier": Depthwise.of((2, 4, 16, 16), 7, dtype="float16", multiplier=2),
    "narrow window": Depthwise.of((2, 4, 16, 16), 3, dtype="float16"),
    "small": Depthwise.of((2, 4, 3, 3), 5, dtype="float16"),
}
"""What each template leaves to others."""


def template_of(workload: Any) -> Any:
    return DEPTHWISE_MMA if isinstance(workload, Depthwise) else CONV2D_GROUPED


def cases(*workloads: Any) -> Any:
    titles = [(w, f"{type(w).__name__.lower()},{w.title.replace('  ', ',')}") for w in workloads]
    return pytest.mark.parametrize("of", [pytest.param(w, id=title) for w, title in titles])


def problem(of: Any) -> tuple[list[np.ndarray], np.ndarray]:
    """Data, weights and bias as they lie in memory; and the right result, in float64."""
    rng = np.random.default_rng(0)
    data, weights = of.inputs(rng)
    bias = rng.uniform(-1, 1, of.channels).astype(data.dtype)
    along = [1] * 4
    along[of.channel_axis] = of.channels
    return [data, weights, bias], np.maximum(exact(of, data, weights) + bias.astype("float64").reshape(along), 0)


def check(found: np.ndarray, wanted: np.ndarray, of: Any) -> None:
    off = np.linalg.norm(found.astype("float64") - wanted) / np.linalg.norm(wanted)
    assert off <= EPSILON[of.dtype], off


@cases(*GROUPED, *DEPTHWISE)
def test_by_the_interpreter(of: Any) -> None:
    template = template_of(of)
    order = template.gpu.rank(of)
    last = [order[-1]] if of in DEPTHWISE else [{**order[-1], "vector": 4}] if of in GROUPED[:2] else []
    inputs, wanted = problem(of)
    for choices in (order[0], *last):
        schedule, args = template.program(template.gpu.nearest(of, choices), of, CUDA, EPILOGUE)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
        out = np.full(wanted.shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, wanted, of)


@cases(*GROUPED[:2], *DEPTHWISE[:4:3])
def test_kernels_compile_without_spills(of: Any) -> None:
    template = template_of(of)
    made = build(*template.program(template.default_config(of, CUDA), of, CUDA, EPILOGUE), CUDA)
    (used,) = made.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    assert "mma.sync.aligned.m16n8k16" in made.program.source


@pytest.mark.cuda
@cases(*GROUPED, *DEPTHWISE)
def test_on_a_gpu(of: Any) -> None:
    template = template_of(of)
    order = template.gpu.rank(of)
    inputs, wanted = problem(of)
    for choices in order[:: max(1, len(order) // 6)]:
        module = build(*template.program(template.gpu.nearest(of, choices), of, CUDA, EPILOGUE), CUDA)
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(wanted.shape, np.nan, inputs[0].dtype))]
        module(*arrays)
        check(arrays[-1].numpy(), wanted, of)


def test_every_choice_of_the_model_is_in_the_space() -> None:
    of = Depthwise.of((4, 8, 28, 28), 7, dtype="float16")
    order = DEPTHWISE_MMA.gpu.rank(of)
    for choices in order[:: len(order) // 9]:
        config = DEPTHWISE_MMA.gpu.nearest(of, choices)
        assert config["tile_y"].size[1:] == choices["tile_y"]
        assert config["tile_x"].size[1:] == choices["tile_x"]
        assert (config["planes"].val, config["images"].val) == (choices["planes"], choices["images"])


@pytest.mark.parametrize("of", OTHERS.values(), ids=OTHERS)
def test_what_they_leave_to_others(of: Any) -> None:
    assert not template_of(of).covers(of, CUDA)


@cases(GROUPED[0], DEPTHWISE[0])
def test_they_need_the_instruction(of: Any) -> None:
    assert template_of(of).covers(of, CUDA)
    assert not template_of(of).covers(of, Target("cuda -arch=sm_75"))
