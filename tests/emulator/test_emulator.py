"""The emulated device notices what is wrong about a kernel, and runs what is right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from benchmarks.matmul import Tiling, product
from tests.emulator.device import EmulationError, emulated
from tests.emulator.translate import translate
from tests.programs import warpgroups
from tilewright.codegen.abi import CompiledProgram
from tilewright.runtime.module import Module


@pytest.fixture(scope="module")
def pipelined() -> CompiledProgram:
    """A product of 64×32×128 whose tiles are copied two stages ahead."""
    s, args = product(64, 32, 128, "float16", Tiling((32, 32), (16, 32), 32, 3), b_turned=True)
    return emulated(s, args).program


def run(program: CompiledProgram) -> float:
    """The largest difference from the product of random matrices of whole numbers."""
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype("float16") for shape in ((64, 128), (32, 128)))
    arrays = [tw.nd.array(x, tw.cuda()) for x in (a, b, np.full((64, 32), 77, "float32"))]
    Module(program)(*arrays)
    return float(np.abs(arrays[2].numpy() - a.astype("float32") @ b.T.astype("float32")).max())


def changed(program: CompiledProgram, old: str, new: str) -> CompiledProgram:
    """The program with the last place of some text changed."""
    before, found, after = program.source.rpartition(old)
    assert found, old
    return replace(program, source=before + new + after)


def test_a_pipelined_product_is_right(pipelined: CompiledProgram) -> None:
    assert "cp.async.wait_group" in pipelined.source
    assert "ldmatrix" in pipelined.source
    assert run(pipelined) == 0


def test_a_missing_barrier_is_a_race(pipelined: CompiledProgram) -> None:
    with pytest.raises(EmulationError, match=r"a race: byte .* of shared memory is (read|written), which thread"):
        run(changed(pipelined, "__syncthreads();", ""))


def test_what_is_not_awaited_is_not_there(pipelined: CompiledProgram) -> None:
    wait = next(text for text in ("wait_group 1;", "wait_group 0;") if text in pipelined.source)
    assert np.isnan(run(changed(pipelined, wait, "wait_group 7;")))


def test_a_copy_from_beyond_an_array(pipelined: CompiledProgram) -> None:
    with pytest.raises(EmulationError, match=r"a load of 16 bytes (at byte \d+ of an array|that lie in no array)"):
        run(changed(pipelined, '"l"(from)', '"l"((const char*)from + 16384)'))


def test_a_piece_that_is_not_aligned(pipelined: CompiledProgram) -> None:
    with pytest.raises(EmulationError, match="a copy of 16 bytes is not aligned"):
        run(changed(pipelined, '"l"(from)', '"l"((const char*)from + 8)'))


def test_an_instruction_that_some_lanes_do_not_reach(pipelined: CompiledProgram) -> None:
    with pytest.raises(EmulationError, match=r"ldmatrix: lane 3 is at a barrier|the other lanes do not come|lane \d+ "):
        run(changed(pipelined, 'asm volatile("ldmatrix', 'if (threadIdx.x != 3) asm volatile("ldmatrix'))


@pytest.fixture(scope="module")
def grouped() -> CompiledProgram:
    """A product of 64×32×128 by a warpgroup."""
    s, args = warpgroups.product(64, 32, 128, by=warpgroups.Groups(1, 32, 2))
    return emulated(s, args).program


def test_a_product_of_a_warpgroup_is_right(grouped: CompiledProgram) -> None:
    assert run(grouped) == 0


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("fence_async();", "", "wgmma reads what no fence.proxy.async has made visible"),
        ("__syncthreads();", "", "a race: byte .* of shared memory is read, which thread"),
        ("wgmma_begin_float32_32(D);", "", "wgmma without wgmma.fence"),
        ("0x4000000000000000ull", "0ull", "the matrix is not swizzled by 128 bytes"),
        ("wgmma_matrix(B_shared", "wgmma_matrix(64 + B_shared", "a matrix begins within 1,024 bytes"),
        ("wgmma_matrix(B_shared", "wgmma_matrix(1024 * threadIdx_y + B_shared", "thread 32 has another matrix"),
    ],
)
def test_what_is_wrong_around_a_warpgroup(grouped: CompiledProgram, old: str, new: str, says: str) -> None:
    with pytest.raises(EmulationError, match=says):
        run(changed(grouped, old, new))


def test_sums_that_are_not_awaited_are_old_ones(grouped: CompiledProgram) -> None:
    assert run(changed(grouped, "wgmma.wait_group.sync.aligned 0;", "wgmma.wait_group.sync.aligned 9;")) > 0


def test_an_instruction_that_it_does_not_know() -> None:
    assert 'fail("no emulation' in translate('void f(int x) { asm("vote.sync.any.pred %0;" : "=r"(x)); }')
