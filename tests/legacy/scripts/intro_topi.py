"""A program of the shape of the legacy tutorial on TOPI: operators, their overloads, general and GPU schedules, fusion."""

import sys

import numpy as np
import tvm
import tvm.testing
from tvm import te, topi

target = sys.argv[1]
dev = tvm.device(target, 0)

# The sum of rows, declared by hand and by the library: the same program.
n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
print(tvm.lower(s, [A, B], simple_mode=True))
C = topi.sum(A, axis=1)
ts = te.create_schedule(C.op)
print(tvm.lower(ts, [A, C], simple_mode=True))

# Operators of whole tensors broadcast.
x, y = 20, 10
a = te.placeholder((x, y, y), name="a")
b = te.placeholder((y, y), name="b")
c = a + b  # topi.broadcast_add
d = a * b  # topi.broadcast_mul
e = topi.elemwise_sum([c, d])
f = e / 2.0
g = topi.sum(f)
with tvm.target.Target(target):
    sg = topi.cuda.schedule_reduce(g) if target != "llvm" else topi.generic.schedule_reduce(g)
    print(tvm.lower(sg, [a, b, g], simple_mode=True))
    func = tvm.build(sg, [a, b, g], target)
a_np = np.random.uniform(size=(x, y, y)).astype(a.dtype)
b_np = np.random.uniform(size=(y, y)).astype(b.dtype)
g_np = np.sum(np.add(a_np + b_np, a_np * b_np) / 2.0)
g_nd = tvm.nd.array(np.zeros(g_np.shape, dtype="float32"), dev)
func(tvm.nd.array(a_np, dev), tvm.nd.array(b_np, dev), g_nd)
tvm.testing.assert_allclose(g_nd.numpy(), g_np, rtol=1e-4)

# Softmax, scheduled as a whole.
rows = te.placeholder((64, 100), name="rows")
soft = topi.nn.softmax(rows)
with tvm.target.Target(target):
    ss = topi.cuda.schedule_softmax(soft) if target != "llvm" else topi.x86.schedule_softmax(soft)
    func = tvm.build(ss, [rows, soft], target)
values = np.random.uniform(size=(64, 100)).astype("float32")
out = tvm.nd.array(np.zeros((64, 100), "float32"), dev)
func(tvm.nd.array(values, dev), out)
tvm.testing.assert_allclose(out.numpy(), topi.testing.softmax_python(values), rtol=1e-5)

# A convolution and what follows it, fused by one schedule.
data = te.placeholder((1, 3, 24, 24))
kernel = te.placeholder((10, 3, 5, 5))
with tvm.target.Target(target):
    conv = topi.nn.conv2d(data, kernel, strides=1, padding=2, dilation=1)
    out = topi.nn.relu(conv)
    if target == "llvm":
        sconv = topi.x86.schedule_injective(out)
        sconv[conv].compute_root()
    else:
        sconv = te.create_schedule(out.op)
        fused = sconv[out].fuse(*out.op.axis)
        bx, tx = sconv[out].split(fused, factor=64)
        sconv[out].bind(bx, te.thread_axis("blockIdx.x"))
        sconv[out].bind(tx, te.thread_axis("threadIdx.x"))
        sconv[conv].compute_at(sconv[out], tx)
        sconv[conv].set_scope("local")
        sconv[conv.op.input_tensors[0]].compute_inline()
    func = tvm.build(sconv, [data, kernel, out], target)
d_np = np.random.uniform(-1, 1, size=(1, 3, 24, 24)).astype("float32")
w_np = np.random.uniform(-1, 1, size=(10, 3, 5, 5)).astype("float32")
found = tvm.nd.array(np.zeros((1, 10, 24, 24), "float32"), dev)
func(tvm.nd.array(d_np, dev), tvm.nd.array(w_np, dev), found)
want = np.maximum(topi.testing.conv2d_nchw_python(d_np, w_np, 1, 2), 0)
tvm.testing.assert_allclose(found.numpy(), want, rtol=1e-4, atol=1e-4)
print("right")
