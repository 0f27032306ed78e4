"""Programs of the shape of the legacy tutorials on automatic schedules: a matrix product, and a layer with a bias."""

import os
import sys
import tempfile

import numpy as np
import tvm
from tvm import auto_scheduler, te, topi
from tvm.topi.testing import conv2d_nchw_python

target = tvm.target.Target(sys.argv[1])
dev = tvm.device("cpu" if sys.argv[1] == "llvm" else sys.argv[1], 0)
folder = tempfile.mkdtemp()


@auto_scheduler.register_workload
def product(n, m, k, dtype):
    A = te.placeholder((n, k), name="A", dtype=dtype)
    B = te.placeholder((k, m), name="B", dtype=dtype)
    C = te.placeholder((n, m), name="C", dtype=dtype)
    r = te.reduce_axis((0, k), name="r")
    D = te.compute(
        (n, m),
        lambda i, j: te.sum(A[i, r] * B[r, j], axis=r),
        name="D",
        attrs={"layout_free_placeholders": [B]},
    )
    return [A, B, C, te.compute((n, m), lambda i, j: D[i, j] + C[i, j], name="out")]


@auto_scheduler.register_workload
def layer(N, H, W, CO, CI, KH, KW, stride, padding):
    data = te.placeholder((N, CI, H, W), name="data")
    kernel = te.placeholder((CO, CI, KH, KW), name="kernel")
    bias = te.placeholder((1, CO, 1, 1), name="bias")
    conv = topi.nn.conv2d_nchw(data, kernel, stride, padding, dilation=1, out_dtype="float32")
    return [data, kernel, bias, topi.nn.relu(conv + bias)]


def searched(task, log, options):
    task.tune(options)
    s, args = task.apply_best(log)
    assert "Buffer" in str(tvm.lower(s, args, simple_mode=True))
    return tvm.build(s, args, target)


# A matrix product: search, apply, print, resume.
log = os.path.join(folder, "product.json")
task = tvm.auto_scheduler.SearchTask(func=product, args=(32, 48, 40, "float32"), target=target)
print(task.compute_dag)
options = auto_scheduler.TuningOptions(
    num_measure_trials=2, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=2
)
func = searched(task, log, options)
a, b, c = (np.random.uniform(size=shape).astype("float32") for shape in ((32, 40), (40, 48), (32, 48)))
out = tvm.nd.empty((32, 48), device=dev)
func(*(tvm.nd.array(x, device=dev) for x in (a, b, c)), out)
np.testing.assert_allclose(out.numpy(), a.dot(b) + c, rtol=1e-3)
evaluator = func.time_evaluator(func.entry_name, dev, min_repeat_ms=5)
assert np.median(evaluator(*(tvm.nd.array(x, device=dev) for x in (a, b, c)), out).results) > 0
print("Equivalent python schedule:")
print(task.print_best(log))

model = auto_scheduler.XGBModel()
model.update_from_file(log)
policy = auto_scheduler.SketchPolicy(
    task, model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
)
before = len(list(auto_scheduler.load_records(log)))
options.num_measure_trials = 1
task.tune(options, search_policy=policy)
print("measured again:", len(list(auto_scheduler.load_records(log))) - before)

# A layer, from a file with lines of another compiler.
log = os.path.join(folder, "layer.json")
with open(log, "w") as file:
    file.write('{"i": [["[]", "cuda", [], "", 1, []], [[], [["CI", 5]]]], "r": [[0.1], 0, 1, 1], "v": "v0.6"}\n')
sizes = (1, 7, 7, 16, 8, 3, 3, (1, 1), (1, 1))
task = auto_scheduler.SearchTask(func=layer, args=sizes, target=target)
context = auto_scheduler.LocalRPCMeasureContext(min_repeat_ms=5)
options = auto_scheduler.TuningOptions(
    num_measure_trials=1, runner=context.runner, measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0
)
func = searched(task, log, options)
del context
x, w, b = (np.random.uniform(size=s).astype("float32") for s in ((1, 8, 7, 7), (16, 8, 3, 3), (1, 16, 1, 1)))
out = tvm.nd.empty((1, 16, 7, 7), device=dev)
func(*(tvm.nd.array(v, device=dev) for v in (x, w, b)), out)
np.testing.assert_allclose(out.numpy(), np.maximum(conv2d_nchw_python(x, w, (1, 1), (1, 1)) + b, 0), rtol=1e-3)
if sys.argv[1] == "cuda":
    assert "__global__" in task.print_best(log, print_mode="cuda")
print("right")
