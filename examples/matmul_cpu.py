"""A matrix product on the CPU, step by step. Run it: python examples/matmul_cpu.py [--size 512] [--show STEP]

Each step adds one idea to the schedule before it, from three plain loops to a kernel that keeps its sums in
vector registers. Every result is checked against NumPy; the table at the end says what each idea was worth.
Compare ratios: other users of a machine move the times, but most of that moves all rows alike.
"""

import argparse

import numpy as np
from llvmlite.binding import get_host_cpu_features

import tilewright as tw
from tilewright import te

WIDE = get_host_cpu_features().get("avx512f", False)  # 32 registers of 16 floats, else 16 of 8
LANES = 32  # columns of a block: two wide registers, or four
BLOCK = 32  # rows of a block
ROWS = 8 if WIDE else 2  # rows of a block that is kept in registers: half of all registers hold sums
STEP = 4  # terms of the sum that are written out one after the other


def declare(n):
    """C = A B, all n × n."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def naive(n):
    """Three loops, the sum innermost: every step reads a new row of B."""
    A, B, C = declare(n)
    return te.create_schedule(C.op), A, B, C


def tiled(n):
    """Blocks of C, so that the rows of B that a block needs stay in the cache."""
    A, B, C = declare(n)
    s = te.create_schedule(C.op)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    io, jo, ii, ji = s[C].tile(i, j, BLOCK, LANES)
    ko, ki = s[C].split(k, STEP)
    s[C].reorder(io, jo, ko, ki, ii, ji)
    return (s, A, B, C), (io, jo, ko, ki, ii, ji)


def blocking(n):
    """Blocks of C, so that the rows of B that a block needs stay in the cache."""
    return tiled(n)[0]


def vectorization(n):
    """The columns of a block side by side in vector registers."""
    made, (*_, ji) = tiled(n)
    s, C = made[0], made[3]
    s[C].vectorize(ji)
    return made


def permutation(n):
    """Rows outside of the sum's inner part: A is read along its rows."""
    made, (io, jo, ko, ki, ii, ji) = tiled(n)
    s, C = made[0], made[3]
    s[C].vectorize(ji)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    return made


def packed(n):
    """C from A and from B relaid so that the columns of one block lie one after the other."""
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    P = te.compute((n // LANES, n, LANES), lambda x, y, z: B[y, x * LANES + z], name="P")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * P[j // LANES, k, j % LANES], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[P].vectorize(P.op.axis[2])
    return s, A, B, C, P


def packing(n):
    """B relaid first, so that the kernel reads it from one end to the other."""
    s, A, B, C, _ = packed(n)
    i, j = C.op.axis
    (k,) = C.op.reduce_axis
    io, jo, ii, ji = s[C].tile(i, j, BLOCK, LANES)
    ko, ki = s[C].split(k, STEP)
    s[C].reorder(io, jo, ko, ii, ki, ji)
    s[C].vectorize(ji)
    return s, A, B, C


def in_registers(n):
    """The schedule with sums in registers, its axes of blocks of columns and of rows, and the relaid B."""
    s, A, B, C, P = packed(n)
    sums = s.cache_write(C, "local")
    i, j = C.op.axis
    io, jo, ii, ji = s[C].tile(i, j, ROWS, LANES)
    s[C].reorder(jo, io, ii, ji)
    s[C].vectorize(ji)
    s[sums].compute_at(s[C], io)
    row, column = sums.op.axis
    ko, ki = s[sums].split(sums.op.reduce_axis[0], STEP)
    s[sums].reorder(ko, ki, row, column)
    s[sums].unroll(ki)
    s[sums].unroll(row)
    s[sums].vectorize(column)
    return (s, A, B, C), (jo, io), P


def registers(n):
    """Sums in registers: one write to C for each element, instead of one for each term."""
    return in_registers(n)[0]


def parallel(n):
    """Blocks of columns on all processors."""
    made, (jo, _), P = in_registers(n)
    s, C = made[0], made[3]
    s[C].parallel(jo)
    s[P].parallel(P.op.axis[0])
    return made


STEPS = [naive, blocking, vectorization, permutation, packing, registers, parallel]


def run(step, n, data):
    """Build a step, check it, and time it: seconds."""
    s, *args = step(n)
    module = tw.build(s, args, "llvm")
    a, b, wanted = data
    arrays = [tw.nd.array(a), tw.nd.array(b), tw.nd.array(np.full((n, n), np.nan, "float32"))]
    module(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), wanted, rtol=1e-4)
    return module.time_evaluator("main", tw.cpu(0), number=3, repeat=5, min_repeat_ms=10)(*arrays).min


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--size", type=int, default=512, help=f"rows of the square matrices, a multiple of {LANES}")
    parser.add_argument("--show", choices=[step.__name__ for step in STEPS], help="print the loops of that step")
    options = parser.parse_args()
    n = options.size
    if n < LANES or n % LANES:
        parser.error(f"--size {n} is not a multiple of {LANES}")
    if options.show:
        s, *args = next(step for step in STEPS if step.__name__ == options.show)(n)
        print(tw.lower(s, args, simple_mode=True))
        return
    random = np.random.default_rng(0)
    a, b = (random.random((n, n), "float32") for _ in range(2))
    data = a, b, a.astype("float64") @ b.astype("float64")
    threads = tw.runtime.num_threads()
    print(f"C = A B, {n} × {n} float32, on {threads} thread{'s' if threads > 1 else ''}\n")
    print(f"{'step':14}{'ms':>9}{'GFLOP/s':>9}{'× naive':>9}  idea")
    first = None
    for step in STEPS:
        seconds = run(step, n, data)
        first = first or seconds
        rate = 2 * n**3 / seconds / 1e9
        print(f"{step.__name__:14}{seconds * 1e3:9.3f}{rate:9.1f}{first / seconds:9.1f}  {step.__doc__}", flush=True)


if __name__ == "__main__":
    main()
