"""A program of the shape of the legacy tutorial on tensor expressions: a vector sum, saved and loaded, a matrix product."""

import os
import sys
import tempfile

import numpy as np
import tvm
import tvm.testing
from tvm import te


target = sys.argv[1]
tgt = tvm.target.Target(target=target, host="llvm")
dev = tvm.device(tgt.kind.name, 0)

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.placeholder((n,), name="B")
C = te.compute(A.shape, lambda i: A[i] + B[i], name="C")
s = te.create_schedule(C.op)
if target == "llvm":
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[C].parallel(outer)
    s[C].vectorize(inner)
else:
    bx, tx = s[C].split(C.op.axis[0], factor=64)
    s[C].bind(bx, te.thread_axis("blockIdx.x"))
    s[C].bind(tx, te.thread_axis("threadIdx.x"))
print(tvm.lower(s, [A, B, C], simple_mode=True))
fadd = tvm.build(s, [A, B, C], tgt, name="myadd")
a = tvm.nd.array(np.random.uniform(size=1024).astype(A.dtype), dev)
b = tvm.nd.array(np.random.uniform(size=1024).astype(B.dtype), dev)
c = tvm.nd.array(np.zeros(1024, dtype=C.dtype), dev)
fadd(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())
evaluator = fadd.time_evaluator(fadd.entry_name, dev, number=10)
print("a vector sum: %f s" % evaluator(a, b, c).mean)
if target != "llvm":
    print(fadd.imported_modules[0].get_source())

# Save the module, load it, and run it again.
folder = tempfile.mkdtemp()
path = os.path.join(folder, "myadd.tw")
fadd.save(path)
assert os.path.exists(path)
again = tvm.runtime.load_module(path)
c = tvm.nd.array(np.zeros(1024, dtype=C.dtype), dev)
again(a, b, c)
tvm.testing.assert_allclose(c.numpy(), a.numpy() + b.numpy())

# A matrix product, step by step: blocking, vectorisation, loop order.
M = K = N = 64
a = tvm.nd.array(np.random.rand(M, K).astype("float32"), dev)
b = tvm.nd.array(np.random.rand(K, N).astype("float32"), dev)
answer = np.dot(a.numpy(), b.numpy())
k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda x, y: te.sum(A[x, k] * B[k, y], axis=k), name="C")
log = []


def evaluate_operation(s, args, optimization):
    func = tvm.build(s, args, target=tgt, name="mmult")
    c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-5)
    mean_time = func.time_evaluator(func.entry_name, dev, number=2)(a, b, c).mean
    log.append((optimization, mean_time))


if target == "llvm":
    s = te.create_schedule(C.op)
    evaluate_operation(s, [A, B, C], "none")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 32, 32)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, ki, xi, yi)
    evaluate_operation(s, [A, B, C], "blocking")
    s[C].vectorize(yi)
    evaluate_operation(s, [A, B, C], "vectorization")
    s = te.create_schedule(C.op)
    xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], 32, 32)
    ko, ki = s[C].split(C.op.reduce_axis[0], factor=4)
    s[C].reorder(xo, yo, ko, xi, ki, yi)
    s[C].vectorize(yi)
    s[C].parallel(xo)
    evaluate_operation(s, [A, B, C], "loop order, parallel")
    for optimization, seconds in log:
        print("%-22s%g" % (optimization, seconds))
print("right")
