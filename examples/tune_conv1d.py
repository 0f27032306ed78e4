"""Tune the full 1-D convolution: python examples/tune_conv1d.py [TRIALS]

The choices: threads of a block and results of a thread, how the sum is split and which of its loops are unrolled, and
whether sums live in registers and weights or input in shared memory.
"""

import logging
import sys

import numpy as np

import tilewright as tw
from tilewright import autotvm, te, tir


@autotvm.template("examples/conv1d")
def conv1d(M, N, dtype="float32"):
    A = te.placeholder((M,), dtype, "A")
    W = te.placeholder((N,), dtype, "W")
    r = te.reduce_axis((0, N), "r")
    zero = tir.const(0.0, dtype)
    edge = N - 1  # zeros before and after the input
    padded = te.compute(
        (M + 2 * edge,), lambda p: tir.if_then_else(tir.all(p >= edge, p < M + edge), A[p - edge], zero), "padded"
    )
    B = te.compute((M + edge,), lambda i: te.sum(padded[i - r + edge] * W[r], axis=r), "B")
    s = te.create_schedule(B.op)
    s[padded].compute_inline()

    cfg = autotvm.get_config()
    sizes = [[-1, v, t, n] for t in (32, 64, 128, 256) for v in (1, 2) for n in (1, 2, 4)]
    cfg.define_split("tile", B.op.axis[0], policy="candidate", candidate=sizes, num_outputs=4)
    cfg.define_split("tile_r", r, num_outputs=3)
    cfg.define_annotate("unroll", [r, r], policy="try_unroll")
    cfg.define_knob("shared", ["none", "weights", "both"])
    cfg.define_knob("auto_unroll_max_step", [0, 64])
    # Counted by itself, the padding's comparisons would be in it.
    cfg.add_flop(2 * (M + edge) * N)

    sums = s.cache_write(B, "local")
    wanted = {"none": [], "weights": [W], "both": [W, padded]}[cfg["shared"].val]
    caches = [s.cache_read(t, "shared", [sums]) for t in wanted]
    block, vthread, thread, _ = cfg["tile"].apply(s, B, B.op.axis[0])
    s[B].bind(block, te.thread_axis("blockIdx.x"))
    s[B].bind(vthread, te.thread_axis("vthread"))
    s[B].bind(thread, te.thread_axis("threadIdx.x"))
    s[B].pragma(block, "auto_unroll_max_step", cfg["auto_unroll_max_step"].val)
    s[B].pragma(block, "unroll_explicit", 0)

    s[sums].compute_at(s[B], thread)
    ro, rm, ri = cfg["tile_r"].apply(s, sums, sums.op.reduce_axis[0])
    s[sums].reorder(ro, rm, ri, *sums.op.axis)
    cfg["unroll"].apply(s, sums, [rm, ri])
    for cache in caches:
        s[cache].compute_at(s[sums], ro)
        _, lane = s[cache].split(cache.op.axis[0], factor=cfg["tile"].size[2])
        s[cache].bind(lane, te.thread_axis("threadIdx.x"))
    return s, [A, W, B]


def main(trials: int = 40, log: str = "conv1d.log") -> None:
    logging.getLogger("autotvm").setLevel(logging.INFO)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    target, dev = ("cuda", tw.cuda()) if tw.cuda().exist else ("opencl", tw.opencl())
    M, N = 16384, 32

    task = autotvm.task.create("examples/conv1d", args=(M, N), target=target)
    print(task.config_space)
    measure = autotvm.measure_option(
        builder=autotvm.LocalBuilder(), runner=autotvm.LocalRunner(repeat=3, min_repeat_ms=10, timeout=4)
    )
    tuner = autotvm.tuner.XGBTuner(task)
    tuner.tune(trials, measure, callbacks=[autotvm.callback.log_to_file(log)])

    with autotvm.apply_history_best(log), tw.target.Target(target):
        s, args = conv1d(M, N)
        func = tw.build(s, args)
    a, w = (np.random.uniform(-1, 1, n).astype("float32") for n in (M, N))
    arrays = [tw.nd.array(a, dev), tw.nd.array(w, dev), tw.nd.empty((M + N - 1,), "float32", dev)]
    func(*arrays)
    np.testing.assert_allclose(arrays[2].numpy(), np.convolve(a, w), rtol=1e-3, atol=1e-4)
    seconds = func.time_evaluator(func.entry_name, dev, number=400)(*arrays).mean
    print(f"{seconds * 1e6:.2f} µs, {task.flop / seconds / 1e9:.1f} GFLOPS")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
