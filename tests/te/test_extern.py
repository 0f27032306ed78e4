"""te.extern and tir.ir_builder: programs built statement by statement, on the interpreter and every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import empty, floats, run
from tests.programs.harness import build, every_target
from tilewright import te, tir
from tilewright.core.hardware import MemoryScope
from tilewright.expr.traverse import post_order
from tilewright.loops.nodes import Barrier

Body = Callable[[Any, Any, Any], None]


def program(body: Body, *shapes: Any, out: Any, dtype: str = "float32") -> tuple[te.Schedule, list[te.Tensor]]:
    """The schedule of one extern whose statement `body(builder, inputs, output)` writes."""

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        body(ib, [ib.buffer_ptr(b) for b in ins], ib.buffer_ptr(outs[0]))
        return ib.get()

    inputs = [te.placeholder(shape, dtype, f"A{i}") for i, shape in enumerate(shapes)]
    B = te.extern(out, inputs, write, name="B", dtype=dtype)
    return te.create_schedule(B.op), [*inputs, B]


def check(s: te.Schedule, args: list[te.Tensor], want: np.ndarray, *values: np.ndarray, target: str = "") -> None:
    out = np.full(want.shape, 77, want.dtype)
    if not target:
        run(tw.lower(s, args)["main"], *values, out, races=False)
    else:
        f, dev = build(s, args, target), tw.device(target)
        given = tw.nd.array(out, dev)
        f(*(tw.nd.array(v, dev) for v in values), given)
        out = given.numpy()
    np.testing.assert_allclose(out, want, rtol=1e-5, atol=1e-6)


def branches(ib: Any, ins: Any, out: Any) -> None:
    with ib.for_range(0, 64, "i") as i:
        with ib.if_scope(tir.any(i < 8, i >= 32)):
            out[i] = ins[0][i] * 2
        with ib.else_scope():
            out[i] = ins[0][i]


def test_branches() -> None:
    s, args = program(branches, (64,), out=(64,))
    values = floats(64)
    want = np.where((np.arange(64) < 8) | (np.arange(64) >= 32), values * 2, values)
    check(s, args, want, values)
    check(s, args, want, values, target="llvm")


def test_a_loop_that_carries_state() -> None:
    """A recurrence: each iteration reads what the one before it left in a register and in the output."""

    def body(ib: Any, ins: Any, out: Any) -> None:
        last = ib.allocate("float32", 1, name="last", scope="local")
        last[0] = tir.const(1, "float32")
        with ib.for_range(0, 50, "t") as t:
            last[0] = last[0] * tir.const(0.5, "float32") + ins[0][t]
            out[t] = last[0]

    s, args = program(body, (50,), out=(50,))
    values = floats(50)
    want, last = np.empty(50, "float32"), np.float32(1)
    for t in range(50):
        want[t] = last = last * np.float32(0.5) + values[t]
    check(s, args, want, values)
    check(s, args, want, values, target="llvm")


def test_several_dimensions_flat_and_by_index() -> None:
    def body(ib: Any, ins: Any, out: Any) -> None:
        with ib.for_range(0, 12, "f") as f:
            out[f] = ins[0][f % 3, f // 3]  # one index on two dimensions counts elements

    s, args = program(body, (3, 4), out=(4, 3))
    values = floats(3, 4)
    check(s, args, values.T, values)
    check(s, args, values.T, values, target="llvm")


def test_loops_of_every_kind_and_let() -> None:
    def body(ib: Any, ins: Any, out: Any) -> None:
        with ib.for_range(0, 4, "i", kind="parallel") as i, ib.for_range(2, 6, "j", kind="unroll") as j:
            row = ib.let("row", i * 32 + (j - 2) * 8)
            with ib.for_range(0, 8, "v", kind="vectorize") as v:
                out[row + v] = ins[0][row + v] + 1

    s, args = program(body, (128,), out=(128,))
    values = floats(128)
    check(s, args, values + 1, values)
    check(s, args, values + 1, values, target="llvm")


def in_blocks(ib: Any, ins: Any, out: Any) -> None:
    """Each block of 64 reverses its stretch through shared memory."""
    tx, bx = te.thread_axis("threadIdx.x"), te.thread_axis("blockIdx.x")
    ib.scope_attr(bx, "thread_extent", 4)
    ib.scope_attr(tx, "thread_extent", 64)
    tile = ib.allocate("float32", 64, name="tile", scope="shared")
    tile[tx.var] = ins[0][bx.var * 64 + tx.var]
    out[bx.var * 64 + tx.var] = tile[63 - tx.var]


@every_target
def test_threads_and_shared_memory(target: str) -> None:
    if target == "llvm":
        return
    s, args = program(in_blocks, (256,), out=(256,))
    values = floats(256)
    want = values.reshape(4, 64)[:, ::-1].reshape(-1)
    check(s, args, want, values)
    check(s, args, want, values, target=target)


def test_a_barrier_of_the_users_stays_one() -> None:
    def body(ib: Any, ins: Any, out: Any) -> None:
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 8)
        ib.barrier()
        ib.barrier()
        out[tx.var] = ins[0][tx.var]

    s, args = program(body, (8,), out=(8,))
    function = tw.lower(s, args)["main"]
    # Interned nodes are one object wherever they stand: count occurrences in the sequence that holds them.
    held = [part for node in post_order(function.body) for part in node.children() if isinstance(part, Barrier)]
    assert len(held) == 2
    assert held[0].scope is MemoryScope.SHARED


@every_target
def test_threads_pass_global_memory_on(target: str) -> None:
    if target == "llvm":
        return

    def body(ib: Any, ins: Any, out: Any) -> None:
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 64)
        out[tx.var] = ins[0][tx.var]
        out[tx.var + 64] = out[63 - tx.var] * 2

    s, args = program(body, (64,), out=(128,))
    values = floats(64)
    check(s, args, np.concatenate([values, values[::-1] * 2]), values, target=target)


@pytest.mark.parametrize("own", [False, True])
def test_a_barrier_that_some_threads_miss(own: bool) -> None:
    def body(ib: Any, ins: Any, out: Any) -> None:
        tx = te.thread_axis("threadIdx.x")
        ib.scope_attr(tx, "thread_extent", 8)
        held = ib.allocate("float32", 8, name="held", scope="shared")
        with ib.if_scope(tx.var < 5):
            held[tx.var] = ins[0][tx.var]
            if own:
                ib.barrier()
            out[tx.var] = held[tx.var if own else 4 - tx.var]

    s, args = program(body, (8,), out=(8,))
    with refused("barrier", "within `if threadIdx.x < 5`, but some threads of the block", fix="out of the branch"):
        tw.build(s, args, "cuda")


def test_between_other_stages() -> None:
    """An extern reads what a te.compute stores, and is read by another; it may be computed inside a loop."""
    A = te.placeholder((16,), name="A")
    C = te.compute((16,), lambda i: A[i] + 1, name="C")

    def total(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, b = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        b[0] = tir.const(0, "float32")
        with ib.for_range(0, 16, "i") as i:
            b[0] = b[0] + a[i]
        return ib.get()

    B = te.extern((1,), [C], total, name="B")
    D = te.compute((16,), lambda i: C[i] / B[0], name="D")
    values = np.abs(floats(16)) + 1
    want = (values + 1) / (values + 1).sum()
    for inside in (False, True):
        s = te.create_schedule(D.op)
        if inside:
            s[B].compute_at(s[D], D.op.axis[0])
        check(s, [A, D], want, values)
        check(s, [A, D], want, values, target="llvm")


def test_several_results_of_several_shapes() -> None:
    A = te.placeholder((6,), name="A")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, p, q = (ib.buffer_ptr(b) for b in (ins[0], *outs))
        q[0, 0] = tir.const(7, "int32")
        with ib.for_range(0, 6, "i") as i:
            p[i] = a[i] * a[i]
        return ib.get()

    P, Q = te.extern([(6,), (1, 1)], [A], write, name="B", dtype=["float32", "int32"])
    assert (P.ndim, Q.ndim, str(Q.dtype)) == (1, 2, "int32")
    s = te.create_schedule(P.op)
    values, squares, seven = floats(6), empty(6), np.zeros((1, 1), "int32")
    run(tw.lower(s, [A, P, Q])["main"], values, squares, seven)
    np.testing.assert_allclose(squares, values**2, rtol=1e-6)
    assert seven[0, 0] == 7


def test_refused() -> None:
    A = te.placeholder((8,), name="A")
    other = tir.decl_buffer((8,), name="other")
    with refused("extern", "returns 3, which is not a statement", fix="ib.get()"):
        te.extern((8,), [A], lambda i, o: 3, name="B")
    with refused("extern", "the input 3 of 'B' is not a tensor", fix="give tensors"):
        te.extern((8,), [3], lambda i, o: 3, name="B")  # type: ignore[list-item]
    with refused("extern", "the type of 'B' does not follow", fix='dtype="float32"'):
        te.extern((8,), [], lambda i, o: 3, name="B")

    def strange(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        ib.buffer_ptr(outs[0])[0] = ib.buffer_ptr(other)[0]
        return ib.get()

    with refused("extern", "the statement of 'B' uses 'other'", fix="among the inputs"):
        te.extern((8,), [A], strange, name="B")
    ib = tir.ir_builder.create()
    b = ib.buffer_ptr(other)
    with refused("ir_builder", "is stored to 'other', but its elements have type float32", fix='.astype("float32")'):
        b[0] = tir.const(1, "int32")
    with refused("ir_builder", "has 1 dimension, but is indexed with 2", fix="give 1 index"):
        b[0, 0] = 1.0
    with refused("ir_builder", "is indexed with", "of type float32", fix=".astype("):
        b[0.5] = 1.0
    with refused("else_scope", "no if_scope ends directly before it", fix="right after an if_scope"), ib.else_scope():
        pass
    with refused("for_range", "no loop of kind 'fast'", fix="serial"), ib.for_range(0, 4, kind="fast"):
        pass
    with refused("scope_attr", "the attribute 'pragma_x'", fix="thread_extent"):
        ib.scope_attr(None, "pragma_x", 1)
    with refused("allocate", "there is no memory scope 'register'", fix="'local'"):
        ib.allocate("float32", 4, scope="register")
    with refused("buffer_ptr", "3 is not a buffer", fix="te.extern passes"):
        ib.buffer_ptr(3)
    B = te.extern((8,), [A], lambda i, o: tir.ir_builder.create().get(), name="B")
    C = te.compute((8,), lambda i: B[i], name="C")
    s = te.create_schedule(C.op)
    with refused("cache_write", "stage 'B' is a te.extern", fix="te.compute that reads 'B'"):
        s.cache_write(B, "local")
    with refused("compute_inline", "stage 'B' is a te.extern", fix="compute_at"):
        s[B].compute_inline()


def test_a_branch_whose_sides_change_what_it_asks() -> None:
    """Vectors must not ask again after the first side has stored."""

    def body(ib: Any, ins: Any, out: Any) -> None:
        with ib.for_range(0, 16, "i") as i:
            out[i] = ins[0][i]
        with ib.for_range(0, 16, "j") as j:
            with ib.if_scope(tir.all(out[j] > 0, j > 2)):
                out[j] = tir.const(-1, "float32")
            with ib.else_scope():
                out[j] = tir.const(1, "float32")

    s, args = program(body, (16,), out=(16,))
    values = floats(16)
    want = np.where((values > 0) & (np.arange(16) > 2), np.float32(-1), np.float32(1))
    check(s, args, want, values)
    check(s, args, want, values, target="llvm")


def test_a_producer_at_the_loop_of_an_extern() -> None:
    """`fuse()` of no loops makes one of extent 1, at which other stages may be computed."""
    A = te.placeholder((16,), name="A")
    C = te.compute((16,), lambda i: A[i] + 1.0, name="C")

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 16, "i") as i:
            out[i] = source[15 - i]
        return ib.get()

    B = te.extern((16,), [C], write, name="B")
    s = te.create_schedule(B.op)
    s[C].compute_at(s[B], s[B].fuse())
    check(s, [A, B], (floats(16) + 1)[::-1], floats(16))


@every_target
def test_a_copy_of_what_an_extern_reads(target: str) -> None:
    A = te.placeholder((16,), name="A")
    on_grid = target != "llvm"

    def write(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        source, out = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        if on_grid:
            tx = te.thread_axis("threadIdx.x")
            ib.scope_attr(tx, "thread_extent", 16)
            out[tx.var] = source[15 - tx.var]
        else:
            with ib.for_range(0, 16, "i") as i:
                out[i] = source[15 - i]
        return ib.get()

    B = te.extern((16,), [A], write, name="B", dtype="float32")
    C = te.compute((16,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    copy = s.cache_read(A, "global", [B, C])
    if on_grid:
        for tensor in (copy, C):
            s[tensor].bind(s[tensor].op.axis[0], te.thread_axis("threadIdx.x"))
    values = floats(16)
    check(s, [A, C], values + values[::-1], values, target=target)
    assert s[B].op.input_tensors == (copy,)
