"""The GPU that first configurations are chosen for: the board of the target's architecture."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.boards import BOARDS
from tilewright.core.target import Target
from tilewright.topi.templates import Conv1d, Depthwise, named
from tilewright.topi.templates.direct_tiles import usual
from tilewright.tune.model.machine import REFERENCE, Machine

CONV1D = named("topi/conv1d")


@pytest.mark.parametrize(("arch", "board"), [("sm_75", "Tesla T4"), ("sm_90", "NVIDIA H200")])
def test_a_target_counts_as_the_board_of_its_architecture(arch: str, board: str) -> None:
    found = Machine.for_models(Target(f"cuda -arch={arch}"))
    assert found.multiprocessors == BOARDS[board].multiprocessors
    assert found.hardware.name == arch


def test_other_targets_count_as_the_usual_gpu() -> None:
    assert Machine.for_models(Target("opencl")) == REFERENCE


def test_a_small_gpu_gets_larger_tiles() -> None:
    layer = Depthwise.of((1, 256, 96, 96), kernel=3)
    few, many = (usual(layer, replace(REFERENCE, multiprocessors=count)) for count in (8, 132))
    results = [of["tile_y"][-1] * of["tile_x"][-1] for of in (few, many)]
    assert results[0] >= results[1]
    assert few != many


def test_a_line_is_spread_over_the_multiprocessors_that_there_are() -> None:
    line = Conv1d.of(40_000, kernel=9)
    threads = {
        arch: CONV1D.strategy(Target(f"cuda -arch={arch}")).usual(line)["tile"][1] for arch in ("sm_75", "sm_90")
    }
    assert threads == {"sm_75": 128, "sm_90": 32}
