"""Depthwise convolution, tuned by hand and fused with what follows it. Run it: python examples/depthwise_fused.py

A block of threads takes part of one channel, with its border and the channel's filter in shared memory. The
steps choose how large that part is, how many threads share it and how they interleave; the last one fuses
scale-shift and ReLU into the same kernel. Without an NVIDIA GPU it runs fewer channels on the CPU, through OpenCL,
where the first step takes a minute to compile.
"""

import argparse
from dataclasses import dataclass, replace

import numpy as np

import tilewright as tw
from tilewright import te, topi


@dataclass(frozen=True)
class Case:
    """One convolution, 1×channels×size×size with padding "SAME", and one schedule for it."""

    size: int = 96
    kernel: int = 3
    multiplier: int = 1
    channels: int = 256
    block: tuple[int, int] | None = (32, 32)  # rows and columns of a block; None: the whole channel
    threads: tuple[int, int] = (8, 8)  # y, x
    vthreads: tuple[int, int] = (1, 1)
    fused: bool = False  # with scale-shift and ReLU

    @property
    def shapes(self):
        """Shapes of the inputs, then of the output."""
        out = self.channels * self.multiplier
        filters = (self.channels, self.multiplier, self.kernel, self.kernel)
        inputs = [(1, self.channels, self.size, self.size), filters, *([(out,)] * 2 * self.fused)]
        return inputs, (1, out, self.size, self.size)


def declare(case):
    """The tensors: inputs, the convolution, what is computed last."""
    Input = te.placeholder((1, case.channels, case.size, case.size), name="Input")
    Filter = te.placeholder((case.channels, case.multiplier, case.kernel, case.kernel), name="Filter")
    conv = topi.nn.depthwise_conv2d_nchw(Input, Filter, stride=1, padding="SAME")
    if not case.fused:
        return [Input, Filter], conv, None, conv
    Scale = te.placeholder((case.channels * case.multiplier,), name="Scale")
    Shift = te.placeholder((case.channels * case.multiplier,), name="Shift")
    scaled = topi.nn.scale_shift_nchw(conv, Scale, Shift)
    return [Input, Filter, Scale, Shift], conv, scaled, topi.nn.relu(scaled)


def schedule(case):
    """The schedule, and the arguments of the kernel."""
    inputs, conv, scaled, out = declare(case)
    s = te.create_schedule(out.op)
    padded = conv.op.input_tensors[0]
    s[padded].compute_inline()
    image = s.cache_read(padded, "shared", [conv])
    filters = s.cache_read(inputs[1], "shared", [conv])
    if case.fused:
        s[scaled].compute_inline()
        s[conv].set_scope("local")
        result = conv
    else:
        result = s.cache_write(conv, "local")

    height, width = case.block or (case.size, case.size)
    n, c, h, w = s[out].op.axis
    channel = s[out].fuse(n, c)
    by, y = s[out].split(h, factor=height)
    bx, x = s[out].split(w, factor=width)
    vy, y = s[out].split(y, nparts=case.vthreads[0])
    ty, y = s[out].split(y, nparts=case.threads[0])
    vx, x = s[out].split(x, nparts=case.vthreads[1])
    tx, x = s[out].split(x, nparts=case.threads[1])
    s[out].reorder(channel, by, bx, vy, vx, ty, tx, y, x)
    part = s[out].fuse(by, bx)
    s[out].bind(channel, te.thread_axis("blockIdx.y"))
    s[out].bind(part, te.thread_axis("blockIdx.x"))
    s[out].bind(vy, te.thread_axis((0, case.vthreads[0]), "vthread", name="vy"))
    s[out].bind(vx, te.thread_axis((0, case.vthreads[1]), "vthread", name="vx"))
    s[out].bind(ty, te.thread_axis("threadIdx.y"))
    s[out].bind(tx, te.thread_axis("threadIdx.x"))
    s[result].compute_at(s[out], tx)

    for cache in (image, filters):
        s[cache].compute_at(s[out], part)
        fused = s[cache].fuse(*s[cache].op.axis)
        outer, lane = s[cache].split(fused, factor=case.threads[1])
        outer, row = s[cache].split(outer, factor=case.threads[0])
        s[cache].bind(row, te.thread_axis("threadIdx.y"))
        s[cache].bind(lane, te.thread_axis("threadIdx.x"))
    return s, [*inputs, out]


def reference(case, arrays):
    """The answer, in float64."""
    out = topi.testing.depthwise_conv2d_python_nchw(arrays[0].astype("float64"), arrays[1], 1, "SAME")
    if not case.fused:
        return out
    return topi.testing.relu_python(topi.testing.scale_shift_nchw_python(out, arrays[2], arrays[3]))


def measure(case, dev, number=20, repeat=11):
    """Build, check on poisoned output and time: (seconds, largest error, resources or None, lowered program)."""
    s, tensors = schedule(case)
    lowered = tw.lower(s, tensors, simple_mode=True)
    f = tw.build(lowered, target=dev.kind)
    rng = np.random.default_rng(0)
    shapes, out_shape = case.shapes
    arrays = [rng.uniform(-1, 1, shape).astype("float32") for shape in shapes]
    args = [tw.nd.array(a, dev) for a in (*arrays, np.full(out_shape, np.nan, "float32"))]
    f(*args)
    error = np.abs(args[-1].numpy() - reference(case, arrays)).max()
    if not error < 1e-4:
        raise SystemExit(f"{case}: wrong, error {error}")
    time = f.time_evaluator(f.entry_name, dev, number=number, repeat=repeat)(*args).median
    return time, error, next(iter(f.resources.values()), None), lowered


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--show", action="store_true", help="print the program of each step")
    parser.add_argument("--size", type=int, default=96, help="rows and columns of a channel")
    args = parser.parse_args()
    dev = tw.cuda() if tw.cuda().exist else tw.opencl()
    first = Case(size=args.size, channels=256 if dev.kind == "cuda" else 4, block=None)
    steps = {
        "a block per channel, 8×8 threads": first,
        "blocks of 32×32": replace(first, block=(32, 32)),
        "4 virtual threads along a row": replace(first, block=(32, 32), vthreads=(1, 4)),
        "4×32 threads": replace(first, block=(32, 32), threads=(4, 32)),
        "8×16 threads, 2 virtual": replace(first, block=(32, 32), threads=(8, 16), vthreads=(1, 2)),
        "... with scale-shift and ReLU": replace(first, block=(32, 32), threads=(8, 16), vthreads=(1, 2), fused=True),
    }
    print(f"1×{first.channels}×{first.size}×{first.size}, 3×3, on {dev.name}\n")
    print(f"{'step':34} {'time':>10} {'× first':>8} {'error':>8} {'registers':>9} {'shared':>7}")
    slowest = None
    for name, case in steps.items():
        print(f"{name:34} ", end="", flush=True)  # PoCL takes its time over the first one
        time, error, found, lowered = measure(case, dev)
        slowest = slowest or time
        used = f"{found.registers:9} {found.shared_bytes:7}" if found else f"{'–':>9} {'–':>7}"
        print(f"{time * 1e6:7.2f} µs {slowest / time:8.2f} {error:8.1e} {used}")
        if args.show:
            print(f"\n{lowered}")


if __name__ == "__main__":
    main()
