"""Finished functions written by hand: what the passes will produce, small enough to read."""

from __future__ import annotations

from tilewright.core.hardware import MemoryScope, ThreadTag
from tilewright.expr import operators as op
from tilewright.expr.nodes import Expr, IfThenElse, Load, Ramp, Var
from tilewright.loops.nodes import (
    Allocate,
    Barrier,
    Buffer,
    For,
    Function,
    If,
    Launch,
    LoopKind,
    Stmt,
    Store,
    seq,
)


def c(value: float, dtype: str | None = None) -> Expr:
    """A constant."""
    return op.const(value, dtype)


def buf(name: str, *shape: int | Expr, dtype: str = "float32", scope: str = "global", note: str = "") -> Buffer:
    """A buffer."""
    extents = tuple(c(e) if isinstance(e, int) else e for e in shape)
    return Buffer(name, dtype, extents, MemoryScope(scope), note=note)


def loop(var: Var, extent: int | Expr, body: Stmt, kind: LoopKind = LoopKind.SERIAL, start: int = 0) -> For:
    """A loop."""
    return For(var, c(start), op.as_expr(extent), kind, None, (), body)


def launch(body: Stmt, name: str = "main_kernel", **threads: tuple[Var, int | Expr]) -> Launch:
    """`launch(body, blockIdx_x=(bx, 4), threadIdx_x=(tx, 32))`"""
    bound = tuple((ThreadTag(tag.replace("_", ".")), var, op.as_expr(extent)) for tag, (var, extent) in threads.items())
    return Launch(name, bound, body, 0, False)


def at(buffer: Buffer, *indices: Expr | int) -> Load:
    """An element."""
    return Load(buffer, tuple(op.as_expr(i) for i in indices))


def put(buffer: Buffer, index: Expr | int, value: Expr) -> Store:
    """A store to a flat buffer."""
    return Store(buffer, (op.as_expr(index),), value)


def elementwise(size: int, dtypes: list[str], value, out_dtype: str, block: int = 64, blocks: int = 0) -> Function:
    """out[i] = value(inputs[0][i], inputs[1][i], ...), with a guard where the last block is partial.

    `blocks`, where given, leaves out the others.
    """
    bx, tx = Var("blockIdx.x"), Var("threadIdx.x")
    inputs = [buf(f"A{k}", size, dtype=dtype) for k, dtype in enumerate(dtypes)]
    out = buf("B", size, dtype=out_dtype)
    i = bx * block + tx
    body: Stmt = put(out, i, value(*[at(a, i) for a in inputs]))
    if size % block:
        body = If(op.likely(i < size), body, None)
    kernel = launch(body, blockIdx_x=(bx, blocks or -(-size // block)), threadIdx_x=(tx, block))
    return Function("main", (*inputs, out), kernel)


def rows(size: int, dtypes: list[str], values, out_dtype: str) -> Function:
    """out[k, i] = values[k](inputs[0][i], inputs[1][i], ...): many functions of the same elements in one kernel."""
    tx = Var("threadIdx.x")
    inputs = [buf(f"A{k}", size, dtype=dtype) for k, dtype in enumerate(dtypes)]
    out = buf("B", len(values), size, dtype=out_dtype)
    body = seq(*(Store(out, (c(k), tx), value(*[at(a, tx) for a in inputs])) for k, value in enumerate(values)))
    return Function("main", (*inputs, out), launch(body, threadIdx_x=(tx, size)))


def reduction(rows: int, columns: int) -> Function:
    """B[i] = sum of A[i, :], by a block of threads a row, over shared memory."""
    bx, tx, k, step = Var("blockIdx.x"), Var("threadIdx.x"), Var("k"), Var("step")
    a, b = buf("A", rows, columns), buf("B", rows, note="B = sum(A, axis=1)")
    shared, local = buf("B.shared", 128, scope="shared"), buf("B.local", 1, scope="local")
    column = k * 128 + tx
    partial = put(local, 0, at(local, 0) + at(a, bx, column))
    half = op.shift_right(c(64), step)
    tree = seq(
        If(tx < half, put(shared, tx, at(shared, tx) + at(shared, tx + half)), None),
        Barrier(MemoryScope.SHARED),
    )
    body = seq(
        put(local, 0, c(0.0)),
        loop(k, -(-columns // 128), If(op.likely(column < columns), partial, None)),
        put(shared, tx, at(local, 0)),
        Barrier(MemoryScope.SHARED),
        loop(step, 7, tree),
        If(op.equal(tx, 0), put(b, bx, at(shared, 0)), None),
    )
    body = Allocate(shared, Allocate(local, body))
    return Function("main", (a, b), launch(body, blockIdx_x=(bx, rows), threadIdx_x=(tx, 128)))


def tiles(size: int, tile: int = 4) -> Function:
    """C = A @ B of square matrices by 2-D blocks; each thread keeps a tile in local memory."""
    bx, by, tx, ty = (Var(name) for name in ("blockIdx.x", "blockIdx.y", "threadIdx.x", "threadIdx.y"))
    k, i, j, i2, j2 = Var("k"), Var("i"), Var("j"), Var("i"), Var("j")
    a, b, out = buf("A", size, size), buf("B", size, size), buf("C", size, size)
    acc = buf("C.local", tile, tile, scope="local", note="C.local")
    row, column = (by * 8 + ty) * tile, (bx * 8 + tx) * tile
    guard = op.all_of(row + i < size, column + j < size)
    update = Store(acc, (i, j), at(acc, i, j) + at(a, row + i, k) * at(b, k, column + j))
    zero = loop(i2, tile, loop(j2, tile, Store(acc, (i2, j2), c(0.0)), LoopKind.UNROLLED), LoopKind.UNROLLED)
    body = seq(
        zero,
        loop(k, size, loop(i, tile, loop(j, tile, If(guard, update, None)), LoopKind.UNROLLED)),
        loop(i, tile, loop(j, tile, If(guard, Store(out, (row + i, column + j), at(acc, i, j)), None))),
    )
    blocks = -(-size // (8 * tile))
    kernel = launch(
        Allocate(acc, body),
        blockIdx_x=(bx, blocks),
        blockIdx_y=(by, blocks),
        threadIdx_x=(tx, 8),
        threadIdx_y=(ty, 8),
    )
    return Function("main", (a, b, out), kernel)


def vectors(size: int, lanes: int, dtype: str = "float32") -> Function:
    """B = 2 A + A[0], with vector loads and stores, staged through shared memory."""
    tx = Var("threadIdx.x")
    a, b = buf("A", size, dtype=dtype), buf("B", size, dtype=dtype)
    shared = buf("A.shared", size, dtype=dtype, scope="shared")
    ramp = Ramp(tx * lanes, c(1), lanes)
    body = seq(
        put(shared, ramp, at(a, ramp)),
        Barrier(MemoryScope.SHARED),
        put(b, ramp, op.add(op.multiply(at(shared, ramp), c(2, dtype)), op.cast(f"{dtype}x{lanes}", at(a, 0)))),
    )
    return Function("main", (a, b), launch(Allocate(shared, body), threadIdx_x=(tx, size // lanes)))


def padded(size: int, lanes: int) -> Function:
    """B[i] = A[i - 1] where there is one, else 0: a vector whose lanes have conditions of their own."""
    bx = Var("blockIdx.x")
    a, b = buf("A", size), buf("B", size)
    ramp = Ramp(bx * lanes, c(1), lanes)
    index = Ramp(bx * lanes - 1, c(1), lanes)
    value = IfThenElse(
        op.greater_equal(index, op.const(0, f"int32x{lanes}")),
        at(a, index),
        op.const(0.0, f"float32x{lanes}"),
    )
    return Function("main", (a, b), launch(put(b, ramp, value), blockIdx_x=(bx, size // lanes)))


def symbolic() -> Function:
    """B[i] = A[i] + A[n - 1 - i] for any n, through scratch in global memory, in two kernels."""
    size = Var("n")
    bx, tx, bx2 = Var("blockIdx.x"), Var("threadIdx.x"), Var("blockIdx.x")
    a, b = buf("A", size), buf("B", size)
    scratch = buf("A_reversed", size, note="A_reversed")
    i = bx * 32 + tx
    first = If(op.likely(i < size), put(scratch, i, at(a, size - 1 - i)), None)
    second = put(b, bx2, at(a, bx2) + at(scratch, bx2))
    body = Allocate(
        scratch,
        seq(
            launch(first, "main_kernel", blockIdx_x=(bx, (size + 31) // 32), threadIdx_x=(tx, 32)),
            launch(second, "main_kernel", blockIdx_x=(bx2, size)),
        ),
    )
    return Function("main", (a, b), body)


def scan(steps: int, size: int) -> Function:
    """B[t, i] = B[t - 1, i] + A[t, i]: a loop on the host around a kernel."""
    t, tx = Var("t"), Var("threadIdx.x")
    a, b = buf("A", steps, size), buf("B", steps, size)
    tx0 = Var("threadIdx.x")
    init = launch(Store(b, (c(0), tx0), at(a, 0, tx0)), "main_init", threadIdx_x=(tx0, size))
    step = launch(Store(b, (t, tx), at(b, t - 1, tx) + at(a, t, tx)), "main_step", threadIdx_x=(tx, size))
    return Function("main", (a, b), seq(init, loop(t, steps - 1, step, start=1)))
