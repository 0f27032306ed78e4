"""Tune a depthwise convolution: python examples/tune_depthwise.py [TRIALS]

The space has the five parts of the document's, and for its images its size, 2,880: tile sizes of height and width, the
order of the loops, how the sum's loops run, caches in registers and in shared memory, and how far loops are unrolled.
"""

import logging
import sys

import numpy as np

import tilewright as tw
from tilewright import autotvm, te, tir


@autotvm.template("examples/depthwise")
def depthwise(B, C, H, W, K, dtype="float32"):
    image = te.placeholder((B, C, H, W), dtype, "A")
    kernel = te.placeholder((C, 1, K, K), dtype, "W")
    ry, rx = te.reduce_axis((0, K), "ry"), te.reduce_axis((0, K), "rx")
    pad = (K - 1) // 2
    padded = te.compute(
        (B, C, H + 2 * pad, W + 2 * pad),
        lambda b, c, h, w: tir.if_then_else(
            tir.all(h >= pad, h < H + pad, w >= pad, w < W + pad), image[b, c, h - pad, w - pad], tir.const(0.0, dtype)
        ),
        name="padded",
    )
    out = te.compute(
        (B, C, H, W),
        lambda b, c, h, w: te.sum(padded[b, c, h + ry, w + rx] * kernel[c, 0, ry, rx], axis=[ry, rx]),
        name="depthwise_conv",
    )
    s = te.create_schedule(out.op)
    b, c, h, w = out.op.axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_h", h, num_outputs=2)
    cfg.define_split("tile_w", w, num_outputs=2)
    cfg.define_reorder("order", [ry, rx], policy="all")
    cfg.define_annotate("reduce", [ry, rx], policy="try_unroll")
    cfg.define_knob("local_cache", [0, 1])
    cfg.define_knob("shared_cache", [0, 1])
    cfg.define_knob("auto_unroll_max_step", [0, 16, 512])

    s[padded].compute_inline()
    sums = s.cache_write(out, "local") if cfg["local_cache"].val else out
    caches = [s.cache_read(t, "shared", [sums]) for t in (padded, kernel)] if cfg["shared_cache"].val else []

    ho, hi = cfg["tile_h"].apply(s, out, h)
    wo, wi = cfg["tile_w"].apply(s, out, w)
    s[out].reorder(b, c, ho, wo, hi, wi)
    plane, tile = s[out].fuse(b, c), s[out].fuse(ho, wo)
    for axis, name in ((plane, "blockIdx.y"), (tile, "blockIdx.x"), (hi, "threadIdx.y"), (wi, "threadIdx.x")):
        s[out].bind(axis, te.thread_axis(name))
    s[out].pragma(plane, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[out].pragma(plane, "unroll_explicit", 0)

    if sums is not out:
        s[sums].compute_at(s[out], wi)
    loops = cfg["order"].apply(s, sums, list(sums.op.reduce_axis))
    cfg["reduce"].apply(s, sums, loops)
    for cache in caches:
        s[cache].compute_at(s[out], tile)
        fused = s[cache].fuse(*cache.op.axis)
        fused, column = s[cache].split(fused, factor=cfg["tile_w"].size[1])
        _, row = s[cache].split(fused, factor=cfg["tile_h"].size[1])
        s[cache].bind(row, te.thread_axis("threadIdx.y"))
        s[cache].bind(column, te.thread_axis("threadIdx.x"))
    return s, [image, kernel, out]


def main(trials: int = 60, log: str = "depthwise.log") -> None:
    logging.getLogger("autotvm").setLevel(logging.INFO)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    target, dev = ("cuda", tw.cuda()) if tw.cuda().exist else ("opencl", tw.opencl())
    size = B, C, H, W, K = 3, 4, 16, 32, 7

    task = autotvm.task.create("examples/depthwise", args=size, target=target)
    print(task.config_space)
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(repeat=3, min_repeat_ms=10, timeout=4)
    )
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(trials, measure, callbacks=[autotvm.callback.log_to_file(log)])

    with autotvm.apply_history_best(log), tw.target.Target(target):
        s, args = depthwise(*size)
        func = tw.build(s, args)
    a = np.random.uniform(-1, 1, (B, C, H, W)).astype("float32")
    w = np.random.uniform(-1, 1, (C, 1, K, K)).astype("float32")
    arrays = [tw.nd.array(a, dev), tw.nd.array(w, dev), tw.nd.empty((B, C, H, W), "float32", dev)]
    func(*arrays)
    windows = np.lib.stride_tricks.sliding_window_view(
        np.pad(a, [(0, 0), (0, 0), (K // 2,) * 2, (K // 2,) * 2]), (K, K), (2, 3)
    )
    np.testing.assert_allclose(arrays[2].numpy(), np.einsum("bchwij,cij->bchw", windows, w[:, 0]), rtol=1e-3, atol=1e-4)
    seconds = func.time_evaluator(func.entry_name, dev, number=400)(*arrays).mean
    print(f"{seconds * 1e6:.2f} µs, {task.flop / seconds / 1e9:.1f} GFLOPS")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
