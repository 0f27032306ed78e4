"""Hardware as data: what the rows say, and that a new row is all that new hardware takes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tilewright import te
from tilewright.core.architectures import NVIDIA, OPENCL, X86, opencl_hardware, processor_hardware
from tilewright.core.boards import BOARDS
from tilewright.core.errors import InternalError, UserError
from tilewright.core.hardware import Hardware, MemoryScope
from tilewright.core.system import family_of
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Allocate, Program
from tilewright.loops.printer import show_program
from tilewright.runtime.array import array, empty
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, Dense, Depthwise, named
from tilewright.tune.analysis.candidate import Inspection, inspect_candidate
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.space.config import Config
from tilewright.tune.task import PureTemplate, Task

CONV1D = named("topi/conv1d")
CONV2D = named("topi/conv2d")
DENSE = named("topi/dense")
DEPTHWISE = named("topi/depthwise")

Made = tuple[Any, list[Any]]


@pytest.mark.parametrize("row", [*NVIDIA.values(), *OPENCL.values(), *X86.values()], ids=lambda row: row.name)
def test_a_row_is_complete_and_consistent(row: Hardware) -> None:
    names = [level.name for level in row.levels]
    assert names[0] == "grid"
    assert names[-1] == "thread"
    assert [level.threads for level in row.levels] == sorted((level.threads for level in row.levels), reverse=True)
    for scope in MemoryScope:
        memory = row.memory(scope)
        assert memory.owner in names
        assert 0 < memory.capacity <= memory.most
        assert memory.pool == 0 or memory.most <= memory.pool
        assert memory.alignment & (memory.alignment - 1) == 0
    for way in row.synchronization:
        assert way.level in names
    for shape in row.matrix_shapes:
        assert shape.level in names
        assert {shape.a, shape.b} <= {"register", "shared"}
        assert min(shape.m, shape.k, *shape.n) > 0
    assert row.block.threads <= row.multiprocessor.warps * row.warp or not row.multiprocessor.registers


# TFLOP/s without matrix instructions, by NVIDIA's data sheets and white papers: float32, float64, float16, bfloat16.
DATA_SHEETS = {
    "Tesla V100-SXM2-16GB": (15.7, 7.8, 31.3, None),
    "NVIDIA A100-SXM4-80GB": (19.5, 9.7, 78.0, 39.0),
    "NVIDIA GeForce RTX 3090": (35.6, None, 35.6, 35.6),
    "NVIDIA GeForce RTX 4090": (82.6, None, 82.6, 82.6),
    "NVIDIA H100 PCIe": (51.2, 25.6, 102.4, 102.4),
    "NVIDIA H100 80GB HBM3": (66.9, 33.5, 133.8, 133.8),
    "NVIDIA GeForce RTX 5090": (104.8, 1.637, 104.8, 104.8),
}


@pytest.mark.parametrize("name", DATA_SHEETS)
def test_peaks_are_those_of_the_data_sheets(name: str) -> None:
    for dtype, rate in zip(("float32", "float64", "float16", "bfloat16"), DATA_SHEETS[name], strict=True):
        assert rate is None or BOARDS[name].peak(dtype) / 1e12 == pytest.approx(rate, rel=0.01), dtype


def test_every_gpu_has_a_peak_of_every_type() -> None:
    for row in NVIDIA.values():
        one = row.multiprocessor
        assert one.peak("float32") == 2 * one.float_lanes
        assert 0 < one.peak("int64") <= one.peak("int32") <= one.peak("float32")
        assert one.peak("uint8") == one.peak("int16") == one.peak("bool") == one.peak("int32")
        assert one.peak("float64") in {2 * lanes for lanes in (2, 4, 32, 64)}
        assert all(one.peak(dtype) > 0 for dtype in ("float16", "bfloat16", "float8_e4m3"))


def test_what_came_with_which_architecture() -> None:
    families = {name: {shape.family for shape in row.matrix_shapes} for name, row in NVIDIA.items()}
    assert families["sm_60"] == set()
    assert families["sm_61"] == {"dp4a"}
    assert families["sm_70"] == {"dp4a", "mma.sync"}
    assert families["sm_90"] == {"dp4a", "mma.sync", "wgmma"}
    assert families["sm_100"] == {"dp4a", "mma.sync", "tcgen05"}
    assert families["sm_120"] == {"dp4a", "mma.sync"}
    assert [name for name, row in NVIDIA.items() if not row.copy_bytes][-1] == "sm_75"
    (wgmma,) = [s for s in NVIDIA["sm_90"].matrix_shapes_for("tfloat32", "float32") if s.family == "wgmma"]
    assert (wgmma.m, wgmma.k, wgmma.n[0], wgmma.n[-1], wgmma.level) == (64, 8, 8, 256, "warpgroup")
    assert {(s.m, *s.n, s.k) for s in NVIDIA["sm_80"].matrix_shapes_for("float16", "float32")} == {
        (16, 8, 8),
        (16, 8, 16),
    }
    assert NVIDIA["sm_89"].level("cluster") is None
    assert NVIDIA["sm_90"].level("cluster") is not None
    assert {way.name for way in NVIDIA["sm_90"].synchronization} > {"mbarrier", "named barrier", "cluster barrier"}
    assert NVIDIA["sm_90"].memory(MemoryScope.SHARED).layouts


# NVIDIA's own tables: `cuda_occupancy.h` of CUDA 13.0, and the traits of architectures in CCCL (`arch_traits.h`).
# Resident blocks and threads, shared memory of a multiprocessor in KB, pieces of it in bytes, schedulers.
OCCUPANCY = {
    "sm_50": (32, 2048, 64, 256, 4), "sm_52": (32, 2048, 96, 256, 4), "sm_60": (32, 2048, 64, 256, 2),
    "sm_61": (32, 2048, 96, 256, 4), "sm_70": (32, 2048, 96, 256, 4), "sm_75": (16, 1024, 64, 256, 4),
    "sm_80": (32, 2048, 164, 128, 4), "sm_86": (16, 1536, 100, 128, 4), "sm_87": (16, 1536, 164, 128, 4),
    "sm_88": (16, 1536, 100, 128, 4), "sm_89": (24, 1536, 100, 128, 4), "sm_90": (32, 2048, 228, 128, 4),
    "sm_100": (32, 2048, 228, 128, 4), "sm_103": (32, 2048, 228, 128, 4), "sm_110": (24, 1536, 228, 128, 4),
    "sm_120": (24, 1536, 100, 128, 4), "sm_121": (24, 1536, 100, 128, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", OCCUPANCY)
def test_rows_say_what_nvidias_tables_say(name: str) -> None:
    row = NVIDIA[name]
    shared, one = row.memory(MemoryScope.SHARED), row.multiprocessor
    found = (one.blocks, one.warps * row.warp, shared.pool // 1024, shared.unit, one.schedulers)
    assert found == OCCUPANCY[name]
    assert shared.reserved == (1024 if int(name[3:]) >= 80 else 0)
    if int(name[3:]) >= 80:  # a block may have all of it but what the system takes
        assert shared.most == shared.pool - shared.reserved


def test_processors_by_name_and_by_feature() -> None:
    x86 = partial(processor_hardware, triple="x86_64-linux-gnu")
    assert x86("generic", "").vector_bytes == 16
    assert x86("haswell", "").vector_bytes == 32
    assert x86(None, "").vector_bytes == 64  # this machine's, whatever it has
    assert x86("skylake-avx512", "+avx512vnni").matrix_shapes_for("uint8 × int8", "int32")
    assert x86("haswell", "+avx512f") is X86["x86-64-v4"]
    assert Target("llvm -mcpu=haswell -mtriple=x86_64-linux-gnu").hardware is X86["x86-64-v3"]
    assert processor_hardware("apple-m1", "", "arm64-apple-darwin").vector_bytes == 16
    assert [family_of(name) for name in ("AMD64", "arm64-apple-darwin")] == ["x86_64", "aarch64"]
    assert opencl_hardware("mali") is OPENCL["gpu"]


def test_a_memory_that_is_not_there_is_our_mistake() -> None:
    row = replace(NVIDIA["sm_90"], memories=())
    with pytest.raises(InternalError, match="sm_90 has no memory 'shared'"):
        row.memory(MemoryScope.SHARED)
    row = replace(NVIDIA["sm_90"], levels=())
    with pytest.raises(InternalError, match="sm_90 has no blocks"):
        row.block
    with pytest.raises(InternalError, match="sm_90 has no grid"):
        row.grid


# New hardware is a row: warps of 64, 32 KB of shared memory, 128 registers, and no change anywhere else.


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> Target:
    """A target of a made-up OpenCL device, which PoCL runs as it runs any other."""
    row = OPENCL["gpu"].with_warp(64)
    row = row.with_memory(MemoryScope.SHARED, capacity=32 * 1024, most=32 * 1024)
    row = row.with_memory(MemoryScope.LOCAL, capacity=128 * 4, most=128 * 4)
    monkeypatch.setitem(OPENCL, "wide", replace(row, name="wide"))
    return Target("opencl -device=wide")


def tiles(elements: int, threads: int = 64) -> Made:
    """Sums over the rows of A: a row at a time in shared memory, the sums in registers of their threads."""
    A = te.placeholder((8, elements), name="A")
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((elements,), lambda i: te.sum(A[k, i], axis=k), name="B")
    s = te.create_schedule(B.op)
    AS = s.cache_read(A, "shared", [B])
    BL = s.cache_write(B, "local")
    thread, _ = s[B].split(B.op.axis[0], nparts=threads)
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[BL].compute_at(s[B], thread)
    s[BL].reorder(BL.op.reduce_axis[0], BL.op.axis[0])
    s[AS].compute_at(s[BL], BL.op.reduce_axis[0])
    return s, [A, B]


def prefetched(made: Made, target: Target) -> bool:
    """Whether the code loads tiles ahead into registers."""
    (function,) = lower_for(target, *made).functions
    nodes = post_order(finish(function, str(target), check=True).body)
    return any(isinstance(node, Allocate) and node.buffer.name.endswith(".next") for node in nodes)


def inspected(made: Made, target: Target) -> Inspection:
    template = PureTemplate("tests/wide", lambda: None, lambda config: made)
    return inspect_candidate(Task("tests/wide", (), None, template), Config({}), target, "itervar")


def test_registers_of_a_made_up_target_bound_what_is_loaded_ahead(wide: Target) -> None:
    usual = Target("opencl -device=gpu")
    assert wide.registers_per_thread == 128
    small = tiles(64 * 16)
    assert prefetched(small, wide)
    assert prefetched(small, usual)
    assert not prefetched(tiles(64 * 30), wide)  # 30 sums and 30 elements ahead: more than 96 - 40
    assert prefetched(tiles(64 * 30), usual)
    many = tiles(1500, threads=1)  # sums of one thread, and of a made-up one no more than 8 times 128
    refusal = inspected(many, wide).refusal
    assert refusal is not None
    assert refusal.reason.startswith("1,500 words of local arrays per thread, and opencl -device=wide holds 1,024")
    assert inspected(many, usual).refusal is None


def test_shared_memory_of_a_made_up_target_bounds_its_kernels(wide: Target) -> None:
    made = tiles(9 * 1024)
    refusal = inspected(made, wide).refusal
    assert refusal is not None
    assert refusal.reason.startswith("36,864 bytes of shared memory, but opencl -device=wide has 32,768 per block")
    with pytest.raises(UserError, match="36,864 bytes of shared memory, but opencl -device=wide has 32,768 per block"):
        tilewright.build(*made, target=wide)
    assert inspected(made, Target("opencl -device=gpu")).refusal is None
    tilewright.build(*made, target="opencl -device=gpu")


def test_warps_of_a_made_up_target_are_what_the_tuner_counts(wide: Target) -> None:
    made = tiles(1024, threads=32)
    features = inspected(made, wide).features
    assert features["kernel0.warps filled"] == 0.5
    assert inspected(made, Target("opencl -device=gpu")).features["kernel0.warps filled"] == 1.0


def test_a_made_up_target_runs(wide: Target) -> None:
    data = np.random.default_rng(0).standard_normal((8, 1024)).astype("float32")
    on = tilewright.nd.device("opencl")
    if not on.exist:
        pytest.skip("no OpenCL device")
    out = empty((1024,), "float32", on)
    tilewright.build(*tiles(1024), target=wide)(array(data, on), out)
    np.testing.assert_allclose(out.numpy(), data.sum(axis=0), rtol=1e-5)


def test_a_row_without_warps_fetches_as_scheduled(wide: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPENCL, "narrow", OPENCL["wide"].with_warp(1))
    made = tiles(1024)
    (dealt,) = lower_for(wide, *made).functions
    (kept,) = lower_for(Target("opencl -device=narrow"), *made).functions
    assert str(dealt.body) != str(kept.body)
    assert str(kept.body) == str(tilewright.lower(*made).functions[0].body)


def test_a_new_cuda_architecture_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NVIDIA, "sm_999", replace(NVIDIA["sm_90"], name="sm_999").with_warp(64))
    assert Target("cuda -arch=sm_999").warp_size == 64
    assert Target("cuda -arch=sm_999a").hardware is Target("cuda -arch=sm_999").hardware
    with pytest.raises(UserError, match=r"use one of sm_50, .*sm_999"):
        Target("cuda -arch=sm_998")


# The rest of the house, on a made-up CUDA architecture.


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> Target:
    """The H200's row with warps of 64, 32 KB of shared memory and 128 registers."""
    row = NVIDIA["sm_90"].with_warp(64)
    row = row.with_memory(MemoryScope.SHARED, capacity=32 * 1024, most=32 * 1024)
    row = row.with_memory(MemoryScope.LOCAL, capacity=128 * 4, most=128 * 4)
    monkeypatch.setitem(NVIDIA, "sm_999", replace(row, name="sm_999"))
    return Target("cuda -arch=sm_999")


H200 = Target("cuda -arch=sm_90")
LAYER = Conv2dLayer.of((64, 128, 28, 28), 128, padding=1)
HALF = Conv2dLayer.of((64, 128, 28, 28), 128, padding=1, dtype="float16", layout="NHWC")
FAMILIES = (
    (CONV1D, Conv1dVector.of(16384, 32)),
    (CONV2D, LAYER),
    (CONV2D, HALF),
    (CONV2D, Conv2dLayer.of((16, 256, 28, 28), 256, padding=1, groups=32)),
    (DEPTHWISE, Depthwise.of((8, 96, 56, 56), 7)),
    (DENSE, Dense.of((4096, 4096), 4096)),
)


@pytest.mark.parametrize(("family", "workload"), FAMILIES, ids=lambda each: getattr(each, "title", "of")[:60])
def test_first_configurations_of_templates_fit_a_made_up_target(family: Any, workload: Any, narrow: Target) -> None:
    for template in family.strategies:
        if template.covers(workload, narrow):
            task = template.task(workload, narrow)
            made = inspect_candidate(task, template.default_config(template.workload(task.args), narrow), narrow)
            assert made.refusal is None, (template.name, made.refusal)


def test_tiles_that_do_not_fit_a_made_up_target_are_others_or_refused(narrow: Target) -> None:
    changed = refused = 0
    for family, workload in FAMILIES:
        for template in family.strategies:
            if not template.covers(workload, narrow):
                continue
            task = template.task(workload, narrow)
            usual, own = (template.default_config(template.workload(task.args), target) for target in (H200, narrow))
            changed += usual != own
            refused += inspect_candidate(task, usual, narrow).refusal is not None
    assert changed >= 5
    assert refused >= 1  # a tile of the H200's shared memory


def test_the_tuners_model_reads_the_row(narrow: Target) -> None:
    """On the narrow row, tiles of much shared memory cannot run, and others take another time."""
    tasks = [CONV2D.task(LAYER, target) for target in (H200, narrow)]
    size = len(tasks[0].config_space)
    usual, own = (Scorer(task).seconds(range(0, size, size // 200)) for task in tasks)
    assert np.isinf(own[np.isinf(usual)]).all()
    assert np.isinf(own).sum() > np.isinf(usual).sum()
    both = np.isfinite(own)
    assert (usual[both] != own[both]).any()


def test_warps_of_a_made_up_target_decide_what_code_is_made(narrow: Target) -> None:
    """Sums over threads are exchanged within a warp: more of them in wider warps, without a barrier."""
    A = te.placeholder((16, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(s[B].op.reduce_axis[0], te.thread_axis("threadIdx.x"))
    texts = [show_program(Program((finish(lower_for(t, s, [A, B]).functions[0], str(t)),))) for t in (H200, narrow)]
    assert "shared" in texts[0]
    assert "shared" not in texts[1]


FOLDERS = "auto passes refine loops bounds schedule tune codegen topi functional explain".split()
COUNTS_OF_OUR_OWN = {
    "auto/gpu_rows.py": {64 * 1024},  # bytes of shared memory that a block of rows may hold
    "codegen/llvm/statements.py": {64 * 1024},  # bytes of arrays on the stack
    "topi/nn/pooling_gradient.py": {2**31 - 1},  # the largest 32-bit index
    "topi/reduction.py": {2**31 - 1},
    "topi/searching.py": {2**31 - 1},
    "topi/templates/depthwise_lines.py": {96 * 1024},  # bytes that leave room for a second block
    "tune/space/lazy.py": {170},  # the largest factorial that a float holds
}
"""Numbers that a row has as well, by chance."""


def numbers_of_rows() -> set[int]:
    """What no other file may say: sizes of memories and grids, registers, and what boards have."""
    found: set[int] = set()
    for row in (*NVIDIA.values(), *OPENCL.values(), *X86.values()):
        for memory in row.memories:
            found |= {memory.capacity, memory.most, memory.pool}
        found |= {row.registers_per_thread, row.multiprocessor.registers}
        found.update(n for level in row.levels for n in level.extents)
    for board in BOARDS.values():
        found |= {board.multiprocessors, board.megahertz, board.gigabytes}
    # Small numbers and short powers of two are counts of many things; no row's are told from them.
    return {n for n in found if n > 100 and not (n & (n - 1) == 0 and n <= 16_384)} - {300, 320, 600}


def said(tree: ast.AST) -> Iterator[int]:
    """The constants of a file, sums and products of constants as one. A count of our own is written `1 << n`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.LShift) and ast.unparse(node.left) == "1":
            continue
        if isinstance(node, (ast.BinOp, ast.Constant)):
            try:
                value = eval(compile(ast.Expression(node), "", "eval"), {"__builtins__": {}})
            except (NameError, TypeError, ValueError, ZeroDivisionError):
                value = None
            if isinstance(value, (int, float)):
                yield int(value) if value == value and abs(value) < 1e18 else 0
                continue
        yield from said(node)


NAMES = ("WARP", "WARP_SIZE", "BANKS", "SECTOR", "SCHEDULERS")
"""Constants that no other file may define by a number."""


def constants(tree: ast.Module) -> Iterator[str]:
    """The names that a module assigns numbers to, alone or in a row of several."""
    for node in tree.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                yield from (ast.unparse(name) for name, value in pairs if isinstance(value, ast.Constant))


def test_constants_of_rows_are_found() -> None:
    tree = ast.parse("A, WARP = 1, 32\nBANKS: int = 32\n_SECTOR = 32\nLINE, WORD = memory.line, 4\nB = f(3)")
    assert list(constants(tree)) == ["A", "WARP", "BANKS", "_SECTOR", "WORD"]


def test_no_file_but_the_rows_says_a_number_of_the_hardware() -> None:
    package, numbers = Path(tilewright.__file__).parent, numbers_of_rows()
    assert {255, 65_535, 65_536, 48 << 10, 99 << 10, 227 << 10, 1980, 4800} <= numbers
    for folder in FOLDERS:
        for path in (package / folder).rglob("*.py"):
            tree, name = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(package))
            found = numbers.intersection(said(tree)) - COUNTS_OF_OUR_OWN.get(name, set())
            assert not found, f"{name} says {sorted(found)}"
            named = [each for each in constants(tree) if each.strip("_") in NAMES]
            assert not named, f"{name} has {named}"
