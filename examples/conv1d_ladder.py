"""Three steps from a slow 1-D convolution to a fast one. Run it: python examples/conv1d_ladder.py

One computation, declared once; each step is another schedule for it. A step prints the loops it leads to, then
its time. It runs on an NVIDIA GPU where there is one, else on the CPU through OpenCL.
`tilewright ladder conv1d` climbs all the steps, and compares with NumPy and PyTorch.
"""

import numpy as np

import tilewright as tw
from tilewright import te, tir

M, N = 16384, 32  # lengths of the input and of the kernel
dev = tw.cuda() if tw.cuda().exist else tw.opencl()


def declare():
    """B[i] = sum of A[i - r] * W[r] over the kernel; outside A there are zeros."""
    A = te.placeholder((M,), name="A")
    W = te.placeholder((N,), name="W")
    r = te.reduce_axis((0, N), name="r")
    B = te.compute(
        (M + N - 1,),
        lambda i: te.sum(tir.if_then_else(tir.all(i - r >= 0, i - r < M), A[i - r], 0.0) * W[r], axis=r),
        name="B",
    )
    return te.create_schedule(B.op), A, W, B


def blocks():
    """One block of the grid for each result."""
    s, A, W, B = declare()
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    return s, A, W, B


def threads():
    """128 threads in a block, so that whole warps work side by side."""
    s, A, W, B = declare()
    block, thread = s[B].split(B.op.axis[0], factor=128)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    return s, A, W, B


def registers():
    """Sums grow in registers and go to memory once; their 32 terms are written out, so that loads overlap."""
    s, A, W, B = declare()
    total = s.cache_write(B, "local")
    block, thread = s[B].split(B.op.axis[0], factor=128)
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[B], thread)
    s[total].unroll(total.op.reduce_axis[0])
    return s, A, W, B


def main():
    rng = np.random.default_rng(0)
    a, w = (rng.uniform(-1, 1, n).astype("float32") for n in (M, N))
    answer = np.convolve(a.astype("float64"), w.astype("float64"))
    arrays = [tw.nd.array(x, dev) for x in (a, w, np.full(M + N - 1, np.nan, "float32"))]
    print(f"on {dev.name}")
    for step in (blocks, threads, registers):
        s, *tensors = step()
        if step is not registers:  # 32 long lines; print them, too, if you like
            print(f"\n{tw.lower(s, tensors, simple_mode=True)}")
        f = tw.build(s, tensors, target=dev.kind)
        f(*arrays)
        error = np.abs(arrays[-1].numpy() - answer).max()
        time = f.time_evaluator(f.entry_name, dev, number=20, repeat=11)(*arrays).median
        print(f"{step.__name__:10} {time * 1e6:8.2f} µs   max error {error:.1e}   {step.__doc__}")


if __name__ == "__main__":
    main()
