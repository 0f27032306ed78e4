"""Small schedules that pictures and explanations are tested on."""

from __future__ import annotations

from tilewright import te, tir


def bind(stage: te.Stage, *pairs: tuple[te.IterVar, str]) -> None:
    for axis, tag in pairs:
        stage.bind(axis, te.thread_axis(tag))


def transpose(n: int = 1024, padded: bool = False) -> te.Schedule:
    """Through a tile of 32 x 32 in shared memory."""
    A = te.placeholder((n, n), name="A")
    B = te.compute((n, n), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    by, bx, ty, tx = s[B].tile(*B.op.axis, 32, 32)
    bind(s[B], (by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x"))
    s[tile].compute_at(s[B], bx)
    if padded:
        s[tile].storage_align(tile.op.axis[0], 32, 1)
    return s


def strided(n: int = 4096, step: int = 1) -> te.Schedule:
    """Every `step`-th element, 64 threads a block."""
    A = te.placeholder((n * step,), name="A")
    B = te.compute((n,), lambda i: A[i * step] * 2 + 1, name="B")
    s = te.create_schedule(B.op)
    block, thread = s[B].split(B.op.axis[0], 64)
    bind(s[B], (block, "blockIdx.x"), (thread, "threadIdx.x"))
    return s


def convolution(n: int = 16384, taps: int = 32, threads: int = 128) -> te.Schedule:
    """The 1-D convolution of the guide, the sum in a register."""
    A, W = te.placeholder((n,), name="A"), te.placeholder((taps,), name="W")
    r = te.reduce_axis((0, taps), name="r")
    B = te.compute(
        (n + taps - 1,),
        lambda i: te.sum(tir.if_then_else(tir.all(i - r >= 0, i - r < n), A[i - r], 0.0) * W[r], axis=r),
        name="B",
    )
    s = te.create_schedule(B.op)
    total = s.cache_write(B, "local")
    block, thread = s[B].split(B.op.axis[0], factor=threads)
    bind(s[B], (block, "blockIdx.x"), (thread, "threadIdx.x"))
    s[total].compute_at(s[B], thread)
    return s


def product(n: int = 256, shared: bool = True, vthreads: int = 2) -> te.Schedule:
    """C = A B in tiles of 64 x 64, eight by eight threads, with virtual threads."""
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    tiles = [s.cache_read(T, "shared", [C]) for T in (A, B)] if shared else []
    total = s.cache_write(C, "local")
    by, bx, i, j = s[C].tile(*C.op.axis, 64, 64)
    vy, i = s[C].split(i, nparts=vthreads)
    vx, j = s[C].split(j, nparts=vthreads)
    ty, i = s[C].split(i, nparts=8)
    tx, j = s[C].split(j, nparts=8)
    s[C].reorder(by, bx, vy, vx, ty, tx, i, j)
    bind(s[C], (by, "blockIdx.y"), (bx, "blockIdx.x"), (vy, "vthread"), (vx, "vthread"))
    bind(s[C], (ty, "threadIdx.y"), (tx, "threadIdx.x"))
    s[total].compute_at(s[C], tx)
    outer, inner = s[total].split(total.op.reduce_axis[0], 8)
    s[total].reorder(outer, inner, *total.op.axis)
    for tile in tiles:
        s[tile].compute_at(s[total], outer)
    return s
