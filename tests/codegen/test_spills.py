"""Kernels that spill while registers are free are compiled again."""

from __future__ import annotations

import pytest

from tilewright import te
from tilewright.codegen.abi import Resources
from tilewright.codegen.nvrtc import CompiledSource, compile_cuda
from tilewright.codegen.spills import without_needless_spills
from tilewright.core.target import Target
from tilewright.driver import build
from tilewright.topi.templates import Depthwise, Epilogue, named
from tilewright.tune.records.format import decode

DEPTHWISE_DIRECT = named("topi/depthwise.direct")

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


@pytest.mark.parametrize(
    ("blocks", "fits", "asked"),
    [(8, 4, ["(96, 4)"]), (8, 1, ["(96, 4)", "(96, 1)"]), (2, 1, ["(96, 1)"]), (8, 8, []), (1, 0, [])],
)
def test_a_limit_under_which_a_kernel_spills_is_halved_and_then_dropped(
    blocks: int, fits: int, asked: list[str]
) -> None:
    """With room for at most `fits` blocks the kernel does not spill; that of one block has 200 registers."""
    limited, tried = SOURCE.replace("(96)", f"(96, {blocks})"), []

    def compiled(source: str) -> CompiledSource:
        tried.append(source)
        room = next(n for n in (8, 4, 2, 1) if f"(96, {n})" in source)
        return code(first=(200 // room, 0 if room <= fits else 50 * room), second=(64, 0))

    before = compiled(limited)
    source, after = without_needless_spills(limited, before, HARDWARE, compiled)
    assert tried[1:] == [SOURCE.replace("(96)", each) for each in asked]
    assert source == tried[-1]
    assert after.resources["first"].spill_store_bytes == (0 if fits else 50)


def test_the_first_code_stays_where_the_second_spills_as_much() -> None:
    before = code(first=(32, 400), second=(32, 0))
    assert without_needless_spills(SOURCE, before, HARDWARE, lambda _: before) == (SOURCE, before)


def test_kernels_that_ask_for_blocks_themselves_stay() -> None:
    """A kernel with one block has no limit to relax; a limit stays where the kernel spills as much without it."""
    before = code(first=(32, 400), second=(32, 0))
    asked = SOURCE.replace("(96)", "(96, 1)")
    assert without_needless_spills(asked, before, HARDWARE, compile_cuda_never)[0] == asked
    several = SOURCE.replace("(96)", "(96, 2)")
    assert without_needless_spills(several, before, HARDWARE, lambda _: before) == (several, before)


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


ROOM_FOR_EIGHT = (
    '{"input": ["cuda", "topi/depthwise.direct", [[1, 256, 96, 96], [5, 5], [1, 1], [2, 2, 2, 2], [1, 1], 1, '
    '"float32"], {}], "config": {"index": 72992547, "code_hash": null, "entity": [["tile_c", "sp", [-1, 1, 1]], '
    '["tile_f", "sp", [-1, 1]], ["tile_y", "sp", [-1, 4, 6]], ["tile_x", "sp", [-1, 48, 2]], ["chunk", "ot", 2], '
    '["window", "ot", "all"], ["planes", "ot", "memory"], ["order", "ot", "rows"], ["resident", "ot", 8], '
    '["whole_words", "ot", 0], ["bias", "ot", "first"]]}, '
    '"result": [[5.3e-06], 0, 0.0, 0.0], "version": 0.2}'
)
"""A record of a layer with relu: room for 8 blocks leaves a thread 40 registers."""


@pytest.mark.parametrize("epilogue", ["relu", "silu", "gelu", "hardswish"])
def test_no_epilogue_spills_under_a_limit_tuned_for_relu(epilogue: str) -> None:
    config = decode(ROOM_FOR_EIGHT)[0].config
    of = Depthwise.of((1, 256, 96, 96), kernel=5, padding=2)
    target, template = Target.parse("cuda -arch=sm_90"), DEPTHWISE_DIRECT
    program = build(*template.program(config, of, target, Epilogue(bias=True, activation=epilogue)), target).program
    assert program.resources is not None
    assert sum(found.spill_store_bytes for found in program.resources.values()) < 64
    assert ("__launch_bounds__(192, 8)" in program.source) == (epilogue == "relu")
