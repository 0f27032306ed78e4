"""The GPU that first configurations are chosen for: the board of the target's architecture."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from tilewright.core.boards import BOARDS, Board
from tilewright.core.target import Target
from tilewright.driver import finished, lower_for
from tilewright.loops.nodes import Launch
from tilewright.loops.walk import statements
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, Depthwise, named
from tilewright.topi.templates.direct_tiles import default_choices
from tilewright.tune.model.machine import REFERENCE, Machine

CONV1D, DEPTHWISE, GEMM = named("topi/conv1d"), named("topi/depthwise"), named("topi/conv2d.gemm")
MADE_UP = {  # multiprocessors, MHz, GB/s, MiB of L2
    "narrow memory": (100, 1500, 100, 40),
    "few multiprocessors": (4, 1500, 1500, 40),
    "many multiprocessors": (600, 1500, 1500, 40),
    "small cache": (100, 1500, 1500, 1),
}


@pytest.mark.parametrize(("arch", "board"), [("sm_75", "Tesla T4"), ("sm_90", "NVIDIA H200")])
def test_a_target_counts_as_the_board_of_its_architecture(arch: str, board: str) -> None:
    found = Machine.for_models(Target(f"cuda -arch={arch}"))
    assert found.multiprocessors == BOARDS[board].multiprocessors
    assert found.hardware.name == arch


def test_other_targets_count_as_the_usual_gpu() -> None:
    assert Machine.for_models(Target("opencl")) == REFERENCE


def test_a_small_gpu_gets_larger_tiles() -> None:
    layer = Depthwise.of((1, 256, 96, 96), kernel=3)
    few, many = (default_choices(layer, replace(REFERENCE, multiprocessors=count)) for count in (8, 132))
    results = [of["tile_y"][-1] * of["tile_x"][-1] for of in (few, many)]
    assert results[0] >= results[1]
    assert few != many


def test_a_line_is_spread_over_the_multiprocessors_that_there_are() -> None:
    line = Conv1dVector.of(40_000, kernel=9)
    threads = {
        arch: CONV1D.strategy(Target(f"cuda -arch={arch}")).default_choices(line)["tile"][1]
        for arch in ("sm_75", "sm_90")
    }
    assert threads == {"sm_75": 128, "sm_90": 32}


@pytest.mark.parametrize(("name", "arch"), [*zip(MADE_UP, ("sm_61", "sm_75", "sm_89", "sm_120"), strict=True)])
def test_defaults_on_made_up_boards_keep_the_limits(monkeypatch: pytest.MonkeyPatch, name: str, arch: str) -> None:
    monkeypatch.setitem(BOARDS, name, Board(arch, *MADE_UP[name]))
    target, layer = Target(f'cuda -arch={arch} -model="{name}"'), Depthwise.of((1, 64, 28, 28), kernel=3)
    assert Machine.for_models(target).multiprocessors == MADE_UP[name][0]
    able = DEPTHWISE.able(layer, target)
    assert len(able) >= 2
    for template in able:
        program = template.program(template.default_config(layer, target), layer, target)
        (function,) = lower_for(target, *program).functions
        (launch,) = [each for each in statements(finished(function, target).body) if isinstance(each, Launch)]
        threads = [int(str(extent)) for tag, _, extent in launch.threads if tag.value.startswith("thread")]
        assert prod(threads) <= target.max_threads_per_block


def test_defaults_follow_the_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that fills few multiprocessors gets more blocks on a board that has more of them."""
    layer, blocks = Conv2dLayer.of((1, 256, 14, 14)), []
    for name in ("few multiprocessors", "many multiprocessors"):
        monkeypatch.setitem(BOARDS, name, Board("sm_80", *MADE_UP[name]))
        strategy = GEMM.strategy(Target(f'cuda -arch=sm_80 -model="{name}"'))
        blocks.append(strategy.expected(layer, strategy.default_config(layer)).blocks)
    assert blocks[0] < blocks[1]
