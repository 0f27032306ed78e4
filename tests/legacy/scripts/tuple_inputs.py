"""A program of the shape of the legacy tutorial on tuples: operations of several outputs, and reductions of them."""

import sys

import numpy as np
import tvm
import tvm.testing
from tvm import te

target = sys.argv[1]
dev = tvm.device(target)

# Two outputs of one loop.
n, m = te.var("n"), te.var("m")
A0 = te.placeholder((m, n), name="A0")
A1 = te.placeholder((m, n), name="A1")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A1[i, j] * 3), name="B")
s = te.create_schedule(B0.op)
print(tvm.lower(s, [A0, A1, B0, B1], simple_mode=True))


# The largest element of each row with its place: a reduction of pairs.
def fcombine(x, y):
    lhs = tvm.tir.Select((x[1] >= y[1]), x[0], y[0])
    rhs = tvm.tir.Select((x[1] >= y[1]), x[1], y[1])
    return lhs, rhs


def fidentity(t0, t1):
    return tvm.tir.const(-1, t0), te.min_value(t1)


argmax = te.comm_reducer(fcombine, fidentity, name="argmax")
m, n = te.var("m"), te.var("n")
idx = te.placeholder((m, n), name="idx", dtype="int32")
val = te.placeholder((m, n), name="val", dtype="int32")
k = te.reduce_axis((0, n), "k")
T0, T1 = te.compute((m,), lambda i: argmax((idx[i, k], val[i, k]), axis=k), name="T")
s = te.create_schedule(T0.op)
print(tvm.lower(s, [idx, val, T0, T1], simple_mode=True))
if target != "llvm":
    s[T0].bind(T0.op.axis[0], te.thread_axis("blockIdx.x"))
places = np.repeat(np.arange(30, dtype="int32")[None], 20, 0)
values = np.random.permutation(600).reshape(20, 30).astype("int32")
where, largest = tvm.nd.empty((20,), "int32", dev), tvm.nd.empty((20,), "int32", dev)
tvm.build(s, [idx, val, T0, T1], target)(tvm.nd.array(places, dev), tvm.nd.array(values, dev), where, largest)
np.testing.assert_array_equal(where.numpy(), values.argmax(axis=1))
np.testing.assert_array_equal(largest.numpy(), values.max(axis=1))

# Operations of several outputs are scheduled as one: one loop, at which a stage in between is computed.
A0 = te.placeholder((m, n), name="A0")
B0, B1 = te.compute((m, n), lambda i, j: (A0[i, j] + 2, A0[i, j] * 3), name="B")
A1 = te.placeholder((m, n), name="A1")
C = te.compute((m, n), lambda i, j: A1[i, j] + B0[i, j], name="C")
s = te.create_schedule(C.op)
s[B0].compute_at(s[C], C.op.axis[0])
print(tvm.lower(s, [A0, A1, C], simple_mode=True))
print("right")
