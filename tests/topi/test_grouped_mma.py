"""Convolutions in small groups by matrix instructions: images of every awkward size, against float64."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import CONV2D_GROUPED, Conv2d, Epilogue

CUDA = Target("cuda -arch=sm_90")
KINDS = {"float16": (np.dtype("float16"), 1e-3), "bfloat16": (np.dtype(ml_dtypes.bfloat16), 6e-3)}
WORKLOADS = (
    Conv2d.of((2, 32, 8, 12), groups=4, dtype="float16"),
    Conv2d.of((1, 16, 9, 17), groups=4, dtype="bfloat16", layout="NHWC"),
    Conv2d.of((1, 48, 7, 11), kernel=(3, 5), groups=24, padding=(1, 2, 3, 4), dtype="bfloat16"),  # two channels each
    Conv2d.of((2, 32, 13, 19), groups=2, stride=2, dtype="float16"),  # groups as large as a matrix
    Conv2d.of((1, 16, 12, 9), groups=2, dilation=2, padding=2, dtype="float16", layout="NHWC"),
    Conv2d.of((2, 32, 1, 40), kernel=(1, 4), groups=8, padding=(0, 3, 0, 0), dtype="float16"),  # causal
)
EPILOGUE = Epilogue(bias=True, activation="relu")
LAST = (0, 2, 3, 1)


def inputs_of(of: Conv2d) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Data, weights and bias as they lie in memory; what is right, in float64; the relative error that is allowed."""
    kind, allowed = KINDS[of.dtype]
    rng = np.random.default_rng(0)
    each = of.shape[1] // of.groups
    shapes = (of.shape, (of.filters, each, *of.kernel), (of.filters,))
    data, weights, bias = (rng.uniform(-1, 1, shape).astype(kind) for shape in shapes)
    top, left, bottom, right = of.padding
    padded = np.pad(data.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    sums = np.zeros((of.shape[0], of.filters, *of.places))
    for f, c, i, j in np.ndindex(of.filters, each, *of.kernel):
        seen = padded[:, f // each * each + c, i * of.dilation[0] :, j * of.dilation[1] :]
        seen = seen[:, :: of.stride[0], :: of.stride[1]][:, : of.places[0], : of.places[1]]
        sums[:, f] += seen * float(weights[f, c, i, j])
    wanted = np.maximum(sums + bias[:, None, None].astype("float64"), 0)
    last = of.layout == "NHWC"
    return (
        [data.transpose(LAST).copy() if last else data, weights, bias],
        wanted.transpose(LAST) if last else wanted,
        allowed,
    )


def check(found: np.ndarray, wanted: np.ndarray, allowed: float) -> None:
    assert np.linalg.norm(found.astype("float64") - wanted) <= allowed * np.linalg.norm(wanted)


@pytest.mark.parametrize("of", WORKLOADS, ids=lambda of: of.title.replace("  ", ","))
def test_by_the_interpreter(of: Conv2d) -> None:
    order = CONV2D_GROUPED.gpu.order(of)
    inputs, wanted, allowed = inputs_of(of)
    last = [{**order[-1], "vector": 4}] if of in WORKLOADS[:2] else []
    for choices in (order[0], *last):
        config = CONV2D_GROUPED.gpu.nearest(of, choices)
        schedule, args = CONV2D_GROUPED.program(config, of, CUDA, EPILOGUE)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], "cuda -arch=sm_90", check=True)
        out = np.full(wanted.shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, wanted, allowed)


@pytest.mark.parametrize("of", WORKLOADS[:2], ids=lambda of: of.title.replace("  ", ","))
def test_kernels_compile_without_spills(of: Conv2d) -> None:
    program = CONV2D_GROUPED.program(CONV2D_GROUPED.first(of.args, CUDA), of, CUDA, EPILOGUE)
    made = build(*program, CUDA)
    (used,) = made.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    assert "mma.sync.aligned.m16n8k16" in made.program.source


@pytest.mark.cuda
@pytest.mark.parametrize("of", WORKLOADS, ids=lambda of: of.title.replace("  ", ","))
def test_on_a_gpu(of: Conv2d) -> None:
    order = CONV2D_GROUPED.gpu.order(of)
    inputs, wanted, allowed = inputs_of(of)
    for choices in order[:: max(1, len(order) // 6)]:
        module = build(*CONV2D_GROUPED.program(CONV2D_GROUPED.gpu.nearest(of, choices), of, CUDA, EPILOGUE), CUDA)
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(wanted.shape, np.nan, inputs[0].dtype))]
        module(*arrays)
        check(arrays[-1].numpy(), wanted, allowed)


@pytest.mark.parametrize(
    "of",
    [
        Conv2d.of((2, 32, 16, 16), groups=4),
        Conv2d.of((2, 32, 16, 16), groups=32, dtype="float16"),
        Conv2d.of((2, 24, 16, 16), groups=3, dtype="float16"),
        Conv2d.of((2, 32, 16, 16), 64, groups=4, dtype="float16"),
        Conv2d.of((2, 32, 16, 7), groups=4, dtype="float16"),
        Conv2d.of((2, 32, 16, 16), dtype="float16"),
    ],
    ids="float32 depthwise rest more-filters narrow dense".split(),
)
def test_what_it_leaves_to_others(of: Conv2d) -> None:
    assert not CONV2D_GROUPED.covers(of, CUDA)
    assert not CONV2D_GROUPED.covers(Conv2d.of((2, 32, 16, 16), groups=4, dtype="float16"), Target("cuda -arch=sm_75"))
