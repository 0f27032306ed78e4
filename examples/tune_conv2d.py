"""Tune a dense convolution, the last layer of a ResNet: python examples/tune_conv2d.py [TRIALS]

The template is the tutorial's: every axis is split four ways over blocks, virtual threads, threads and a thread's own
loops, the input tiles go through shared memory into registers, and how far loops are unrolled is a choice as well.
That spans 10,454,400 programs. What the log holds is not measured again: run it twice, and the second run goes on.
"""

import logging
import sys

import numpy as np

import tilewright as tw
from tilewright import autotvm, te, topi
from tilewright.topi.testing import conv2d_nchw_python


@autotvm.template("examples/conv2d")
def conv2d(N, H, W, CO, CI, KH, KW, stride, padding):
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    s = te.create_schedule(conv.op)
    n, f, y, x = conv.op.axis
    rc, ry, rx = conv.op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_f", f, num_outputs=4)
    cfg.define_split("tile_y", y, num_outputs=4)
    cfg.define_split("tile_x", x, num_outputs=4)
    cfg.define_split("tile_rc", rc, num_outputs=3)
    cfg.define_split("tile_ry", ry, num_outputs=3)
    cfg.define_split("tile_rx", rx, num_outputs=3)
    cfg.define_knob("auto_unroll_max_step", [0, 512, 1500])
    cfg.define_knob("unroll_explicit", [0, 1])

    padded = conv.op.input_tensors[0]
    s[padded].compute_inline()
    sums = s.cache_write(conv, "local")
    tiles = [s.cache_read(t, "shared", [sums]) for t in (padded, kernel)]
    registers = [s.cache_read(t, "local", [sums]) for t in tiles]

    # The output: blocks, virtual threads, threads, and the loops of one thread.
    axes = [cfg[name].apply(s, conv, axis) for name, axis in (("tile_f", f), ("tile_y", y), ("tile_x", x))]
    blocks, vthreads, threads, inner = zip(*axes, strict=True)
    s[conv].reorder(n, *blocks, *vthreads, *threads, *inner)
    for letter, block, vthread, thread in zip("zyx", blocks, vthreads, threads, strict=True):
        s[conv].bind(block, te.thread_axis(f"blockIdx.{letter}"))
        s[conv].bind(vthread, te.thread_axis("vthread"))
        s[conv].bind(thread, te.thread_axis(f"threadIdx.{letter}"))
    s[conv].pragma(n, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[conv].pragma(n, "unroll_explicit", cfg["unroll_explicit"].val)

    # The sums of one thread, tile by tile of what is summed over.
    s[sums].compute_at(s[conv], threads[-1])
    splits = [cfg[name].apply(s, sums, axis) for name, axis in (("tile_rc", rc), ("tile_ry", ry), ("tile_rx", rx))]
    outer, middle, innermost = zip(*splits, strict=True)
    s[sums].reorder(*outer, *middle, *innermost, *sums.op.axis)
    for tile, register in zip(tiles, registers, strict=True):
        s[tile].compute_at(s[sums], outer[-1])
        s[register].compute_at(s[sums], middle[-1])
        # All threads of a block fetch its tile together.
        rest = s[tile].fuse(*tile.op.axis)
        for letter, name in zip("zyx", ("tile_f", "tile_y", "tile_x"), strict=True):
            thread, rest = s[tile].split(rest, nparts=cfg[name].size[2])
            s[tile].bind(thread, te.thread_axis(f"threadIdx.{letter}"))
    return s, [data, kernel, conv]


def main(trials: int = 20, log: str = "conv2d.log") -> None:
    logging.getLogger("autotvm").setLevel(logging.DEBUG)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    target, dev = ("cuda", tw.cuda()) if tw.cuda().exist else ("opencl", tw.opencl())
    # A layer that a CPU measures in no time where there is no GPU.
    CO, CI = (512, 512) if target == "cuda" else (32, 32)
    layer = (1, 7, 7, CO, CI, 3, 3, (1, 1), (1, 1))

    task = autotvm.task.create("examples/conv2d", args=layer, target=target)
    print(task.config_space)
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(repeat=3, min_repeat_ms=20, timeout=4)
    )
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(trials, measure, callbacks=[autotvm.callback.log_to_file(log)])

    with autotvm.apply_history_best(log), tw.target.Target(target):
        s, args = conv2d(*layer)
        func = tw.build(s, args)
    a, w = (np.random.uniform(-1, 1, [int(n) for n in t.shape]).astype("float32") for t in args[:2])
    arrays = [tw.nd.array(a, dev), tw.nd.array(w, dev), tw.nd.empty([int(n) for n in args[2].shape], "float32", dev)]
    func(*arrays)
    expected = conv2d_nchw_python(a, w, (1, 1), (1, 1))
    np.testing.assert_allclose(arrays[2].numpy(), expected, rtol=1e-3, atol=1e-3)
    seconds = func.time_evaluator(func.entry_name, dev, number=400)(*arrays).mean
    print(f"{seconds * 1e6:.2f} µs, {task.flop / seconds / 1e9:.1f} GFLOPS")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
