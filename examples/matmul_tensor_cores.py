"""From a plain matrix product to tensor cores in five steps. Run it: python examples/matmul_tensor_cores.py [--size N]

Each step adds one idea to the schedule before it. On an NVIDIA GPU (sm_80 or later) every step is checked and timed.
Without one, the same programs are checked on the CPU, by OpenCL, at a small size, and the CUDA of each is compiled.
"""

import argparse

import numpy as np

import tilewright as tw
from tilewright import intrin, te


def declare(n):
    """C = max(A B, 0) of float16 operands, summed in float32."""
    A, B = te.placeholder((n, n), "float16", name="A"), te.placeholder((n, n), "float16", name="B")
    k = te.reduce_axis((0, n), name="k")
    D = te.compute((n, n), lambda i, j: te.sum(A[i, k].astype("float32") * B[k, j].astype("float32"), axis=k), name="D")
    C = te.compute((n, n), lambda i, j: te.max(D[i, j], 0.0), name="C")
    return A, B, D, C


def bind(s, stage, axes, tags):
    """Bind loops of a stage to hardware indices."""
    for axis, tag in zip(axes, tags, strict=True):
        s[stage].bind(axis, te.thread_axis(tag))


def naive(n):
    """One thread for each result."""
    A, B, D, C = declare(n)
    s = te.create_schedule(C.op)
    block_i, block_j, i, j = s[C].tile(*C.op.axis, 16, 16)
    bind(s, C, (block_i, block_j, i, j), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"))
    s[D].compute_at(s[C], j)
    return s, [A, B, C]


def tiles(n):
    """Operands shared by a block, 4 x 4 sums in the registers of a thread."""
    A, B, D, C = declare(n)
    s = te.create_schedule(C.op)
    shared = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block_i, block_j, i, j = s[C].tile(*C.op.axis, 64, 64)
    thread_i, thread_j, i, j = s[C].tile(i, j, 4, 4)
    bind(s, C, (block_i, block_j, thread_i, thread_j), ("blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x"))
    s[D].compute_at(s[C], thread_j)
    outer, inner = s[D].split(D.op.reduce_axis[0], factor=16)
    s[D].reorder(outer, inner, *D.op.axis)
    for tile in shared:
        s[tile].compute_at(s[D], outer)
    return s, [A, B, C]


def tensor_cores(n):
    """32 x 32 sums for a warp, by matrix instructions."""
    A, B, D, C = declare(n)
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    shared = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block_i, block_j, i, j = s[C].tile(*C.op.axis, 64, 64)
    warp_i, warp_j, i, j = s[C].tile(i, j, 32, 32)
    bind(s, C, (block_i, block_j, warp_i, warp_j), ("blockIdx.y", "blockIdx.x", "threadIdx.z", "threadIdx.y"))
    s[D].compute_at(s[C], warp_j)
    outer, inner = s[D].split(D.op.reduce_axis[0], factor=32)
    s[D].reorder(outer, *D.op.axis, inner)
    for tile in shared:
        s[tile].compute_at(s[D], outer)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    return s, [A, B, C]


def pipeline(n, staged=False):
    """Tiles of the next two steps on their way, 16 bytes a copy."""
    A, B, D, C = declare(n)
    s = te.create_schedule(C.op)
    s[D].set_scope("local")
    reader = s.cache_write(C, "shared") if staged else C
    shared = [s.cache_read(T, "shared", [D]) for T in (A, B)]
    block_i, block_j, i, j = s[C].tile(*C.op.axis, 64, 128)
    bind(s, C, (block_i, block_j), ("blockIdx.y", "blockIdx.x"))
    if staged:
        whole_vectors(s, C, i, j)
        s[reader].compute_at(s[C], block_j)
        i, j = reader.op.axis
    warp_i, warp_j, i, j = s[reader].tile(i, j, 32, 32)
    bind(s, reader, (warp_i, warp_j), ("threadIdx.z", "threadIdx.y"))
    s[D].compute_at(s[reader], warp_j)
    outer, inner = s[D].split(D.op.reduce_axis[0], factor=32)
    s[D].reorder(outer, *D.op.axis, inner)
    for tile in shared:
        s[tile].compute_at(s[D], outer)
        _, vector = s[tile].split(s[tile].fuse(*tile.op.axis), factor=8)
        s[tile].vectorize(vector)
        s[tile].pipeline(3)
    s[D].tensorize(D.op.axis[0], intrin.mma("float16"))
    return s, [A, B, C]


def staged(n):
    """Results through shared memory, stored 16 bytes at a time."""
    return pipeline(n, staged=True)


def whole_vectors(s, C, i, j):
    """All threads of a block store neighbouring vectors."""
    rest, vector = s[C].split(s[C].fuse(i, j), factor=4)
    s[C].vectorize(vector)
    for tag, extent in (("threadIdx.x", 32), ("threadIdx.y", 4), ("threadIdx.z", 2)):
        rest, thread = s[C].split(rest, factor=extent)
        s[C].bind(thread, te.thread_axis(tag))


STEPS = [naive, tiles, tensor_cores, pipeline, staged]


def check(step, n, target):
    """The largest error of a step on a target against float64, relative to the largest result; and its kernel."""
    s, args = step(n)
    module = tw.build(s, args, target)
    random = np.random.default_rng(0)
    a, b = (random.uniform(-1, 1, (n, n)).astype("float16") for _ in range(2))
    arrays = [tw.nd.array(x, tw.device(target)) for x in (a, b, np.full((n, n), np.nan, "float32"))]
    module(*arrays)
    wanted = np.maximum(a.astype("float64") @ b.astype("float64"), 0)
    return abs(arrays[2].numpy() - wanted).max() / wanted.max(), module, arrays


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, help="rows of the square matrices, a multiple of 128 (4096; 128 on a CPU)")
    parser.add_argument("--show", choices=[step.__name__ for step in STEPS], help="print loops and CUDA of a step")
    options = parser.parse_args()
    on_gpu = tw.cuda().exist
    n = options.size or (4096 if on_gpu else 128)
    if n < 128 or n % 128:
        parser.error(f"--size {n} is not a multiple of 128")
    if options.show:
        s, args = next(step for step in STEPS if step.__name__ == options.show)(n)
        print(tw.lower(s, args, simple_mode=True))
        print(tw.build(s, args, "cuda" if on_gpu else "cuda -arch=sm_90").program.source)
        return
    print(f"C = max(A B, 0), {n} × {n}, float16 summed in float32, on {'the GPU' if on_gpu else 'the CPU by OpenCL'}\n")
    print(f"{'step':14}{'µs':>10}{'TFLOP/s':>9}{'registers':>11}{'shared':>9}{'error':>9}  idea")
    for step in STEPS:
        error, module, arrays = check(step, n, "cuda" if on_gpu else "opencl")
        compiled = module if on_gpu else tw.build(*step(n), "cuda -arch=sm_90")
        (used,) = compiled.resources.values()
        time = rate = "–"
        if on_gpu:
            seconds = module.time_evaluator("main", tw.cuda(), number=10, repeat=5)(*arrays).median
            time, rate = f"{seconds * 1e6:.1f}", f"{2 * n**3 / seconds / 1e12:.1f}"
        figures = f"{time:>10}{rate:>9}{used.registers:11}{used.shared_bytes:9}{error:9.1e}"
        print(f"{step.__name__:14}{figures}  {step.__doc__}", flush=True)


if __name__ == "__main__":
    main()
