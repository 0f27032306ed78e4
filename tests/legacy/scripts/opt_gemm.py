"""A program of the shape of the legacy tutorial on matrix products on the CPU: every step of it, each of them right."""

import sys

import numpy as np
import tvm
import tvm.testing
from tvm import te

M = K = N = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
target = sys.argv[1]
dev = tvm.device(target, 0)
a = tvm.nd.array(np.random.rand(M, K).astype("float32"), dev)
b = tvm.nd.array(np.random.rand(K, N).astype("float32"), dev)
answer = np.dot(a.numpy(), b.numpy())
bn, kfactor = 32, 4

k = te.reduce_axis((0, K), "k")
A = te.placeholder((M, K), name="A")
B = te.placeholder((K, N), name="B")
C = te.compute((M, N), lambda m, n: te.sum(A[m, k] * B[k, n], axis=k), name="C")


def run(title, s, out):
    func = tvm.build(s, [A, B, out], target=target, name="mmult")
    c = tvm.nd.array(np.zeros((M, N), dtype="float32"), dev)
    func(a, b, c)
    tvm.testing.assert_allclose(c.numpy(), answer, rtol=1e-4)
    evaluator = func.time_evaluator(func.entry_name, dev, number=1)
    print("%s: %f" % (title, evaluator(a, b, c).mean))
    return tvm.lower(s, [A, B, out], simple_mode=True)


run("Baseline", te.create_schedule(C.op), C)

# Blocking.
s = te.create_schedule(C.op)
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=kfactor)
s[C].reorder(mo, no, ko, ki, mi, ni)
run("Blocking", s, C)

# Vectorisation.
s[C].vectorize(ni)
run("Vectorization", s, C)

# Loop permutation.
s = te.create_schedule(C.op)
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=kfactor)
s[C].reorder(mo, no, ko, mi, ki, ni)
s[C].vectorize(ni)
run("Loop permutation", s, C)

# Array packing: B by columns of blocks.
packedB = te.compute(
    (N // bn, K, bn), lambda bigN, k, littleN: B[k, bigN * bn + littleN], name="packedB"
)
C = te.compute(
    (M, N),
    lambda m, n: te.sum(A[m, k] * packedB[n // bn, k, tvm.tir.indexmod(n, bn)], axis=k),
    name="C",
)
s = te.create_schedule(C.op)
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
ko, ki = s[C].split(s[C].op.reduce_axis[0], factor=kfactor)
s[C].reorder(mo, no, ko, mi, ki, ni)
s[C].vectorize(ni)
bigN, _, littleN = s[packedB].op.axis
s[packedB].vectorize(littleN)
s[packedB].parallel(bigN)
run("Array packing", s, C)

# A write cache for blocks, and threads.
s = te.create_schedule(C.op)
CC = s.cache_write(C, "global")
mo, no, mi, ni = s[C].tile(C.op.axis[0], C.op.axis[1], bn, bn)
s[CC].compute_at(s[C], no)
mc, nc = s[CC].op.axis
(kaxis,) = s[CC].op.reduce_axis
ko, ki = s[CC].split(kaxis, factor=kfactor)
s[CC].reorder(ko, mc, ki, nc)
s[CC].vectorize(nc)
s[CC].unroll(ki)
bigN, _, littleN = s[packedB].op.axis
s[packedB].vectorize(littleN)
s[packedB].parallel(bigN)
run("Block caching", s, C)
s[C].parallel(mo)
print(run("Parallelization", s, C))
print("right")
