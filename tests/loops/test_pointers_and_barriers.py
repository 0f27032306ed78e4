"""Programs of tir that take pointers, wait at barriers, and look into addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tilewright import te, tir
from tilewright.loops.nodes import Barrier


def test_a_pointer_is_a_parameter_of_any_length() -> None:
    ib = tir.ir_builder.create()
    A, B = ib.pointer("float32", name="A"), ib.pointer("float32", name="B")
    n = te.size_var("n")
    with ib.for_range(0, n, "i") as i, ib.if_scope(tir.truncmod(i, 2) == 0):
        B[i] = A[i] + 1
    with pytest.raises(AttributeError):
        A.missing
    f = tw.build(tir.PrimFunc([A, B, n], ib.get()), target="llvm")
    a, b = np.arange(6, dtype="float32"), tw.nd.array(np.zeros(6, "float32"))
    f(tw.nd.array(a), b, 5)
    assert list(b.numpy()) == [1, 0, 3, 0, 5, 0]
    with refused("pointer", "there is no memory scope 'near'", fix="'shared'"):
        tir.ir_builder.create().pointer("float32", scope="near")


def reversed_rows(ins: Any, outs: Any, call: Any) -> Any:
    ib = tir.ir_builder.create()
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 32)
    source, result = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
    shared = ib.allocate("float32", (32,), name="kept", scope="shared")
    shared[thread.var] = source[thread.var]
    ib.emit(call)
    result[thread.var] = shared[31 - thread.var]
    return ib.get()


@every_target
def test_a_call_that_is_a_barrier(target: str) -> None:
    if target == "llvm":
        pytest.skip("threads are those of a GPU")
    A = te.placeholder((32,), name="A")
    for call in (
        tir.call_intrin("int32", "tir.tvm_storage_sync", "shared"),
        tir.Call("int32", "tir.tvm_storage_sync", tw.runtime.convert(["shared"])),
    ):
        B = te.extern((32,), [A], lambda ins, outs, call=call: reversed_rows(ins, outs, call), name="B")
        module = tw.build(te.create_schedule(B.op), [A, B], target)
        device = tw.device(target)
        if device.exist:
            a, b = np.arange(32, dtype="float32"), tw.nd.empty((32,), "float32", device)
            module(tw.nd.array(a, device), b)
            assert list(b.numpy()) == list(a[::-1])
    assert isinstance(tir.Evaluate(call), Barrier)
    with refused("call_intrin", "tir.tvm_storage_sync of 'far'", fix='"shared"'):
        tir.call_intrin("int32", "tir.tvm_storage_sync", "far")


@every_target
@pytest.mark.optimised  # without its optimiser, PoCL is right in any case
def test_what_some_threads_compute_after_the_barrier_of_a_branch(target: str) -> None:
    if target == "llvm":
        pytest.skip("threads are those of a GPU")
    ib = tir.ir_builder.create()
    result = tir.decl_buffer((2, 64), "int32", name="result")
    thread = te.thread_axis("threadIdx.x")
    ib.scope_attr(thread, "thread_extent", 64)
    t, out = thread.var, ib.buffer_ptr(result)
    shared = ib.allocate("int32", (64,), name="kept", scope="shared")
    own, total = (ib.allocate("int32", (1,), name=name, scope="local") for name in ("own", "total"))
    own[0], total[0] = t, 0
    with ib.for_range(0, 3, "i") as i:
        shared[t] = t + i
        total[0] = total[0] + shared[63 - t]
        with ib.if_scope(i < 1):
            shared[t] = 100 + t
            with ib.if_scope(t < 9):
                own[0] = shared[63 - t]
    out[0, t], out[1, t] = own[0], total[0]
    module = tw.build(tir.PrimFunc([result], ib.get()), target=target)
    device = tw.device(target)
    if device.exist:
        found = tw.nd.array(np.zeros((2, 64), "int32"), device)
        module(found)
        places = np.arange(64)
        np.testing.assert_array_equal(found.numpy()[0], np.where(places < 9, 163 - places, places))
        np.testing.assert_array_equal(found.numpy()[1], 3 * (63 - places) + 3)


def test_what_an_address_is_made_of() -> None:
    m, n, v = te.size_var("m"), te.size_var("n"), te.size_var("v")
    A = tir.decl_buffer((m, n), "float32", strides=[n + 1, 1])
    kind, buffer, offset, extent, mask = A.access_ptr("rw", offset=100 + v).args
    assert (kind.dtype, buffer, mask.value) == ("float32", A, tir.Buffer.READ | tir.Buffer.WRITE)
    tw.testing.assert_prim_expr_equal(offset, v + 100)
    tw.testing.assert_prim_expr_equal(extent, (n + 1) * m - 100 - v)
    assert A.access_ptr("w").args[4].value == tir.Buffer.WRITE
    tw.testing.assert_prim_expr_equal(A.offset_of((2, v))[0], (n + 1) * 2 + v)
    B = tir.decl_buffer((m, n), "float32")
    tw.testing.assert_prim_expr_equal(B.offset_of((tir.indexdiv(v, n), tir.indexmod(v, n)))[0], v)
    assert int(tir.decl_buffer((8,), "int8").offset_of(3)[0]) == 3


@every_target
@pytest.mark.parametrize("scope", ["shared.dyn", "warp"])
def test_memory_of_a_warp_and_of_any_size_is_shared_memory(target: str, scope: str) -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i // 32 * 32 + 31 - i % 32] + 1.0, name="B")
    s = te.create_schedule(B.op)
    cached = s.cache_read(A, scope, [B])
    outer, inner = s[B].split(B.op.axis[0], factor=32)
    if target == "llvm":
        s[cached].compute_at(s[B], outer)
    else:
        thread = te.thread_axis((0, 32), "threadIdx.x")
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].bind(inner, thread)
        s[cached].compute_at(s[B], outer)
        s[cached].bind(s[cached].op.axis[0], thread)
    assert s[cached].scope == "shared"
    module = tw.build(s, [A, B], target)
    device = tw.device(target)
    if device.exist:
        a, b = np.random.default_rng(0).random(64, "float32"), tw.nd.empty((64,), "float32", device)
        module(tw.nd.array(a, device), b)
        np.testing.assert_allclose(b.numpy(), a.reshape(2, 32)[:, ::-1].ravel() + 1)


def test_offsets_that_are_multiples_of_a_stride() -> None:
    rows, step = te.var("rows"), te.var("step")
    matrix = tir.decl_buffer((8, 4), "float32", "M", strides=[rows, step])
    i = te.var("i")
    for offset, indices in ((rows * i, (i, 0)), (step * 3, (0, 3)), (i * step + step, (0, i + 1))):
        place = matrix.access_ptr("r", offset=offset).place
        assert all(bool(a == b) for a, b in zip(place.indices, indices, strict=True)), place
    with refused("access_ptr", "are not contiguous along its last dimension", fix="leave offset out"):
        matrix.access_ptr("r", offset=i)
