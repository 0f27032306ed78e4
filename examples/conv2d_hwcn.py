"""A large convolution on the GPU, step by step. Run it: python examples/conv2d_hwcn.py [--small] [--show]

The data lie as height, width, channel, batch (HWCN), so that neighbouring threads read neighbouring images of
the batch. Each step adds one idea to the schedule before it; the table at the end says what the idea was worth.
Without an NVIDIA GPU it runs a small problem on the CPU through OpenCL.
"""

import argparse
from dataclasses import dataclass

import numpy as np

import tilewright as tw
from tilewright import te, tir

TILE, THREADS, STEP, VTHREADS = 8, 8, 8, 2
BLOCK = TILE * THREADS  # a block computes BLOCK output channels of BLOCK images


@dataclass(frozen=True)
class Problem:
    """Sizes of a square convolution with stride 1."""

    batch: int = 256
    in_channel: int = 256
    out_channel: int = 512
    size: int = 14
    kernel: int = 3
    pad: int = 1

    @property
    def out_size(self):
        return self.size - self.kernel + 2 * self.pad + 1

    @property
    def flop(self):
        terms = self.in_channel * self.kernel**2
        return 2 * self.out_size**2 * self.out_channel * self.batch * terms


def declare(p):
    """A (H, W, CI, N) convolved with W (KH, KW, CI, CO), as B (OH, OW, CO, N)."""
    A = te.placeholder((p.size, p.size, p.in_channel, p.batch), name="A")
    W = te.placeholder((p.kernel, p.kernel, p.in_channel, p.out_channel), name="W")
    wide = p.size + 2 * p.pad
    Apad = te.compute(
        (wide, wide, p.in_channel, p.batch),
        lambda yy, xx, cc, nn: tir.if_then_else(
            tir.all(yy >= p.pad, yy - p.pad < p.size, xx >= p.pad, xx - p.pad < p.size),
            A[yy - p.pad, xx - p.pad, cc, nn],
            0.0,
        ),
        name="Apad",
    )
    rc = te.reduce_axis((0, p.in_channel), name="rc")
    ry = te.reduce_axis((0, p.kernel), name="ry")
    rx = te.reduce_axis((0, p.kernel), name="rx")
    B = te.compute(
        (p.out_size, p.out_size, p.out_channel, p.batch),
        lambda yy, xx, ff, nn: te.sum(Apad[yy + ry, xx + rx, rc, nn] * W[ry, rx, rc, ff], axis=[ry, rx, rc]),
        name="B",
    )
    s = te.create_schedule(B.op)
    s[Apad].compute_inline()
    return s, A, W, B, Apad


def threads(p):
    """a thread per result"""
    s, A, W, B, _ = declare(p)
    hi, wi, fi, ni = s[B].op.axis
    by, ty = s[B].split(fi, factor=THREADS)
    bx, tx = s[B].split(ni, factor=32)
    s[B].reorder(hi, wi, by, bx, ty, tx)
    s[B].bind(s[B].fuse(hi, wi), te.thread_axis("blockIdx.z"))
    bind(s[B], (by, "blockIdx.y"), (bx, "blockIdx.x"), (ty, "threadIdx.y"), (tx, "threadIdx.x"))
    return s, A, W, B


def registers(p):
    """8×8 results per thread, in registers"""
    return tiled(p, shared=False, virtual=False, vector=False)


def shared(p):
    """slices of both inputs in shared memory"""
    return tiled(p, shared=True, virtual=False, vector=False)


def virtual(p):
    """virtual threads, so that banks do not collide"""
    return tiled(p, shared=True, virtual=True, vector=False)


def vector(p):
    """four floats at a time into shared memory"""
    return tiled(p, shared=True, virtual=True, vector=True)


STEPS = (threads, registers, shared, virtual, vector)


def bind(stage, *pairs):
    for axis, tag in pairs:
        stage.bind(axis, te.thread_axis(tag))


def tiled(p, shared, virtual, vector):
    """The schedule of all later steps; the last one, with everything, is the legacy tutorial's."""
    s, A, W, B, Apad = declare(p)
    fetched = []
    if shared:
        AA = s.cache_read(Apad, "shared", [B])
        WW = s.cache_read(W, "shared", [B])
        fetched = [AA, WW]
        near = [s.cache_read(AA, "local", [B]), s.cache_read(WW, "local", [B])]
    BL = s.cache_write(B, "local")

    thread_x = te.thread_axis((0, THREADS), "threadIdx.x")
    thread_y = te.thread_axis((0, THREADS), "threadIdx.y")
    parts = VTHREADS if virtual else 1
    hi, wi, fi, ni = s[B].op.axis
    bz = s[B].fuse(hi, wi)
    by, fi = s[B].split(fi, factor=BLOCK)
    bx, ni = s[B].split(ni, factor=BLOCK)
    bind(s[B], (bz, "blockIdx.z"), (by, "blockIdx.y"), (bx, "blockIdx.x"))
    vy, fi = s[B].split(fi, nparts=parts)
    vx, ni = s[B].split(ni, nparts=parts)
    ty, fi = s[B].split(fi, nparts=THREADS)
    tx, ni = s[B].split(ni, nparts=THREADS)
    s[B].reorder(bz, by, bx, vy, vx, ty, tx, fi, ni)
    s[B].bind(vy, te.thread_axis((0, parts), "vthread", name="vy"))
    s[B].bind(vx, te.thread_axis((0, parts), "vthread", name="vx"))
    s[B].bind(ty, thread_y)
    s[B].bind(tx, thread_x)

    s[BL].compute_at(s[B], tx)
    _, _, fi, ni = s[BL].op.axis
    ry, rx, rc = s[BL].op.reduce_axis
    rco, rci = s[BL].split(rc, factor=STEP)
    s[BL].reorder(rco, ry, rx, rci, fi, ni)
    if shared:
        for cache in near:
            s[cache].compute_at(s[BL], rci)
    for cache in fetched:
        s[cache].compute_at(s[BL], rx)
        yi, xi, ci, ni = s[cache].op.axis
        ty, ci = s[cache].split(ci, nparts=THREADS)
        tx, ni = s[cache].split(ni, nparts=THREADS)
        outer, ni = s[cache].split(ni, factor=4)
        s[cache].reorder(ty, tx, yi, xi, ci, outer, ni)
        s[cache].bind(ty, thread_y)
        s[cache].bind(tx, thread_x)
        if vector:
            s[cache].vectorize(ni)
    return s, A, W, B


def reference(a, w, p):
    """The answer in float64."""
    padded = np.pad(a.astype("float64"), ((p.pad, p.pad), (p.pad, p.pad), (0, 0), (0, 0)))
    out = np.zeros((p.out_size, p.out_size, p.out_channel, a.shape[3]))
    for ry in range(p.kernel):
        for rx in range(p.kernel):
            window = padded[ry : ry + p.out_size, rx : rx + p.out_size]
            out += np.matmul(w[ry, rx].T.astype("float64"), window)
    return out


def main():
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--small", action="store_true", help="a problem of a hundredth of the size")
    parser.add_argument("--show", action="store_true", help="print the program of each step")
    args = parser.parse_args()
    dev = tw.cuda() if tw.cuda().exist else tw.opencl()
    small = args.small or dev.kind != "cuda"
    p = Problem(batch=64, in_channel=16, out_channel=64, size=6) if small else Problem()
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (p.size, p.size, p.in_channel, p.batch)).astype("float32")
    w = rng.uniform(-1, 1, (p.kernel, p.kernel, p.in_channel, p.out_channel)).astype("float32")
    checked = min(p.batch, 8)  # a few images are enough for the check, and quick in float64
    answer = reference(a[..., :checked], w, p)
    print(f"{p.size}×{p.size}×{p.in_channel}×{p.batch} → {p.out_channel}, on {dev.name}\n")
    data, weight = tw.nd.array(a, dev), tw.nd.array(w, dev)
    heads = f"{'step':10} {'time':>10} {'GFLOP/s':>8} {'× before':>8} {'error':>8} {'registers':>9} {'shared':>7}"
    print(f"{heads}  what is new")
    before = None
    for step in STEPS:
        s, *tensors = step(p)
        lowered = tw.lower(s, tensors, simple_mode=True)
        if args.show:
            print(f"\n{lowered}")
        f = tw.build(lowered, target=dev.kind)
        out = tw.nd.array(np.full((p.out_size, p.out_size, p.out_channel, p.batch), np.nan, "float32"), dev)
        f(data, weight, out)
        error = np.abs(out.numpy()[..., :checked] - answer).max()
        if not error < 1e-2:
            raise SystemExit(f"{step.__name__}: wrong, error {error}")
        time = f.time_evaluator(f.entry_name, dev, number=2, repeat=5)(data, weight, out).median
        found = next(iter(f.resources.values()), None)
        used = f"{found.registers:9} {found.shared_bytes:7}" if found else f"{'–':>9} {'–':>7}"
        gain = f"{before / time:8.2f}" if before else f"{'–':>8}"
        speed = p.flop / time / 1e9
        print(
            f"{step.__name__:10} {time * 1e3:7.3f} ms {speed:8,.1f} {gain} {error:8.1e} {used}  {step.__doc__}",
            flush=True,
        )
        before = time


if __name__ == "__main__":
    main()
