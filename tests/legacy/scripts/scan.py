"""A program of the shape of the legacy tutorial on recurrent kernels: scans of one stage, of several, of two states."""

import sys

import numpy as np
import tvm
import tvm.testing
from tvm import te

target = sys.argv[1]
dev = tvm.device(target)
on_grid = target != "llvm"
m, n = te.var("m"), te.var("n")


def bound(s, *stages):
    """The columns of each stage on a grid of threads."""
    if on_grid:
        for stage in stages:
            xo, xi = s[stage].split(stage.op.axis[1], factor=256)
            s[stage].bind(xo, te.thread_axis("blockIdx.x"))
            s[stage].bind(xi, te.thread_axis("threadIdx.x"))


# A running sum along the rows.
X = te.placeholder((m, n), name="X")
s_state = te.placeholder((m, n))
s_init = te.compute((1, n), lambda _, i: X[0, i])
s_update = te.compute((m, n), lambda t, i: s_state[t - 1, i] + X[t, i])
s_scan = te.scan(s_init, s_update, s_state, inputs=[X])
s = te.create_schedule(s_scan.op)
bound(s, s_init, s_update)
print(tvm.lower(s, [X, s_scan], simple_mode=True))
f = tvm.build(s, [X, s_scan], target, name="running_sum")
a_np = np.random.uniform(size=(10, 300)).astype("float32")
a, b = tvm.nd.array(a_np, dev), tvm.nd.array(np.zeros((10, 300), "float32"), dev)
f(a, b)
tvm.testing.assert_allclose(b.numpy(), np.cumsum(a_np, axis=0), rtol=1e-5)

# Several stages within a step; the first is computed at the columns of the second.
s_update_s1 = te.compute((m, n), lambda t, i: s_state[t - 1, i] * 2, name="s1")
s_update_s2 = te.compute((m, n), lambda t, i: s_update_s1[t, i] + X[t, i], name="s2")
s_scan = te.scan(s_init, s_update_s2, s_state, inputs=[X])
s = te.create_schedule(s_scan.op)
if on_grid:
    xo, xi = s[s_update_s2].split(s_update_s2.op.axis[1], factor=32)
    s[s_update_s2].bind(xo, te.thread_axis("blockIdx.x"))
    s[s_update_s2].bind(xi, te.thread_axis("threadIdx.x"))
    s[s_update_s1].compute_at(s[s_update_s2], xi)
    bound(s, s_init)
print(tvm.lower(s, [X, s_scan], simple_mode=True))
b = tvm.nd.array(np.zeros((10, 300), "float32"), dev)
tvm.build(s, [X, s_scan], target)(a, b)
want = a_np.astype("float64")
for t in range(1, 10):
    want[t] += 2 * want[t - 1]
tvm.testing.assert_allclose(b.numpy(), want, rtol=1e-5)

# Two states that advance together.
l = te.var("l")
X = te.placeholder((m, n), name="X")
s_state1, s_state2 = te.placeholder((m, n)), te.placeholder((m, l))
s_init1 = te.compute((1, n), lambda _, i: X[0, i])
s_init2 = te.compute((1, l), lambda _, i: 0.0)
s_update1 = te.compute((m, n), lambda t, i: s_state1[t - 1, i] + X[t, i])
s_update2 = te.compute((m, l), lambda t, i: s_state2[t - 1, i] + s_state1[t - 1, 0])
s_scan1, s_scan2 = te.scan([s_init1, s_init2], [s_update1, s_update2], [s_state1, s_state2], inputs=[X])
s = te.create_schedule(s_scan1.op)
bound(s, s_init1, s_init2, s_update1, s_update2)
print(tvm.lower(s, [X, s_scan1, s_scan2], simple_mode=True))
one = tvm.nd.array(np.zeros((10, 300), "float32"), dev)
two = tvm.nd.array(np.zeros((10, 7), "float32"), dev)
tvm.build(s, [X, s_scan1, s_scan2], target)(a, one, two)
sums = np.cumsum(a_np.astype("float64"), axis=0)
tvm.testing.assert_allclose(one.numpy(), sums, rtol=1e-5)
before = np.concatenate([np.zeros(1), np.cumsum(sums[:-1, 0])])
tvm.testing.assert_allclose(two.numpy(), np.repeat(before[:, None], 7, 1), rtol=1e-5)
print("right")
