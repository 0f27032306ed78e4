"""Programs of every kind, for sizes that are numbers or variables, in every type; and what they compute, in NumPy.

Values are small whole numbers, so that every type, bfloat16 too, holds every sum exactly: results are equal, not
close.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.programs.harness import spread
from tilewright import te
from tilewright.core.dtype import DType

Sizes = dict[str, Any]


@dataclass(frozen=True)
class Program:
    """`declare(sizes, dtype)` gives the tensors, the result last; `reference` computes it from the inputs.

    `schedule(s, result, target)` schedules it; `names` are its sizes, `least` how small they may be.
    """

    name: str
    names: tuple[str, ...]
    declare: Callable[[Sizes, str], list[Any]]
    shapes: Callable[[Sizes], list[tuple[int, ...]]]
    reference: Callable[..., np.ndarray]
    schedule: Callable[[Any, list[Any], str], None]
    least: tuple[int, ...] = ()

    def inputs(self, sizes: Sizes, dtype: str, seed: int = 0) -> list[np.ndarray]:
        """Inputs of those sizes."""
        rng = np.random.default_rng(seed)
        low = 0 if DType(dtype).kind == "uint" else -2
        return [rng.integers(low, 3, shape).astype(DType(dtype).numpy) for shape in self.shapes(sizes)[:-1]]

    def expected(self, inputs: Sequence[np.ndarray], dtype: str) -> np.ndarray:
        """The result, computed in int64."""
        whole = self.reference(*(x.astype("int64") for x in inputs))
        return np.asarray(whole).astype(DType(dtype).numpy)


def tiled(s: Any, tensors: list[Any], target: str) -> None:
    """Every element by a thread of its own."""
    spread(s, tensors[-1], target)


# Element by element


def _affine(sizes: Sizes, dtype: str) -> list[Any]:
    n, m = sizes["n"], sizes["m"]
    A, B = te.placeholder((n, m), dtype, "A"), te.placeholder((m,), dtype, "B")
    return [A, B, te.compute((n, m), lambda i, j: A[i, j] * B[j] + te.const(1, dtype), name="C")]


AFFINE = Program(
    "affine",
    ("n", "m"),
    _affine,
    lambda z: [(z["n"], z["m"]), (z["m"],), (z["n"], z["m"])],
    lambda a, b: a * b + 1,
    tiled,
)

# A stencil over a padded copy, kept in shared memory on a GPU


def _stencil(sizes: Sizes, dtype: str) -> list[Any]:
    n = sizes["n"]
    A, zero = te.placeholder((n,), dtype, "A"), te.const(0, dtype)
    P = te.compute((n + 2,), lambda i: te.if_then_else(te.all(i >= 1, i < n + 1), A[i - 1], zero), name="P")
    return [A, te.compute((n,), lambda i: P[i] + P[i + 1] + P[i + 2], name="B")]


def _staged(s: Any, tensors: list[Any], target: str) -> None:
    B = tensors[-1]
    (P,) = B.op.input_tensors
    if target == "llvm":
        s[P].compute_inline()
        spread(s, B, target)
        return
    block, thread = s[B].split(B.op.axis[0], factor=64)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[P].set_scope("shared")
    s[P].compute_at(s[B], block)
    _, inner = s[P].split(s[P].op.axis[0], factor=64)
    s[P].bind(inner, te.thread_axis("threadIdx.x"))


STENCIL = Program(
    "stencil",
    ("n",),
    _stencil,
    lambda z: [(z["n"],), (z["n"],)],
    lambda a: np.convolve(np.pad(a, 1), [1, 1, 1], "valid") if a.size else a,
    _staged,
)

# Reductions


def _rows(sizes: Sizes, dtype: str) -> list[Any]:
    n, m = sizes["n"], sizes["m"]
    A, k = te.placeholder((n, m), dtype, "A"), te.reduce_axis((0, m), "k")
    return [A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")]


def _split_rows(s: Any, tensors: list[Any], target: str) -> None:
    B = tensors[-1]
    s[B].split(B.op.reduce_axis[0], factor=4)
    spread(s, B, target) if target != "llvm" else s[B].split(B.op.axis[0], factor=4)


ROWS = Program("rows", ("n", "m"), _rows, lambda z: [(z["n"], z["m"]), (z["n"],)], lambda a: a.sum(axis=1), _split_rows)


def _matmul(sizes: Sizes, dtype: str) -> list[Any]:
    n, m, depth = sizes["n"], sizes["m"], sizes["k"]
    A, B = te.placeholder((n, depth), dtype, "A"), te.placeholder((depth, m), dtype, "B")
    k = te.reduce_axis((0, depth), "k")
    return [A, B, te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")]


def _matmul_tiles(s: Any, tensors: list[Any], target: str) -> None:
    A, B, C = tensors
    i, j = C.op.axis
    if target == "llvm":
        outer_i, outer_j, inner_i, inner_j = s[C].tile(i, j, 4, 8)
        k = s[C].op.reduce_axis[0]
        s[C].reorder(outer_i, outer_j, k, inner_i, inner_j)
        s[C].vectorize(inner_j)
        s[C].parallel(outer_i)
        return
    local = s.cache_write(C, "local")
    shared = [s.cache_read(x, "shared", [local]) for x in (A, B)]
    by, bx, ty, tx = s[C].tile(i, j, 16, 16)
    ty, yi = s[C].split(ty, factor=4)
    tx, xi = s[C].split(tx, factor=4)
    s[C].reorder(by, bx, ty, tx, yi, xi)
    for axis, tag in ((by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x")):
        s[C].bind(axis, te.thread_axis(tag))
    s[local].compute_at(s[C], tx)
    outer, inner = s[local].split(s[local].op.reduce_axis[0], factor=8)
    s[local].reorder(outer, inner, *s[local].op.axis)
    for x in shared:
        s[x].compute_at(s[local], outer)
        fused, tx = s[x].split(s[x].fuse(*s[x].op.axis), factor=4)
        _, ty = s[x].split(fused, factor=4)
        s[x].bind(tx, te.thread_axis("threadIdx.x"))
        s[x].bind(ty, te.thread_axis("threadIdx.y"))


MATMUL = Program(
    "matmul",
    ("n", "m", "k"),
    _matmul,
    lambda z: [(z["n"], z["k"]), (z["k"], z["m"]), (z["n"], z["m"])],
    lambda a, b: a @ b,
    _matmul_tiles,
)

# Convolutions


def _conv1d(sizes: Sizes, dtype: str) -> list[Any]:
    n, taps = sizes["n"], sizes["k"]
    A, W, k = te.placeholder((n,), dtype, "A"), te.placeholder((taps,), dtype, "W"), te.reduce_axis((0, taps), "k")
    return [A, W, te.compute((n - taps + 1,), lambda i: te.sum(A[i + k] * W[k], axis=k), name="B")]


CONV1D = Program(
    "conv1d",
    ("n", "k"),
    _conv1d,
    lambda z: [(z["n"],), (z["k"],), (z["n"] - z["k"] + 1,)],
    lambda a, w: np.array([np.dot(a[i : i + len(w)], w) for i in range(len(a) - len(w) + 1)], "int64"),
    tiled,
    (0, 0),
)


def _padded(A: Any, height: Any, width: Any, dtype: str) -> Any:
    """A of shape (n, c, h, w), with one zero around each image."""

    def value(b: Any, c: Any, y: Any, x: Any) -> Any:
        inside = te.all(y >= 1, y < height + 1, x >= 1, x < width + 1)
        return te.if_then_else(inside, A[b, c, y - 1, x - 1], te.const(0, dtype))

    return te.compute((A.shape[0], A.shape[1], height + 2, width + 2), value, name="P")


def _conv2d(sizes: Sizes, dtype: str) -> list[Any]:
    b, h, w = sizes["b"], sizes["h"], sizes["w"]
    A, W = te.placeholder((b, 2, h, w), dtype, "A"), te.placeholder((3, 2, 3, 3), dtype, "W")
    P = _padded(A, h, w, dtype)
    c, ky, kx = te.reduce_axis((0, 2), "c"), te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")

    def value(i: Any, f: Any, y: Any, x: Any) -> Any:
        return te.sum(P[i, c, y + ky, x + kx] * W[f, c, ky, kx], axis=[c, ky, kx])

    return [A, W, te.compute((b, 3, h, w), value, name="B")]


def _depthwise(sizes: Sizes, dtype: str) -> list[Any]:
    b, channels, h, w = sizes["b"], sizes["c"], sizes["h"], sizes["w"]
    A, W = te.placeholder((b, channels, h, w), dtype, "A"), te.placeholder((channels, 3, 3), dtype, "W")
    P = _padded(A, h, w, dtype)
    ky, kx = te.reduce_axis((0, 3), "ky"), te.reduce_axis((0, 3), "kx")

    def value(i: Any, c: Any, y: Any, x: Any) -> Any:
        return te.sum(P[i, c, y + ky, x + kx] * W[c, ky, kx], axis=[ky, kx])

    return [A, W, te.compute((b, channels, h, w), value, name="B")]


def _inlined(s: Any, tensors: list[Any], target: str) -> None:
    P = next(t for t in tensors[-1].op.input_tensors if t.name == "P")
    s[P].compute_inline()
    spread(s, tensors[-1], target)


def _windows(a: np.ndarray) -> np.ndarray:
    """The 3 × 3 window around each element of the last two axes: (..., h, w, 3, 3)."""
    padded = np.pad(a, [(0, 0)] * (a.ndim - 2) + [(1, 1), (1, 1)])
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(-2, -1))


CONV2D = Program(
    "conv2d",
    ("b", "h", "w"),
    _conv2d,
    lambda z: [(z["b"], 2, z["h"], z["w"]), (3, 2, 3, 3), (z["b"], 3, z["h"], z["w"])],
    lambda a, w: np.einsum("bchwyx,fcyx->bfhw", _windows(a), w) if a.size else np.zeros((a.shape[0], 3, *a.shape[2:])),
    _inlined,
)
DEPTHWISE = Program(
    "depthwise",
    ("b", "c", "h", "w"),
    _depthwise,
    lambda z: [(z["b"], z["c"], z["h"], z["w"]), (z["c"], 3, 3), (z["b"], z["c"], z["h"], z["w"])],
    lambda a, w: np.einsum("bchwyx,cyx->bchw", _windows(a), w) if a.size else np.zeros(a.shape),
    _inlined,
)

PROGRAMS = (AFFINE, STENCIL, ROWS, MATMUL, CONV1D, CONV2D, DEPTHWISE)
