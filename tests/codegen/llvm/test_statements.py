"""Loops, guards, bindings, storage and accesses on the CPU, one statement at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.codegen.llvm.harness import EXACT, build, call, flat, loop, pointwise
from tests.passes.running import run_pass
from tilewright.core.dtype import DType
from tilewright.core.errors import UserError
from tilewright.core.hardware import MemoryScope, ThreadTag
from tilewright.core.target import Target
from tilewright.expr import operators as op
from tilewright.expr.nodes import Broadcast, IfThenElse, IntImm, Load, Ramp, Select, Var
from tilewright.loops.nodes import Allocate, Buffer, For, Function, If, Let, LoopKind, Store, seq
from tilewright.passes.launch_on_host import launch_on_host
from tilewright.runtime.array import array, empty

RNG = np.random.default_rng(3)


def c(value: float, dtype: str | None = None):
    """A constant."""
    return op.const(value, dtype)


def test_a_loop_may_start_anywhere_and_run_never() -> None:
    a, b, i, n = flat("a", 10), flat("b", 10), Var("i"), Var("n")
    module = build(loop(i, n, Store(b, (i,), Load(a, (i,)) + c(1.0)), start=3), a, b, n)
    x = np.arange(10, dtype="float32")
    for count in (0, -5, 1, 4):
        out = array(np.zeros(10, "float32"))
        module(array(x), out, count)
        wanted = np.zeros(10, "float32")
        wanted[3 : 3 + max(count, 0)] = x[3 : 3 + max(count, 0)] + 1
        np.testing.assert_array_equal(out.numpy(), wanted)


def test_branches_and_bindings() -> None:
    a, b, i, t = flat("a", 9, "int32"), flat("b", 9, "int32"), Var("i"), Var("t")
    body = Let(t, Load(a, (i,)) * 2, If(t > 4, Store(b, (i,), t), Store(b, (i,), -t)))
    got = call(build(loop(i, 9, body), a, b), [np.arange(9, dtype="int32")], 9, "int32")
    twice = np.arange(9) * 2
    np.testing.assert_array_equal(got, np.where(twice > 4, twice, -twice))


def test_what_a_branch_does_not_take_is_not_read() -> None:
    a, b, i = flat("a", 4), flat("b", 8), Var("i")
    far = c(1 << 28)
    value = IfThenElse(i < 4, Load(a, (i,)), c(7.0))
    both = op.all_of(i < 4, Load(a, (Select(i < 4, i, far),)) > -1.0)
    body = Store(b, (i,), value + IfThenElse(both, c(0.0), c(1.0)))
    got = call(build(loop(i, 8, body), a, b), [np.arange(4, dtype="float32")], 8, "float32")
    np.testing.assert_array_equal(got, [0, 1, 2, 3, 8, 8, 8, 8])


def test_lanes_that_a_select_does_not_take_are_not_read() -> None:
    a, b = flat("a", 4), flat("b", 16)
    lanes = Ramp(c(0), c(1), 16)
    far = Select(lanes < Broadcast(c(4), 16), lanes, Broadcast(c(1 << 28), 16))
    for index in (lanes, far):
        value = Select(lanes < Broadcast(c(4), 16), Load(a, (index,)), Broadcast(c(7.0), 16))
        got = call(build(Store(b, (lanes,), value), a, b), [np.arange(4, dtype="float32")], 16, "float32")
        np.testing.assert_array_equal(got, [0, 1, 2, 3, *[7] * 12])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint16", "bool", "float16", "bfloat16"])
@pytest.mark.parametrize("lanes", [2, 3, 8, 16, 37])
@pytest.mark.parametrize("stride", [1, -1, 2, 0, -3])
def test_vectors_of_any_stride(dtype: str, lanes: int, stride: int) -> None:
    size = lanes * 3 + 1
    a, b = flat("a", size, dtype), flat("b", lanes, dtype)
    start = 0 if stride >= 0 else (lanes - 1) * -stride
    index = Ramp(c(start), c(stride), lanes) if stride else Broadcast(c(start), lanes)
    x = RNG.integers(0, 2 if dtype == "bool" else 100, size).astype(DType(dtype).numpy)
    read = build(Store(b, (Ramp(c(0), c(1), lanes),), Load(a, (index,))), a, b)
    where = start + stride * np.arange(lanes)
    np.testing.assert_array_equal(call(read, [x], lanes, dtype), x[where])
    if stride:
        write = build(Store(b2 := flat("b", size, dtype), (index,), Load(a, (Ramp(c(0), c(1), lanes),))), a, b2)
        got = call(write, [x], size, dtype)
        np.testing.assert_array_equal(got[where], x[:lanes])
        rest = np.setdiff1d(np.arange(size), where)
        np.testing.assert_array_equal(got[rest], np.full(len(rest), 85, got.dtype))


def test_elements_that_are_vectors() -> None:
    a, b, i = flat("a", 5, "float32x4"), flat("b", 20), Var("i")
    value = Load(a, (i,)) * Broadcast(c(2.0), 4)
    module = build(loop(i, 5, Store(b, (Ramp(i * 4, c(1), 4),), value)), a, b)
    assert "load <4 x float>" in module.get_source("ll")


STACK = Target("llvm").hardware.memory(MemoryScope.LOCAL).capacity


@pytest.mark.parametrize("size", [3, 1000, STACK // 4, 100_000])
@pytest.mark.parametrize("scope", list(MemoryScope))
def test_scratch_of_any_size(size: int, scope: MemoryScope) -> None:
    a, b, i, j = flat("a", size), flat("b", size), Var("i"), Var("j")
    scratch = Buffer("scratch", "float32", (c(size),), scope)
    body = seq(
        loop(i, size, Store(scratch, (i,), Load(a, (i,)) * 3.0)),
        loop(j, size, Store(b, (j,), Load(scratch, (c(size - 1) - j,)))),
    )
    x = RNG.random(size).astype("float32")
    module = build(Allocate(scratch, body), a, b)
    for _ in range(2):
        np.testing.assert_array_equal(call(module, [x], size, "float32"), (x * np.float32(3))[::-1])


def test_scratch_within_loops_and_of_a_size_known_when_called() -> None:
    n, i, j, k = Var("n"), Var("i"), Var("j"), Var("k")
    a, b = flat("a", n * n), flat("b", n * n)
    row = Buffer("row", "float32", (n,))
    body = seq(
        loop(j, n, Store(row, (j,), Load(a, (i * n + j,)))),
        loop(k, n, Store(b, (i * n + k,), Load(row, (n - 1 - k,)))),
    )
    module = build(loop(i, n, Allocate(row, body)), a, b, n)
    assert "aligned_alloc" in module.get_source("ll")
    for size in (1, 50, 1000):
        x = RNG.random(size * size).astype("float32")
        out = empty((size * size,))
        module(array(x), out, size)
        np.testing.assert_array_equal(out.numpy().reshape(size, size), x.reshape(size, size)[:, ::-1])


def test_scratch_that_cannot_be_had_is_an_error_and_leaks_nothing() -> None:
    n, i = Var("n", "int64"), Var("i", "int64")
    a = flat("a", 4)
    huge, small = Buffer("huge", "float32", (n,)), Buffer("small", "float32", (n + 1,))
    body = Allocate(small, Allocate(huge, seq(Store(huge, (n - 1,), c(1.0)), Store(a, (i,), Load(huge, (n - 1,))))))
    whole = For(i, op.const(0, "int64"), op.const(4, "int64"), LoopKind.SERIAL, None, (), body)
    module = build(whole, a, n)
    out = array(np.zeros(4, "float32"))
    with pytest.raises(Exception, match="ran out of memory"):
        module(out, 1 << 60)
    module(out, 100)
    np.testing.assert_array_equal(out.numpy(), np.ones(4))


def test_unrolled_loops_are_marked_for_llvm() -> None:
    a, i = flat("a", 8), Var("i")
    module = build(loop(i, 8, Store(a, (i,), op.cast("float32", i)), LoopKind.UNROLLED), a)
    assert "llvm.loop.unroll.full" in module.get_source("ll")
    np.testing.assert_array_equal(call(module, [], 8, "float32"), np.arange(8))


def test_long_loops_are_unrolled_in_parts() -> None:
    """Under `unroll_explicit=0`, even a loop of more stores than programs may be written out to."""
    a, i, j = flat("a", 80_000), Var("i"), Var("j")
    inner = loop(j, 8, Store(a, (i * 8 + j,), op.cast("float32", i * 8 + j)), LoopKind.UNROLLED)
    hinted = For(i, op.const(0), op.const(10_000), LoopKind.UNROLLED, None, (("unroll_explicit", 0),), inner)
    module = build(hinted, a)
    assert '"llvm.loop.unroll.count", i32 32' in module.get_source("ll")
    np.testing.assert_array_equal(call(module, [], 80_000, "float32"), np.arange(80_000))


def test_multiplication_and_addition_are_one_rounding_unless_told_otherwise() -> None:
    x = np.array([1 + 2.0**-12], "float32")
    value = lambda v: v * v - (1 + 2.0**-11)
    fused = call(pointwise(value, ["float32"], "float32", 1, target="llvm"), [x], 1, "float32")
    separate = call(pointwise(value, ["float32"], "float32", 1, target=EXACT), [x], 1, "float32")
    assert fused[0] == 2.0**-24
    assert separate[0] == 0


def test_indices_beyond_31_bits_are_computed_in_64() -> None:
    a, i = flat("a", op.const(1 << 32, "int64"), "int8"), Var("i")
    module = build(loop(i, 4, Store(a, (i * (1 << 30) + ((1 << 30) - 1),), c(1, "int8"))), a)
    assert "mul nsw i64" in module.get_source("ll")


@pytest.mark.parametrize(
    "dtype",
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split(),
)
def test_numbers_as_arguments(dtype: str) -> None:
    value, out = Var("value", dtype), flat("out", 1, dtype)
    module = build(Store(out, (c(0),), value), value, out)
    given = {"float32": 2.5, "float64": 0.1, "bool": True, "uint64": 2**64 - 1, "int8": -128}.get(dtype, 77)
    result = empty((1,), dtype)
    module(given, result)
    assert result.numpy()[0] == given


def test_a_loop_bound_to_a_hardware_thread_is_refused_by_name() -> None:
    a, i = flat("a", 4), Var("i.inner")
    body = For(i, c(0), c(4), LoopKind.THREAD, ThreadTag.THREAD_X, (), Store(a, (i,), c(1.0)))
    with pytest.raises(UserError, match=r"threadIdx.x \(stage 'a'\).*\n.*parallel\(axis\)"):
        run_pass(launch_on_host, Function("main", (a,), body), "llvm")


def test_large_scratch_stays_outside_of_the_launch() -> None:
    a, i = flat("a", 4), Var("i")
    large, small = (Buffer(name, "float32", (IntImm(n, DType("int32")),)) for name, n in (("l", 1 << 20), ("s", 8)))
    body = seq(Store(large, (c(0),), c(1.0)), Store(small, (c(0),), c(1.0)), loop(i, 4, Store(a, (i,), c(1.0))))
    made = run_pass(launch_on_host, Function("main", (a,), Allocate(small, Allocate(large, body))), "llvm").body
    assert isinstance(made, Allocate)
    assert made.buffer is large
    assert made.body.body.buffer is small
