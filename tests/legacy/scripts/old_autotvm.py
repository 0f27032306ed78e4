"""AutoTVM as of 2018: templates without a name, tasks made from the function, records picked out of a temporary log."""

import os
import sys
import tempfile

import numpy as np
import tvm
from tvm import autotvm


@autotvm.template
def matmul(N, L, M, dtype):
    A = tvm.placeholder((N, L), name="A", dtype=dtype)
    B = tvm.placeholder((L, M), name="B", dtype=dtype)
    k = tvm.reduce_axis((0, L), name="k")
    C = tvm.compute((N, M), lambda i, j: tvm.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = tvm.create_schedule(C.op)
    y, x = s[C].op.axis
    k = s[C].op.reduce_axis[0]

    cfg = autotvm.get_config()
    cfg.define_split("tile_y", y, num_outputs=2)
    cfg.define_split("tile_x", x, num_outputs=2)
    yo, yi = cfg["tile_y"].apply(s, C, y)
    xo, xi = cfg["tile_x"].apply(s, C, x)
    s[C].reorder(yo, xo, k, yi, xi)
    return s, [A, B, C]


folder = tempfile.mkdtemp()
log, tmp_log = os.path.join(folder, "matmul.log"), os.path.join(folder, "matmul.log.tmp")
measure_option = autotvm.measure_option("local", autotvm.LocalRunner(number=1, repeat=1, cooldown_interval=0))
sizes = [(8, 12, 16), (12, 8, 16)]
for i, size in enumerate(sizes):
    task = autotvm.task.create(matmul, args=(*size, "float32"), target=sys.argv[1], target_host="llvm")
    tuner = autotvm.tuner.RandomTuner(task)
    if os.path.exists(tmp_log):
        tuner.load_history(autotvm.record.load_from_file(tmp_log))
    n_trial = min(3, len(task.config_space))
    prefix = "[Task %d/%d] " % (i + 1, len(sizes))
    tuner.tune(
        n_trial=n_trial,
        measure_option=measure_option,
        early_stopping=100,
        callbacks=[autotvm.callback.progress_bar(n_trial, prefix=prefix), autotvm.callback.log_to_file(tmp_log)],
    )
autotvm.record.pick_best(tmp_log, log)
os.remove(tmp_log)

with autotvm.apply_history_best(log):
    with tvm.target.create(sys.argv[1]):
        s, arg_bufs = matmul(*sizes[0], "float32")
        func = tvm.build(s, arg_bufs)
a, b = np.random.rand(8, 12).astype("float32"), np.random.rand(12, 16).astype("float32")
c = tvm.nd.empty((8, 16))
func(tvm.nd.array(a), tvm.nd.array(b), c)
np.testing.assert_allclose(c.asnumpy(), a.dot(b), rtol=1e-4)
print(len(open(log).readlines()), "best")
