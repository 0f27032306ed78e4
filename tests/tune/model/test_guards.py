"""Which guarded loads wait for each other, and what a cache keeps, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tune.model.padded_sums import padded_sums
from tilewright import autotvm, te
from tilewright.core.target import Target
from tilewright.topi.templates import Conv1dVector, Pooling, Transposed, named
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.task import Task

CONV1D = named("topi/conv1d")
POOL = named("topi/pool")
TRANSPOSED = named("topi/conv_transpose")

CUDA = Target.parse("cuda -arch=sm_90")
LINE = {"tile_r": [16, 4], "shared": "both", "auto_unroll_max_step": 0}


def counted(template: Any, of: Any, **wanted: Any) -> dict[str, float]:
    """The counts of the one kernel of a configuration."""
    return counts_of(template.task(of, CUDA), template.strategy(CUDA).nearest(of, wanted).index)


def counts_of(task: Any, index: int) -> dict[str, float]:
    """The counts of the one kernel of a task's configuration."""
    ((_, counts),) = Scorer(task).predictions(index)
    return {name: float(values[0]) for name, values in counts.items()}


@autotvm.template("tests/windows")
def windows(source: str, held: str) -> Any:
    """Depthwise sums of 64 images of 32 x 32: threads with eight rows read padded images, or hold their windows."""
    image, weights, padded, out = padded_sums(64)
    s = te.create_schedule(out.op)
    planes = s.cache_read(image, "shared", [padded]) if source == "shared" else None
    s[padded].compute_inline()
    sums = s.cache_write(out, "local")
    window = s.cache_read(padded, "local", [sums]) if held == "window" else None
    c, y, x = out.op.axis
    y, rows = s[out].split(y, factor=8)
    s[out].reorder(c, y, x, rows)
    tags = {axis: te.thread_axis(tag) for axis, tag in ((c, "blockIdx.x"), (y, "threadIdx.y"), (x, "threadIdx.x"))}
    for axis, tag in tags.items():
        s[out].bind(axis, tag)
    s[out].pragma(c, "auto_unroll_max_step", 64)
    s[out].pragma(c, "unroll_explicit", 0)
    s[sums].compute_at(s[out], x)
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    if window is not None:
        s[window].compute_at(s[out], x)
    if planes is not None:
        s[planes].compute_at(s[out], c)
        rest = s[planes].fuse(*planes.op.axis)
        for axis, count in ((y, 4), (x, 32)):
            thread, rest = s[planes].split(rest, nparts=count)
            s[planes].bind(thread, tags[axis])
    return s, [image, weights, out]


def of_windows(source: str, held: str) -> dict[str, float]:
    """The counts of the kernel of `windows`."""
    return counts_of(Task("tests/windows", (source, held), CUDA), 0)


def test_a_result_too_many_costs_nothing_and_several_a_branch_per_step() -> None:
    line = Conv1dVector.of(65536, 128)  # 65,663 results
    fits = counted(CONV1D, line, **LINE, tile=[1, 32, 4], unroll_explicit=0)  # one of 65,664 is not stored
    sticks_out = counted(CONV1D, line, **LINE, tile=[1, 64, 4], unroll_explicit=0)  # 129 of 65,792
    assert fits["branched"] == 0
    assert sticks_out["branched"] == 128 * 4


@pytest.mark.parametrize(("length", "branched"), [(4096 - 8, 16), (4096 - 9, 0), (4096 - 10, 16)])
def test_a_condition_on_neighbours_that_divide_the_results_is_one_branch(length: int, branched: int) -> None:
    line = Conv1dVector.of(length, 8)  # as many results and 7 more, two to a thread
    whole = {"tile_r": [1, 8], "shared": "both", "auto_unroll_max_step": 64, "unroll_explicit": 1}
    assert counted(CONV1D, line, **whole, tile=[1, 128, 2])["branched"] == branched


def test_guarded_loads_of_a_window_are_issued_together_and_those_of_a_sum_wait() -> None:
    window, none, tile = of_windows("memory", "window"), of_windows("memory", "no"), of_windows("shared", "no")
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
    counts = of_windows("memory", "window")
    rows, sectors = 32, 32 * 4 / 32 + 1  # no rows beyond the image; a row begins somewhere in a sector
    weights = 2 * 32  # nine values, two sectors
    assert counts["near_bytes"] == pytest.approx(rows * sectors * 32 + weights, rel=0.35)
    assert counts["ldg_sectors"] * 4 * 32 > 2 * counts["near_bytes"]


@pytest.mark.parametrize("threads", [64, 128, 256])
@pytest.mark.parametrize(("how", "evaluations"), [("max", 3), ("average", 1)])  # y > x or isnan(y) ? y : x
def test_a_reduction_computes_a_value_as_often_as_it_names_it(how: str, evaluations: int, threads: int) -> None:
    images = Pooling.of((4, 8, 16, 20), how, kernel=3, padding=1)
    counts = counted(POOL, images, threads=threads, tile_x=[1], tile_f=[1], auto_unroll_max_step=0)
    assert counts["guarded"] == counts["ldg"] == 9 * evaluations
    # 32 neighbours, also from the end of a row to the next row. They begin an element before a sector.
    assert counts["ldg_sectors"] == 9 * evaluations * (4 + 1)


def test_a_thread_finds_the_rest_of_a_sector_in_the_cache() -> None:
    images = Transposed.of((1, 16, 8, 8), 64, 3, layout="NHWC")
    counts = counted(TRANSPOSED, images, threads=64, tile_x=[1], tile_f=[1], auto_unroll_max_step=0)
    taps, pixel, window = 16 * 9, 3 * 16, 9  # a row of three pixels, or a window of weights, is one run
    data, weights = (((n - 1) * 4 / 32 + 1) / n for n in (pixel, window))
    assert counts["ldg_sectors"] == taps * (1 + 32)  # one pixel for all lanes; a filter for each
    assert counts["fresh_sectors"] == pytest.approx(taps * (data + 32 * weights))
    # Filters are nine words apart: no two lanes use the same bank.
    assert counts["near_sectors"] == pytest.approx(taps * (1 - data + 4 * (1 - weights)))


def test_data_that_all_blocks_read_are_common() -> None:
    images = Transposed.of((1, 16, 8, 8), 64, 3, layout="NHWC")
    counts = counted(TRANSPOSED, images, threads=64, tile_x=[1], tile_f=[1], auto_unroll_max_step=0)
    assert counts["common_bytes"] == 16 * 64 * 9 * 4 + 32  # they may begin within a sector
