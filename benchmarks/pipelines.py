"""The gain of asynchronous copies and deeper rings on a GPU: python -m benchmarks.pipelines [--small]

The convolution of the examples and a matrix product on CUDA cores. Shared tiles are loaded an iteration ahead through
registers, as by default. The alternatives are rings of 2 to 4 copies, which asynchronous copies or plain stores fill.
All are checked against float64 on part of the result, and timed in turns in one process.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))

import conv2d_hwcn

import tilewright as tw
from tilewright import te
from tilewright.transform import PassContext

Program = tuple[Any, list[Any]]
ROUNDS = 5
VARIANTS: dict[str, tuple[int, list[str]]] = {
    "loads before stores": (1, ["register_prefetch"]),
    "registers": (1, []),
    **{f"ring of {n}, stores": (n, ["asynchronous_copies"]) for n in (2, 3)},
    **{f"ring of {n}, copies": (n, []) for n in (2, 3, 4)},
}


def product(n: int, dtype: str = "float32", tile: int = 128, step: int = 8) -> Program:
    """C = A·B of n × n matrices; blocks of 256 threads compute tiles of `tile` rows and columns, 8 × 8 per thread."""
    A, B = te.placeholder((n, n), dtype, "A"), te.placeholder((n, n), dtype, "B")
    k = te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[k, i].astype("float32") * B[k, j].astype("float32"), axis=k), "C")
    s = te.create_schedule(C.op)
    tiles = [s.cache_read(T, "shared", [C]) for T in (A, B)]
    near = [s.cache_read(T, "local", [C]) for T in tiles]
    CL = s.cache_write(C, "local")
    i, j = s[C].op.axis
    axes = []
    for axis, name in ((i, "y"), (j, "x")):
        block, inner = s[C].split(axis, factor=tile)
        half, inner = s[C].split(inner, factor=tile // 2)
        thread, inner = s[C].split(inner, factor=4)
        s[C].bind(block, te.thread_axis(f"blockIdx.{name}"))
        s[C].bind(half, te.thread_axis("vthread"))
        s[C].bind(thread, te.thread_axis((0, tile // 8), f"threadIdx.{name}"))
        axes.append((block, half, thread, inner))
    s[C].reorder(*(axis for pair in zip(*axes, strict=True) for axis in pair))
    s[C].vectorize(axes[1][3])
    s[CL].compute_at(s[C], axes[1][2])
    outer, inner = s[CL].split(s[CL].op.reduce_axis[0], factor=step)
    s[CL].reorder(outer, inner, *s[CL].op.axis)
    for stage in near:
        s[stage].compute_at(s[CL], inner)
    for axis in s[CL].op.axis:
        s[CL].unroll(axis)
    s[CL].unroll(inner)
    for stage in tiles:
        s[stage].compute_at(s[CL], outer)
        element, lanes = s[stage].split(s[stage].fuse(*s[stage].op.axis), factor=4)
        element, x = s[stage].split(element, factor=tile // 8)
        _, y = s[stage].split(element, factor=tile // 8)
        s[stage].bind(x, te.thread_axis((0, tile // 8), "threadIdx.x"))
        s[stage].bind(y, te.thread_axis((0, tile // 8), "threadIdx.y"))
        s[stage].vectorize(lanes)
    return s, [A, B, C]


def convolution(problem: conv2d_hwcn.Problem) -> Program:
    """The last step of the example."""
    s, *tensors = conv2d_hwcn.vector(problem)
    return s, list(tensors)


def rings(program: Program, depth: int) -> Program:
    """The program with a number of copies of each tile in shared memory."""
    s, tensors = program
    for stage in s.stages:
        if stage.op.name.endswith(".shared") and depth > 1:
            stage.pipeline(depth)
    return s, tensors


def inputs(tensors: list[Any]) -> list[np.ndarray]:
    """Random arrays for all but the last tensor."""
    rng = np.random.default_rng(0)
    return [rng.uniform(-1, 1, [int(e) for e in t.shape]).astype(t.dtype) for t in tensors[:-1]]


def compare(name: str, make: Callable[[], Program], flop: int, answer: Callable[..., np.ndarray], dev: Any) -> None:
    """Print a line for each variant of a program."""
    built, tensors = {}, make()[1]
    arrays = inputs(tensors)
    expected = answer(*arrays)
    given = [tw.nd.array(array, dev) for array in arrays]
    print(f"{name}\n  {'tiles through':20} {'time':>10} {'TFLOP/s':>8} {'registers':>9} {'shared':>7} {'error':>8}")
    for variant, (depth, disabled) in VARIANTS.items():
        with PassContext(disabled_pass=disabled):
            f = tw.build(*rings(make(), depth), target=dev.kind)
        out = tw.nd.array(np.full([int(e) for e in tensors[-1].shape], np.nan, "float32"), dev)
        f(*given, out)
        found = out.numpy()[tuple(slice(0, extent) for extent in expected.shape)]
        error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
        if not error < 1e-5:
            raise SystemExit(f"{name}, {variant}: wrong, error {error}")
        built[variant] = (f, [*given, out], error)
    times: dict[str, list[float]] = {variant: [] for variant in built}
    for _ in range(ROUNDS):
        for variant, (f, args, _) in built.items():
            times[variant].append(f.time_evaluator(f.entry_name, dev, number=3, repeat=3)(*args).median)
    for variant, (f, _, error) in built.items():
        best = statistics.median(times[variant])
        taken = next(iter(f.resources.values()), None)
        cost = f"{taken.registers:9} {taken.shared_bytes:7}" if taken else " " * 17
        print(f"  {variant:20} {best * 1e6:7.1f} µs {flop / best * 1e-12:8.2f} {cost} {error:8.1e}")


def main() -> None:
    """Compare all variants of both programs."""
    dev = tw.cuda() if tw.cuda().exist else tw.opencl()
    small = "--small" in sys.argv
    problem = conv2d_hwcn.Problem(batch=64, in_channel=16, out_channel=64, size=6) if small else conv2d_hwcn.Problem()
    n = 256 if small else 4096

    def convolved(a: np.ndarray, w: np.ndarray) -> np.ndarray:
        part: np.ndarray = conv2d_hwcn.reference(a[..., :4], w, problem)
        return part

    compare("convolution HWCN", lambda: convolution(problem), problem.flop, convolved, dev)
    for dtype, step in (("float32", 8), ("float32", 16), ("float16", 16)):
        compare(
            f"product {n}³ of {dtype}, {step} terms a step",
            lambda dtype=dtype, step=step: product(n, dtype, step=step),  # type: ignore[misc]
            2 * n**3,
            lambda a, b: a[:, :64].T.astype("float64") @ b.astype("float64"),
            dev,
        )


if __name__ == "__main__":
    main()
