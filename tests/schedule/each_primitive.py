"""One program and one mistake for each primitive of the schedule language."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tilewright import te, tir, topi

Program = tuple[te.Schedule, list[te.Tensor], Callable[..., np.ndarray]]
"""A schedule, its arguments with the output last, and what the output is for given inputs."""


class Entry(NamedTuple):
    """A primitive: programs without and with it, for a grid of threads or a processor, and a refused call."""

    program: Callable[[bool, bool], Program]
    """`program(used, on_grid)`: with the primitive where `used`."""
    mistake: Callable[[], Any] | None
    """A call that is refused; None where every call is accepted."""
    says: str
    only: str = ""
    """"grid" or "processor", where the primitive is for one of them."""
    differs: bool = True
    """Whether the loops that `lower` prints tell that the primitive was used."""


def chain(n: int = 24) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """C = 2 (A + 1), by way of B."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    C = te.compute((n,), lambda i: B[i] * 2, name="C")
    return te.create_schedule(C.op), A, B, C


def matrix() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    """B = A + 1, of 8×12."""
    A = te.placeholder((8, 12), name="A")
    B = te.compute((8, 12), lambda i, j: A[i, j] + 1, name="B")
    return te.create_schedule(B.op), A, B


def sums() -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    """B[i] = sum of A[i, k] over k."""
    A = te.placeholder((16, 32), name="A")
    k = te.reduce_axis((0, 32), name="k")
    B = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B


def stencil() -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """C[y, x] = three rows of B = A + 1."""
    A = te.placeholder((10, 16), name="A")
    B = te.compute((10, 16), lambda y, x: A[y, x] + 1, name="B")
    C = te.compute((8, 16), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], name="C")
    return te.create_schedule(C.op), A, B, C


def running() -> tuple[te.Schedule, te.Tensor, tuple[te.Tensor, te.Tensor, te.Tensor]]:
    """Sums of columns so far."""
    X, state = te.placeholder((5, 16), name="X"), te.placeholder((5, 16), name="state")
    first = te.compute((1, 16), lambda _, i: X[0, i], name="first")
    step = te.compute((5, 16), lambda t, i: state[t - 1, i] + X[t, i], name="step")
    total = te.scan(first, step, state, inputs=[X], name="total")
    return te.create_schedule(total.op), X, (first, step, total)


def on_threads(s: te.Schedule, T: te.Tensor, on_grid: bool, *axes: Any) -> Any:
    """Bind the given axes of a stage, or its first loops, to blocks and threads; returns the innermost of these."""
    chosen = axes or tuple(s[T].leaf_iter_vars[:1])
    if on_grid:
        for axis, tag in zip(reversed(chosen), ("threadIdx.x", "blockIdx.x"), strict=False):
            s[T].bind(axis, te.thread_axis(tag))
    return chosen[-1]


def plus_one(a: np.ndarray) -> np.ndarray:
    return a + 1


def twice(a: np.ndarray) -> np.ndarray:
    return 2 * (a + 1)


def of_rows(a: np.ndarray) -> np.ndarray:
    out: np.ndarray = a.sum(1)
    return out


def three_rows(a: np.ndarray) -> np.ndarray:
    out: np.ndarray = a[:-2] + a[1:-1] + a[2:] + 3
    return out


def _split(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    (i, j) = B.op.axis
    axes = s[B].split(j, factor=5) if used else (i, j)
    on_threads(s, B, on_grid, *axes)
    return s, [A, B], plus_one


def _fuse(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    on_threads(s, B, on_grid, *([s[B].fuse(*B.op.axis)] if used else B.op.axis))
    return s, [A, B], plus_one


def _reorder(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    i, j = B.op.axis
    if used:
        s[B].reorder(j, i)
    on_threads(s, B, on_grid, j)
    return s, [A, B], plus_one


def _tile(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    axes = s[B].tile(*B.op.axis, 4, 5)[:2] if used else B.op.axis
    on_threads(s, B, on_grid, *axes)
    return s, [A, B], plus_one


def _bind(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    if used:
        s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    return s, [A, B], plus_one


def _loop(method: str) -> Callable[[bool, bool], Program]:
    """A primitive of one loop: the inner of two."""

    def program(used: bool, on_grid: bool) -> Program:
        s, A, B = matrix()
        i, j = B.op.axis
        _, part = s[B].split(j, factor=4)
        if used:
            getattr(s[B], method)(part)
        on_threads(s, B, on_grid, i)
        return s, [A, B], plus_one

    return program


def _parallel(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    if used:
        s[B].parallel(B.op.axis[0])
    return s, [A, B], plus_one


def _pragma(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    on_threads(s, B, on_grid)
    if used:
        s[B].pragma(B.op.axis[1], "auto_unroll_max_step", 16)
        s[B].pragma(B.op.axis[1], "unroll_explicit", True)
    return s, [A, B], plus_one


def _compute_at(used: bool, on_grid: bool) -> Program:
    s, A, B, C = chain()
    axis = on_threads(s, C, on_grid)
    if used:
        s[B].compute_at(s[C], axis)
    else:
        on_threads(s, B, on_grid)
    return s, [A, C], twice


def _compute_inline(used: bool, on_grid: bool) -> Program:
    s, A, B, C = chain()
    on_threads(s, C, on_grid)
    if used:
        s[B].compute_inline()
    else:
        on_threads(s, B, on_grid)
    return s, [A, C], twice


def _compute_root(used: bool, on_grid: bool) -> Program:
    s, A, B, C = chain()
    axis = on_threads(s, C, on_grid)
    s[B].compute_at(s[C], axis)
    if used:
        s[B].compute_root()
        on_threads(s, B, on_grid)
    return s, [A, C], twice


def _set_scope(used: bool, on_grid: bool) -> Program:
    s, A, B, C = chain()
    s[B].compute_at(s[C], on_threads(s, C, on_grid, *s[C].split(C.op.axis[0], factor=8)[:1]))
    if used:
        s[B].set_scope("shared" if on_grid else "local")
    return s, [A, C], twice


def _cache_read(used: bool, on_grid: bool) -> Program:
    s, A, B = sums()
    axis = on_threads(s, B, on_grid)
    if used:
        s[s.cache_read(A, "local", [B])].compute_at(s[B], axis)
    return s, [A, B], of_rows


def _cache_write(used: bool, on_grid: bool) -> Program:
    s, A, B = sums()
    total = s.cache_write(B, "local") if used else None
    axis = on_threads(s, B, on_grid)
    if total is not None:
        s[total].compute_at(s[B], axis)
    return s, [A, B], of_rows


def _rfactor(used: bool, on_grid: bool) -> Program:
    s, A, B = sums()
    outer, _ = s[B].split(B.op.reduce_axis[0], factor=8)
    if used:
        parts = s.rfactor(B, outer)
        on_threads(s, parts, on_grid, *s[parts].op.axis)
    on_threads(s, B, on_grid, s[B].op.axis[0])
    return s, [A, B], of_rows


def _turned(step: Callable[[Any], Any]) -> Callable[[bool, bool], Program]:
    """A primitive of storage: a tile that a block transposes."""

    def program(used: bool, on_grid: bool) -> Program:
        A = te.placeholder((16, 32), name="A")
        B = te.compute((32, 16), lambda i, j: A[j, i], name="B")
        s = te.create_schedule(B.op)
        tile = s.cache_read(A, "shared", [B])
        y, x, row, column = s[B].tile(*B.op.axis, 16, 16)
        s[tile].compute_at(s[B], x)
        for stage, axes in ((B, (row, column)), (tile, s[tile].op.axis)) if on_grid else ():
            s[stage].bind(axes[0], te.thread_axis("threadIdx.y"))
            s[stage].bind(axes[1], te.thread_axis("threadIdx.x"))
        if on_grid:
            s[B].bind(s[B].fuse(y, x), te.thread_axis("blockIdx.x"))
            s[tile].compute_at(s[B], s[B].leaf_iter_vars[0])
        if used:
            step(s[tile])
        return s, [A, B], np.transpose

    return program


def _ring(step: Callable[[Any], Any]) -> Callable[[bool, bool], Program]:
    """A primitive of copies that are loaded ahead: a tile of each row's terms."""

    def program(used: bool, on_grid: bool) -> Program:
        s, A, B = sums()
        on_threads(s, B, on_grid)
        outer, _ = s[B].split(B.op.reduce_axis[0], factor=8)
        tile = s.cache_read(A, "shared", [B])
        s[tile].compute_at(s[B], outer)
        if on_grid:
            s[tile].bind(s[tile].op.axis[0], te.thread_axis("threadIdx.x"))
        if used:
            step(s[tile])
        return s, [A, B], of_rows

    return program


def _prefetch(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    i, j = B.op.axis
    on_threads(s, B, on_grid, j)
    if used:
        s[B].prefetch(A, i, 2)
    return s, [A, B], plus_one


def _transform_layout(used: bool, on_grid: bool) -> Program:
    A = te.placeholder((8, 12), name="A")
    B = te.compute((8, 12), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((8, 12), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    if used:
        s[B].transform_layout(lambda i, j: [j // 4, i, j % 4])
    if on_grid:
        for T in (B, C):
            outer, *inner = s[T].leaf_iter_vars
            s[T].bind(outer, te.thread_axis("blockIdx.x"))
            s[T].bind(s[T].fuse(*inner), te.thread_axis("threadIdx.x"))
    return s, [A, C], lambda a: 2 * (a + 1)


def _as_product(used: bool, on_grid: bool) -> Program:
    A, r = te.placeholder((6, 7), name="A"), te.reduce_axis((0, 3), name="r")
    B = te.compute((6, 6, 5), lambda i, o, y: te.sum(A[i, y + r] * A[o, r], axis=r), name="B")
    s = te.create_schedule(B.op)
    i, o, y = B.op.axis
    if used:
        left, right, product = s[B].as_product([], [o], [i, y], [r])
        s[left].compute_inline()
        s[right].compute_inline()
        s[product].compute_at(s[B], i)
    if on_grid:
        s[B].bind(i, te.thread_axis("blockIdx.x"))
        s[B].bind(y, te.thread_axis("threadIdx.x"))
        s[product].set_scope("shared") if used else None
    windows = np.lib.stride_tricks.sliding_window_view
    return s, [A, B], lambda a: np.einsum("iyr,or->ioy", windows(a, 3, 1), a[:, :3])


def _redeclare(used: bool, on_grid: bool) -> Program:
    """The gradient of a depthwise layer by its input: a layer whose window runs backwards."""
    X, A = te.placeholder((1, 2, 5, 6), name="X"), te.placeholder((1, 2, 3, 4), name="A")
    W = te.compute((2, 1, 3, 3), lambda c, m, y, x: A[0, c, y, x] * 2, name="W")
    Y = topi.nn.depthwise_conv2d_nchw(X, W, 1, 0, 1)
    head = te.compute((1, 2, 3, 4), lambda *i: A(*i) + 1, name="head")
    (made,) = te.gradient(Y, [X], head)
    s = te.create_schedule(made.op)
    if used:
        s[made].redeclare("convolution", ["topi/depthwise", 0, "llvm"])
    windows = np.lib.stride_tricks.sliding_window_view

    def expected(a: np.ndarray) -> np.ndarray:
        around = np.pad(a + 1, ((0, 0), (0, 0), (2, 2), (2, 2)))
        return np.einsum("ncyxab,cab->ncyx", windows(around, (3, 3), (2, 3)), 2 * a[0, :, ::-1, 2::-1])

    return s, [A, made], expected


def _round_up(used: bool, on_grid: bool) -> Program:
    A = te.placeholder((10, 6), name="A")
    B = te.compute((10, 6), lambda i, k: A[i, k] + 1, name="B")
    k = te.reduce_axis((0, 6), name="k")
    C = te.compute((10,), lambda i: te.sum(B[i, k], axis=k), name="C")
    D = te.compute((10,), lambda i: C[i] * 2, name="D")
    s = te.create_schedule(D.op)
    if used:
        s[C].round_up((C.op.axis[0], 4), (k, 4))
    s[B].compute_inline()
    tiles, rows = s[D].split(D.op.axis[0], factor=4)
    s[C].compute_at(s[D], tiles)
    s[C].split(s[C].op.reduce_axis[0], factor=4)
    if on_grid:
        s[C].set_scope("shared")
        s[D].bind(tiles, te.thread_axis("blockIdx.x"))
        for T, axis in ((C, s[C].op.axis[0]), (D, rows)):
            s[T].bind(axis, te.thread_axis("threadIdx.x"))
    return s, [A, D], lambda a: 2 * (a + 1).sum(1)


def _rolling_buffer(used: bool, on_grid: bool) -> Program:
    s, A, B, C = stencil()
    y, x = C.op.axis
    if on_grid:
        s[C].reorder(x, y)
        s[C].bind(x, te.thread_axis("threadIdx.x"))
        s[B].set_scope("local")
    s[B].compute_at(s[C], y)
    if used:
        s[B].rolling_buffer()
    return s, [A, C], three_rows


def _env_threads(used: bool, on_grid: bool) -> Program:
    s, X, (first, step, total) = running()
    tx = te.thread_axis((0, 16), "threadIdx.x")
    s[first].bind(first.op.axis[1], tx)
    s[step].bind(step.op.axis[1], tx)
    if used:
        s[total].env_threads([tx])
    return s, [X, total], lambda x: np.cumsum(x, 0)


def _set_store_predicate(used: bool, on_grid: bool) -> Program:
    s, A, B = sums()
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(B.op.reduce_axis[0], tx)
    if used:
        s[B].set_store_predicate(tx.var.equal(31))
    return s, [A, B], of_rows


def _tensorize(used: bool, on_grid: bool) -> Program:
    s, A, B = matrix()
    on_threads(s, B, on_grid, B.op.axis[0])
    _, part = s[B].split(B.op.axis[1], factor=4)
    if used:
        s[B].tensorize(part, four_at_once())
    return s, [A, B], plus_one


def four_at_once() -> Any:
    """An intrinsic that adds 1 to four neighbours."""
    a = te.placeholder((4,), name="a")
    b = te.compute((4,), lambda i: a[i] + 1, name="b")
    buffers = {t: tir.decl_buffer((4,), "float32", t.name, offset_factor=1, strides=[1]) for t in (a, b)}

    def statement(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        given, made = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        for lane in reversed(range(4)):
            made[lane] = given[lane] + 1
        return ib.get()

    return te.decl_tensor_intrin(b.op, statement, binds=buffers)


def _create_group(used: bool, on_grid: bool) -> Program:
    A = te.placeholder((24,), name="A")
    B = te.compute((24,), lambda i: A[i] + 1, name="B")
    C = te.compute((24,), lambda i: B[i] * 2, name="C")
    D = te.compute((24,), lambda i: C[i] - 3, name="D")
    s = te.create_schedule(D.op)
    axis = on_threads(s, D, on_grid)
    if used:
        s.create_group(outputs=C, inputs=A).compute_at(s[D], axis)
    else:
        for T in (B, C):
            on_threads(s, T, on_grid)
    return s, [A, D], lambda a: 2 * (a + 1) - 3


def _normalize(used: bool, on_grid: bool) -> Program:
    s, args, expected = _split(True, on_grid)
    return (s.normalize() if used else s), args, expected


def _of(make: Callable[[], Any], call: Callable[..., Any]) -> Callable[[], Any]:
    """A call that is refused, of a program that is made for it."""
    return lambda: call(*make())


ENTRIES: dict[str, Entry] = {
    "split": Entry(_split, _of(matrix, lambda s, A, B: s[B].split(B.op.axis[0], factor=0)), "factor=0"),
    "fuse": Entry(_fuse, _of(sums, lambda s, A, B: s[B].fuse(*B.op.axis, B.op.axis[0])), "'i'"),
    "reorder": Entry(_reorder, _of(matrix, lambda s, A, B: s[B].reorder(B.op.axis[0], B.op.axis[0])), "'i'"),
    "tile": Entry(_tile, _of(matrix, lambda s, A, B: s[B].tile(*B.op.axis, 4, 0)), "0"),
    "bind": Entry(_bind, _of(matrix, lambda s, A, B: s[B].bind(B.op.axis[0], "threadIdx.x")), "thread", "grid"),
    "unroll": Entry(_loop("unroll"), _of(matrix, lambda s, A, B: s[B].unroll("j")), "'j'"),
    "vectorize": Entry(_loop("vectorize"), _of(sums, lambda s, A, B: s[B].vectorize(B.op.reduce_axis[0])), "'k'"),
    "parallel": Entry(_parallel, _of(sums, lambda s, A, B: s[B].parallel(B.op.reduce_axis[0])), "'k'", "processor"),
    "pragma": Entry(_pragma, _of(matrix, lambda s, A, B: s[B].pragma(B.op.axis[0], 3)), "3"),
    "compute_at": Entry(_compute_at, _of(chain, lambda s, A, B, C: s[C].compute_at(s[B], B.op.axis[0])), "'C'"),
    "compute_inline": Entry(_compute_inline, _of(chain, lambda s, A, B, C: s[C].compute_inline()), "'C'"),
    "compute_root": Entry(_compute_root, _of(chain, lambda s, A, B, C: s[A].compute_root()), "'A'"),
    "set_scope": Entry(_set_scope, _of(chain, lambda s, A, B, C: s[B].set_scope("sheared")), "sheared"),
    "cache_read": Entry(_cache_read, _of(chain, lambda s, A, B, C: s.cache_read(A, "shared", [C])), "'C'"),
    "cache_write": Entry(_cache_write, _of(chain, lambda s, A, B, C: s.cache_write(A, "local")), "'A'"),
    "rfactor": Entry(_rfactor, _of(sums, lambda s, A, B: s.rfactor(B, B.op.axis[0])), "'i'"),
    "storage_align": Entry(
        _turned(lambda tile: tile.storage_align(tile.op.axis[0], 16, 1)),
        _of(chain, lambda s, A, B, C: s[B].storage_align(B.op.axis[0], 0, 0)),
        "factor=0",
    ),
    "storage_swizzle": Entry(
        _turned(lambda tile: tile.storage_swizzle()),
        _of(chain, lambda s, A, B, C: s[C].storage_swizzle()),
        "'C'",
        differs=False,
    ),
    "pipeline": Entry(_ring(lambda tile: tile.pipeline(3)), _of(chain, lambda s, A, B, C: s[B].pipeline(0)), "depth=0"),
    "double_buffer": Entry(
        _ring(lambda tile: tile.double_buffer()), _of(chain, lambda s, A, B, C: s[B].double_buffer()), "'B'"
    ),
    "prefetch": Entry(_prefetch, _of(matrix, lambda s, A, B: s[B].prefetch(A, B.op.axis[0], 0)), "offset=0"),
    "transform_layout": Entry(
        _transform_layout, _of(chain, lambda s, A, B, C: s[B].transform_layout(lambda i: [i // 5, i % 5])), "'B'"
    ),
    "as_product": Entry(
        _as_product, _of(sums, lambda s, A, B: s[B].as_product([], B.op.axis, [], B.op.reduce_axis)), "no axis"
    ),
    "redeclare": Entry(
        _redeclare,
        _of(sums, lambda s, A, B: s[B].redeclare("convolution", ["topi/depthwise", 0, "llvm"])),
        "'B'",
        "processor",
    ),
    "round_up": Entry(_round_up, _of(chain, lambda s, A, B, C: s[B].round_up((B.op.axis[0], 5))), "'A'"),
    "rolling_buffer": Entry(_rolling_buffer, _of(stencil, lambda s, A, B, C: s[B].rolling_buffer()), "'B'"),
    "env_threads": Entry(_env_threads, _of(matrix, lambda s, A, B: s[B].env_threads([])), "'B'", "grid"),
    "set_store_predicate": Entry(
        _set_store_predicate, _of(sums, lambda s, A, B: s[B].set_store_predicate(31)), "31", "grid"
    ),
    "tensorize": Entry(_tensorize, _of(matrix, lambda s, A, B: s[B].tensorize(B.op.axis[0], 3)), "3"),
    "create_group": Entry(_create_group, _of(chain, lambda s, A, B, C: s.create_group(B, 3)), "3"),
    "normalize": Entry(_normalize, None, "", differs=False),
}
