"""Weights of several filters of a group: in shared memory, or in memory where no block has room for them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.topi.test_direct import check, problem
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.topi.templates import Conv2dLayer, Epilogue, direct, named
from tilewright.topi.templates.thread_tiles import Weights

CONV2D_DIRECT = named("topi/conv2d.direct")

CUDA = Target("cuda -arch=sm_90")
LARGE = Conv2dLayer.of((31, 32, 32, 5), 96, (31, 7), padding=(45, 9, 45, 9), dilation=3, dtype="float16")


def test_weights_that_no_block_has_room_for_stay_in_memory() -> None:
    """Twelve filters of 31 × 7 × 32 weights each would take 333,312 bytes."""
    config = CONV2D_DIRECT.gpu.nearest(LARGE, {"tile_f": [12], "tile_y": [32, 1], "tile_x": [5, 1], "window": "row"})
    assert config["tile_f"].size[-1] == 12
    program = build(*CONV2D_DIRECT.program(config, LARGE, CUDA), CUDA).program
    assert "__shared__" not in program.source
    assert program.binary is not None


@emulates
@pytest.mark.parametrize("window", ["row", "all"])
def test_they_are_right_there(window: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of = Conv2dLayer.of((2, 8, 6, 9), 16, 3, padding=1, groups=2)
    config = CONV2D_DIRECT.gpu.nearest(of, {"tile_f": [4], "tile_y": [2, 2], "tile_x": [3, 2], "window": window})
    assert config["tile_f"].size[-1] == 4
    epilogue = Epilogue(bias=True, activation="relu")
    inputs, right, allowed = problem(of, epilogue)
    for held, has_room in ((Weights.SHARED, True), (Weights.GLOBAL, False)):
        if not has_room:
            monkeypatch.setattr(direct, "_weights_of", lambda of, config, held=held: held)
        with emulation():
            arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
            module = emulated(*CONV2D_DIRECT.program(config, of, CUDA, epilogue))
            module(*arrays)
            found = arrays[-1].numpy()
        assert ("__shared__" in module.program.source) is has_room
        check(found, right, allowed)
