"""Programs in the spelling of 2017 to 2019, one for each family of names given on the command line."""

import sys

import numpy as np
import topi
import tvm
from topi.util import get_const_tuple
from tvm.contrib import util

A = tvm.placeholder((16,), name="A")
x = np.linspace(1, 4, 16).astype("float32")


def result(B, inputs, *values):
    f = tvm.build(tvm.create_schedule(B.op), [*inputs, B], "llvm", name="f")
    out = tvm.nd.empty(get_const_tuple(B.shape) if not values else values[0].shape, B.dtype, tvm.context("llvm", 0))
    f(*[tvm.nd.array(value) for value in values or (x,)], out)
    return out.asnumpy()


def scan():
    m, n = tvm.var("m"), tvm.var("n")
    X = tvm.placeholder((m, n), name="X")
    state = tvm.placeholder((m, n))
    init = tvm.compute((1, n), lambda _, i: X[0, i])
    update = tvm.compute((m, n), lambda t, i: state[t - 1, i] + X[t, i])
    sums = tvm.scan(init, update, state, inputs=[X])
    values = np.random.RandomState(0).rand(5, 7).astype("float32")
    np.testing.assert_allclose(result(sums, [X], values), np.cumsum(values, 0), rtol=1e-5)


def extern():
    def doubled(ins, outs):
        ib = tvm.ir_builder.create()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, "i") as i:
            out[i] = source[i] * 2.0
        return ib.get()

    B = tvm.extern((16,), [A], doubled, dtype="float32")
    assert (result(B, [A]) == 2 * x).all()


def packed():
    @tvm.register_func("old.add_one")
    def add_one(source, out):
        tvm.nd.array(source.asnumpy() + 1).copyto(out)

    call = lambda ins, outs: tvm.call_packed("old.add_one", ins[0], outs[0])
    B = tvm.extern((16,), [A], call, name="B", dtype="float32")
    assert (result(B, [A]) == x + 1).all()


GEMV = """
int gemv_update(float* c, float* a, float* b, int m, int l, int stride) {
  for (int i = 0; i < m; ++i) {
    c[i] = 0;
    for (int j = 0; j < l; ++j) c[i] += a[j] * b[i * stride + j];
  }
  return 0;
}
"""


def tensor_intrin():
    def gemv(m, l):
        a, b = tvm.placeholder((l,), name="a"), tvm.placeholder((m, l), name="b")
        k = tvm.reduce_axis((0, l), name="k")
        c = tvm.compute((m,), lambda i: tvm.sum(a[k] * b[i, k], axis=k), name="c")
        Ab = tvm.decl_buffer(a.shape, a.dtype, name="A", offset_factor=1, strides=[1])
        Bb = tvm.decl_buffer(b.shape, b.dtype, name="B", offset_factor=1, strides=[tvm.var("s1"), 1])
        Cb = tvm.decl_buffer(c.shape, c.dtype, name="C", offset_factor=1, strides=[1])

        def body(ins, outs):
            (aa, bb), (cc,) = ins, outs
            ib = tvm.ir_builder.create()
            pointers = cc.access_ptr("w"), aa.access_ptr("r"), bb.access_ptr("r")
            ib.emit(tvm.call_extern("int32", "gemv_update", *pointers, m, l, bb.strides[0]))
            return ib.get()

        with tvm.build_config(offset_factor=1):
            return tvm.decl_tensor_intrin(c.op, body, binds={a: Ab, b: Bb, c: Cb})

    P, Q = tvm.placeholder((8, 4), name="P"), tvm.placeholder((16, 4), name="Q")
    k = tvm.reduce_axis((0, 4), name="k")
    C = tvm.compute((8, 16), lambda i, j: tvm.sum(P[i, k] * Q[j, k], axis=k), name="C")
    s = tvm.create_schedule(C.op)
    i, j = C.op.axis
    outer, inner = s[C].split(j, factor=8)
    s[C].reorder(i, outer, inner, C.op.reduce_axis[0])
    s[C].tensorize(inner, gemv(8, 4))
    s[C].pragma(i, "import_c", GEMV)
    f = tvm.build(s, [P, Q, C], target="llvm", name="gemv")
    p, q = (np.random.RandomState(n).rand(n, 4).astype("float32") for n in (8, 16))
    out = tvm.nd.array(np.zeros((8, 16), "float32"))
    f(tvm.nd.array(p), tvm.nd.array(q), out)
    np.testing.assert_allclose(out.asnumpy(), p @ q.T, rtol=1e-5)


def json():
    with tvm.tag_scope(tag="injective"):
        B = tvm.compute((16,), lambda i: tvm.expr.Select(i < 8, tvm.fmod(A[i], 1.5), A[i]), name="B")
    assert B.op.tag == "injective"
    again = tvm.load_json(tvm.save_json(B))
    assert again.op.name == "B"
    f = tvm.build(tvm.create_schedule(B.op), [A, B], "llvm", name="f")
    folder = util.tempdir()
    f.export_library(folder.relpath("lib.so"))
    loaded = tvm.module.load(folder.relpath("lib.so"))
    out = tvm.nd.empty((16,))
    loaded(tvm.nd.array(x), out)
    np.testing.assert_allclose(out.asnumpy(), np.where(np.arange(16) < 8, np.fmod(x, 1.5), x), rtol=1e-6)


def build_config():
    a, b = tvm.placeholder((128,), name="a"), tvm.placeholder((128,), name="b")
    c = tvm.compute((128,), lambda i: a[i] + b[i], name="c")
    s = tvm.create_schedule(c.op)
    loops = []

    def find(op):
        if isinstance(op, tvm.stmt.For) and isinstance(op.extent, tvm.expr.IntImm) and op.extent.value % 8 == 0:
            loops.append(op)

    def split(op):
        if op not in loops:
            return None
        lo, li = tvm.var(op.loop_var.name + ".outer"), tvm.var(op.loop_var.name + ".inner")
        body = tvm.ir_pass.Substitute(op.body, {op.loop_var: lo * 8 + li})
        assert tvm.ir_pass.ExprUseVar(lo * 8 + li, li)
        inner = tvm.make.For(li, 0, 8, tvm.stmt.For.Vectorized, 0, body)
        return tvm.make.For(lo, 0, op.extent.value // 8, tvm.stmt.For.Serial, 0, inner)

    def vectorize(stmt):
        tvm.ir_pass.PostOrderVisit(stmt, find)
        return tvm.ir_pass.IRTransform(stmt, None, split, ["For"])

    with tvm.build_config(add_lower_pass=[(1, vectorize)], unroll_explicit=True):
        assert "c[i_outer * 8:i_outer * 8 + 8]" in str(tvm.lower(s, [a, b, c], simple_mode=True))
        f = tvm.build(s, [a, b, c], "llvm")
    v, out = np.arange(128, dtype="float32"), tvm.nd.empty((128,))
    f(tvm.nd.array(v), tvm.nd.array(v), out)
    assert (out.asnumpy() == 2 * v).all()
    assert str(tvm.ir_pass.Simplify(tvm.var("i") * 0 + 3)) == str(tvm.ir_pass.CanonicalSimplify(tvm.const(3, "int32")))


def operators():
    X = tvm.placeholder((1, 2, 8, 8), name="X")
    image = np.random.RandomState(1).rand(1, 2, 8, 8).astype("float32")
    P = topi.nn.pool(X, (2, 2), (2, 2), (0, 0, 0, 0), "max")
    U = topi.nn.upsampling_nchw(P, 2)
    R = topi.image.resize(P, (8, 8), "NCHW", False, "NEAREST_NEIGHBOR")
    f = tvm.build(tvm.create_schedule([U.op, R.op]), [X, U, R], "llvm")
    up, resized = (tvm.nd.empty((1, 2, 8, 8)) for _ in range(2))
    f(tvm.nd.array(image), up, resized)
    expected = image.reshape(1, 2, 4, 2, 4, 2).max((3, 5)).repeat(2, 2).repeat(2, 3)
    assert (up.asnumpy() == expected).all() and (resized.asnumpy() == expected).all()
    assert (result(topi.broadcast_mul(A, A), [A]) == x * x).all()


def intrinsics():
    rule = lambda op: tvm.call_pure_extern(op.dtype, "logf", op.args[0])
    tvm.register_intrin_rule("llvm", "mylog", rule, override=True)
    B = tvm.compute((16,), lambda i: tvm.call_pure_intrin(A[i].dtype, "mylog", A[i]))
    np.testing.assert_allclose(result(B, [A]), np.log(x), rtol=1e-6)


for family in sys.argv[1:]:
    globals()[family]()
    print(family)
