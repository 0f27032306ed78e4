"""Three steps from a slow depthwise convolution to a fast one. Run it: python examples/depthwise_ladder.py

Each channel of each image is convolved with its own small kernel. The computation is declared once, padding
included; each step is another schedule for it and prints the loops it leads to, then its time. It runs on an
NVIDIA GPU where there is one, else on the CPU through OpenCL.
`tilewright ladder depthwise` climbs all the steps, and compares with NumPy and PyTorch.
"""

import numpy as np

import tilewright as tw
from tilewright import te, tir

B, C, H, W, K = 3, 4, 16, 32, 7  # images, channels, height, width, kernel
PAD = K // 2
dev = tw.cuda() if tw.cuda().exist else tw.opencl()


def declare():
    """The convolution; `padded` is computed wherever it is read and never stored."""
    image = te.placeholder((B, C, H, W), name="image")
    kernel = te.placeholder((C, K, K), name="kernel")
    padded = te.compute(
        (B, C, H + 2 * PAD, W + 2 * PAD),
        lambda b, c, y, x: tir.if_then_else(
            tir.all(y >= PAD, y < H + PAD, x >= PAD, x < W + PAD), image[b, c, y - PAD, x - PAD], 0.0
        ),
        name="padded",
    )
    ky, kx = te.reduce_axis((0, K), "ky"), te.reduce_axis((0, K), "kx")
    out = te.compute(
        (B, C, H, W),
        lambda b, c, y, x: te.sum(padded[b, c, y + ky, x + kx] * kernel[c, ky, kx], axis=[ky, kx]),
        name="out",
    )
    s = te.create_schedule(out.op)
    s[padded].compute_inline()
    return s, image, kernel, out


def planes():
    """A block of the grid for each channel of each image."""
    s, image, kernel, out = declare()
    b, c, _, _ = out.op.axis
    s[out].bind(s[out].fuse(b, c), te.thread_axis("blockIdx.x"))
    return s, image, kernel, out


def tiles():
    """A block for each tile of 16 by 16 pixels, a thread for each pixel."""
    s, image, kernel, out = declare()
    b, c, y, x = out.op.axis
    yo, xo, yi, xi = s[out].tile(y, x, 16, 16)
    s[out].bind(s[out].fuse(b, c), te.thread_axis("blockIdx.x"))
    s[out].bind(s[out].fuse(yo, xo), te.thread_axis("blockIdx.y"))
    s[out].bind(yi, te.thread_axis("threadIdx.y"))
    s[out].bind(xi, te.thread_axis("threadIdx.x"))
    return s, image, kernel, out


def registers():
    """The same tiles; sums grow in registers, and their terms are written out, so that loads overlap."""
    s, image, kernel, out = declare()
    total = s.cache_write(out, "local")
    b, c, y, x = out.op.axis
    yo, xo, yi, xi = s[out].tile(y, x, 16, 16)
    s[out].bind(s[out].fuse(b, c), te.thread_axis("blockIdx.x"))
    s[out].bind(s[out].fuse(yo, xo), te.thread_axis("blockIdx.y"))
    s[out].bind(yi, te.thread_axis("threadIdx.y"))
    s[out].bind(xi, te.thread_axis("threadIdx.x"))
    s[total].compute_at(s[out], xi)
    ky, kx = total.op.reduce_axis
    s[total].unroll(ky)
    s[total].unroll(kx)
    return s, image, kernel, out


def main():
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (B, C, H, W)).astype("float32")
    w = rng.uniform(-1, 1, (C, K, K)).astype("float32")
    padded = np.pad(a.astype("float64"), ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (K, K), axis=(2, 3))
    answer = np.einsum("bcyxij,cij->bcyx", windows, w)
    arrays = [tw.nd.array(x, dev) for x in (a, w, np.full((B, C, H, W), np.nan, "float32"))]
    print(f"on {dev.name}")
    for step in (planes, tiles, registers):
        s, *tensors = step()
        if step is not registers:  # 49 long lines; print them, too, if you like
            print(f"\n{tw.lower(s, tensors, simple_mode=True)}")
        f = tw.build(s, tensors, target=dev.kind)
        f(*arrays)
        error = np.abs(arrays[-1].numpy() - answer).max()
        time = f.time_evaluator(f.entry_name, dev, number=20, repeat=11)(*arrays).median
        print(f"{step.__name__:10} {time * 1e6:8.2f} µs   max error {error:.1e}   {step.__doc__}")


if __name__ == "__main__":
    main()
