"""The documents' eleven programs, as the documents write them, at the documents' sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir

Scheduled = tuple[Any, list[Any]]  # a schedule, and the arguments of its entry point


def conv1d_naive(M: int = 16384, N: int = 32) -> Scheduled:
    A = te.placeholder((M,), name="A", dtype="float32")
    W = te.placeholder((N,), name="W", dtype="float32")
    k = te.reduce_axis((0, M + N - 1), "k")
    B = te.compute(
        (M + N - 1,),
        lambda n: te.sum(
            tir.if_then_else(tir.any(k < 0, k >= M, n - k < 0, n - k >= N), tir.const(0.0, "float32"), A[k] * W[n - k]),
            axis=k,
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, [A, W, B]


def conv1d_v1(M: int = 16384, N: int = 32, dtype: str = "float32") -> Scheduled:
    A = te.placeholder((M,), name="A", dtype=dtype)
    W = te.placeholder((N,), name="W", dtype=dtype)
    r = te.reduce_axis((0, N), name="r")
    B = te.compute(
        (M + N - 1,),
        lambda i: te.sum(
            tir.if_then_else(tir.all(i - r >= 0, i - r < M), A[i - r], tir.const(0, dtype)) * W[r], axis=r
        ),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, [A, W, B]


def conv1d_v2() -> Scheduled:
    s, [A, W, B] = conv1d_v1()
    block_i, thread_i = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(block_i, te.thread_axis("blockIdx.x"))
    s[B].bind(thread_i, te.thread_axis("threadIdx.x"))
    return s, [A, W, B]


def conv1d_v3() -> Scheduled:
    s, [A, W, B] = conv1d_v1()
    block_i, thread_i = s[B].split(B.op.axis[0], factor=16)
    warp_i, lane_i = s[B].split(thread_i, factor=4)
    s[B].bind(block_i, te.thread_axis("blockIdx.x"))
    s[B].bind(warp_i, te.thread_axis("threadIdx.y"))
    s[B].bind(lane_i, te.thread_axis("threadIdx.x"))
    return s, [A, W, B]


def conv1d_v4() -> Scheduled:
    s, [A, W, B] = conv1d_v1()
    C_local = s.cache_write(B, "local")
    W_shared = s.cache_read(W, "shared", [C_local])
    block_i, thread_i = s[B].split(B.op.axis[0], factor=32)
    s[B].bind(block_i, te.thread_axis("blockIdx.x"))
    s[B].bind(thread_i, te.thread_axis("threadIdx.x"))
    s[C_local].compute_at(s[B], thread_i)
    rxo, _ = s[C_local].split(C_local.op.reduce_axis[0], factor=4)
    s[W_shared].compute_at(s[C_local], rxo)
    return s, [A, W, B]


def conv1d_v5() -> Scheduled:
    s, [A, W, B] = conv1d_v1()
    C_local = s.cache_write(B, "local")
    W_shared = s.cache_read(W, "shared", [C_local])
    block_i, thread_i = s[B].split(B.op.axis[0], factor=32)
    warp_i, lane_i = s[B].split(thread_i, factor=4)
    s[B].bind(block_i, te.thread_axis("blockIdx.x"))
    s[B].bind(warp_i, te.thread_axis("threadIdx.y"))
    s[B].bind(lane_i, te.thread_axis("threadIdx.x"))
    s[C_local].compute_at(s[B], lane_i)
    rxo, rxi = s[C_local].split(C_local.op.reduce_axis[0], factor=8)
    s[W_shared].compute_at(s[C_local], rxo)
    s[C_local].unroll(rxi)
    return s, [A, W, B]


def _depthwise(B: int = 3, C: int = 4, H: int = 16, W: int = 32, K: int = 7) -> tuple[Any, Any, Any, Any, Any]:
    inp = te.placeholder((B, C, H, W), name="A")
    ker = te.placeholder((C, 1, K, K), name="W")
    ry = te.reduce_axis((0, K), name="ry")
    rx = te.reduce_axis((0, K), name="rx")
    pad_h = (K - 1) // 2
    pad_w = (K - 1) // 2
    padded = te.compute(
        (B, C, H + 2 * pad_h, W + 2 * pad_w),
        lambda b, c, h, w: tir.if_then_else(
            tir.all(h >= pad_h, h < H + pad_h, w >= pad_w, w < W + pad_w),
            inp[b, c, h - pad_h, w - pad_w],
            tir.const(0.0, "float32"),
        ),
        name="padded",
    )
    out = te.compute(
        (B, C, H, W),
        lambda b, c, h, w: te.sum(padded[b, c, h + ry, w + rx] * ker[c, 0, ry, rx], axis=[ry, rx]),
        name="depthwise_conv",
    )
    s = te.create_schedule(out.op)
    return s, inp, ker, out, padded


def depthwise_naive() -> Scheduled:
    s, inp, ker, out, padded = _depthwise()
    b, _, _, _ = s[out].op.axis
    s[out].bind(b, te.thread_axis("blockIdx.x"))
    s[padded].compute_inline()
    return s, [inp, ker, out]


def depthwise_v1() -> Scheduled:
    s, inp, ker, out, padded = _depthwise()
    b, c, _, _ = s[out].op.axis
    s[out].bind(b, te.thread_axis("blockIdx.x"))
    s[out].bind(c, te.thread_axis("blockIdx.y"))
    s[padded].compute_inline()
    return s, [inp, ker, out]


def depthwise_v2() -> Scheduled:
    s, inp, ker, out, padded = _depthwise()
    b, c, h, _ = s[out].op.axis
    bc = s[out].fuse(b, c)
    s[out].bind(bc, te.thread_axis("blockIdx.x"))
    s[out].bind(h, te.thread_axis("blockIdx.y"))
    s[padded].compute_inline()
    return s, [inp, ker, out]


def depthwise_v3() -> Scheduled:
    s, inp, ker, out, padded = _depthwise()
    b, c, h, w = s[out].op.axis
    bc = s[out].fuse(b, c)
    h_outer, h_inner = s[out].split(h, factor=16)
    _, w_inner = s[out].split(w, factor=16)
    s[out].bind(bc, te.thread_axis("blockIdx.x"))
    s[out].bind(h_outer, te.thread_axis("blockIdx.y"))
    s[out].bind(h_inner, te.thread_axis("threadIdx.y"))
    s[out].bind(w_inner, te.thread_axis("threadIdx.x"))
    s[padded].compute_inline()
    return s, [inp, ker, out]


def depthwise_v4() -> Scheduled:
    s, inp, ker, out, padded = _depthwise()
    b, c, h, w = s[out].op.axis
    bc = s[out].fuse(b, c)
    h_outer, h_inner = s[out].split(h, factor=16)
    w_outer, w_inner = s[out].split(w, factor=16)
    s[out].reorder(bc, h_outer, w_outer, h_inner, w_inner)
    hw_outer = s[out].fuse(h_outer, w_outer)
    s[out].bind(bc, te.thread_axis("blockIdx.x"))
    s[out].bind(hw_outer, te.thread_axis("blockIdx.y"))
    s[out].bind(h_inner, te.thread_axis("threadIdx.y"))
    s[out].bind(w_inner, te.thread_axis("threadIdx.x"))
    s[padded].compute_inline()
    return s, [inp, ker, out]


PROGRAMS: dict[str, Callable[[], Scheduled]] = {
    f.__name__: f
    for f in (
        conv1d_naive,
        conv1d_v1,
        conv1d_v2,
        conv1d_v3,
        conv1d_v4,
        conv1d_v5,
        depthwise_naive,
        depthwise_v1,
        depthwise_v2,
        depthwise_v3,
        depthwise_v4,
    )
}
