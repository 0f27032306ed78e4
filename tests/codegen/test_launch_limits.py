"""Launches whose extents are known only at the call are held against the hardware before they are made."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te
from tilewright.codegen.abi import EntryPoint, LaunchFact, Resources
from tilewright.codegen.launch_limits import within_registers
from tilewright.core.architectures import NVIDIA


def doubled(*tags: str) -> tuple[te.Schedule, list[te.Tensor]]:
    """B = 2 A over as many dimensions of unknown size as there are tags, each bound to one."""
    shape = tuple(te.size_var(f"n{k}") for k in range(len(tags)))
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda *i: A(*i) * 2, name="B")
    s = te.create_schedule(B.op)
    for axis, tag in zip(B.op.axis, tags, strict=True):
        s[B].bind(axis, te.thread_axis(tag))
    return s, [A, B]


def call(f: tw.runtime.Module, *shape: int) -> np.ndarray:
    dev = tw.opencl()
    out = tw.nd.empty(shape, "float32", dev)
    f(tw.nd.array(np.ones(shape, "float32"), dev), out)
    made: np.ndarray = out.numpy()
    return made


@pytest.mark.opencl
def test_more_threads_than_a_block_can_have() -> None:
    f = tw.build(*doubled("threadIdx.x"), target="opencl")
    assert (call(f, 1024) == 2).all()
    says = "this call of main needs 1,025 threads per block for stage 'B', but opencl allows 1,024"
    with refused("bind", says, fix="split the bound axis by a constant factor"):
        call(f, 1025)


@pytest.mark.opencl
def test_threads_of_several_dimensions_count_together() -> None:
    f = tw.build(*doubled("threadIdx.y", "threadIdx.x"), target="opencl")
    assert (call(f, 16, 64) == 2).all()
    with refused("bind", "needs 1,088 threads per block", fix="pass smaller arrays"):
        call(f, 17, 64)


@pytest.mark.opencl
def test_a_saved_module_keeps_its_limits(tmp_path: Path) -> None:
    path = str(tmp_path / "doubled.tw")
    tw.build(*doubled("threadIdx.x"), target="opencl").save(path)
    with refused("bind", "needs 2,000 threads per block"):
        call(tw.runtime.load_module(path), 2000)


def test_blocks_of_the_second_and_third_dimension_are_limited() -> None:
    limits = tw.build(*doubled("blockIdx.z", "blockIdx.y", "blockIdx.x"), target="cuda").program.entries[0].limits
    assert [(limit.what, limit.allowed) for limit in limits] == [("blockIdx.y", 65535), ("blockIdx.z", 65535)]


def test_constant_extents_are_not_compared_at_the_call() -> None:
    A = te.placeholder((te.size_var("n"), 64), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    f = tw.build(s, [A, B], target="cuda")
    assert f.program.entries[0].limits == ()
    assert "too_many" not in f.get_source()


@pytest.mark.parametrize(("registers", "most"), [(64, 1024), (65, 896), (128, 512), (255, 256)])
def test_threads_of_many_registers_make_small_blocks(registers: int, most: int) -> None:
    entry = EntryPoint(
        "main", (), "", "main", limits=(LaunchFact("k_threads", "k", "threads per block", 1024, ("B",)),)
    )
    used = {"k": Resources(registers, 0, 0, 0, 0, 0)}
    (limit,) = within_registers(entry, used, NVIDIA["sm_90"]).limits
    assert limit.allowed == most
    assert limit.registers == (registers if most < 1024 else 0)
