"""The oldest spelling: everything at the top level of tvm, `ctx` for a device, `.asnumpy()`."""

import sys

import numpy as np
import tvm

n = 100
A = tvm.placeholder((n,), name="A")
B = tvm.compute((n,), lambda i: tvm.select(i < 50, A[i], A[i] * 2.0), name="B")
s = tvm.create_schedule(B.op)
outer, inner = s[B].split(B.op.axis[0], factor=16)
s[B].bind(outer, tvm.thread_axis("blockIdx.x"))
s[B].bind(inner, tvm.thread_axis("threadIdx.x"))

ctx = tvm.opencl(0) if sys.argv[1] == "opencl" else tvm.gpu(0)
f = tvm.build(s, [A, B], sys.argv[1])
a = tvm.nd.array(np.arange(n, dtype="float32"), ctx=ctx)
b = tvm.nd.empty((n,), "float32", ctx)
f(a, b)
assert (b.asnumpy()[:50] == np.arange(50)).all()
assert (b.asnumpy()[50:] == 2 * np.arange(50, n)).all()
print("right")
