"""The 1-D ladder: the full convolution of M numbers with a kernel of N, M + N − 1 results.

Every program takes A (M,), W (N,) and fills B (M + N − 1,).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .. import te, tir
from .rung import Ladder, Rung, RungProgram, check_sizes, random


def naive(size: Conv1dLadder) -> RungProgram:
    """Sums over every pair of positions; a condition discards pairs that do not meet."""
    M, N, dtype = size.M, size.N, size.dtype
    A = te.placeholder((M,), dtype, "A")
    W = te.placeholder((N,), dtype, "W")
    k = te.reduce_axis((0, M + N - 1), "k")

    def product(n: Any) -> Any:
        outside = tir.any(k < 0, k >= M, n - k < 0, n - k >= N)
        return te.sum(tir.if_then_else(outside, tir.const(0.0, dtype), A[k] * W[n - k]), axis=k)

    B = te.compute((M + N - 1,), product, "B")
    return _one_block_per_output(A, W, B)


def v1(size: Conv1dLadder) -> RungProgram:
    """Sums over the kernel's positions only: N terms for each result instead of the M + N − 1 of `naive`."""
    M, N, dtype = size.M, size.N, size.dtype
    A = te.placeholder((M,), dtype, "A")
    W = te.placeholder((N,), dtype, "W")
    r = te.reduce_axis((0, N), "r")

    def product(i: Any) -> Any:
        inside = tir.all(i - r >= 0, i - r < M)
        return te.sum(tir.if_then_else(inside, A[i - r], tir.const(0.0, dtype)) * W[r], axis=r)

    B = te.compute((M + N - 1,), product, "B")
    return _one_block_per_output(A, W, B)


def _one_block_per_output(A: te.Tensor, W: te.Tensor, B: te.Tensor) -> RungProgram:
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    return RungProgram(s, (A, W, B))


def v2(size: Conv1dLadder) -> RungProgram:
    """v1 with 8 threads in a block; binding the split loops lifts v1's own binding."""
    program = v1(size)
    s, B = program.schedule, program.args[-1]
    block, thread = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    return program


def v3(size: Conv1dLadder) -> RungProgram:
    """v1 with 16 threads in a block, as 4 rows of 4."""
    program = v1(size)
    s, B = program.schedule, program.args[-1]
    _threads_in_two_dimensions(s, B, per_block=16, per_row=4)
    return program


def v4(size: Conv1dLadder) -> RungProgram:
    """v1 with 32 threads; the sum lives in a register, and 4 weights at a time in shared memory."""
    program = v1(size)
    s, (_, W, B) = program.schedule, program.args
    # Caches come first: they split the stage that the lines below schedule.
    B_local = s.cache_write(B, "local")
    W_shared = s.cache_read(W, "shared", [B_local])
    block, thread = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[B_local].compute_at(s[B], thread)
    r_outer, _ = s[B_local].split(B_local.op.reduce_axis[0], factor=4)
    s[W_shared].compute_at(s[B_local], r_outer)
    return program


def v5(size: Conv1dLadder) -> RungProgram:
    """v1 with 32 threads as 8 rows of 4, the register and the shared weights of v4, 8 terms written out."""
    program = v1(size)
    s, (_, W, B) = program.schedule, program.args
    B_local = s.cache_write(B, "local")
    W_shared = s.cache_read(W, "shared", [B_local])
    lane = _threads_in_two_dimensions(s, B, per_block=32, per_row=4)
    s[B_local].compute_at(s[B], lane)
    r_outer, r_inner = s[B_local].split(B_local.op.reduce_axis[0], factor=8)
    s[W_shared].compute_at(s[B_local], r_outer)
    s[B_local].unroll(r_inner)
    return program


def _threads_in_two_dimensions(s: te.Schedule, B: te.Tensor, per_block: int, per_row: int) -> te.IterVar:
    """Bind the one loop of B to blocks, rows of threads and threads in a row; returns the loop of the latter."""
    block, thread = s[B].split(B.op.axis[0], factor=per_block)
    row, lane = s[B].split(thread, factor=per_row)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(row, te.thread_axis("threadIdx.y"))
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    return lane


@dataclass(frozen=True, kw_only=True)
class Conv1dLadder(Ladder):
    """The full 1-D convolution of M numbers with N weights."""

    M: int = 16384
    N: int = 32

    title: ClassVar[str] = "conv1d"
    rungs: ClassVar[tuple[Rung, ...]] = (
        Rung("naive", "sums over the whole input, a block per result", naive),
        Rung("v1", "sums over the kernel only", v1),
        Rung("v2", "8 threads per block", v2),
        Rung("v3", "4×4 threads per block", v3),
        Rung("v4", "32 threads, shared weights, sum in a register", v4),
        Rung("v5", "8×4 threads, v4's memory, 8 terms unrolled", v5),
    )

    def __post_init__(self) -> None:
        check_sizes(self.dtype, M=self.M, N=self.N)

    def sizes(self) -> str:
        return f"M={self.M} N={self.N} {self.dtype}"

    def inputs(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return random(rng, self.dtype, self.M), random(rng, self.dtype, self.N)

    @property
    def terms(self) -> int:
        return self.N

    def numpy(self, data: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return np.convolve(data, weight)

    def torch(self, data: Any, weight: Any) -> list[tuple[str, Callable[[], Any]]]:
        from torch.nn.functional import conv1d

        # PyTorch correlates: a flipped kernel and N − 1 zeros on each side make it the full convolution.
        rows, kernel = data.view(1, 1, -1), weight.flip(0).view(1, 1, -1)
        return [("conv1d", lambda: conv1d(rows, kernel, padding=self.N - 1).view(-1))]
