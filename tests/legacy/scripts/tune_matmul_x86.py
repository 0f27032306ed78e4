"""A program of the shape of the legacy tutorial on tuning a matrix product for the CPU: a template, a search, its log."""

import logging
import os
import sys
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import autotvm, te

size, trials = (int(a) for a in (sys.argv[2:] or ("512", "10")))
target = sys.argv[1]


# A schedule with fixed tiles.
def matmul_v0(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    yo, yi = s[C].split(y, 8)
    xo, xi = s[C].split(x, 8)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


# The tiles are choices: listed ones first, then every way to split.
@autotvm.template("tutorial/matmul_v1")
def matmul_v1(N, L, M, dtype):
    s, args = matmul_parts(N, L, M, dtype)
    C = args[-1]
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_knob("tile_y", [1, 2, 4, 8, 16])
    cfg.define_knob("tile_x", [1, 2, 4, 8, 16])
    yo, yi = s[C].split(y, cfg["tile_y"].val)
    xo, xi = s[C].split(x, cfg["tile_x"].val)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, args


@autotvm.template("tutorial/matmul")
def matmul(N, L, M, dtype):
    s, args = matmul_parts(N, L, M, dtype)
    C = args[-1]
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]
    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, args


def matmul_parts(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    C = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, B, C]


if __name__ == "__main__":
    N = L = M = size
    task = autotvm.task.create("tutorial/matmul_v1", args=(N, L, M, "float32"), target=target)
    assert len(task.config_space) == 25
    task = autotvm.task.create("tutorial/matmul", args=(N, L, M, "float32"), target=target)
    print(task.config_space)

    logging.getLogger("autotvm").setLevel(logging.DEBUG)
    logging.getLogger("autotvm").addHandler(logging.StreamHandler(sys.stdout))
    measure_option = autotvm.measure_option(builder="local", runner=autotvm.LocalRunner(number=5))
    log = os.path.join(tempfile.mkdtemp(), "matmul.log")
    try:
        import xgboost  # noqa: F401

        tuner = autotvm.tuner.XGBTuner(task)
    except ImportError:
        tuner = autotvm.tuner.RandomTuner(task)
    tuner.tune(n_trial=trials, measure_option=measure_option, callbacks=[autotvm.callback.log_to_file(log)])

    with autotvm.apply_history_best(log), tvm.target.Target(target):
        s, arg_bufs = matmul(N, L, M, "float32")
        func = tvm.build(s, arg_bufs)
    a_np = np.random.uniform(size=(N, L)).astype(np.float32)
    b_np = np.random.uniform(size=(L, M)).astype(np.float32)
    c_tvm = tvm.nd.empty((N, M))
    func(tvm.nd.array(a_np), tvm.nd.array(b_np), c_tvm)
    tvm.testing.assert_allclose(c_tvm.numpy(), a_np.dot(b_np), rtol=1e-4)
    print("right")
