"""Small programs, one per corner of the schedule language; `n` and `m` are their sizes where the legacy ones have some.

`legacy/primitives/` holds what the legacy compiler prints for each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright import te, tir

Program = tuple[te.Schedule, list[Any]]
PROGRAMS: dict[str, Callable[[], Program]] = {}
N, M = 300, 9


def _program(make: Callable[[], Program]) -> Callable[[], Program]:
    PROGRAMS[make.__name__] = make
    return make


def _bind(stage: te.Stage, **axes: te.IterVar) -> None:
    for tag, axis in axes.items():
        stage.bind(axis, te.thread_axis(tag.replace("_", ".")))


def _sums(n: int) -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((n, 1024), name="A")
    k = te.reduce_axis((0, 1024), "k")
    B = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")
    return te.create_schedule(B.op), A, B


@_program
def rfactor() -> Program:
    s, A, B = _sums(N)
    s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=16)[1])
    return s, [A, B]


@_program
def rfactor_cross_thread() -> Program:
    s, A, B = _sums(N)
    part = s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=16)[1])
    xo, xi = s[B].split(s[B].op.axis[0], factor=32)
    tx = te.thread_axis("threadIdx.x")
    _bind(s[B], blockIdx_x=xo, threadIdx_y=xi)
    s[B].bind(s[B].op.reduce_axis[0], tx)
    s[part].compute_at(s[B], s[B].op.reduce_axis[0])
    s[B].set_store_predicate(tx.var.equal(0))
    return s, [A, B]


@_program
def cross_thread_reduce() -> Program:
    A = te.placeholder((64, 128), name="A")
    k = te.reduce_axis((0, 128), "k")
    B = te.compute((64,), lambda i: te.max(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    _bind(s[B], blockIdx_x=B.op.axis[0], threadIdx_x=s[B].split(k, factor=32)[1])
    return s, [A, B]


@_program
def argmax() -> Program:
    A, idx = te.placeholder((16, 100), name="A"), te.placeholder((16, 100), name="idx", dtype="int32")
    k = te.reduce_axis((0, 100), "k")
    larger = te.comm_reducer(
        lambda x, y: (tir.Select(x[1] >= y[1], x[0], y[0]), tir.Select(x[1] >= y[1], x[1], y[1])),
        lambda t0, t1: (tir.const(-1, t0), te.min_value(t1)),
    )
    T0, T1 = te.compute((16,), lambda i: larger((idx[i, k], A[i, k]), axis=k), name="T")
    return te.create_schedule(T0.op), [idx, A, T0, T1]


@_program
def tuple_compute() -> Program:
    A0, A1 = te.placeholder((10,), name="A0"), te.placeholder((10,), name="A1")
    B0, B1 = te.compute((10,), lambda i: (A0[i] + 2, A1[i] * 3), name="B")
    C = te.compute((10,), lambda i: B0[i] + B1[i], name="C")
    s = te.create_schedule(C.op)
    s[B0].compute_at(s[C], C.op.axis[0])
    return s, [A0, A1, C]


@_program
def scan() -> Program:
    X, state = te.placeholder((M, N), name="X"), te.placeholder((M, N), name="state")
    init = te.compute((1, N), lambda _, i: X[0, i], name="init")
    update = te.compute((M, N), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    R = te.scan(init, update, state, inputs=[X], name="scan")
    s = te.create_schedule(R.op)
    for part in (update, init):
        outer, inner = s[part].split(s[part].op.axis[1], factor=256)
        _bind(s[part], blockIdx_x=outer, threadIdx_x=inner)
    return s, [X, R]


@_program
def extern() -> Program:
    A = te.placeholder((8,), name="A")
    call = lambda ins, outs: tir.call_packed("user.double", ins[0], outs[0])
    B = te.extern((8,), [A], call, name="B", dtype="float32")
    return te.create_schedule(B.op), [A, B]


@_program
def ir_builder() -> Program:
    A = te.placeholder((64,), name="A")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 64, "i") as j:
            with ib.if_scope(tir.any(j < 8, j >= 32)):
                b[j] = a[j] * tir.const(2, "float32")
            with ib.else_scope():
                b[j] = a[j]
        return ib.get()

    B = te.extern((64,), [A], body, name="B", dtype="float32")
    return te.create_schedule(B.op), [A, B]


def _gemv() -> Any:
    a, b, kk = te.placeholder((16,), name="a"), te.placeholder((16, 16), name="b"), te.reduce_axis((0, 16), "kk")
    c = te.compute((16,), lambda i: te.sum(a[kk] * b[i, kk], axis=kk), name="c")
    strides = {"A": [1], "B": [te.var("s1"), 1], "C": [1]}
    A, B, C = (
        tir.decl_buffer(t.shape, t.dtype, name=name, offset_factor=1, strides=strides[name])
        for t, name in ((a, "A"), (b, "B"), (c, "C"))
    )

    def calls(ins: Any, outs: Any) -> Any:
        def call(name: str) -> Any:
            ib = tir.ir_builder.create()
            pointers = outs[0].access_ptr("w"), ins[0].access_ptr("r"), ins[1].access_ptr("r")
            ib.emit(tir.call_extern("int32", name, *pointers, 16, 16, ins[1].strides[0]))
            return ib.get()

        return call("gemv"), call("gemv_reset"), call("gemv_update")

    return te.decl_tensor_intrin(c.op, calls, binds={a: A, b: B, c: C})


@_program
def tensorize() -> Program:
    A, B = te.placeholder((64, 16), name="A"), te.placeholder((32, 16), name="B")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((64, 32), lambda i, j: te.sum(A[i, k] * B[j, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    x, y = C.op.axis
    yo, yi = s[C].split(y, factor=16)
    s[C].reorder(x, yo, yi, k)
    s[C].tensorize(yi, _gemv())
    return s, [A, B, C]


@_program
def double_buffer() -> Program:
    A = te.placeholder((128, 16), name="A")
    k = te.reduce_axis((0, 128), "k")
    C = te.compute((16,), lambda i: te.sum(A[k, i], axis=k), name="C")
    s = te.create_schedule(C.op)
    shared, tx = s.cache_read(A, "shared", [C]), te.thread_axis((0, 16), "threadIdx.x")
    s[C].bind(C.op.axis[0], tx)
    s[shared].compute_at(s[C], s[C].split(k, factor=8)[0])
    s[shared].bind(s[shared].op.axis[1], tx)
    s[shared].double_buffer()
    return s, [A, C]


@_program
def storage_align() -> Program:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    shared = s.cache_read(A, "shared", [B])
    xo, yo, xi, yi = s[B].tile(*B.op.axis, 32, 32)
    _bind(s[B], blockIdx_x=xo, blockIdx_y=yo, threadIdx_y=xi, threadIdx_x=yi)
    s[shared].compute_at(s[B], yo)
    ao, _ = s[shared].split(s[shared].op.axis[0], nparts=32)
    bo, _ = s[shared].split(s[shared].op.axis[1], nparts=32)
    s[shared].reorder(ao, bo)
    _bind(s[shared], threadIdx_y=ao, threadIdx_x=bo)
    s[shared].storage_align(s[shared].op.axis[0], 33, 0)
    return s, [A, B]


@_program
def cache_write_after_split() -> Program:
    A = te.placeholder((64, 64), name="A")
    k = te.reduce_axis((0, 64), "k")
    B = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].tile(*B.op.axis, 8, 16)
    local = s.cache_write(B, "local")
    s[local].compute_at(s[B], s[B].op.axis[0])
    return s, [A, B]


@_program
def fuse_uneven_attach() -> Program:
    A = te.placeholder((7, 13), name="A")
    B = te.compute((7, 13), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((7, 13), lambda i, j: B[i, j] * 2, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(s[C].fuse(*C.op.axis), factor=10)[0])
    return s, [A, C]


@_program
def vectorize_guarded() -> Program:
    A = te.placeholder((1021,), name="A")
    B = te.compute((1021,), lambda i: te.exp(A[i]), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=4)
    s[B].vectorize(inner)
    s[B].parallel(outer)
    return s, [A, B]


@_program
def symbolic_stencil() -> Program:
    A = te.placeholder((N,), name="A")
    B = te.compute((N - 2,), lambda i: A[i] + A[i + 1] + A[i + 2], name="B")
    C = te.compute((N - 4,), lambda i: B[i] * B[i + 2], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], factor=32)[0])
    return s, [A, C]


@_program
def vthread_nested() -> Program:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    local = s.cache_read(A, "local", [B])
    i, j = B.op.axis
    vi, i1 = s[B].split(i, nparts=2)
    vj, j1 = s[B].split(j, nparts=4)
    ti, i2 = s[B].split(i1, nparts=8)
    tj, j2 = s[B].split(j1, nparts=8)
    s[B].reorder(vi, vj, ti, tj, i2, j2)
    s[B].bind(vi, te.thread_axis("vthread", name="va"))
    s[B].bind(vj, te.thread_axis("vthread", name="vb"))
    _bind(s[B], threadIdx_y=ti, threadIdx_x=tj)
    s[local].compute_at(s[B], tj)
    return s, [A, B]


@_program
def zero_dim() -> Program:
    A = te.placeholder((), name="A")
    B = te.compute((), lambda: A() * 2.0, name="B")
    return te.create_schedule(B.op), [A, B]


@_program
def create_group() -> Program:
    A = te.placeholder((32, 32), name="A")
    B = te.compute((32, 32), lambda i, j: A[i, j] + 1, name="B")
    C = te.compute((32, 32), lambda i, j: B[i, j] * 2, name="C")
    D = te.compute((32, 32), lambda i, j: C[i, j] - 3, name="D")
    s = te.create_schedule(D.op)
    s.create_group(outputs=C, inputs=A, include_inputs=False).compute_at(s[D], D.op.axis[0])
    return s, [A, D]
