"""Kernels that spill while registers are free are compiled again."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.codegen.abi import Resources
from tilewright.codegen.nvrtc import CompiledSource, compile_cuda
from tilewright.codegen.spills import without_needless_spills
from tilewright.core.target import Target
from tilewright.driver import build

HARDWARE = Target.parse("cuda -arch=sm_90").hardware
SOURCE = (
    'extern "C" __global__ void __launch_bounds__(96) first(float* a) {}\n'
    'extern "C" __global__ void __launch_bounds__(1024) second(float* a) {}\n'
)


def code(**spills: tuple[int, int]) -> CompiledSource:
    """Machine code whose kernels have so many registers and bytes of spills."""
    found = {name: Resources(count, size, size, 0, 0, 0) for name, (count, size) in spills.items()}
    return CompiledSource(b"", found, "", 0.0)


@pytest.mark.parametrize(
    ("registers", "spilled", "asks"),
    [(32, 400, True), (32, 8, False), (32, 0, False), (255, 400, False), (168, 400, False)],
)
def test_only_what_spills_while_registers_are_free_is_compiled_again(registers: int, spilled: int, asks: bool) -> None:
    tried: list[str] = []
    before = code(first=(registers, spilled), second=(64, 4000))  # 1,024 threads have no more than 64

    def compiled(source: str) -> CompiledSource:
        tried.append(source)
        return code(first=(200, 0), second=(64, 4000))

    source, after = without_needless_spills(SOURCE, before, HARDWARE, compiled)
    if not asks:
        assert (source, after, tried) == (SOURCE, before, [])
        return
    assert tried == [source] == [SOURCE.replace("(96)", "(96, 1)")]
    assert after.resources["first"].registers == 200


def test_the_first_code_stays_where_the_second_spills_as_much() -> None:
    before = code(first=(32, 400), second=(32, 0))
    assert without_needless_spills(SOURCE, before, HARDWARE, lambda _: before) == (SOURCE, before)


def test_kernels_that_ask_for_blocks_themselves_stay() -> None:
    before = code(first=(32, 400), second=(32, 0))
    asked = SOURCE.replace("(96)", "(96, 2)")
    assert without_needless_spills(asked, before, HARDWARE, compile_cuda_never)[0] == asked


def compile_cuda_never(source: str) -> CompiledSource:
    """Fail: nothing is to be compiled."""
    pytest.fail(f"compiles {source}")


def test_launch_bounds_with_one_block_compile() -> None:
    found = compile_cuda(SOURCE.replace("(96)", "(96, 1)"), "sm_90")
    assert set(found.resources) == {"first", "second"}


@pytest.mark.parametrize(("pragmas", "asked"), [((), ""), ((3,), ", 3"), ((2, 5), ", 5")])
def test_a_schedule_asks_for_resident_blocks(pragmas: tuple[int, ...], asked: str) -> None:
    A = te.placeholder((1024,), name="A")
    B = te.compute((1024,), lambda i: A[i] + 1.0, name="B")
    s = te.create_schedule(B.op)
    axes = s[B].split(B.op.axis[0], factor=64)
    for axis, tag, blocks in zip(axes, ("blockIdx.x", "threadIdx.x"), (*pragmas, 0, 0), strict=False):
        s[B].bind(axis, te.thread_axis(tag))
        if blocks:
            s[B].pragma(axis, "resident_blocks", blocks)
    assert f"__launch_bounds__(64{asked}) " in build(s, [A, B], Target("cuda -arch=sm_90")).program.source
