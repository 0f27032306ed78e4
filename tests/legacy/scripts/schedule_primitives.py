"""A program of the shape of the legacy tutorial on schedule primitives: each one alone, printed, and all of them right."""

import sys

import numpy as np
import tvm
from tvm import te

target = sys.argv[1]
dev = tvm.device(target)
n, m = te.var("n"), te.var("m")


def product():
    A = te.placeholder((m, n), name="A")
    B = te.placeholder((m, n), name="B")
    C = te.compute((m, n), lambda i, j: A[i, j] * B[i, j], name="C")
    return te.create_schedule([C.op]), A, B, C


def shown(title, s, args):
    print(f"-- {title}")
    text = str(tvm.lower(s, args, simple_mode=True))
    print(text)
    return text


s, A, B, C = product()
shown("as declared", s, [A, B, C])

# split: by the inner extent, and by the outer one.
a = te.placeholder((m,), name="a")
double = te.compute((m,), lambda i: a[i] * 2, name="double")
s = te.create_schedule(double.op)
xo, xi = s[double].split(double.op.axis[0], factor=32)
assert "likely" in shown("split by factor", s, [a, double])
s = te.create_schedule(double.op)
bx, tx = s[double].split(double.op.axis[0], nparts=32)
shown("split by nparts", s, [a, double])

# tile, then fuse the two inner loops; reorder.
s, A, B, C = product()
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
fused = s[C].fuse(xi, yi)
assert "xi" not in shown("tile and fuse", s, [A, B, C])
s, A, B, C = product()
xo, yo, xi, yi = s[C].tile(C.op.axis[0], C.op.axis[1], x_factor=10, y_factor=5)
s[C].reorder(xi, yo, xo, yi)
shown("reorder", s, [A, B, C])

# bind: a grid, on targets that have one.
a = te.placeholder((n,), name="a")
b = te.compute((n,), lambda i: a[i] * 2, name="b")
s = te.create_schedule(b.op)
bx, tx = s[b].split(b.op.axis[0], factor=64)
if target != "llvm":
    s[b].bind(bx, te.thread_axis("blockIdx.x"))
    s[b].bind(tx, te.thread_axis("threadIdx.x"))
    assert "threadIdx.x" in shown("bind", s, [a, b])
f = tvm.build(s, [a, b], target)
values = np.random.uniform(size=100).astype("float32")
found = tvm.nd.array(np.zeros(100, "float32"), dev)
f(tvm.nd.array(values, dev), found)
np.testing.assert_allclose(found.numpy(), values * 2)


def chain():
    a = te.placeholder((m,), name="a")
    b = te.compute((m,), lambda i: a[i] + 1, name="b")
    c = te.compute((m,), lambda i: b[i] * 2, name="c")
    return te.create_schedule(c.op), a, b, c


# compute_at moves a stage into its reader, compute_inline dissolves it, compute_root takes it out again.
s, a, b, c = chain()
apart = shown("by itself", s, [a, b, c])
s[b].compute_at(s[c], c.op.axis[0])
inside = shown("compute_at", s, [a, b, c])
assert (apart.count("for "), inside.count("for ")) == (2, 1)
s, a, b, c = chain()
s[b].compute_inline()
assert "b[" not in shown("compute_inline", s, [a, c])
s, a, b, c = chain()
s[b].compute_at(s[c], c.op.axis[0])
s[b].compute_root()
assert shown("compute_root", s, [a, b, c]) == apart
print("right")
