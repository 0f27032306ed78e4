"""Hardware as data: what the rows say, and that a new row is all that new hardware takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.passes.running import finish
from tilewright import te
from tilewright.core.architectures import NVIDIA, OPENCL, X86, opencl_hardware, x86_hardware
from tilewright.core.errors import InternalError, UserError
from tilewright.core.hardware import Hardware, MemoryScope
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Allocate
from tilewright.runtime.array import array, empty
from tilewright.tune.analysis.candidate import Inspection, inspect_candidate
from tilewright.tune.space.config import Config
from tilewright.tune.task import PureTemplate, Task

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


def test_processors_by_name_and_by_feature() -> None:
    assert x86_hardware("generic", "").vector_bytes == 16
    assert x86_hardware("haswell", "").vector_bytes == 32
    assert x86_hardware(None, "").vector_bytes == 64  # this machine's, whatever it has
    assert x86_hardware("skylake-avx512", "+avx512vnni").matrix_shapes_for("uint8 × int8", "int32")
    assert x86_hardware("haswell", "+avx512f") is X86["x86-64-v4"]
    assert Target("llvm -mcpu=haswell").hardware is X86["x86-64-v3"]
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


def test_no_pass_or_tuner_names_a_number_of_the_hardware() -> None:
    """Registers, shared memory, warps and grids are read off the row of the target."""
    package = Path(tilewright.__file__).parent
    numbers = ("65_536", "65536", "65_535", "65535", "49152", "232448", "_WARP", "warp_size = ", "(255", " 255")
    for folder in ("passes", "refine", "loops", "bounds", "schedule", "tune", "codegen", "topi"):
        for path in (package / folder).rglob("*.py"):
            found = [number for number in numbers if number in path.read_text(encoding="utf-8")]
            assert not found, f"{path.relative_to(package)} has {found}"
