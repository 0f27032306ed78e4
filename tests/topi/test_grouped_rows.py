"""Convolutions in small groups over pairs of rows: at awkward sizes, strides and dilations, against float64."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.passes.running import finish
from tests.topi.test_groups_mma import CUDA, EPILOGUE, cases, check, problem
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import Conv2dLayer, named
from tilewright.topi.templates.grouped_rows import RowPairBlock, blocks

CONV2D = named("topi/conv2d")
CONV2D_ROWS = named("topi/conv2d.grouped_rows")

LAYERS = (
    Conv2dLayer.of((2, 16, 8, 12), groups=2, dtype="float16"),
    Conv2dLayer.of((1, 16, 9, 17), groups=4, dtype="bfloat16", layout="NHWC"),
    Conv2dLayer.of(
        (1, 48, 7, 11), kernel=(3, 5), groups=24, padding=(1, 2, 3, 4), dtype="bfloat16"
    ),  # loads of one column
    Conv2dLayer.of((1, 16, 13, 18), groups=2, stride=2, dtype="float16"),
    Conv2dLayer.of((1, 16, 12, 9), groups=2, dilation=2, padding=2, dtype="float16", layout="NHWC"),
    Conv2dLayer.of((2, 32, 1, 40), kernel=(1, 4), groups=8, padding=(0, 3, 0, 0), dtype="float16"),  # one row of a pair
    Conv2dLayer.of(
        (1, 16, 14, 16), groups=4, kernel=(5, 3), padding=2, stride=(3, 1), dilation=(3, 2), dtype="float16"
    ),
    Conv2dLayer.of((1, 32, 10, 18), groups=8, stride=2, layout="NHWC", dtype="float16"),
)
OTHERS = {
    "float32": Conv2dLayer.of((2, 32, 16, 16), groups=4),
    "large groups": Conv2dLayer.of((2, 32, 16, 16), groups=2, dtype="float16"),
    "more filters": Conv2dLayer.of((2, 32, 16, 16), 64, groups=4, dtype="float16"),
    "narrow image": Conv2dLayer.of((2, 32, 16, 7), groups=4, dtype="float16"),
}
"""What it leaves to others."""


def some(of: Conv2dLayer, count: int, seed: int = 0) -> list[dict[str, Any]]:
    """What the model likes best, and choices at random."""
    order = list(CONV2D_ROWS.gpu.rank(of))
    return [order[0], *Random(seed).sample(order[1:], count - 1)]


@cases(*LAYERS)
def test_by_the_interpreter(of: Any) -> None:
    inputs, wanted = problem(of)
    for choices in some(of, 2)[LAYERS.index(of) % 2 :][:1]:
        schedule, args = CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, choices), of, CUDA, EPILOGUE)
        finished = finish(lower_for(CUDA, schedule, args).functions[0], str(CUDA), check=True)
        out = np.full(wanted.shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, wanted, of)


@emulates
@cases(*(of for of in LAYERS if of.layout == "NCHW" and of.places[0] > 1))
def test_planes_pass_through_shared_memory(of: Any) -> None:
    inputs, wanted = problem(of)
    staged = [block for block in blocks(of) if block.staged]
    for block in Random(1).sample(staged, 2):
        program = CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, block.wanted()), of, CUDA, EPILOGUE)
        with emulation():
            arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(wanted.shape, np.nan, inputs[0].dtype))]
            emulated(*program)(*arrays)
            check(arrays[-1].numpy(), wanted, of)


def test_planes_that_passed_through_shared_memory_are_stored_in_vectors() -> None:
    of = Conv2dLayer.of((2, 32, 28, 28), groups=4, dtype="float16")
    wanted = next(each for each in CONV2D_ROWS.gpu.rank(of) if each["store"] == "shared" and each["vector"] == 2)
    source = build(*CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, wanted), of, CUDA), CUDA).program.source
    assert "*(uint2*)(result" in source  # of the 28 columns of a row
    assert "*(unsigned int*)(result" not in source


def test_a_block_holds_its_tile_of_the_image_and_no_more() -> None:
    """Also where results that pass through shared memory are of several images and packs of channels."""
    of = Conv2dLayer.of((2, 32, 56, 56), groups=8, dtype="float16")
    staged = [block for block in blocks(of) if block.staged]
    assert not [block for block in staged if block.products % 2]  # the last round would have threads to spare
    for block in (max(staged, key=lambda block: block.warps), *Random(2).sample(staged, 2)):
        made = build(*CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, block.wanted()), of, CUDA), CUDA)
        (used,) = made.resources.values()
        assert used.shared_bytes <= block.shared(of)


@cases(LAYERS[0], LAYERS[1], LAYERS[3])
def test_kernels_compile_without_spills(of: Any) -> None:
    for choices in some(of, 2):
        made = build(*CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, choices), of, CUDA, EPILOGUE), CUDA)
        (used,) = made.resources.values()
        assert used.spill_store_bytes == used.stack_bytes == 0
        assert "mma.sync.aligned.m16n8k16" in made.program.source


@pytest.mark.cuda
@cases(*LAYERS)
def test_on_a_gpu(of: Any) -> None:
    inputs, wanted = problem(of)
    for choices in some(of, 6):
        module = build(*CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, choices), of, CUDA, EPILOGUE), CUDA)
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(wanted.shape, np.nan, inputs[0].dtype))]
        module(*arrays)
        check(arrays[-1].numpy(), wanted, of)


def test_columns_are_loaded_as_vectors_and_turned_without_conversions() -> None:
    of = Conv2dLayer.of((2, 32, 28, 28), groups=4, dtype="float16")
    choices = {**CONV2D_ROWS.gpu.default_choices(of), "turn": 4}
    program = CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, choices), of, CUDA)
    source = build(*program, CUDA).program.source
    assert source.count("*(const uint2*)(data") == 8
    assert "make_uint4(word_of_2(columns[0], columns[4])" in source
    assert "float16_value(columns" not in source


def test_a_lane_stores_neighbours() -> None:
    of = Conv2dLayer.of((2, 32, 16, 32), groups=4, dtype="float16")
    for vector, kind in ((2, "unsigned int"), (4, "uint2"), (8, "uint4")):
        order = CONV2D_ROWS.gpu.rank(of)
        wanted = next(each for each in order if each["vector"] == vector and each["store"] == "fragments")
        program = CONV2D_ROWS.program(CONV2D_ROWS.gpu.nearest(of, wanted), of, CUDA)
        assert f"*({kind}*)(result" in build(*program, CUDA).program.source


@cases(LAYERS[0], LAYERS[1])
def test_every_choice_of_the_model_is_in_the_space(of: Any) -> None:
    order = CONV2D_ROWS.gpu.rank(of)
    for choices in order[:: max(1, len(order) // 9)]:
        made = RowPairBlock.of(CONV2D_ROWS.gpu.nearest(of, choices))
        assert made.wanted() == choices


@cases(*LAYERS)
def test_blocks_are_possible(of: Any) -> None:
    for block in blocks(of):
        assert block.is_possible(of)
        assert block.shared(of) >= 2 * block.tile[0] * 8


def test_a_call_without_measurements_takes_it_for_batches_of_groups_of_eight() -> None:
    """Of few channels in a group, most of a matrix instruction is zeros; direct kernels are faster there."""
    for layout in ("NCHW", "NHWC"):
        for shape, groups, takes in (((64, 192, 40, 40), 24, True), ((1, 768, 40, 40), 384, False)):
            of = Conv2dLayer.of(shape, groups=groups, dtype="float16", layout=layout)
            assert CONV2D_ROWS.covers(of, CUDA)
            assert (CONV2D.choose(of, CUDA)[0] is CONV2D_ROWS) == takes


@pytest.mark.parametrize("of", OTHERS.values(), ids=OTHERS)
def test_what_it_leaves_to_others(of: Any) -> None:
    assert not CONV2D_ROWS.covers(of, CUDA)


def test_it_needs_the_instruction() -> None:
    assert CONV2D_ROWS.covers(LAYERS[0], CUDA)
    assert not CONV2D_ROWS.covers(LAYERS[0], Target("cuda -arch=sm_75"))
