"""Programs around a matrix instruction: convolutions, batches, partial tiles, readers of many kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright import intrin, te

FLOAT16, FLOAT32 = "float16", "float32"


@dataclass(frozen=True)
class Program:
    """A schedule, its arguments (the last one is the result), inputs for them, and the result in float64."""

    s: te.Schedule
    args: Sequence[Any]
    inputs: Sequence[np.ndarray]
    wanted: np.ndarray


def uniform(shape: Sequence[int], dtype: str = FLOAT32, seed: int = 0) -> np.ndarray:
    """Values between -1 and 1; inputs of one program have different seeds."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def tiled(
    C: te.Tensor,
    D: te.Tensor,
    operands: Sequence[te.Tensor],
    block: tuple[int, int],
    warp: tuple[int, int],
    depth: int,
    atom: str,
) -> te.Schedule:
    """Blocks of warps compute C, which reads the sums D of two operands, element by element."""
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in operands]
    block_i, block_j, i, j = s[C].tile(*C.op.axis, *block)
    warp_i, warp_j, i, j = s[C].tile(i, j, *warp)
    tags = ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y")
    for axis, tag in zip((block_i, block_j, warp_i, warp_j), tags, strict=True):
        s[C].bind(axis, te.thread_axis(tag))
    s[D].compute_at(s[C], warp_j)
    outer, inner = s[D].split(D.op.reduce_axis[0], depth)
    s[D].reorder(outer, *D.op.axis, inner)
    for tile in tiles:
        s[tile].compute_at(s[D], outer)
    s[D].tensorize(D.op.axis[0], intrin.mma(atom))
    return s


def matrices(m: int, n: int, k: int, dtype: str) -> tuple[Any, Any, Any, Any]:
    """Two operands, their product in float32, and an axis of its terms."""
    A, B = te.placeholder((m, k), dtype, name="A"), te.placeholder((k, n), dtype, name="B")
    x = te.reduce_axis((0, k), "x")
    term = (lambda i, j: A[i, x] * B[x, j]) if dtype == FLOAT32 else _wide(A, B, x)
    return A, B, te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=x), name="D"), x


def _wide(A: Any, B: Any, x: Any) -> Callable[[Any, Any], Any]:
    return lambda i, j: A[i, x].astype(FLOAT32) * B[x, j].astype(FLOAT32)


def partial_tiles() -> Program:
    """No size divides by its tile; the reader adds a bias and reads the sums twice."""
    A, B, D, _ = matrices(52, 40, 32, FLOAT32)
    b = te.placeholder((40,), name="b")
    C = te.compute((52, 40), lambda i, j: te.max(D[i, j] + b[j], 0.0) * D[i, j], name="C")
    inputs = [uniform((52, 32)), uniform((32, 40), seed=1), uniform((40,), seed=2)]
    sums = inputs[0].astype("float64") @ inputs[1]
    s = tiled(C, D, [A, B], (32, 32), (32, 16), 16, "tf32")
    return Program(s, [A, B, b, C], inputs, np.maximum(sums + inputs[2], 0) * sums)


def padded_terms() -> Program:
    """As many terms as a tile has not, so that operands are padded with zeros."""
    m, n, k, padded = 32, 24, 21, 32
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    left = te.compute((m, padded), lambda i, x: te.if_then_else(x < k, A[i, x], 0.0), name="left")
    right = te.compute((padded, n), lambda x, j: te.if_then_else(x < k, B[x, j], 0.0), name="right")
    x = te.reduce_axis((0, padded), "x")
    D = te.compute((m, n), lambda i, j: te.sum(left[i, x] * right[x, j], axis=x), name="D")
    C = te.compute((m, n), lambda i, j: D[i, j] * 2.0, name="C")
    s = tiled(C, D, [left, right], (32, 24), (16, 24), 16, "3xtf32")
    s[left].compute_inline()
    s[right].compute_inline()
    inputs = [uniform((m, k)), uniform((k, n), seed=1)]
    return Program(s, [A, B, C], inputs, 2 * (inputs[0].astype("float64") @ inputs[1]))


def all_terms_at_once() -> Program:
    """One warp a block, no loop around the tensorized ones, sums stored as float16."""
    A, B, D, _ = matrices(32, 32, 32, FLOAT16)
    C = te.compute((32, 32), lambda i, j: te.max(D[i, j], 0.0).astype(FLOAT16), name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block_i, block_j, _, _ = s[C].tile(*C.op.axis, 16, 16)
    s[C].bind(block_i, te.thread_axis("blockIdx.y"))
    s[C].bind(block_j, te.thread_axis("blockIdx.x"))
    for tile in (D, *tiles):
        s[tile].compute_at(s[C], block_j)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    inputs = [uniform((32, 32), FLOAT16), uniform((32, 32), FLOAT16, seed=1)]
    return Program(s, [A, B, C], inputs, np.maximum(inputs[0].astype("float64") @ inputs[1].astype("float64"), 0))


def convolution_nhwc() -> Program:
    """Implicit GEMM: pixels by channels, the patches computed into shared memory."""
    n, h, w, c, f = 2, 5, 6, 16, 24
    X, W = te.placeholder((n, h, w, c), FLOAT16, name="X"), te.placeholder((3, 3, c, f), FLOAT16, name="W")

    def patch(m: Any, q: Any) -> Any:
        y, x = (m // w) % h + q // (3 * c) - 1, m % w + (q // c) % 3 - 1
        inside = te.all(y >= 0, y < h, x >= 0, x < w)
        return te.if_then_else(inside, X[m // (h * w), y, x, q % c], te.const(0, FLOAT16))

    patches = te.compute((n * h * w, 9 * c), patch, name="patches")
    weights = te.compute((9 * c, f), lambda q, o: W[q // (3 * c), (q // c) % 3, q % c, o], name="weights")
    k = te.reduce_axis((0, 9 * c), "k")
    D = te.compute((n * h * w, f), lambda m, o: te.sum(_wide(patches, weights, k)(m, o), axis=k), name="D")
    C = te.compute((n * h * w, f), lambda m, o: te.max(D[m, o], 0.0), name="C")
    s = tiled(C, D, [patches, weights], (32, 24), (16, 24), 48, "float16")
    s[patches].compute_inline()
    s[weights].compute_inline()
    inputs = [uniform((n, h, w, c), FLOAT16), uniform((3, 3, c, f), FLOAT16, seed=1)]
    x, v = (given.astype("float64") for given in inputs)
    around = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    sums = sum(around[:, r : r + h, q : q + w] @ v[r, q] for r in range(3) for q in range(3))
    return Program(s, [X, W, C], inputs, np.maximum(np.asarray(sums).reshape(-1, f), 0))


def convolution_hwcn() -> Program:
    """Filters by images, for one pixel a block; two axes of the reduction stay outside."""
    h, w, c, n, f = 3, 4, 16, 16, 32
    A, K = te.placeholder((h, w, c, n), name="A"), te.placeholder((3, 3, c, f), name="K")

    def pad(y: Any, x: Any, c: Any, n: Any) -> Any:
        return te.if_then_else(te.all(y >= 1, y <= h, x >= 1, x <= w), A[y - 1, x - 1, c, n], 0.0)

    P = te.compute((h + 2, w + 2, c, n), pad, name="P")
    r, q, k = (te.reduce_axis((0, e)) for e in (3, 3, c))
    D = te.compute(
        (h, w, f, n), lambda y, x, o, i: te.sum(P[y + r, x + q, k, i] * K[r, q, k, o], axis=[r, q, k]), name="D"
    )
    C = te.compute((h, w, f, n), lambda y, x, o, i: te.max(D[y, x, o, i], 0.0), name="C")
    s = te.create_schedule(C.op)
    s[P].compute_inline()
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (P, K)]
    y, x, o, i = C.op.axis
    warp, o = s[C].split(o, 16)
    s[C].reorder(y, x, warp, o, i)
    s[C].bind(s[C].fuse(y, x), te.thread_axis("blockIdx.x"))
    s[C].bind(warp, te.thread_axis("threadIdx.y"))
    s[D].compute_at(s[C], warp)
    y, x, o, i = D.op.axis
    outer, inner = s[D].split(k, 8)
    s[D].reorder(y, x, r, q, outer, o, i, inner)
    for tile in tiles:
        s[tile].compute_at(s[D], outer)
    s[D].tensorize(o, intrin.mma("tf32"))
    inputs = [uniform((h, w, c, n)), uniform((3, 3, c, f), seed=1)]
    around, v = np.pad(inputs[0].astype("float64"), ((1, 1), (1, 1), (0, 0), (0, 0))), inputs[1].astype("float64")
    sums = sum(np.einsum("hwcn,cf->hwfn", around[r : r + h, q : q + w], v[r, q]) for r in range(3) for q in range(3))
    return Program(s, [A, K, C], inputs, np.maximum(np.asarray(sums), 0))


def batch_stored_transposed() -> Program:
    """A batch of products whose reader stores columns of the sums as rows."""
    g, m, n, k = 2, 16, 24, 32
    A, B = te.placeholder((g, m, k), FLOAT16, name="A"), te.placeholder((g, n, k), FLOAT16, name="B")
    x = te.reduce_axis((0, k), "x")
    D = te.compute(
        (g, m, n), lambda b, i, j: te.sum(B[b, j, x].astype(FLOAT32) * A[b, i, x].astype(FLOAT32), axis=x), name="D"
    )
    C = te.compute((g, n, m), lambda b, j, i: D[b, i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    for tile in (D, *tiles):
        s[tile].compute_at(s[C], C.op.axis[0])
    s[D].tensorize(D.op.axis[1], intrin.mma("float16"))
    inputs = [uniform((g, m, k), FLOAT16), uniform((g, n, k), FLOAT16, seed=1)]
    sums = np.einsum("gik,gjk->gji", *(given.astype("float64") for given in inputs))
    return Program(s, [A, B, C], inputs, sums + 1)


def pixels_as_columns(w: int = 8) -> Program:
    """NCHW, 1x1: two dimensions of the result are the columns together."""
    c, h, f = 32, 8, 16
    A, W = te.placeholder((c, h, w), name="A"), te.placeholder((f, c), name="W")
    k = te.reduce_axis((0, c), "k")
    D = te.compute((f, h, w), lambda o, y, x: te.sum(W[o, k] * A[k, y, x], axis=k), name="D")
    C = te.compute((f, h, w), lambda o, y, x: te.max(D[o, y, x], 0.0), name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, W)]
    if w > 8:
        s[tiles[0]].storage_align(tiles[0].op.axis[1], 40, 0)  # rows of pixels do not follow each other
    o, y, x = C.op.axis
    outer, y = s[C].split(y, 4)
    s[C].reorder(outer, o, y, x)
    s[C].bind(outer, te.thread_axis("blockIdx.x"))
    for tile in (D, *tiles):
        s[tile].compute_at(s[C], outer)
    s[D].tensorize(D.op.axis[0], intrin.mma("tf32"))
    inputs = [uniform((c, h, w)), uniform((f, c), seed=1)]
    sums = np.einsum("fk,kyx->fyx", inputs[1].astype("float64"), inputs[0])
    return Program(s, [A, W, C], inputs, np.maximum(sums, 0))


def stored_through_shared_memory() -> Program:
    """The sums become float16 in shared memory, from where all threads store 16 bytes at a time."""
    A, B, D, _ = matrices(64, 64, 32, FLOAT16)
    C = te.compute((64, 64), lambda i, j: te.max(D[i, j], 0.0).astype(FLOAT16), name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    staged = s.cache_write(C, "shared")
    tiles = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block, i = s[C].split(C.op.axis[0], 32)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    rest, lane = s[C].split(s[C].fuse(i, C.op.axis[1]), 8)
    s[C].vectorize(lane)
    for tag, extent in (("threadIdx.x", 32), ("threadIdx.y", 2), ("threadIdx.z", 2)):
        rest, thread = s[C].split(rest, extent)
        s[C].bind(thread, te.thread_axis(tag))
    s[staged].compute_at(s[C], block)
    warp_i, warp_j, _, _ = s[staged].tile(*staged.op.axis, 16, 32)
    s[staged].bind(warp_i, te.thread_axis("threadIdx.z"))
    s[staged].bind(warp_j, te.thread_axis("threadIdx.y"))
    s[D].compute_at(s[staged], warp_j)
    for tile in tiles:
        s[tile].compute_at(s[C], block)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    inputs = [uniform((64, 32), FLOAT16), uniform((32, 64), FLOAT16, seed=1)]
    return Program(s, [A, B, C], inputs, np.maximum(inputs[0].astype("float64") @ inputs[1].astype("float64"), 0))


def shifted_columns() -> Program:
    """A 1-D convolution whose input is read from one tile at every shift, so that rows of it are not aligned."""
    c, w, f = 16, 32, 32
    X, W = te.placeholder((c, w + 2), FLOAT16, name="X"), te.placeholder((3, c, f), FLOAT16, name="W")
    q, k = te.reduce_axis((0, 3), "q"), te.reduce_axis((0, c), "k")
    D = te.compute(
        (f, w), lambda o, x: te.sum(X[k, x + q].astype(FLOAT32) * W[q, k, o].astype(FLOAT32), axis=[q, k]), name="D"
    )
    C = te.compute((f, w), lambda o, x: D[o, x] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    tiles = [s.cache_read(T, "shared", [D]) for T in (X, W)]
    warp, o = s[C].split(C.op.axis[0], 16)
    one = s[C].fuse()
    s[C].reorder(one, warp, o, C.op.axis[1])
    s[C].bind(one, te.thread_axis("blockIdx.x"))
    s[C].bind(warp, te.thread_axis("threadIdx.y"))
    s[D].compute_at(s[C], warp)
    s[D].reorder(q, *D.op.axis, k)
    for tile in tiles:
        s[tile].compute_at(s[C], one)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    inputs = [uniform((c, w + 2), FLOAT16), uniform((3, c, f), FLOAT16, seed=1)]
    x, v = (given.astype("float64") for given in inputs)
    return Program(s, [X, W, C], inputs, 1 + np.asarray(sum(v[r].T @ x[:, r : r + w] for r in range(3))))


def wide_pixels_as_columns() -> Program:
    """As before, with more than one piece of 8 columns in each of the rows of pixels."""
    return pixels_as_columns(24)


def bands_of_a_window() -> Program:
    """A convolution of one channel: two axes make the rows together, and the image ends within the first of them."""
    h, w = 9, 16
    X, W = te.placeholder((h + 2, w + 8), FLOAT16, name="X"), te.placeholder((3, 3), FLOAT16, name="W")
    tall = te.compute(
        (18, w + 8), lambda y, x: te.if_then_else(y < h + 2, X[y, x], te.const(0.0, FLOAT16)), name="tall"
    )
    band = te.compute(
        (3, 16, 8),
        lambda r, k, j: te.if_then_else(te.all(k >= j, k - j < 3), W[r, k - j], te.const(0.0, FLOAT16)),
        name="band",
    )
    r, k = te.reduce_axis((0, 3), "r"), te.reduce_axis((0, 16), "k")
    D = te.compute(
        (16, w // 8, 8),
        lambda y, o, j: te.sum(tall[y + r, o * 8 + k].astype(FLOAT32) * band[r, k, j].astype(FLOAT32), axis=[r, k]),
        name="D",
    )
    C = te.compute((h, w), lambda y, x: D[y, te.floordiv(x, 8), te.floormod(x, 8)] + 1.0, name="C")
    s = te.create_schedule(C.op)
    block, y = s[C].split(C.op.axis[0], 16)
    warp, y = s[C].split(y, 16)
    o, j = s[C].split(C.op.axis[1], 8)
    s[C].reorder(block, warp, o, y, j)
    s[C].bind(block, te.thread_axis("blockIdx.x"))
    s[C].bind(warp, te.thread_axis("threadIdx.y"))
    for tile in (tall, band, D):
        s[tile].set_scope("local" if tile is D else "shared")
        s[tile].compute_at(s[C], warp if tile is D else block)
    y, o, j = D.op.axis
    s[D].reorder(r, o, y, j, k)
    s[D].tensorize(o, intrin.mma("float16"))
    inputs = [uniform((h + 2, w + 8), FLOAT16), uniform((3, 3), FLOAT16, seed=1)]
    x, v = (given.astype("float64") for given in inputs)
    return Program(
        s, [X, W, C], inputs, 1 + np.asarray(sum(v[a, b] * x[a : a + h, b : b + w] for a in range(3) for b in range(3)))
    )


PROGRAMS: tuple[Callable[[], Program], ...] = (
    partial_tiles,
    padded_terms,
    all_terms_at_once,
    convolution_nhwc,
    convolution_hwcn,
    batch_stored_transposed,
    pixels_as_columns,
    stored_through_shared_memory,
    shifted_columns,
    wide_pixels_as_columns,
    bands_of_a_window,
)
