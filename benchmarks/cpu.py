"""The CPU back end beside NumPy and PyTorch, all on one thread: python -m benchmarks.cpu [--rounds N]

Every pair is timed in turns (ours, theirs, ours, theirs ...) in one process. A row has the median of each, and the
median of the rounds' ratios, theirs over ours: above 1, ours is faster. Only the ratios mean something on a machine
that others use too. Results are checked before anything is timed.

Other costs: a call in Python, waking the thread pool, and compiling.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

# Before the libraries are loaded, which read it then.
os.environ.update(dict.fromkeys("OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS".split(), "1"))
os.environ["TILEWRIGHT_NUM_THREADS"] = "1"

import numpy as np

import tilewright as tw
from tilewright import te, topi
from tilewright.runtime import set_num_threads

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
import matmul_cpu

try:
    import torch
except ImportError:
    torch = None


def turns(ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Median seconds of each, and the median ratio theirs / ours, timed in turns."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for run, into in zip((ours, theirs), times, strict=True):
            began = time.perf_counter()
            run()
            into.append(time.perf_counter() - began)
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    return statistics.median(times[0]), statistics.median(times[1]), ratio


def row(name: str, rival: str, result: tuple[float, float, float], flop: float = 0) -> None:
    """Print one comparison."""
    ours, theirs, ratio = result
    rate = f"{flop / ours / 1e9:8.1f}" if flop else " " * 8
    print(f"{name:34}{rival:24}{ours * 1e3:9.3f}{theirs * 1e3:9.3f}{ratio:8.2f}{rate}", flush=True)


def any_size() -> tuple[Any, ...]:
    """A matrix product for any size, in tiles of 8 × 32 sums in registers; B is not relaid."""
    n = te.size_var("n")
    A, B, C = matmul_cpu.declare(n)
    s = te.create_schedule(C.op)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, 8, 32)
    s[C].reorder(jo, io, ii, ji)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], io)
    row, column = sums.op.axis
    s[sums].reorder(sums.op.reduce_axis[0], row, column)
    s[sums].unroll(row)
    s[sums].vectorize(column)
    return s, A, B, C


def matmul(n: int, rounds: int, made: tuple[Any, ...], name: str) -> None:
    """A matrix product, and NumPy's."""
    s, *args = made
    module = tw.build(s, args, "llvm")
    random = np.random.default_rng(0)
    a, b = (random.random((n, n), "float32") for _ in range(2))
    out = np.empty((n, n), "float32")
    arrays = [tw.nd.array(a), tw.nd.array(b), tw.nd.empty((n, n))]
    module(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), a.astype("float64") @ b, rtol=1e-4)
    result = turns(lambda: module(*arrays), lambda: np.dot(a, b, out=out), rounds)
    row(name, "NumPy (its BLAS)", result, 2 * n**3)


def depthwise(channels: int, size: int, kernel: int = 3) -> tuple[Any, ...]:
    """A depthwise convolution with zeros around the image.

    A strip of `rows` rows is padded into the nearest cache, then summed. The sums of `rows` × `lanes` pixels are in
    vector registers. Pixels that neighbouring rows share are read once.
    """
    rows, lanes = (7 if size % 7 == 0 else 4), (16 if size % 16 == 0 else 28 if size % 28 == 0 else size)
    pad = kernel // 2
    A = te.placeholder((1, channels, size, size), name="A")
    W = te.placeholder((channels, 1, kernel, kernel), name="W")
    P = te.compute(
        (1, channels, size + 2 * pad, size + 2 * pad),
        lambda n, c, y, x: te.if_then_else(
            te.all(y >= pad, y < size + pad, x >= pad, x < size + pad), A[n, c, y - pad, x - pad], 0.0
        ),
        name="P",
    )
    dy, dx = te.reduce_axis((0, kernel), "dy"), te.reduce_axis((0, kernel), "dx")
    B = te.compute(
        (1, channels, size, size),
        lambda n, c, y, x: te.sum(P[n, c, y + dy, x + dx] * W[c, 0, dy, dx], axis=[dy, dx]),
        name="B",
    )
    s = te.create_schedule(B.op)
    sums = s.cache_write(B, "local")
    n, c, y, x = B.op.axis
    yo, xo, yi, xi = s[B].tile(y, x, rows, lanes)
    s[B].parallel(s[B].fuse(n, c))
    s[B].unroll(yi)
    s[B].vectorize(xi)
    s[P].compute_at(s[B], yo)
    s[sums].compute_at(s[B], xo)
    n, c, y, x = sums.op.axis
    dy, dx = sums.op.reduce_axis
    s[sums].reorder(dy, dx, y, x)
    for axis in (dy, dx, y):
        s[sums].unroll(axis)
    s[sums].vectorize(x)
    return s, A, W, B


def depthwise_row(channels: int, size: int, rounds: int) -> None:
    """Depthwise 3×3 beside PyTorch's, in its usual layout and with channels last."""
    s, *args = depthwise(channels, size)
    module = tw.build(s, args, "llvm")
    random = np.random.default_rng(0)
    a = random.standard_normal((1, channels, size, size), "float32")
    w = random.standard_normal((channels, 1, 3, 3), "float32")
    ta, tw_ = torch.from_numpy(a), torch.from_numpy(w)
    arrays = [tw.nd.array(a), tw.nd.array(w), tw.nd.empty(a.shape)]
    module(*arrays)
    exact = torch.nn.functional.conv2d(ta.double(), tw_.double(), padding=1, groups=channels).numpy()
    np.testing.assert_allclose(arrays[2].numpy(), exact, rtol=1e-4, atol=1e-4)
    name, flop = f"depthwise 3×3, {channels} × {size}²", 18 * a.size
    for layout, x, y in (
        ("PyTorch", ta, tw_),
        (
            "PyTorch, channels last",
            ta.to(memory_format=torch.channels_last),
            tw_.to(memory_format=torch.channels_last),
        ),
    ):
        theirs = partial(torch.nn.functional.conv2d, x, y, padding=1, groups=channels)
        theirs()
        with torch.inference_mode():
            row(name, layout, turns(partial(module, *arrays), theirs, rounds), flop)


def functions(rounds: int, size: int = 1 << 16) -> None:
    """Math functions on vectors, beside NumPy's and PyTorch's; the data stay in the cache."""
    x = np.random.default_rng(0).uniform(0.1, 5, size).astype("float32")
    out = np.empty_like(x)
    for name in ("exp", "log", "tanh", "sigmoid", "erf", "sin"):
        A = te.placeholder((size,), name="A")
        B = te.compute((size,), lambda i, A=A, name=name: getattr(te, name)(A[i]), name="B")
        s = te.create_schedule(B.op)
        _, inner = s[B].split(B.op.axis[0], 16)
        s[B].vectorize(inner)
        module = tw.build(s, [A, B], "llvm")
        arrays = [tw.nd.array(x), tw.nd.empty((size,))]
        module(*arrays)
        title = f"{name}, {size} float32"
        if hasattr(np, name):
            row(title, "NumPy", turns(partial(module, *arrays), partial(getattr(np, name), x, out=out), rounds))
        if torch is not None:
            theirs = partial(getattr(torch, name), torch.from_numpy(x), out=torch.from_numpy(out))
            row(title, "PyTorch", turns(partial(module, *arrays), theirs, rounds))


def library(rounds: int) -> None:
    """Operators under the schedules of `topi.x86`, beside NumPy's."""
    random = np.random.default_rng(0)

    def beside(name: str, declare: Any, schedule: str, shapes: list[tuple[int, ...]], theirs: Any) -> None:
        inputs = [te.placeholder(shape, name=f"A{i}") for i, shape in enumerate(shapes)]
        with tw.target.Target("llvm"):
            out = declare(*inputs)
            module = tw.build(getattr(topi.x86, schedule)([out]), [*inputs, out], "llvm")
        given = [random.random(shape, "float32") for shape in shapes]
        arrays = [*map(tw.nd.array, given), tw.nd.empty([int(extent) for extent in out.shape])]
        module(*arrays)
        np.testing.assert_allclose(arrays[-1].numpy(), theirs(*[a.astype("float64") for a in given]), rtol=1e-4)
        row(name, "NumPy", turns(partial(module, *arrays), partial(theirs, *given), rounds))

    for b, k, n in ((1, 512, 1000), (1, 4096, 4096), (64, 512, 1000)):
        beside(f"dense {b} × {k} → {n}", topi.nn.dense, "schedule_dense", [(b, k), (n, k)], lambda x, w: x @ w.T)
    for b, n, k in ((8, 128, 64), (1, 256, 256)):
        shapes = [(b, n, k), (b, n, k)]
        title = f"batch_matmul {b} × {n}² × {k}"
        beside(title, topi.nn.batch_matmul, "schedule_batch_matmul", shapes, lambda x, y: x @ y.transpose(0, 2, 1))
    for axis, along in ((1, "rows"), (0, "columns")):
        beside(
            f"sums of {along}, 1024²", partial(topi.sum, axis=axis), "schedule_reduce", [(1024, 1024)],
            partial(np.sum, axis=axis),
        )  # fmt: skip


def call_cost(rounds: int) -> None:
    """The cost of a call in Python beyond the machine code's own: the call of its address with packed arguments."""
    A, B = (te.placeholder((1,), name=name) for name in "AB")
    C = te.compute((1,), lambda i: A[i] + B[i], name="C")
    module = tw.build(te.create_schedule(C.op), [A, B, C], "llvm")
    arrays = [tw.nd.array(np.ones(1, "float32")) for _ in range(3)]
    libc = ctypes.CDLL(None)
    raw = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(ctypes.cast(libc.abs, ctypes.c_void_p).value)
    nothing = ctypes.c_void_p(0)
    best = {"call": float("inf"), "raw": float("inf")}
    for _ in range(max(5, rounds // 4)):
        for name, run in (("call", lambda: module(*arrays)), ("raw", lambda: raw(nothing))):
            began = time.perf_counter()
            for _ in range(2000):
                run()
            best[name] = min(best[name], (time.perf_counter() - began) / 2000)
    over = best["call"] - best["raw"]
    print(
        f"\na call with three arrays: {best['call'] * 1e6:.2f} µs; of a C function by address: "
        f"{best['raw'] * 1e6:.2f} µs; checks and packing: {over * 1e6:.2f} µs"
    )


def pool_cost(rounds: int) -> None:
    """The cost of a parallel loop beside the work in it: right after another one, and after a pause."""
    n = 64
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    plain, shared = te.create_schedule(B.op), te.create_schedule(B.op)
    shared[B].parallel(B.op.axis[0])
    arrays = [tw.nd.array(np.ones(n, "float32")), tw.nd.empty((n,))]
    threads = len(os.sched_getaffinity(0))
    set_num_threads(threads)
    medians = {}
    for name, s in (("serial", plain), ("parallel", shared)):
        module = tw.build(s, [A, B], "llvm")
        for pause in (0.0, 0.002):
            times = []
            for _ in range(rounds * 10):
                if pause:
                    time.sleep(pause)
                began = time.perf_counter()
                module(*arrays)
                times.append(time.perf_counter() - began)
            medians[name, pause] = statistics.median(times) * 1e6
    set_num_threads(1)
    hot, cold = (medians["parallel", pause] - medians["serial", pause] for pause in (0.0, 0.002))
    print(f"a parallel loop on {threads} threads: +{hot:.1f} µs right after another, +{cold:.1f} µs after a pause")


def compile_times() -> None:
    """How long LLVM takes for the programs above."""
    programs: Sequence[tuple[str, Callable[[], Any]]] = (
        ("matmul", lambda: matmul_cpu.registers(512)),
        ("depthwise", lambda: depthwise(256, 56)),
    )
    parts = []
    for name, make in programs:
        s, *args = make()
        began = time.perf_counter()
        module = tw.build(s, args, "llvm")
        whole = time.perf_counter() - began
        parts.append(f"{name} {whole * 1e3:.0f} ms, LLVM {module.program.compile_seconds * 1e3:.0f}")
    print("building: " + "; ".join(parts))


def main() -> None:
    """Everything, one row each."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60, help="turns for each comparison")
    rounds = parser.parse_args().rounds
    # PyTorch allocates its result in every call: let the C library keep that memory, as ours is kept.
    for option in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
        ctypes.CDLL(None).mallopt(option, 1 << 30)
    print(f"{'program':34}{'rival':24}{'ours ms':>9}{'ms':>9}{'ratio':>8}{'GFLOP/s':>8}")
    matmul(512, rounds, matmul_cpu.registers(512), "matmul 512³")
    matmul(1024, max(5, rounds // 4), matmul_cpu.registers(1024), "matmul 1024³")
    matmul(512, rounds, any_size(), "matmul 512³, built for any size")
    matmul(509, rounds, any_size(), "matmul 509³, built for any size")
    if torch is None:
        print("PyTorch is not installed: no depthwise convolution to compare with")
    else:
        torch.set_num_threads(1)
        for channels, size in ((256, 56), (128, 112), (32, 224)):
            depthwise_row(channels, size, rounds)
    functions(rounds)
    library(rounds)
    call_cost(rounds)
    pool_cost(rounds)
    compile_times()


if __name__ == "__main__":
    main()
