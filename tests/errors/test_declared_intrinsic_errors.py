"""Intrinsics of one's own, and loops that do not fit them: each mistake, and what it says."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.te.test_declared_intrinsics import Product, by_loops, gemv_intrin
from tilewright import te, tir


def lower(p: Product) -> None:
    tw.lower(p.s, p.args)


def nothing(ins: Any, outs: Any) -> Any:
    return tir.call_extern("int32", "f")


def vector(n: int = 8, value: Any = lambda x: x + 1) -> te.Tensor:
    x = te.placeholder((n,), name="x")
    return te.compute((n,), lambda i: value(x[i]), name="y")


def test_declarations() -> None:
    y = vector()
    with refused("decl_tensor_intrin", "the intrinsic is declared by 3", fix="give an operation"):
        te.decl_tensor_intrin(3, nothing)
    with refused("decl_tensor_intrin", "returns 3, which is not a statement", fix="ib.get()"):
        te.decl_tensor_intrin(y.op, lambda ins, outs: 3, "ours")
    with refused("decl_tensor_intrin", "returns 4 statements", fix="the body, the reset and the update"):
        te.decl_tensor_intrin(y.op, lambda ins, outs: [nothing(ins, outs)] * 4)
    with refused("decl_tensor_intrin", "scalar_params=['a']", fix="the variables that its declaration uses"):
        te.decl_tensor_intrin(y.op, nothing, scalar_params=["a"])
    with refused("decl_tensor_intrin", "binds of the intrinsic", "which is not a mapping", fix="default_buffer_params"):
        te.decl_tensor_intrin(y.op, nothing, binds=3)  # type: ignore[arg-type]
    with refused("decl_tensor_intrin", "default_buffer_params", "has 'factor'", fix="offset_factor"):
        te.decl_tensor_intrin(y.op, nothing, default_buffer_params={"factor": 1})
    with refused("decl_tensor_intrin", "maps", fix="map its inputs and outputs to buffers"):
        te.decl_tensor_intrin(y.op, nothing, binds={y: 3})  # type: ignore[dict-item]
    n = te.size_var("n")
    z = te.compute((n + 1,), lambda i: i, name="z")
    with refused("decl_tensor_intrin", "has the shape [n + 1]", fix="extents of an axis"):
        te.decl_tensor_intrin(z.op, nothing)
    other = tir.decl_buffer((8,), "float32", "other")
    with refused("decl_tensor_intrin", "uses 'other', which is not one of its buffers", fix="read the buffers in ins"):
        te.decl_tensor_intrin(y.op, lambda ins, outs: outs[0].vstore(0, other.vload(0)))
    with refused("compute", "is called with", fix="declare the values with te.compute"):
        gemv_intrin(8, 10, by_loops)(y)


def test_calls_on_regions() -> None:
    intrinsic = gemv_intrin(8, 10, by_loops)
    A, B = te.placeholder((64, 10), name="A"), te.placeholder((32, 10), name="B")
    k = te.reduce_axis((0, 4), name="k")

    def declare(function: Any, shape: tuple[int, ...] = (64, 8)) -> None:
        te.compute(shape, function, name="C")

    with refused("compute", "is called with A[i, slice(0, 9, None)] for its input", fix="as far apart as its input is"):
        declare(lambda i: intrinsic(A[i, 0:9], B[0:8, 0:10]))
    with refused("compute", "is called with B[slice(0, 8, 2), slice(0, 10, None)]", fix="begin:end in each dimension"):
        declare(lambda i: intrinsic(A[i, 0:10], B[0:8:2, 0:10]))
    with refused("compute", "is called with A[i, Ellipsis]", fix="an index in the others"):
        declare(lambda i: intrinsic(A[i, ...], B[0:8, 0:10]))
    with refused("compute", "computes 8 elements along", fix="the extents of the intrinsic in its last dimensions"):
        declare(lambda i: intrinsic(A[i, 0:10], B[0:8, 0:10]), (64, 16))
    with refused("compute", "computes 1 dimension, but the function of 'C', of 3", fix="one parameter for each"):
        declare(lambda i: intrinsic(A[i, 0:10], B[0:8, 0:10]), (64, 4, 8))
    with refused("compute", "reduce_axis=3 of the intrinsic", fix="te.reduce_axis"):
        declare(lambda i: intrinsic(A[i, 0:10], B[0:8, 0:10], reduce_axis=3))
    with refused("compute", "is called with reduce_axis=[IterVar(k", fix="leave reduce_axis out"):
        x = te.placeholder((8,), name="x")
        y = te.compute((8,), lambda i: x[i] + 1.0, name="y")
        adds = te.decl_tensor_intrin(y.op, lambda ins, outs: outs[0].vstore(0, ins[0].vload(0)), "adds")
        declare(lambda i: adds(B[i, 0:8], reduce_axis=k))


def test_axes_and_regions_are_named() -> None:
    p = Product()
    p.s[p.C].tensorize(p.yi, gemv_intrin(16, 10, by_loops))
    with refused(
        "tensorize",
        "axis 'j' of stage 'C' runs over 8 values inside the tensorized loops",
        "axis 'i' of the intrinsic 'gemv' over 16",
        "the regions of the stage are (i: 1, j: 8), the regions of the intrinsic (i: 16)",
        fix="split so that the tensorized loops run over 16 values of 'j'",
    ):
        lower(p)
    p = Product()
    p.s[p.C].tensorize(p.x, gemv_intrin(8, 10, by_loops))
    with refused("tensorize", "has 2 axes of more than one value inside the tensorized loops", fix="exactly the axes"):
        lower(p)


def test_expressions_are_shown() -> None:
    p = Product()
    a, b = te.placeholder((10,), name="a"), te.placeholder((8, 10), name="b")
    k = te.reduce_axis((0, 10), name="k")
    c = te.compute((8,), lambda i: te.sum(a[k] + b[i, k], axis=k), name="c")
    p.s[p.C].tensorize(p.yi, te.decl_tensor_intrin(c.op, nothing, "sums"))
    with refused(
        "tensorize",
        "stage 'C' computes `A[i, k] * B[j, k]`, but the intrinsic 'sums' computes `a[k] + b[i, k]`",
        fix="the same expression",
    ):
        lower(p)
    p = Product()
    c = te.compute((8,), lambda i: te.max(a[k] * b[i, k], axis=k), name="c")
    p.s[p.C].tensorize(p.yi, te.decl_tensor_intrin(c.op, nothing, "largest"))
    with refused("tensorize", "they reduce in different ways"):
        lower(p)
    p = Product()
    d = te.compute((8, 10), lambda i, j: a[j] * b[i, j], name="d")
    p.s[p.C].tensorize(p.yi, te.decl_tensor_intrin(d.op, nothing, "products"))
    with refused("tensorize", "has 1 axes of more than one value"):
        lower(p)


def test_strides_offsets_and_types_of_buffers() -> None:
    def tensorized(**options: Any) -> Product:
        p = Product()
        a, b = te.placeholder((10,), name="a"), te.placeholder((8, 10), name="b")
        k = te.reduce_axis((0, 10), name="k")
        c = te.compute((8,), lambda i: te.sum(a[k] * b[i, k], axis=k), name="c")
        binds = {b: tir.decl_buffer(b.shape, name="Bb", **options)}
        intrin = te.decl_tensor_intrin(c.op, nothing, "gemv", binds, default_buffer_params={"offset_factor": 1})
        p.s[p.C].tensorize(p.yi, intrin)
        return p

    with refused(
        "tensorize", "buffer 'Bb'", "elem_offset = `0`", "of 'B' from [j.outer * 8, 0] on", fix="offset_factor=1"
    ):
        lower(tensorized())
    with refused("tensorize", "stride 0 = `12`", "has `10`", fix='strides=[te.var("s"), 1]'):
        lower(tensorized(offset_factor=1, strides=[12, 1]))
    with refused("tensorize", "elem_offset = a multiple of 32", "has `j.outer * 80`"):
        lower(tensorized(offset_factor=32))
    with refused("tensorize", "has elements of float64, but represents a region of 'B', of float32", fix="float32"):
        lower(tensorized(dtype="float64", offset_factor=1))
    lower(tensorized(offset_factor=16))


def test_reductions_that_go_on_outside() -> None:
    p = Product(depth=5)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 5, by_loops, parts=1))
    with refused("tensorize", "goes on outside of the tensorized loops", fix="return (body, reset, update)"):
        lower(p)


def test_loops_that_cannot_be_replaced() -> None:
    p = Product()
    p.s[p.C].bind(p.yi, te.thread_axis("threadIdx.x"))
    with refused("tensorize", "is bound to threadIdx.x", fix="inside of the bound ones"):
        p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    p = Product()
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    p.s[p.C].split(p.yi, factor=2)
    with refused("tensorize", "is no longer a loop", fix="call tensorize last"):
        lower(p)
    p = Product()
    AL = p.s.cache_read(p.A, "global", [p.C])
    p.s[AL].compute_at(p.s[p.C], p.yi)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    with refused("tensorize", "is computed at 'j.inner', inside the tensorized", fix="at a loop outside"):
        lower(p)
    p = Product(m=15)
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    with refused("tensorize", "exceed the range of their axes", fix="factors that divide"):
        lower(p)
    p = Product()
    p.s[p.C].bind(p.s[p.C].leaf_iter_vars[-1], te.thread_axis("threadIdx.x"))
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    with refused("tensorize", "is bound to a thread index", fix="reorder"):
        lower(p)
    p = Product()
    p.s[p.C].set_store_predicate(p.x.var.equal(0))
    p.s[p.C].tensorize(p.yi, gemv_intrin(8, 10, by_loops))
    with refused("tensorize", "is stored under a condition", fix="set_store_predicate"):
        lower(p)
    n = te.size_var("n")
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    s[B].tensorize(B.op.axis[0], te.decl_tensor_intrin(vector().op, nothing))
    with refused("tensorize", "has the extent `n`, which is not constant", fix="split the axis"):
        tw.lower(s, [A, B])


@pytest.mark.parametrize("whole", [True, False])
def test_boxes_of_fused_axes(whole: bool) -> None:
    A = te.placeholder((6, 8), name="A")
    B = te.compute((6, 8), lambda i, j: A[i, j] + 1, name="B")
    s = te.create_schedule(B.op)
    _, inner = s[B].split(s[B].fuse(*B.op.axis), factor=8 if whole else 12)
    body = lambda ins, outs: outs[0].vstore(0, ins[0].vload(0) + 1)
    options = {"offset_factor": 1}
    s[B].tensorize(inner, te.decl_tensor_intrin(vector(8).op, body, default_buffer_params=options))
    if whole:
        tw.lower(s, [A, B])
        return
    with refused("tensorize", "do not run over a box of its axes", fix="every loop of a fused axis"):
        tw.lower(s, [A, B])


def test_stages_of_another_number_of_values() -> None:
    A = te.placeholder((8,), name="A")
    B, _ = te.compute((8,), lambda i: (A[i], A[i] + 1), name="B")
    s = te.create_schedule(B.op)
    with refused("tensorize", "computes 2 values per element, and the intrinsic 'tensor_intrin' 1"):
        s[B].tensorize(B.op.axis[0], te.decl_tensor_intrin(vector().op, nothing))
