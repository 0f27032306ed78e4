"""Products by instructions of a warpgroup: what they mean, that they compile, and what a GPU computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import emulated, emulation
from tests.emulator.marks import emulates
from tests.passes.running import finish
from tests.programs.warpgroups import Groups, inputs, product
from tilewright.core.atoms import WARPGROUP_ATOMS
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret
from tilewright.runtime.module import Module

CUDA = "cuda -arch=sm_90"
ERRORS = {"float16": 4e-6, "bfloat16": 4e-6, "tf32": 1.2e-3, "int8": 0, "uint8": 0, "float16_float16": 4e-3}
"""The largest relative L2 error, against float64 on the operands as they are."""


def terms(atom: str) -> int:
    """Those of a slice."""
    return 128 // DType(WARPGROUP_ATOMS[atom].operands).bytes


def run(build: Callable[..., Module], args: list[Any], *given: Any) -> float:
    """The relative error of a product on an array of 77."""
    operands = inputs(args)
    wanted = operands[0].astype("float64") @ operands[1].astype("float64").T
    poison = np.full(wanted.shape, 77, DType(args[2].dtype).numpy)
    arrays = [tw.nd.array(x, tw.cuda()) for x in (*operands, poison)]
    build(*given)(*arrays)
    return float(np.linalg.norm(arrays[2].numpy().astype("float64") - wanted) / np.linalg.norm(wanted))


@pytest.mark.parametrize(("atom", "stages"), [("wgmma_float16", 3), ("wgmma_tf32", 1), ("wgmma_int8", 2)])
def test_bodies_mean_the_product_and_kernels_compile_without_spills(atom: str, stages: int) -> None:
    s, args = product(128, 48, 3 * terms(atom), atom, Groups(2, 48, stages))
    lowered = lower_for(Target(CUDA), s, args).functions[0]
    operands = inputs(args)
    wanted = operands[0].astype("float64") @ operands[1].astype("float64").T
    for function, races in ((lowered, False), (finish(lowered, CUDA, check=True), True)):
        found = np.empty(wanted.shape, DType(args[2].dtype).numpy)
        interpret(function, [*operands, found], races=races)
        assert np.linalg.norm(found - wanted) <= 1e-6 * np.linalg.norm(wanted)
    program = tw.build(s, args, CUDA).program
    (used,) = program.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    assert "m64n48k" in program.source
    assert "'sm_90a'" in program.log


def test_the_source_of_a_product(golden: Callable[[str, str], None]) -> None:
    s, args = product(128, 16, 256, "wgmma_float16", Groups(2, 16, 3))
    golden("tensorize/wgmma_float16.cu", tw.build(s, args, CUDA).program.source)


SHAPES = [(Groups(1, 64, 1), 2), (Groups(2, 128, 3), 5), (Groups(2, 256, 4), 4), (Groups(1, 96, 2), 3)]


@pytest.mark.cuda
@pytest.mark.parametrize("atom", WARPGROUP_ATOMS)
@pytest.mark.parametrize(("by", "slices"), SHAPES)
def test_a_gpu_computes_the_product(atom: str, by: Groups, slices: int) -> None:
    s, args = product(128 * by.groups, 2 * by.columns, slices * terms(atom), atom, by)
    assert run(tw.build, args, s, args, "cuda") <= ERRORS[atom.removeprefix("wgmma_")]


@pytest.mark.cuda
def test_a_gpu_computes_a_product_of_partial_tiles() -> None:
    s, args = product(200, 72, 128, "wgmma_float16", Groups(2, 64, 2))
    assert run(tw.build, args, s, args, "cuda") <= ERRORS["float16"]


@emulates
@pytest.mark.parametrize(
    ("atom", "by", "sizes"),
    [
        ("wgmma_float16", Groups(2, 32, 3), (128, 32, 4)),
        ("wgmma_float16", Groups(1, 32, 1), (100, 40, 2)),  # no size divides by its tile
        ("wgmma_bfloat16", Groups(1, 24, 2), (64, 24, 2)),
        ("wgmma_float16_float16", Groups(1, 16, 2), (64, 16, 1)),
        ("wgmma_tf32", Groups(1, 16, 2), (64, 32, 2)),
        ("wgmma_int8", Groups(1, 16, 3), (64, 16, 3)),
        ("wgmma_uint8", Groups(1, 48, 1), (64, 48, 1)),
    ],
)
def test_the_source_computes_the_product(atom: str, by: Groups, sizes: tuple[int, int, int]) -> None:
    m, n, slices = sizes
    s, args = product(m, n, slices * terms(atom), atom, by)
    with emulation():
        assert run(emulated, args, s, args) <= ERRORS[atom.removeprefix("wgmma_")]


@pytest.mark.opencl
def test_other_targets_run_the_loops() -> None:
    s, args = product(64, 32, 128, "wgmma_float16", Groups(1, 32, 2))
    operands = inputs(args)
    arrays = [tw.nd.array(x, tw.opencl()) for x in (*operands, np.full((64, 32), 77, "float32"))]
    tw.build(s, args, "opencl")(*arrays)
    wanted = operands[0].astype("float64") @ operands[1].astype("float64").T
    assert np.abs(arrays[2].numpy() - wanted).max() <= 1e-5
