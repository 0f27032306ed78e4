"""A program of the shape of the legacy tutorial on reductions: factoring, threads that reduce together, reducers."""

import sys

import numpy as np
import tvm
import tvm.testing
from tvm import te

target = sys.argv[1]
dev = tvm.device(target)

# Sum of rows: sizes that are known at the call.
n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), "k")
B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
print(tvm.lower(s, [A, B], simple_mode=True))

# Parallelise over rows; the reduction, split.
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
xo, xi = s[B].split(B.op.axis[0], factor=32)
print(tvm.lower(s, [A, B], simple_mode=True))

# Reduction factoring: partial sums over the inner part of the reduction, in parallel.
s = te.create_schedule(B.op)
ko, ki = s[B].split(B.op.reduce_axis[0], factor=16)
BF = s.rfactor(B, ki)
print(tvm.lower(s, [A, B], simple_mode=True))
print(s[B].op.body)

# Cross-thread reduction: the partial sums of 16 threads are combined by the threads themselves.
xo, xi = s[B].split(s[B].op.axis[0], factor=32)
if target == "llvm":
    s[B].parallel(xo)
else:
    s[B].bind(xo, te.thread_axis("blockIdx.x"))
    s[B].bind(xi, te.thread_axis("threadIdx.y"))
    tx = te.thread_axis("threadIdx.x")
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[BF].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
f = tvm.build(s, [A, B], target)
if target != "llvm":
    print(f.imported_modules[0].get_source())
a = tvm.nd.array(np.random.uniform(size=(128, 100)).astype("float32"), dev)
b = tvm.nd.array(np.zeros(128, dtype="float32"), dev)
f(a, b)
tvm.testing.assert_allclose(b.numpy(), np.sum(a.numpy(), axis=1), rtol=1e-4)

# A convolution by two reduction axes.
size = 32
Input = te.placeholder((size, size), name="Input")
Filter = te.placeholder((3, 3), name="Filter")
di, dj = te.reduce_axis((0, 3), name="di"), te.reduce_axis((0, 3), name="dj")
Output = te.compute(
    (size - 2, size - 2),
    lambda i, j: te.sum(Input[i + di, j + dj] * Filter[di, dj], axis=[di, dj]),
    name="Output",
)
s = te.create_schedule(Output.op)
print(tvm.lower(s, [Input, Filter, Output], simple_mode=True))

# A reducer of one's own: products.
product = te.comm_reducer(lambda x, y: x * y, lambda t: tvm.tir.const(1, dtype=t), name="product")
n, m = te.var("n"), te.var("m")
A = te.placeholder((n, m), name="A")
k = te.reduce_axis((0, m), name="k")
B = te.compute((n,), lambda i: product(A[i, k], axis=k), name="B")
s = te.create_schedule(B.op)
if target != "llvm":
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
f = tvm.build(s, [A, B], target)
b = tvm.nd.array(np.zeros(128, dtype="float32"), dev)
a = tvm.nd.array(np.random.uniform(0.9, 1.1, size=(128, 30)).astype("float32"), dev)
f(a, b)
tvm.testing.assert_allclose(b.numpy(), np.prod(a.numpy(), axis=1), rtol=1e-4)
print("right")
