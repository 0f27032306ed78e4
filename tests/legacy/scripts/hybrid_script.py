"""A program of the shape of the legacy documents on hybrid script: emulation, compilation, tuning, binding."""

import sys

import numpy as np
import tvm
from tvm import te, tir
from tvm.te.hybrid import script

target = sys.argv[1]
dev = tvm.device(target)


@te.hybrid.script
def outer_product(n, m, a, b):
    """The outer product of two vectors."""
    c = output_tensor((n, m), a.dtype)
    for i in range(n):
        for j in range(m):
            assert i < n and j < m, "index out of range!"
            c[i, j] = a[i] * b[j]
    return c


# Software emulation: NumPy arrays in, NumPy arrays out.
np_a, np_b = np.random.randn(100).astype("float32"), np.random.randn(99).astype("float32")
np.testing.assert_allclose(outer_product(100, 99, np_a, np_b), np.outer(np_a, np_b), rtol=1e-6)

# The same function as an operation, with sizes that are known at the call.
n, m = te.size_var("n"), te.size_var("m")
a, b = te.placeholder((n,), name="a"), te.placeholder((m,), name="b")
c = outer_product(n, m, a, b)
assert isinstance(c.op, te.HybridOp) and [axis.var.name for axis in c.op.axis] == ["i", "j"]

s = te.create_schedule(c.op)
if target == "llvm":
    io, ii = s[c].split(c.op.axis[0], 4)
    jo, ji = s[c].split(c.op.axis[1], 8)
    s[c].reorder(io, jo, ii, ji)
    s[c].parallel(io)
    s[c].vectorize(ji)
else:
    fused = s[c].fuse(c.op.axis[0], c.op.axis[1])
    bx, tx = s[c].split(fused, factor=64)
    s[c].bind(bx, te.thread_axis("blockIdx.x"))
    s[c].bind(tx, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [a, b, c], simple_mode=True))
f = tvm.build(s, [a, b, c], target)
out = tvm.nd.empty((100, 99), "float32", dev)
f(tvm.nd.array(np_a, dev), tvm.nd.array(np_b, dev), out)
np.testing.assert_allclose(out.numpy(), np.outer(np_a, np_b), rtol=1e-6)


# Stages before and after, branches, variables, and thread axes of the text.
@script
def smooth(x):
    y = output_tensor(x.shape, x.dtype)
    for bx in bind("blockIdx.x", x.shape[0] // 32):
        for tx in bind("threadIdx.x", 32):
            i = bx * 32 + tx
            total = x[i]
            if i > 0:
                total += x[i - 1]
            if i < x.shape[0] - 1:
                total += x[i + 1]
            y[i] = total * 0.25 + sigmoid(x[i])
    return y


@script
def smooth_loops(x):
    y = output_tensor(x.shape, x.dtype)
    for i in parallel(x.shape[0]):
        total = x[i]
        if i > 0:
            total += x[i - 1]
        if i < x.shape[0] - 1:
            total += x[i + 1]
        y[i] = total * 0.25 + sigmoid(x[i])
    return y


chosen = smooth_loops if target == "llvm" else smooth
x = te.placeholder((128,), name="x")
y = chosen(x)
z = te.compute((128,), lambda i: tir.if_then_else(y[i] > 0.5, y[i], 0.0), name="z")
s = te.create_schedule(z.op)
if target != "llvm":
    bx, tx = s[z].split(z.op.axis[0], factor=32)
    s[z].bind(bx, te.thread_axis("blockIdx.x"))
    s[z].bind(tx, te.thread_axis("threadIdx.x"))
f = tvm.build(s, [x, z], target)
np_x = np.random.randn(128).astype("float32")
out = tvm.nd.empty((128,), "float32", dev)
f(tvm.nd.array(np_x, dev), out)
want = chosen(np_x)
np.testing.assert_allclose(out.numpy(), np.where(want > 0.5, want, 0), rtol=1e-5)
print("right")
