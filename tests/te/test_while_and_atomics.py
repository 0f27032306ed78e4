"""Loops whose length is found out as they run, and updates that threads make at the same time, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import run
from tests.programs.harness import build, every_target
from tilewright import te, tir
from tilewright.core.options import Options
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Barrier, Function
from tilewright.passes.runner import finishing
from tilewright.passes.runner import run as run_passes

THREADS = 32


def finished(s: te.Schedule, args: list[te.Tensor], target: str = "opencl") -> Function:
    """The program as it is compiled."""
    chosen = Target(target)
    function = lower_for(chosen, s, args)["main"]
    return run_passes(finishing(chosen, Options()), function, chosen, Options(), [])


def check(s: te.Schedule, args: list[te.Tensor], target: str, want: np.ndarray, *values: np.ndarray) -> None:
    """The interpreter finds it, of the lowered and the finished program, and the target does."""
    for function in (tw.lower(s, args)["main"], finished(s, args, target)):
        out = np.zeros(want.shape, want.dtype)
        run(function, *values, out, races=False)
        np.testing.assert_array_equal(out, want)
    dev = tw.device(target)
    given = tw.nd.array(np.full(want.shape, 77, want.dtype), dev)
    build(s, args, target)(*(tw.nd.array(v, dev) for v in values), given)
    np.testing.assert_array_equal(given.numpy(), want)


def threads(ib: Any, target: str, n: int = 64) -> Any:
    """A loop over n elements: on a GPU, over threads."""
    if target == "llvm":
        return ib.for_range(0, n, "i")
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    ib.scope_attr(block, "thread_extent", n // THREADS)
    ib.scope_attr(thread, "thread_extent", THREADS)
    return _Given(block.var * THREADS + thread.var)


class _Given:
    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *error: object) -> None:
        pass


def collatz(target: str) -> te.Tensor:
    """B[i]: the steps from A[i] to 1."""
    A = te.placeholder((64,), "int32", "A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with threads(ib, target) as i:
            x, steps = (ib.allocate("int32", (1,), name, scope="local") for name in ("x", "steps"))
            x[0] = a[i]
            steps[0] = 0
            with ib.while_loop(x[0] > 1):
                x[0] = tir.if_then_else(x[0] % 2 == 0, x[0] // 2, x[0] * 3 + 1)
                steps[0] = steps[0] + 1
            b[i] = steps[0]
        return ib.get()

    made: te.Tensor = te.extern((64,), [A], write, name="B", dtype="int32")
    return made


def steps_of(n: int) -> int:
    count = 0
    while n > 1:
        n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
    return count


@every_target
def test_while(target: str) -> None:
    B = collatz(target)
    values = np.arange(64, dtype="int32")
    check(te.create_schedule(B.op), [*B.op.inputs, B], target, np.array(list(map(steps_of, values)), "int32"), values)


def test_lower_prints_while() -> None:
    B = collatz("llvm")
    assert "while 2 <= x_1[0]:" in str(tw.lower(te.create_schedule(B.op), [*B.op.inputs, B]))
    B = collatz("cuda")
    f = build(te.create_schedule(B.op), [*B.op.inputs, B], "cuda")
    assert "while (2 <= x[0])" in f.imported_modules[0].get_source()


@every_target
def test_a_while_in_shared_memory_gets_its_barriers(target: str) -> None:
    """A tree reduction whose width is kept in shared memory: what one thread stores, others read in the next round."""
    if target == "llvm":
        pytest.skip("no shared memory")
    A = te.placeholder((THREADS,), "int32", "A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", THREADS)
        part = ib.allocate("int32", (THREADS,), "part", scope="shared")
        width = ib.allocate("int32", (1,), "width", scope="local")
        part[tx.var] = a[tx.var]
        width[0] = THREADS // 2
        with ib.while_loop(width[0] > 0):
            with ib.if_scope(tx.var < width[0]):
                part[tx.var] = part[tx.var] + part[tx.var + width[0]]
            width[0] = width[0] // 2
        with ib.if_scope(tx.var.equal(0)):
            b[0] = part[0]
        return ib.get()

    B = te.extern((1,), [A], write, name="B", dtype="int32")
    s = te.create_schedule(B.op)
    assert any(isinstance(at, Barrier) for at in post_order(finished(s, [A, B]).body))
    values = np.arange(THREADS, dtype="int32")
    run(finished(s, [A, B]), values, out := np.zeros(1, np.int32))  # with races looked for
    assert out[0] == values.sum()
    dev = tw.device(target)
    result = tw.nd.empty((1,), "int32", dev)
    build(s, [A, B], target)(tw.nd.array(values, dev), result)
    assert result.numpy()[0] == values.sum()


def histogram(target: str, shared: bool, dtype: str = "int32") -> te.Tensor:
    """B[bin]: how many elements of A are in the bin."""
    A = te.placeholder((64,), "int32", "A")

    def add(place: Any, value: Any) -> Any:
        return tir.call_intrin(dtype, "tir.atomic_add", tir.call_intrin("handle", "tir.address_of", place), value)

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        one = tir.const(1, dtype)
        if not shared:
            with threads(ib, target) as i:
                ib.emit(add(b[a[i]], one))
            return ib.get()
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", THREADS)
        bins = ib.allocate(dtype, (8,), "bins", scope="shared")
        with ib.if_scope(tx.var < 8):
            bins[tx.var] = tir.const(0, dtype)
        with ib.for_range(0, 2, "k") as k:
            ib.emit(add(bins[a[k * THREADS + tx.var]], one))
        with ib.if_scope(tx.var < 8):
            b[tx.var] = bins[tx.var]
        return ib.get()

    made: te.Tensor = te.extern((8,), [A], write, name="B", dtype=dtype)
    return made


VALUES = np.random.default_rng(2).integers(0, 8, 64).astype("int32")


@every_target
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_atomic_counts_in_global_memory(target: str, dtype: str) -> None:
    B = histogram(target, False, dtype)
    s = te.create_schedule(B.op)
    dev = tw.device(target)
    out = tw.nd.array(np.zeros(8, dtype), dev)
    build(s, [*B.op.inputs, B], target)(tw.nd.array(VALUES, dev), out)
    np.testing.assert_array_equal(out.numpy(), np.bincount(VALUES, minlength=8).astype(dtype))
    counts = np.zeros(8, dtype)
    run(tw.lower(s, [*B.op.inputs, B])["main"], VALUES, counts, races=False, check=False)
    np.testing.assert_array_equal(counts, np.bincount(VALUES, minlength=8).astype(dtype))


@pytest.mark.parametrize("target", ["opencl", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_atomic_counts_in_shared_memory(target: str, dtype: str) -> None:
    """Barriers stand before the first and after the last update, and none between them."""
    B = histogram(target, True, dtype)
    s = te.create_schedule(B.op)
    assert sum(isinstance(at, Barrier) for at in post_order(finished(s, [*B.op.inputs, B]).body)) == 2
    check(s, [*B.op.inputs, B], target, np.bincount(VALUES, minlength=8).astype(dtype), VALUES)


UPDATES = {
    "add": lambda a: a.sum(), "sub": lambda a: -a.sum(), "min": np.min, "max": np.max,
    "and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce,
}  # fmt: skip


@every_target
@pytest.mark.parametrize("dtype", ["int32", "uint32", "float32"])
@pytest.mark.parametrize("what", list(UPDATES))
def test_updates(target: str, what: str, dtype: str) -> None:
    if dtype == "float32" and what in ("and", "or", "xor"):
        pytest.skip("of integers only")
    if dtype == "uint32" and what == "sub":
        pytest.skip("the same as of int32")
    A = te.placeholder((64,), dtype, "A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with threads(ib, target) as i:
            ib.emit(tir.call_intrin(dtype, f"tir.atomic_{what}", tir.address_of(b[0]), a[i]))
        return ib.get()

    B = te.extern((1,), [A], write, name="B", dtype=dtype)
    s = te.create_schedule(B.op)
    values = np.random.default_rng(4).integers(1, 100, 64).astype(dtype)
    first = {"add": 0, "sub": 0, "or": 0, "xor": 0, "and": 127, "min": 1000, "max": 0}[what]
    want = UPDATES[what](np.append(values, np.asarray(first, dtype)))
    dev = tw.device(target)
    out = tw.nd.array(np.array([first], dtype), dev)
    build(s, [A, B], target)(tw.nd.array(values, dev), out)
    assert out.numpy()[0] == want


@every_target
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("what", ["min", "max"])
def test_the_extreme_of_floats_is_nan_where_one_is(target: str, what: str, dtype: str) -> None:
    if target != "llvm" and dtype != "float32":
        pytest.skip("the target has no such update")
    A = te.placeholder((3,), dtype, "A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if target != "llvm":
            ib.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", 1)
        with ib.for_range(0, 3) as i:
            ib.emit(tir.call_intrin(dtype, f"tir.atomic_{what}", tir.address_of(b[0]), a[i]))
        return ib.get()

    B = te.extern((1,), [A], write, name="B", dtype=dtype)
    module, dev = build(te.create_schedule(B.op), [A, B], target), tw.device(target)
    function = np.min if what == "min" else np.max
    for first, *values in ((0, 1, -2, 3), (0, 1, np.nan, 3), (np.nan, 1, 2, 3), (np.inf, -np.inf, 1, 2)):
        out = tw.nd.array(np.array([first], dtype), dev)
        module(tw.nd.array(np.array(values, dtype), dev), out)
        np.testing.assert_array_equal(out.numpy()[0], function([first, *values]).astype(dtype))


@pytest.mark.parametrize("target", ["opencl", "cuda"])
def test_no_two_threads_update_what_each_has_of_its_own(target: str) -> None:
    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with threads(ib, target) as i:
            own = ib.allocate("int32", (1,), "own", scope="local")
            own[0] = a[i]
            ib.emit(tir.call_intrin("int32", "tir.atomic_add", tir.address_of(own[0]), 1))
            b[i] = own[0]
        return ib.get()

    A = te.placeholder((64,), "int32", "A")
    B = te.extern((64,), [A], write, name="B", dtype="int32")
    with refused("call_intrin", "atomic_add of 'own' in local memory, but each thread has", fix="load and store it"):
        tw.build(te.create_schedule(B.op), [A, B], target)


@every_target
def test_the_value_of_an_update_is_what_was_there(target: str) -> None:
    """Every thread draws a number of its own: those that are even are packed, in some order."""
    A = te.placeholder((64,), "int32", "A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b, count = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        with threads(ib, target) as i, ib.if_scope(a[i] % 2 == 0):
            place = ib.let("place", tir.call_intrin("int32", "tir.atomic_add", tir.address_of(count[0]), 1))
            b[place] = a[i]
        return ib.get()

    B, N = te.extern([(64,), (1,)], [A], write, name="B", dtype=["int32", "int32"])
    f, dev = build(te.create_schedule(B.op), [A, B, N], target), tw.device(target)
    out, count = tw.nd.array(np.full(64, -1, np.int32), dev), tw.nd.array(np.zeros(1, np.int32), dev)
    f(tw.nd.array(VALUES, dev), out, count)
    wanted = np.sort(VALUES[VALUES % 2 == 0])
    assert count.numpy()[0] == len(wanted)
    np.testing.assert_array_equal(np.sort(out.numpy()[: len(wanted)]), wanted)


@pytest.mark.parametrize(("dtype", "name"), [
    ("float64", "atomicAdd("), ("int64", "(long long)atomicAdd((unsigned long long*)"), ("uint64", "atomicAdd("),
])  # fmt: skip
def test_cuda_spells_wide_updates(dtype: str, name: str) -> None:
    B = histogram("cuda", False, dtype)
    assert name in tw.build(te.create_schedule(B.op), [*B.op.inputs, B], "cuda").imported_modules[0].get_source()


def test_what_is_refused() -> None:
    ib = tir.ir_builder.create()
    wanted = "keep the condition's operands in a buffer"
    with refused("while_loop", "reads no buffer", fix=wanted), ib.while_loop(te.var("n") > 0):
        pass
    B = histogram("opencl", False, "float64")
    with refused("call_intrin", "atomic_add of float64 in global memory, which opencl does not have", fix="int32"):
        tw.build(te.create_schedule(B.op), [*B.op.inputs, B], "opencl")
    B = histogram("llvm", False)
    with refused("build", "is called outside of any kernel", fix="thread_extent"):
        tw.build(te.create_schedule(B.op), [*B.op.inputs, B], "cuda")

    def divergent(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 8)
        part, left = ib.allocate("int32", (8,), "part", scope="shared"), ib.allocate("int32", (1,), scope="shared")
        with ib.while_loop(tir.all(left[0] > 0, tx.var < 4)):
            part[tx.var] = a[tx.var] + part[7 - tx.var]
        b[tx.var] = part[tx.var]
        return ib.get()

    A = te.placeholder((8,), "int32", "A")
    B = te.extern((8,), [A], divergent, name="B", dtype="int32")
    with refused("barrier", "a barrier is needed within `while", fix="move the data exchanged between threads"):
        tw.build(te.create_schedule(B.op), [A, B], "opencl")
