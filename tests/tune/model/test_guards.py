"""Which guarded loads wait for each other, and what a cache keeps, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.core.target import Target
from tilewright.topi.templates import Conv1d, Depthwise, Transposed, named
from tilewright.tune.model.scoring import Scorer

CONV1D = named("topi/conv1d")
DEPTHWISE = named("topi/depthwise")
TRANSPOSED = named("topi/conv_transpose")

CUDA = Target.parse("cuda -arch=sm_90")
LINE = {"tile_r": [16, 4], "shared": "both", "auto_unroll_max_step": 0}
IMAGE = {"tile_c": [1, 1], "tile_y": [4, 8], "tile_x": [1, 32, 1], "auto_unroll_max_step": 64}


def counted(template: Any, of: Any, **wanted: Any) -> dict[str, float]:
    """The counts of the one kernel of a configuration."""
    index = template.strategy(CUDA).nearest(of, wanted).index
    ((_, counts),) = Scorer(template.task(of, CUDA)).predictions(index)
    return {name: float(values[0]) for name, values in counts.items()}


def test_a_result_too_many_costs_nothing_and_several_a_branch_per_step() -> None:
    line = Conv1d.of(65536, 128)  # 65,663 results
    fits = counted(CONV1D, line, **LINE, tile=[1, 32, 4], unroll_explicit=0)  # one of 65,664 is not stored
    sticks_out = counted(CONV1D, line, **LINE, tile=[1, 64, 4], unroll_explicit=0)  # 129 of 65,792
    assert fits["branched"] == 0
    assert sticks_out["branched"] == 128 * 4


@pytest.mark.parametrize(("length", "branched"), [(4096 - 8, 16), (4096 - 9, 0), (4096 - 10, 16)])
def test_a_condition_on_neighbours_that_divide_the_results_is_one_branch(length: int, branched: int) -> None:
    line = Conv1d.of(length, 8)  # as many results and 7 more, two to a thread
    whole = {"tile_r": [1, 8], "shared": "both", "auto_unroll_max_step": 64, "unroll_explicit": 1}
    assert counted(CONV1D, line, **whole, tile=[1, 128, 2])["branched"] == branched


def test_guarded_loads_of_a_window_are_issued_together_and_those_of_a_sum_wait() -> None:
    images = Depthwise.of((1, 64, 32, 32))
    window = counted(DEPTHWISE, images, **IMAGE, shared="none", window="all")
    none = counted(DEPTHWISE, images, **IMAGE, shared="none", window="none")
    tile = counted(DEPTHWISE, images, **IMAGE, shared="input", window="none")
    assert window["guarded"] == 1
    assert none["guarded"] == 8 * 9
    assert tile["branched"] == 8 * 9
    assert window["branched"] == none["branched"] == 0


def test_behind_a_branch_every_result_loads_for_itself() -> None:
    images = Transposed.of((1, 16, 8, 8), 16, 4, 2, 1)
    one, eight = (
        counted(TRANSPOSED, images, threads=64, tile_x=[1], tile_f=[n], auto_unroll_max_step=64) for n in (1, 8)
    )
    assert one["guarded"] == 16 * 4
    assert eight["guarded"] == 8 * one["guarded"]


def test_a_block_reads_each_sector_of_its_window_from_the_second_level_once() -> None:
    images = Depthwise.of((1, 64, 32, 32))
    counts = counted(DEPTHWISE, images, **IMAGE, shared="none", window="all")
    rows, sectors = 32, 32 * 4 / 32 + 1  # no rows beyond the image; a row begins somewhere in a sector
    weights = 2 * 32  # nine values, two sectors
    assert counts["near_bytes"] == pytest.approx(rows * sectors * 32 + weights, rel=0.35)
    assert counts["ldg_sectors"] * 4 * 32 > 2 * counts["near_bytes"]
