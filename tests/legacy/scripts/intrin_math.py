# A program of the shape of the tutorial on intrinsics and math functions.
import sys

import numpy as np
import tvm
from tvm import te
from tvm.ir import register_intrin_lowering, register_op_attr

target = sys.argv[1]
n = te.var("n")
A = te.placeholder((n,), name="A")


def build(values, name):
    B = te.compute(A.shape, values, name="B")
    s = te.create_schedule(B.op)
    bx, tx = s[B].split(B.op.axis[0], factor=64)
    if target != "llvm":
        s[B].bind(bx, te.thread_axis("blockIdx.x"))
        s[B].bind(tx, te.thread_axis("threadIdx.x"))
    return tvm.build(s, [A, B], target, name=name)


def source(f):
    return f.get_source() if target == "llvm" else f.imported_modules[0].get_source()


# A function of the target, by its name.
direct = {"cuda": "__expf", "opencl": "native_exp", "llvm": "expf"}[target]
f = build(lambda i: tvm.tir.call_pure_extern("float32", direct, A[i]), "myexp")
assert direct in source(f)

# The unified intrinsic.
f = build(lambda i: te.exp(A[i]), "unified")


# A rule for an intrinsic that there is.
def my_math_rule(op):
    """Customised lowering rule."""
    assert isinstance(op, tvm.tir.Call)
    name = op.op.name
    assert name.startswith("tir.")
    dispatch_name = name[4:]
    if op.dtype == "float32" and target != "opencl":
        return tvm.tir.call_pure_extern("float32", "%sf" % dispatch_name, op.args[0])
    if op.dtype == "float32":
        return tvm.tir.call_pure_extern("float32", "native_%s" % dispatch_name, op.args[0])
    return op  # no rule: the call stays


register_intrin_lowering("tir.exp", target=target, f=my_math_rule, level=99)
f = build(lambda i: te.exp(A[i]), "ruled")
assert ("native_exp(" if target == "opencl" else "expf(") in source(f)


# An intrinsic of one's own.
def mylog(x):
    """Customised log intrinsic function."""
    return tvm.tir.call_intrin(x.dtype, "tir.mylog", x)


def my_mylog_rule(op):
    """Lowering rule for it."""
    if op.dtype == "float32":
        return tvm.tir.call_pure_extern("float32", "log" if target == "opencl" else "logf", op.args[0])
    return op


register_op_attr("tir.mylog", "TCallEffectKind", tvm.tir.CallEffectKind.Pure)
register_intrin_lowering("tir.mylog", target=target, f=my_mylog_rule, level=99)
f = build(lambda i: mylog(A[i]), "mylog")
dev = tvm.device(target, 0)
if dev.exist:
    a = tvm.nd.array(np.linspace(1, 9, 100).astype("float32"), dev)
    b = tvm.nd.array(np.zeros(100, "float32"), dev)
    f(a, b)
    np.testing.assert_allclose(b.numpy(), np.log(a.numpy()), rtol=1e-5)
print("right")
