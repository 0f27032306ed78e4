"""Windows over channels-last images by matrix instructions: what they compute, with partial tiles and strides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.running import finish
from tests.topi.test_contraction import EPILOGUES, cases, problem
from tests.topi.test_mma import CUDA, EPSILON, check
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.array import array
from tilewright.runtime.device import device
from tilewright.topi.templates import Conv2dLayer, named
from tilewright.topi.templates.window_mma import WindowBlock

CONV2D = named("topi/conv2d")
CONV2D_MMA = named("topi/conv2d.mma")
CONV2D_WINDOW = named("topi/conv2d.window")

CHANNELS_LAST = {"layout": "NHWC", "dtype": "float16", "weights": "OHWI"}
WORKLOADS = (
    Conv2dLayer.of((1, 16, 9, 17), 24, **CHANNELS_LAST),
    Conv2dLayer.of((1, 16, 11, 20), 16, stride=2, padding=(1, 0), **CHANNELS_LAST),
    Conv2dLayer.of((2, 16, 6, 9), 8, kernel=(2, 5), dilation=(2, 1), layout="NHWC", dtype="bfloat16"),
)
WANTED = (
    {"rows": [1, 4], "columns": [2, 8], "filters": [1, 16], "tiles": 2, "stages": 2, "store": "fragments"},
    {"rows": [2, 2], "columns": [1, 8], "filters": [1, 8], "tiles": 3, "stages": 1, "store": "shared"},
    {"rows": [2, 1], "columns": [1, 16], "filters": [2, 8], "tiles": 1, "stages": 1, "store": "fragments"},
)


def configs(workload):
    strategy = CONV2D_WINDOW.strategy(CUDA)
    return [strategy.default_config(workload), *(strategy.nearest(workload, wanted) for wanted in WANTED)]


@pytest.mark.parametrize("workload", cases(WORKLOADS))
def test_by_the_interpreter(workload):
    """With races and reads of unwritten memory found; NVRTC compiles it."""
    for config, epilogue in zip(configs(workload)[1:3], EPILOGUES[1:3], strict=True):
        inputs, right = problem(workload, epilogue)
        schedule, args = CONV2D_WINDOW.program(config, workload, CUDA, epilogue)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
        out = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, EPSILON[workload.dtype])
    assert "mma.sync" in build(schedule, args, CUDA).program.source


@pytest.mark.cuda
@pytest.mark.parametrize("workload", cases(WORKLOADS))
def test_on_cuda(workload):
    for number, config in enumerate(configs(workload)):
        epilogue = EPILOGUES[number % len(EPILOGUES)]
        inputs, right = problem(workload, epilogue)
        module = build(*CONV2D_WINDOW.program(config, workload, Target("cuda"), epilogue), "cuda")
        poison = np.full(workload.out_shape, np.nan, inputs[0].dtype)
        arrays = [array(values, device=device("cuda")) for values in (*inputs, poison)]
        module(*arrays)
        check(arrays[-1].numpy(), right, EPSILON[workload.dtype])


def test_the_image_is_fetched_once_per_tile():
    """Taps differ in what they add to addresses of shared memory; copies stand in front of all of them."""
    workload = Conv2dLayer.of((8, 64, 56, 56), **CHANNELS_LAST)
    wanted = {"rows": [1, 4], "columns": [7, 8], "filters": [1, 64], "tiles": 7, "stages": 2, "store": "shared"}
    config = CONV2D_WINDOW.strategy(CUDA).nearest(workload, wanted)
    assert WindowBlock.of(config) == WindowBlock((1, 4), (7, 8), (1, 64), 7, 2, True)
    program = build(*CONV2D_WINDOW.program(config, workload, CUDA), CUDA).program
    head, loop, tiles = program.source.partition("for (int n_y_o_x_oi = 0")
    assert loop
    assert "weights" in head
    assert "weights" not in tiles
    assert tiles.rindex("data") < tiles.index("mma_float16")
    assert all(used.spill_store_bytes == 0 for used in program.resources.values())


def test_what_it_is_for():
    able = Conv2dLayer.of((8, 64, 56, 56), **CHANNELS_LAST)
    assert CONV2D_WINDOW.covers(able, CUDA)
    without_warpgroups = Target("cuda -arch=sm_80")
    assert CONV2D.choose(able, without_warpgroups)[0] in (CONV2D_WINDOW, CONV2D_MMA)
    wide = Conv2dLayer.of((1, 256, 14, 14), **CHANNELS_LAST)
    assert CONV2D_WINDOW.covers(wide, CUDA)
    assert CONV2D.choose(wide, without_warpgroups)[0] is CONV2D_MMA
    for other in (
        Conv2dLayer.of((8, 64, 56, 56), kernel=1, padding=0, **CHANNELS_LAST),
        Conv2dLayer.of((8, 64, 56, 56), groups=2, **CHANNELS_LAST),
        Conv2dLayer.of((8, 24, 56, 56), **CHANNELS_LAST),
        Conv2dLayer.of((8, 64, 56, 56), dtype="float16"),
        Conv2dLayer.of((8, 64, 56, 56), layout="NHWC"),
    ):
        assert not CONV2D_WINDOW.covers(other, CUDA)
    assert not CONV2D_WINDOW.covers(able, Target("opencl -device=gpu"))
