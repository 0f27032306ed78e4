"""prefetch: a hint that changes no value, one instruction per cache line on the CPU, and nothing on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tests.loops.running import floats, run
from tests.programs.harness import build, every_target
from tilewright import te, tir


def rows(dtype: str = "float32") -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    A = te.placeholder((12, 40), dtype, name="A")
    B = te.compute((10, 40), lambda i, j: A[i, j] + A[i + 2, j], name="B")
    return te.create_schedule(B.op), A, B


def prefetches(s: te.Schedule, *args: te.Tensor) -> list[str]:
    text = str(tw.lower(s, list(args)))
    lines = [line.strip() for line in text.splitlines() if "refetch" in line or " < " in line]
    return [line.replace('T.type_annotation("float32"), ', "") for line in lines]


def test_the_lines_of_a_region() -> None:
    """Rows i + 1 to i + 3 are read in the next iteration, three lines each."""
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[0], 1)
    assert prefetches(s, A, B) == [
        "if i < 9:",
        "for prefetch_A_0, prefetch_A_1 in T.grid(3, 3):",
        "T.prefetch(T.tvm_access_ptr(A_1.data, i * 40 + prefetch_A_0 * 40 + prefetch_A_1 * 16 + 40, 1, 1))",
    ]
    s, A, B = rows("float64")
    s[B].prefetch(A, B.op.axis[0], 1)
    assert "T.grid(3, 5)" in str(tw.lower(s, [A, B]))  # lines of eight


def test_one_line_per_iteration_of_an_inner_loop() -> None:
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[1], 16)
    lines = prefetches(s, A, B)
    assert lines[0] == "if j < 24:"
    assert lines[-1] == "T.prefetch(T.tvm_access_ptr(A_1.data, i * 40 + prefetch_A_0 * 40 + j + 16, 1, 1))"


def test_a_region_is_kept_inside_the_tensor() -> None:
    A = te.placeholder((16,), name="A")
    k = te.reduce_axis((0, 3), name="k")
    padded = te.compute((18,), lambda i: te.if_then_else(te.all(i >= 1, i < 17), A[i - 1], 0.0), name="padded")
    B = te.compute((16,), lambda i: te.sum(padded[i + k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[padded].compute_inline()
    s[B].prefetch(A, B.op.axis[0], 2)
    values, out = floats(16), np.full(16, 77, "float32")
    run(tw.lower(s, [A, B])["main"], values, out)  # which checks each address
    np.testing.assert_allclose(out, np.convolve(values, np.ones(3), "same"), rtol=1e-5, atol=1e-6)
    assert prefetches(s, A, B)[0] == "if i < 14:"


def scheduled(target: str) -> tuple[te.Schedule, te.Tensor, te.Tensor]:
    s, A, B = rows()
    outer, inner = s[B].split(B.op.axis[0], factor=4)
    if target == "llvm":
        s[B].prefetch(A, outer, 1)
        s[B].vectorize(s[B].split(B.op.axis[1], factor=8)[1])
        s[B].parallel(outer)
    else:
        s[B].bind(outer, te.thread_axis("blockIdx.x"))
        s[B].prefetch(A, inner, 1)
        s[B].bind(B.op.axis[1], te.thread_axis("threadIdx.x"))
    return s, A, B


@every_target
def test_values_stay(target: str) -> None:
    s, A, B = scheduled(target)
    f, dev = build(s, [A, B], target), tw.device(target)
    values = floats(12, 40)
    out = tw.nd.array(np.full((10, 40), 77, "float32"), dev)
    f(tw.nd.array(values, dev), out)
    np.testing.assert_allclose(out.numpy(), values[:10] + values[2:], rtol=1e-6)
    source = f.get_source("ll") if target == "llvm" else f.imported_modules[0].get_source()
    assert ("llvm.prefetch" in source) == (target == "llvm")
    assert ("prefetch" in source) == (target == "llvm")


def test_loops_that_change_afterwards() -> None:
    """A prefetch moves with its loop: to the inner of two, to a fused one, to the cache of cache_write."""
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[0], 1)
    s[B].split(B.op.axis[0], factor=5)
    assert prefetches(s, A, B)[0] == "if i_inner < 4:"
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[1], 2)
    s[B].fuse(*B.op.axis)
    assert prefetches(s, A, B)[0] == "if i_j_fused < 398:"
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[0], 1)
    s.cache_write(B, "global")
    assert prefetches(s, A, B)[0] == "if i_c < 9:"


def test_a_loop_of_fewer_iterations() -> None:
    s, A, B = rows()
    s[B].prefetch(A, s[B].split(B.op.axis[0], nparts=1)[0], 1)  # a loop that runs once is none
    s[B].prefetch(A, B.op.axis[1], 40)
    assert prefetches(s, A, B) == []


def test_a_tensor_whose_operation_was_replaced() -> None:
    A = te.placeholder((64, 4), name="A")
    k = te.reduce_axis((0, 4), name="k")
    B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((64,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    s.rfactor(B, k)
    for tensor in (B, s[B].op.output(0)):
        s[C].prefetch(tensor, C.op.axis[0], 8)
    assert len(prefetches(s, A, C)) == 4


def test_mistakes() -> None:
    s, A, B = rows()
    i, j = B.op.axis
    for wrong in (B, 3):
        with refused("prefetch", "stage 'B' reads", "neither itself nor through other stages", fix="(A)"):
            s[B].prefetch(wrong, i, 1)
    with refused("prefetch", "not an axis of stage 'B'"):
        s[B].prefetch(A, te.reduce_axis((0, 3)), 1)
    offsets: list[Any] = [0, -1, 1.5, True, None]
    for offset in offsets:
        with refused("prefetch", f"offset={offset!r} is not a number of iterations", fix=">= 1"):
            s[B].prefetch(A, i, offset)
    s[B].bind(j, te.thread_axis("threadIdx.x"))
    with refused("prefetch", "'j' of stage 'B' is bound to a thread", fix="one iteration after the other"):
        s[B].prefetch(A, j, 1)
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[0], 1)
    copy = s.cache_read(A, "local", [B])
    with refused("prefetch", "nothing inside of that loop reads 'A'", fix="inside of that loop"):
        tw.lower(s, [A, B])
    s[copy].compute_at(s[B], B.op.axis[0])
    assert prefetches(s, A, B)[0] == "if i < 9:"


def test_fusing_removes_a_loop_and_its_prefetch() -> None:
    s, A, B = rows()
    s[B].prefetch(A, B.op.axis[0], 1)
    with pytest.warns(UserWarning, match="fuse drops the prefetch of 'A' at 'i'"):
        s[B].fuse(*B.op.axis)
    assert prefetches(s, A, B) == []


def test_what_is_read_through_a_stage_computed_in_the_loop() -> None:
    """Each iteration of i reads two rows of A through B: those of the iteration after the next are fetched."""
    A = te.placeholder((20, 40), name="A")
    B = te.compute((20, 40), lambda i, j: A[i, j] * 2, name="B")
    C = te.compute((10, 40), lambda i, j: B[2 * i, j] + B[2 * i + 1, j], name="C")
    s = te.create_schedule(C.op)
    s[C].prefetch(A, C.op.axis[0], 2)
    with refused("prefetch", "stage 'C' prefetches 'A' at 'i', but nothing inside of that loop reads 'A'"):
        tw.lower(s, [A, C])
    s[B].compute_at(s[C], C.op.axis[0])
    assert prefetches(s, A, C) == [
        "if i < 8:",
        "for prefetch_A_0, prefetch_A_1 in T.grid(2, 3):",
        "T.prefetch(T.tvm_access_ptr(A_1.data, i * 80 + prefetch_A_0 * 40 + prefetch_A_1 * 16 + 160, 1, 1))",
    ]
    values, out = floats(20, 40), np.full((10, 40), 77, "float32")
    run(tw.lower(s, [A, C])["main"], values, out)
    np.testing.assert_allclose(out, 2 * (values[::2] + values[1::2]), rtol=1e-6)


def test_rows_of_a_table_are_fetched_as_a_whole() -> None:
    """Which row B reads, only B's own loop knows: an index that is read from memory is not read ahead of time."""
    table, index = te.placeholder((6, 8), name="T"), te.placeholder((10,), "int32", name="I")
    B = te.compute((10, 8), lambda i, j: table[index[i], j], name="B")
    C = te.compute((10, 8), lambda i, j: B[i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].prefetch(table, C.op.axis[0], 1)
    assert prefetches(s, table, index, C)[1] == "for prefetch_T_0 in range(6):"


def test_a_scan_prefetches_what_its_steps_read() -> None:
    X = te.placeholder((9, 16), name="X")
    S = te.placeholder((9, 16), name="S")
    first = te.compute((1, 16), lambda t, i: X[t, i], name="first")
    step = te.compute((9, 16), lambda t, i: S[t - 1, i] + X[t, i], name="step")
    T = te.scan(first, step, S, inputs=[X], name="T")
    s = te.create_schedule(T.op)
    s[T].prefetch(X, T.op.scan_axis, 2)
    assert "prefetch(" in str(tw.lower(s, [X, T]))
    values, out = floats(9, 16), np.full((9, 16), 77, "float32")
    run(tw.lower(s, [X, T])["main"], values, out)
    np.testing.assert_allclose(out, np.cumsum(values, 0), rtol=1e-5)


def test_an_input_that_is_computed() -> None:
    """What is computed at a loop lies where its region begins."""
    s, A, B = rows()
    T = s.cache_read(A, "global", [B])
    s[T].compute_at(s[B], B.op.axis[0])
    s[T].prefetch(A, T.op.axis[0], 1)
    values, out = floats(12, 40), np.full((10, 40), 77, "float32")
    run(tw.lower(s, [A, B])["main"], values, out)
    np.testing.assert_allclose(out, values[:10] + values[2:], rtol=1e-6)


@pytest.mark.parametrize("n", [3, 17])
def test_sizes_known_at_the_call(n: int) -> None:
    size = te.size_var("n")
    A = te.placeholder((size,), name="A")
    B = te.compute((size,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].prefetch(A, B.op.axis[0], 8)
    out = tw.nd.empty((n,))
    values = floats(n)
    tw.build(s, [A, B], "llvm")(tw.nd.array(values), out)
    np.testing.assert_allclose(out.numpy(), values * 2)


def test_what_is_prefetched_is_there() -> None:
    A = te.placeholder((8, 6), name="A")
    B = te.compute((8, 6), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 6), lambda i, j: B[i, j] * 2.0, name="C")
    for axis in C.op.axis:
        s = te.create_schedule(C.op)
        s[B].compute_at(s[C], axis)
        s[C].prefetch(B, C.op.axis[0], 1)
        with refused("prefetch", "stage 'C' prefetches 'B' at 'i', but 'B' is computed inside", fix="outside of 'i'"):
            tw.lower(s, [A, C])


def test_prefetches_as_statements() -> None:
    """`tir.Prefetch` of a region, and `tir.prefetch` of an address with the hints of the legacy API."""
    ib = tir.ir_builder.create()
    buffer = tir.decl_buffer((64, 40), "float32", name="A")
    A = ib.buffer_ptr(buffer)
    with ib.for_range(0, 60, name="i") as i:
        rows = tw.ir.Range.from_min_extent(i + 1, 2)
        ib.emit(tir.Prefetch(buffer, [rows, tw.ir.Range(0, 20)]))
        ib.emit(tir.Call("int32", "tir.prefetch", [tir.address_of(A[i, 0]), 0, 3, 1]))
    program = tw.IRModule.from_expr(tir.PrimFunc([buffer], ib.get()).with_attr("global_symbol", "f"))
    assert "for prefetch_A_0, prefetch_A_1 in T.grid(2, 2):" in str(program)
    f = tw.build(program, None, "llvm")
    assert f.get_source("ll").count("call void @llvm.prefetch") == 2
    f(tw.nd.array(floats(64, 40)))
    with refused("Prefetch", "which has 2 dimensions", fix="one range per dimension"):
        tir.Prefetch(buffer, [rows])
    with refused("call_intrin", "tir.prefetch of 3", fix="address_of"):
        tir.call_intrin("int32", "tir.prefetch", 3)
