"""Kernels that ask more than the hardware has."""

from __future__ import annotations

import pytest

from tests.codegen import programs as p
from tilewright.codegen.program import generate
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.expr.nodes import Var
from tilewright.loops.nodes import Allocate, Buffer, Function, seq


def refuse(target: str, *shared: Buffer, **threads: int) -> str:
    """The message for a kernel with those shared buffers and threads."""
    b = p.buf("B", 1)
    body = p.put(b, 0, p.c(1.0))
    for buffer in shared:
        body = Allocate(buffer, seq(p.put(buffer, 0, p.c(1.0)), body))
    kernel = p.launch(body, **{tag: (Var(tag), extent) for tag, extent in threads.items()})
    with pytest.raises(UserError) as caught:
        generate((Function("main", (b,), kernel),), Target(target))
    return str(caught.value)


def test_too_many_threads() -> None:
    text = refuse("cuda", threadIdx_x=64, threadIdx_y=32)
    assert "kernel main_kernel has 2,048 threads per block (threadIdx.x 64 × threadIdx.y 32)" in text
    assert "cuda allows 1,024" in text


def test_a_dimension_too_long() -> None:
    assert "threadIdx.z of extent 128, but cuda allows 64" in refuse("cuda", threadIdx_z=128)
    assert "blockIdx.y of extent 70,000, but cuda allows 65,535" in refuse("cuda", blockIdx_y=70_000)


def test_too_much_shared_memory_names_the_buffers() -> None:
    shared = p.buf("A.shared", 100, 300, scope="shared"), p.buf("W.shared", 8_000, scope="shared", dtype="float64")
    text = refuse("cuda -arch=sm_86", *shared, threadIdx_x=32)
    assert "needs 184,000 bytes of shared memory, but cuda -arch=sm_86 has 101,376 per block" in text
    assert "A.shared 30,000 × float32 = 120,000 bytes" in text
    assert "W.shared 8,000 × float64 = 64,000 bytes" in text
    assert "has 49,152 per block" in refuse("opencl", shared[0], threadIdx_x=32)


def test_shared_memory_of_unknown_size() -> None:
    text = refuse("cuda", p.buf("A.shared", Var("n"), 4, scope="shared"), threadIdx_x=32)
    assert "A.shared in shared memory has extents (n, 4), not all constants" in text
