"""Scripts whose thread loops share memory of a block, and what is written of scripts with sizes and assertions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tilewright import te, tir
from tilewright.loops.joined_kernels import join_kernels
from tilewright.te.hybrid import script

# mypy: disable-error-code="name-defined"


@script
def in_two_places(a, b):  # type: ignore[no-untyped-def]
    c = output_tensor((64,), "float32")  # noqa: F821
    shared = allocate((64,), "float32", "shared")  # noqa: F821
    for i in bind("threadIdx.x", 64):  # noqa: F821
        shared[i] = a[i]
    near = allocate((1,), "float32", "local")  # noqa: F821
    for j in bind("threadIdx.x", 64):  # noqa: F821
        near[0] = b[j]
    for k in bind("threadIdx.x", 64):  # noqa: F821
        c[k] = shared[63 - k] + near[0]
    return c


@script
def row_sums(a):  # type: ignore[no-untyped-def]
    c = output_tensor((8,), "float32")  # noqa: F821
    total = allocate((1,), "float32", "local")  # noqa: F821
    for block in bind("blockIdx.x", 2):  # noqa: F821
        for i in bind("threadIdx.x", 4):  # noqa: F821
            total[0] = 0.0
            for k in range(5):
                total[0] += a[block * 4 + i, k]
            c[block * 4 + i] = total[0]
    return c


@script
def outer(n, a, b):  # type: ignore[no-untyped-def]
    c = output_tensor((n, 4), a.dtype)  # noqa: F821
    for i in range(n):
        for j in range(4):
            assert i < n and j < 4, "beyond"  # noqa: PT018
            c[i, j] = a[i] * b[j]
    return c


@script
def added(a, table):  # type: ignore[no-untyped-def]
    c = output_tensor(a.shape, a.dtype)  # noqa: F821
    for i in const_range(len(table)):  # noqa: F821
        for j in const_range(len(table[0])):  # noqa: F821
            c[i, j] = a[i, j] + table[i, j] + table[i][j]
    return c


def run(target: str, script_of: Any, *values: np.ndarray) -> np.ndarray | None:
    inputs = [te.placeholder(value.shape, str(value.dtype), name=f"x{i}") for i, value in enumerate(values)]
    made = script_of(*inputs)
    module = tw.build(te.create_schedule(made.op), [*inputs, made], target)
    device = tw.device(target)
    if not device.exist:
        return None
    out = tw.nd.empty([int(extent) for extent in made.shape], str(made.dtype), device)
    module(*[tw.nd.array(value, device) for value in values], out)
    return out.numpy()


@every_target
def test_thread_loops_around_one_memory_are_one_kernel(target: str) -> None:
    if target == "llvm":
        pytest.skip("threads are those of a GPU")
    rng = np.random.default_rng(0)
    a, b, rows = rng.random(64, "float32"), rng.random(64, "float32"), rng.random((8, 5), "float32")
    found = run(target, in_two_places, a, b)
    assert found is None or np.allclose(found, a[::-1] + b)
    found = run(target, row_sums, rows)
    assert found is None or np.allclose(found, rows.sum(1), rtol=1e-5)


def test_other_loops_stay_kernels_of_their_own() -> None:
    x = tir.decl_buffer((8,), "float32", "x")
    ib = tir.ir_builder.create()
    with ib.new_scope():
        shared = ib.allocate("float32", (8,), name="near", scope="shared")
        for extent in (8, 4):
            with ib.new_scope():
                thread = te.thread_axis("threadIdx.x")
                ib.scope_attr(thread, "thread_extent", extent)
                shared[thread.var] = ib.buffer_ptr(x)[thread.var]
    statement = ib.get()
    assert join_kernels(statement) is statement
    serial = tir.For(te.var("i"), 0, 8, tir.ForKind.SERIAL, statement)
    assert join_kernels(serial) is serial


def test_a_script_of_sizes_and_assertions_is_written() -> None:
    n = te.size_var("n")
    a, b = te.placeholder((n,), name="a"), te.placeholder((4,), name="b")
    c = outer(n, a, b)
    written = te.hybrid.build(te.create_schedule(c.op), [n, a, b], [c])
    assert "assert" in written.get_source()
    assert "'beyond'" in written.get_source()
    x, y = np.arange(3, dtype="float32"), np.arange(4, dtype="float32")
    assert np.array_equal(written(3, x, y), np.outer(x, y))


def test_tables_of_constants() -> None:
    a = np.arange(6, dtype="int32").reshape(2, 3)
    found = run("llvm", lambda x: added(x, tw.runtime.convert([[1, 2, 3], [4, 5, 6]])), a)
    assert np.array_equal(found, a + 2 * np.array([[1, 2, 3], [4, 5, 6]]))


def test_an_output_that_another_one_reads_is_kept_inside() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule([B.op, C.op])
    c = tw.nd.empty((4,), "float32")
    tw.build(s, [A, C], "llvm")(tw.nd.array(np.arange(4, dtype="float32")), c)
    assert list(c.numpy()) == [2, 4, 6, 8]


def two_kernels(block_of: Any) -> list[te.Tensor]:
    """Two loops over blocks that share memory; the second reads what the block `block_of(bx)` stored in the first."""

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        given, passed, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0]), ib.buffer_ptr(outs[1])
        near = ib.allocate("float32", (8,), name="near", scope="shared")
        for first in (True, False):
            with ib.new_scope():
                bx, tx = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
                ib.scope_attr(bx, "thread_extent", 4)
                ib.scope_attr(tx, "thread_extent", 8)
                at = ib.let("at", bx.var * 8)
                if first:
                    near[tx.var] = given[at + tx.var]
                    passed[at + tx.var] = near[7 - tx.var]
                else:
                    near[tx.var] = passed[block_of(bx.var) * 8 + tx.var]
                    out[at + tx.var] = near[7 - tx.var] + 1
        return ib.get()

    A = te.placeholder((32,), name="A")
    return [A, *te.extern([(32,), (32,)], [A], write, name="B", dtype=["float32", "float32"])]


def test_loops_over_blocks_that_pass_data_on_are_refused() -> None:
    tensors = two_kernels(lambda bx: 3 - bx)
    with refused("lower", "elements of 'B.v0' that other blocks access in another", fix="allocate near inside"):
        tw.lower(te.create_schedule(tensors[1].op), tensors)
    tensors = two_kernels(lambda bx: bx)
    module = tw.build(te.create_schedule(tensors[1].op), tensors, "opencl")
    device = tw.device("opencl")
    values = np.arange(32, dtype="float32")
    arrays = [tw.nd.array(values, device), *(tw.nd.empty((32,), "float32", device) for _ in range(2))]
    module(*arrays)
    np.testing.assert_array_equal(arrays[2].numpy(), values + 1)
