"""te.compute of fewer axes, whose function calls a declared intrinsic on regions of tensors."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tests.te.test_declared_intrinsics import by_loops, gemv_intrin
from tilewright import te, tir


def adder(n: int) -> Any:
    """z = x + y of n values, as one vector."""
    x, y = te.placeholder((n,), name="x"), te.placeholder((n,), name="y")
    z = te.compute((n,), lambda i: x[i] + y[i], name="z")

    def statement(ins: Any, outs: Any) -> Any:
        whole = f"float32x{n}"
        return outs[0].vstore(0, ins[0].vload(0, whole) + ins[1].vload(0, whole))

    return te.decl_tensor_intrin(z.op, statement, "add", default_buffer_params={"offset_factor": n})


def run(s: Any, args: list[Any], target: str, *data: np.ndarray) -> np.ndarray:
    out = tw.nd.array(np.full([int(extent) for extent in args[-1].shape], np.nan, "float32"))
    tw.build(s, args, target)(*map(tw.nd.array, data), out)
    return out.numpy()


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape, "float32")


@pytest.mark.parametrize("cached", [False, True])
def test_a_sum_of_regions(cached: bool) -> None:
    A, B = te.placeholder((12, 8), name="A"), te.placeholder((12, 8), name="B")
    D = te.compute((12, 8), lambda i, j: B[i, j] + 5, name="D")
    add = adder(8)
    C = te.compute((12, 8), lambda i: add(A[i, 0:8], D[i, 0:8]), name="C")
    assert [axis.name for axis in C.op.axis] == ["i", "ax0"]
    s = te.create_schedule(C.op)
    assert s[C].iter_var_attrs[C.op.axis[1]].tensor_intrin is add
    if cached:
        s.cache_read(A, "local", [C])
        s.cache_write(C, "local")
        assert not s[C].iter_var_attrs
    else:
        s[D].compute_at(s[C], C.op.axis[0])
    text = str(tw.lower(s, [A, B, C]))
    assert "T.Ramp" in text or ":" in text
    a, b = numbers(12, 8), numbers(12, 8)
    np.testing.assert_allclose(run(s, [A, B, C], "llvm", a, b), a + (b + 5), rtol=1e-6)


def product(rows: int = 24) -> tuple[Any, ...]:
    """C[i, 8 of j] = sum over k of A[i, 10 of k] * B[8 of j, 10 of k], by an intrinsic of both tens and eights."""
    A, B = te.placeholder((rows, 3, 10), name="A"), te.placeholder((2, 3, 8, 10), name="B")
    k = te.reduce_axis((0, 3), name="k")
    gemv = gemv_intrin(8, 10, by_loops)
    C = te.compute((rows, 2, 8), lambda i, j: gemv(A[i, k, 0:10], B[j, k, 0:8, 0:10], reduce_axis=k), name="C")
    return A, B, C


@every_target
def test_a_reduction_around_an_intrinsic(target: str) -> None:
    A, B, C = product()
    s = te.create_schedule(C.op)
    i, j, _ = s[C].op.axis
    io, _, ii, _ = s[C].tile(i, j, 4, 2)
    if target == "llvm":
        s[C].parallel(io)
    else:
        s[C].bind(io, te.thread_axis("blockIdx.x"))
        s[C].bind(ii, te.thread_axis("threadIdx.x"))
    tw.lower(s, [A, B, C])
    module = tw.build(s, [A, B, C], target)
    device = tw.device(target)
    if not device.exist:
        return
    a, b = numbers(24, 3, 10), numbers(2, 3, 8, 10)
    out = tw.nd.array(np.full((24, 2, 8), np.nan, "float32"), device)
    module(tw.nd.array(a, device), tw.nd.array(b, device), out)
    np.testing.assert_allclose(out.numpy(), np.einsum("ikx,jkyx->ijy", a, b), rtol=1e-5)


def test_the_loops_of_the_intrinsic_are_innermost() -> None:
    _, _, C = product()
    s = te.create_schedule(C.op)
    assert [axis.name for axis in s[C].leaf_iter_vars][:4] == ["i", "j", "k", "ax0"]
    assert s[C].iter_var_attrs[C.op.axis[2]].iter_type == te.schedule.IterVar.Tensorized


def test_what_is_declared_by_a_call_is_pickled() -> None:
    A, B, C = product()
    a, b, c = pickle.loads(pickle.dumps((A, B, C)))
    assert str(tw.lower(te.create_schedule(c.op), [a, b, c])) == str(tw.lower(te.create_schedule(C.op), [A, B, C]))


def test_a_region_of_a_leading_dimension_of_one() -> None:
    """An intrinsic on (1, 8) computes what has one dimension less; whole dimensions need no numbers."""
    x = te.placeholder((1, 8), name="x")
    y = te.compute((1, 8), lambda i, j: x[i, j] * 2.0, name="y")

    def statement(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="t") as t:
            result[0, t] = source[0, t] * 2.0
        return ib.get()

    double = te.decl_tensor_intrin(y.op, statement, "double", default_buffer_params={"offset_factor": 1})
    A = te.placeholder((5, 8), name="A")
    C = te.compute((5, 8), lambda i: double(A[i, :]), name="C")
    a = numbers(5, 8)
    np.testing.assert_allclose(run(te.create_schedule(C.op), [A, C], "llvm", a), a * 2, rtol=1e-6)


def scaled() -> Any:
    """z = x * v + w of four values, by numbers v and w."""
    v, w = te.var("v", "float32"), te.var("w")
    x = te.placeholder((4,), name="x")
    z = te.compute((4,), lambda i: x[i] * v + w.astype("float32"), name="z")

    def statement(ins: Any, outs: Any, numbers: Any) -> Any:
        whole = ins[0].vload(0, "float32x4") * numbers[0].astype("float32x4")
        return outs[0].vstore(0, whole + numbers[1].astype("float32").astype("float32x4"))

    return te.decl_tensor_intrin(z.op, statement, "scaled", None, [v, w], {"offset_factor": 1})


@pytest.mark.parametrize("called", [True, False])
def test_an_intrinsic_of_numbers(called: bool) -> None:
    """What stands in the place of a number may depend on the loops around the intrinsic."""
    A, intrin = te.placeholder((6, 4), name="A"), scaled()

    def values(i: Any, *j: Any) -> Any:
        return intrin(A[i, 0:4], i * 3, 7 - i) if called else A[i, j[0]] * (i * 3).astype("float32")

    if called:
        C = te.compute((6, 4), lambda i: values(i), name="C")
    else:
        C = te.compute((6, 4), lambda i, j: values(i, j) + (7 - i).astype("float32"), name="C")
    s = te.create_schedule(C.op)
    if not called:
        s[C].tensorize(C.op.axis[1], intrin)
    a, i = numbers(6, 4), np.arange(6)[:, None]
    np.testing.assert_allclose(run(s, [A, C], "llvm", a), a * (3 * i) + 7 - i, rtol=1e-6)


def test_numbers_are_the_same_for_all_elements() -> None:
    A, intrin = te.placeholder((6, 4), name="A"), scaled()
    C = te.compute((6, 4), lambda i, j: A[i, j] * j.astype("float32") + i.astype("float32"), name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(C.op.axis[1], intrin)
    with refused("tensorize", "stage 'C' computes", "but the intrinsic 'scaled' computes"):
        tw.lower(s, [A, C])
    with refused("compute", "of 2 numbers is called with 1", fix="v, w"):
        te.compute((6, 4), lambda i: intrin(A[i, 0:4], i))


def any_gemv() -> Any:
    """z[i] = sum of x[i, k] * y[k], of any size."""
    n, m = te.var("n"), te.var("m")
    x, y = te.placeholder((n, m), name="x"), te.placeholder((m,), name="y")
    k = te.reduce_axis((0, m), name="k")
    z = te.compute((n,), lambda i: te.sum(x[i, k] * y[k], axis=k), name="z")

    def statement(ins: Any, outs: Any) -> Any:
        def loops(reset: bool) -> Any:
            ib = tir.ir_builder.create()
            a, b, out = (ib.buffer_ptr(buffer) for buffer in (*ins, *outs))
            with ib.for_range(0, ins[0].shape[0]) as i:
                if reset:
                    out[i] = 0.0
                with ib.for_range(0, m) as j:
                    out[i] = out[i] + a[i, j] * b[j]
            return ib.get()

        return loops(True), None, loops(False)

    rows = tir.decl_buffer(x.shape, x.dtype, "rows", strides=[te.var("s"), 1], offset_factor=1)
    return te.decl_tensor_intrin(z.op, statement, "gemv", {x: rows}, None, {"offset_factor": 1})


@pytest.mark.parametrize("called", [True, False])
def test_an_intrinsic_of_any_size(called: bool) -> None:
    """Its extents are those of the regions that it is called on, or of the loops that it takes the place of."""
    A, B = te.placeholder((12, 20), name="A"), te.placeholder((20,), name="B")
    gemv = any_gemv()
    if called:
        k = te.reduce_axis((0, 4), name="k")
        tiles = slice(k * 5, k * 5 + 5)
        C = te.compute((3, 4), lambda i: gemv(A[i * 4 : i * 4 + 4, tiles], B[tiles], reduce_axis=k), name="C")
        s = te.create_schedule(C.op)
    else:
        k = te.reduce_axis((0, 20), name="k")
        C = te.compute((12,), lambda i: te.sum(A[i, k] * B[k], axis=k), name="C")
        s = te.create_schedule(C.op)
        i, inner = s[C].split(C.op.axis[0], factor=4)
        ko, ki = s[C].split(k, factor=5)
        s[C].reorder(i, ko, inner, ki)
        s[C].tensorize(inner, gemv)
    a, b = numbers(12, 20), numbers(20)
    np.testing.assert_allclose(run(s, [A, B, C], "llvm", a, b).ravel(), a @ b, rtol=1e-5)


def test_a_variable_extent_has_one_value() -> None:
    n = te.var("n")
    x = te.placeholder((n, n), name="x")
    z = te.compute((n, n), lambda i, j: x[i, j] + 1, name="z")
    rows = tir.decl_buffer(x.shape, x.dtype, "rows", strides=[te.var("s"), 1], offset_factor=1)

    def statement(ins: Any, outs: Any) -> Any:
        return tir.call_extern("int32", "f", ins[0], outs[0])

    square = te.decl_tensor_intrin(z.op, statement, "square", {x: rows}, None, {"offset_factor": 1})
    A = te.placeholder((8, 8), name="A")
    C = te.compute((8, 8), lambda i, j: A[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    s[C].tensorize(s[C].split(C.op.axis[0], factor=4)[1], square)
    with refused("tensorize", "'j' of stage 'C' runs over 8 values, but 'n' of", "is 4 along", fix="4 values of 'j'"):
        tw.lower(s, [A, C])
