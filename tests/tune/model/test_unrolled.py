"""Which loops the model takes for written out, and which parts of fills for branches, against the compiler's own."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tune.model.padded_sums import padded_sums
from tilewright import autotvm, te
from tilewright.core.hardware import LoopKind
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.nodes import For, Store
from tilewright.topi.templates.schedule_helpers import fetch_together
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.model.work import NAMES
from tilewright.tune.task import Task, freeze

sys.path.insert(0, str(Path(__file__).parents[3] / "examples"))

import tune_conv2d  # noqa: F401  # defines a template
import tune_depthwise  # noqa: F401  # likewise

CUDA = Target.parse("cuda -arch=sm_90")
LAYER = Task("examples/conv2d", freeze((1, 7, 7, 512, 512, 3, 3, (1, 1), (1, 1))), CUDA)
DEPTHWISE = Task("examples/depthwise", freeze((3, 4, 16, 32, 7)), CUDA)


@autotvm.template("tests/fills")
def fills(shared: str, rows: tuple[int, int], columns: tuple[int, int]) -> Any:
    """Depthwise sums of four images of 32 x 32: threads and their results along each dimension; blocks share a tile of
    the image ("input") or of the padded image ("data").
    """
    image, weights, padded, out = padded_sums(4)
    s = te.create_schedule(out.op)
    tile = s.cache_read(image, "shared", [padded]) if shared == "input" else None
    s[padded].compute_inline()
    sums = s.cache_write(out, "local")
    tile = s.cache_read(padded, "shared", [sums]) if tile is None else tile
    c, y, x = out.op.axis
    y_block, y = s[out].split(y, rows[0] * rows[1])
    x_block, x = s[out].split(x, columns[0] * columns[1])
    (y, yi), (x, xi) = s[out].split(y, rows[1]), s[out].split(x, columns[1])
    s[out].reorder(c, y_block, x_block, y, x, yi, xi)
    tags = ("blockIdx.z", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x")
    for axis, tag in zip((c, y_block, x_block, y, x), tags, strict=True):
        s[out].bind(axis, te.thread_axis(tag))
    s[out].pragma(c, "auto_unroll_max_step", 0)
    s[out].pragma(c, "unroll_explicit", 0)
    s[sums].compute_at(s[out], x)
    s[sums].reorder(*sums.op.reduce_axis, *sums.op.axis)
    s[tile].compute_at(s[out], x_block)
    whole = shared == "input" and (rows[0] * rows[1], columns[0] * columns[1]) == (32, 32)
    fetch_together(s, tile, [("threadIdx.y", rows[0]), ("threadIdx.x", columns[0])], 4 if whole else 1)
    return s, [image, weights, out]


def index_of(task: Task, **wanted: Any) -> int:
    """The configuration with these choices, as data."""
    space = task.config_space
    point = []
    for knob in space.knobs:
        data = wanted.get(knob.name)
        point.append(next(i for i, choice in enumerate(knob.choices) if data is None or choice.data == data))
    return space.index(tuple(point))


def counted(task: Task, index: int) -> dict[str, float]:
    """What the model counts of a configuration."""
    points = np.array([task.config_space.point(index)], dtype=np.int64)
    return dict(zip(NAMES, Scorer(task).score(points).counts[0].tolist(), strict=True))


def iterations(task: Task, index: int) -> int:
    """The iterations of the loops around the sums that the compiler leaves."""
    with CUDA:
        schedule, tensors = task.instantiate(task.config_space.get(index))
        lowered = lower_for(CUDA, schedule, tensors)
    found = 1

    def around(stmt: Any, so_far: int) -> None:
        nonlocal found
        if isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL:
            so_far *= stmt.extent.value  # type: ignore[attr-defined]
        if isinstance(stmt, Store):
            found = max(found, so_far)
        for child in stmt.children():
            around(child, so_far)

    for function in lowered.functions:
        around(function.body, 1)
    return found


@pytest.mark.parametrize(("steps", "rolled"), [(512, 8), (1500, 1)])
def test_loads_in_a_loop_count_with_its_sums_towards_the_limit_of_steps(steps: int, rolled: int) -> None:
    index = index_of(
        LAYER, tile_f=[-1, 1, 2, 2], tile_y=[-1, 1, 7, 1], tile_x=[-1, 1, 7, 1], tile_rc=[-1, 8, 2],
        tile_ry=[-1, 1, 3], tile_rx=[-1, 3, 1], auto_unroll_max_step=steps, unroll_explicit=1,
    )  # fmt: skip
    fills = 512 // 16
    assert iterations(LAYER, index) == fills * rolled
    own = counted(LAYER, index)["loop_steps"]  # of the sums, and of the loads to registers that they share it with
    assert own == pytest.approx(2 * fills * rolled, rel=0.05)


@pytest.mark.parametrize(
    ("tile", "tails"),
    [
        ((4, 16), 1),  # 220 elements of 64 threads: some fill a fourth one
        ((8, 2), 0),  # 112 elements of 16 threads
        ((16, 4), 0),  # as 4 × 16, but the rows below the image are padding in every block
    ],
)
def test_a_part_of_a_fill_is_a_branch_if_not_all_threads_load(tile: tuple[int, int], tails: int) -> None:
    rows, columns = tile
    index = index_of(DEPTHWISE, tile_h=[-1, rows], tile_w=[-1, columns], shared_cache=1)
    assert counted(DEPTHWISE, index)["first_tails"] == tails


@pytest.mark.parametrize(
    ("shared", "tile", "alone"),
    [
        (
            "input",
            ((8, 2), (8, 2)),
            True,
        ),  # 18 rows and columns of 32: the tile extends beyond the image at its ends
        ("input", ((8, 4), (8, 4)), False),  # whole images
        ("data", ((8, 2), (8, 2)), False),  # 324 elements of 64 threads, unrolled by the compiler
        ("data", ((8, 4), (8, 4)), True),  # 1,156: a loop, whose border is tested at each element
    ],
)
def test_a_fill_waits_for_each_load_behind_a_branch_or_tested_in_a_loop(
    shared: str, tile: tuple[tuple[int, int], tuple[int, int]], alone: bool
) -> None:
    found = counted(Task("tests/fills", (shared, *tile), CUDA), 0)
    assert found["fill_alone"] == (found["fill_loads"] if alone else 0)
    assert found["fill_loads"] > 0
