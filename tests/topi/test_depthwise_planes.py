"""Depthwise convolutions of small images by whole planes: awkward sizes, against float64, wherever they run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.passes.running import finish
from tests.topi.test_direct import EPILOGUES, check, problem
from tilewright.core.target import Target
from tilewright.driver import build, lower_for
from tilewright.loops.interpret import interpret
from tilewright.topi.templates import Depthwise, Epilogue, named
from tilewright.topi.templates.plane_blocks import NUMBERS, PlaneBlock, blocks, numbers, rank_blocks

DEPTHWISE = named("topi/depthwise")
DEPTHWISE_PLANES = named("topi/depthwise.planes")

CUDA = Target("cuda -arch=sm_90")
LAYERS = (
    Depthwise.of((4, 12, 7, 7), 3),
    Depthwise.of((2, 8, 14, 14), 3, stride=2, dtype="float16"),
    Depthwise.of((6, 4, 9, 11), (5, 3), padding=(3, 0, 1, 2), dtype="bfloat16"),  # single elements of odd rows
    Depthwise.of((2, 6, 8, 12), 3, stride=(1, 3), dilation=2, multiplier=2),
    Depthwise.of((4, 5, 10, 6), (4, 1), padding=(0, 0, 3, 0), dtype="float64"),  # nothing around the columns
    Depthwise.of((3, 16, 5, 8), 7, dtype="float16"),  # three images: none of the numbers of copies divides them
)
OTHERS = {
    "channels last": Depthwise.of((2, 8, 14, 14), layout="NHWC"),
    "large image": Depthwise.of((2, 8, 56, 56)),
    "long rows": Depthwise.of((2, 8, 2, 64)),
    "few results": Depthwise.of((2, 2, 3, 3)),
}
"""What it leaves to others."""


def cases(*layers: Depthwise) -> Any:
    return pytest.mark.parametrize("of", [pytest.param(w, id=w.title.replace("  ", ",")) for w in layers])


def drawn(of: Depthwise, count: int, seed: int = 0) -> list[PlaneBlock]:
    """Some blocks of different numbers of copies and ways to store, those with rings of copies first."""
    rng = np.random.default_rng(seed)
    kinds: dict[Any, list[PlaneBlock]] = {}
    for block in blocks(of):
        kinds.setdefault((-block.copies, block.together), []).append(block)
    return [kind[int(rng.integers(len(kind)))] for _, kind in sorted(kinds.items())][:count]


def program(of: Depthwise, block: PlaneBlock, number: int) -> Any:
    """The program of a block, with one of three epilogues; every other one with several images keeps its weights."""
    weights = "registers" if block.images > 1 and number % 2 else "memory"
    config = DEPTHWISE_PLANES.gpu.nearest(of, {**block.wanted(), "weights": weights})
    assert (PlaneBlock.of(config), config["weights"].val) == (block, weights)
    return DEPTHWISE_PLANES.program(config, of, CUDA, EPILOGUES[number % 3])


def computed(of: Depthwise, count: int, seed: int, compiled: Any) -> None:
    for number, block in enumerate(drawn(of, count, seed)):
        inputs, right, allowed = problem(of, EPILOGUES[number % 3])
        arrays = [tw.nd.array(a, tw.cuda()) for a in (*inputs, np.full(right.shape, np.nan, inputs[0].dtype))]
        compiled(*program(of, block, number))(*arrays)
        check(arrays[-1].numpy(), right, allowed)


@emulates
@cases(*LAYERS)
def test_the_source_computes_it(of: Depthwise) -> None:
    with emulation():
        computed(of, 2, 1, emulated)


@pytest.mark.cuda
@cases(*LAYERS)
def test_on_a_gpu(of: Depthwise) -> None:
    computed(of, 8, 2, lambda s, args: build(s, args, CUDA))


@cases(*LAYERS[1:4])
def test_by_the_interpreter(of: Depthwise) -> None:
    for number, block in enumerate(drawn(of, 2)):
        inputs, right, allowed = problem(of, EPILOGUES[number % 3])
        finished = finish(lower_for(CUDA, *program(of, block, number)).functions[0], str(CUDA), check=True)
        out = np.full(right.shape, np.nan, inputs[0].dtype)
        interpret(finished, [*inputs, out], outputs=[finished.buffers[-1]], races=True)
        check(out, right, allowed)


@cases(Depthwise.of((128, 576, 14, 14), stride=2), *LAYERS[1:3])
def test_kernels_compile(of: Depthwise) -> None:
    for block in (rank_blocks(of)[0], next(b for b in rank_blocks(of) if b.copies > 1)):
        (used,) = build(*program(of, block, 1), CUDA).resources.values()
        assert used.stack_bytes == 0
        assert used.shared_bytes == block.shared_bytes(of)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("copies", [2, 3, 4])
def test_a_block_waits_once_per_image(copies: int, together: bool, dtype: str) -> None:
    """For planes copied `copies` - 1 images ago, behind the barrier that frees their place; no others are read."""
    of = Depthwise.of((8, 64, 14, 14), 5, stride=2, dtype=dtype)
    source = build(*program(of, PlaneBlock(16, 8, 4, 1, copies, together), 0), CUDA).program.source
    assert re.findall(r"cp\.async\.wait_group (\d+)", source) == [str(copies - 2)]
    assert source.count("__syncthreads()") == 1 + together
    assert set(re.findall(r"copy_(\d+)", source)) == {"16"}


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_weights_are_kept_for_all_images(together: bool, bias: bool) -> None:
    """They and the bias are loaded before the first image, and read from registers for each."""
    of = Depthwise.of((8, 64, 14, 14), stride=2, dtype="float16")
    config = DEPTHWISE_PLANES.gpu.nearest(of, {**PlaneBlock(16, 4, 1, 7, 2, together).wanted(), "weights": "registers"})
    source = build(*DEPTHWISE_PLANES.program(config, of, CUDA, Epilogue(bias=bias)), CUDA).program.source
    before, inside = source.split("for (int n_inner", 1)
    assert "= weights[" in before
    assert "weights[" not in inside
    assert ("= bias[" in before, "bias[" in inside) == (bias, False)


def test_one_image_keeps_no_weights() -> None:
    of = Depthwise.of((1, 64, 14, 14))
    assert [choice.data for choice in DEPTHWISE_PLANES.gpu.space(of).space_map["weights"].choices] == ["memory"]
    of = Depthwise.of((8, 64, 14, 14))
    space = DEPTHWISE_PLANES.gpu.space(of)
    one = DEPTHWISE_PLANES.gpu.nearest(of, PlaneBlock(16, 1, 1, 7, 1, True).wanted())
    kept = {**one, "weights": space.space_map["weights"].choices[1]}
    assert space.find(kept) is None


def test_results_leave_in_vectors() -> None:
    of = Depthwise.of((4, 8, 7, 7), 3)
    source = build(*program(of, PlaneBlock(8, 4, 2, 7, 2, True), 0), CUDA).program.source
    assert set(re.findall(r"(\S+)\(result \+", source)) == {"*(float4*)"}


@cases(
    Depthwise.of((128, 576, 14, 14), stride=2),
    Depthwise.of((32, 960, 7, 7), 5, dtype="bfloat16"),
    Depthwise.of((32, 200, 14, 14), dtype="float16"),
    Depthwise.of((128, 240, 28, 28), stride=2, dtype="float16"),
)
def test_calls_without_records_take_it_for_batches_of_small_images(of: Depthwise) -> None:
    template, config = DEPTHWISE.choose(of, CUDA)
    assert template is DEPTHWISE_PLANES
    best = min(block.cycles(of) for block in blocks(of))
    assert PlaneBlock.of(config).cycles(of) < 1.01 * best  # though not all are counted


ELSEWHERE = {
    "one image": (Depthwise.of((1, 960, 7, 7)), "topi/depthwise.direct"),
    "double precision": (Depthwise.of((128, 576, 14, 14), dtype="float64"), "topi/depthwise.direct"),
    "several filters": (Depthwise.of((128, 576, 14, 14), multiplier=2), "topi/depthwise.direct"),
    "a larger window than any measured": (Depthwise.of((64, 96, 14, 14), 9), "topi/depthwise.direct"),
    "many products": (Depthwise.of((128, 192, 28, 28), 7, dtype="float16"), "topi/depthwise.mma"),
}


@pytest.mark.parametrize(("of", "name"), ELSEWHERE.values(), ids=ELSEWHERE)
def test_what_calls_without_records_leave_to_others(of: Depthwise, name: str) -> None:
    assert DEPTHWISE_PLANES.covers(of, CUDA)
    assert DEPTHWISE.choose(of, CUDA)[0].name == name


@pytest.mark.parametrize("target", ["cuda -arch=sm_75", "opencl"])
def test_only_tuners_take_it_where_it_was_not_timed(target: str) -> None:
    of = Depthwise.of((128, 576, 14, 14), stride=2)
    assert DEPTHWISE_PLANES in DEPTHWISE.strategies
    assert DEPTHWISE_PLANES.covers(of, Target(target))
    assert DEPTHWISE.choose(of, Target(target))[0].name == "topi/depthwise.direct"


@cases(*LAYERS, Depthwise.of((32, 960, 7, 7)))
def test_the_knobs_have_the_values_of_all_blocks(of: Depthwise) -> None:
    assert numbers(of) == {name: sorted({getattr(block, name) for block in blocks(of)}) for name in NUMBERS}


@pytest.mark.parametrize("of", OTHERS.values(), ids=OTHERS)
def test_what_it_leaves_to_others(of: Depthwise) -> None:
    assert not DEPTHWISE_PLANES.covers(of, CUDA)


def test_the_model_ranks_each_kind_first() -> None:
    of = Depthwise.of((128, 576, 14, 14), stride=2)
    order = rank_blocks(of)
    assert sorted(order, key=hash) == sorted(blocks(of), key=hash)
    assert order[0].cycles(of) == min(block.cycles(of) for block in order)
    first = [(block.rows, block.columns, block.copies, block.together) for block in order[:40]]
    assert len(set(first)) == len(first)
