"""Dot products of four bytes, by `dp4a` of GPUs and VNNI of CPUs: the same numbers on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.passes.running import finish
from tilewright import intrin, te
from tilewright.codegen.llvm.compile import assembly, host_processor, is_left
from tilewright.core.target import Target
from tilewright.driver import lower_for
from tilewright.loops.interpret import interpret

CUDA, HOST = "cuda -arch=sm_90", "llvm"
SIZES = [(16, 16, 32), (13, 18, 37)]
"""Sizes that tiles divide, and sizes that they do not."""


def integers(shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Random values over the whole range of a type, its ends among them."""
    ends = np.iinfo(kind)
    made = np.random.default_rng(7).integers(ends.min, ends.max + 1, shape).astype(kind)
    made.flat[:2] = ends.min, ends.max
    return made


def by_threads(m: int, n: int, k: int, kind: str, b_turned: bool = True) -> tuple[te.Schedule, list[Any]]:
    """A product in tiles of 4 x 4 sums for each thread, eight terms at a time."""
    A = te.placeholder((m, k), kind, "A")
    B = te.placeholder((n, k) if b_turned else (k, n), kind, "B")
    x = te.reduce_axis((0, k), "x")

    def term(i: Any, j: Any) -> Any:
        return A[i, x].astype("int32") * (B[j, x] if b_turned else B[x, j]).astype("int32")

    D = te.compute((m, n), lambda i, j: te.sum(term(i, j), axis=x), "D")
    s = te.create_schedule(D.op)
    sums = s.cache_write(D, "local")
    block, thread, _, _ = s[D].tile(*D.op.axis, 4, 4)
    s[D].bind(block, te.thread_axis("blockIdx.x"))
    s[D].bind(thread, te.thread_axis("threadIdx.x"))
    s[sums].compute_at(s[D], thread)
    outer, inner = s[sums].split(sums.op.reduce_axis[0], 8)
    s[sums].reorder(outer, *sums.op.axis, inner)
    s[sums].tensorize(inner, intrin.dp4a(kind))
    return s, [A, B, D]


def on_vectors(m: int, n: int, k: int, turned: bool = False, bound: bool = False) -> tuple[te.Schedule, list[Any]]:
    """A product in tiles of 4 x 32 sums, four terms at a time; B is packed. Turned, the int8 operand has the rows."""
    kinds = ("int8", "uint8") if turned else ("uint8", "int8")
    whole = -(-k // 4) * 4
    A = te.placeholder((m, whole), kinds[0], "A")
    B = te.placeholder((whole // 4, n, 4), kinds[1], "B")
    x = te.reduce_axis((0, whole), "x")
    D = te.compute(
        (m, n), lambda i, j: te.sum(A[i, x].astype("int32") * B[x // 4, j, x % 4].astype("int32"), axis=x), "D"
    )
    s = te.create_schedule(D.op)
    sums = s.cache_write(D, "local")
    columns, rows, i, j = (lambda a, b, c, d: (b, a, c, d))(*s[D].tile(*D.op.axis, 4, 32))
    s[D].reorder(columns, rows, i, j)
    if bound:
        s[D].bind(columns, te.thread_axis("blockIdx.x"))
    else:
        s[D].parallel(columns)
    s[D].vectorize(j)
    s[sums].compute_at(s[D], rows)
    outer, inner = s[sums].split(sums.op.reduce_axis[0], 4)
    s[sums].reorder(outer, *sums.op.axis, inner)
    s[sums].vectorize(sums.op.axis[1])  # the instruction takes the place of vectors
    s[sums].tensorize(sums.op.axis[0], intrin.vnni())
    return s, [A, B, D]


def packed(b: np.ndarray) -> np.ndarray:
    """Four terms of each column as neighbours."""
    k, n = b.shape
    return np.ascontiguousarray(b.reshape(k // 4, 4, n).transpose(0, 2, 1))


def check(s: te.Schedule, args: list[Any], given: list[np.ndarray], wanted: np.ndarray, target: str) -> None:
    """Run a program on a target, or, for CUDA, in the interpreter, before and after all passes."""
    if target in (CUDA, HOST):
        lowered = lower_for(Target(target), s, args).functions[0]
        for function in (lowered, finish(lowered, target, check=True)):
            found = np.full(wanted.shape, 77, "int32")
            interpret(function, [*given, found])
            np.testing.assert_array_equal(found, wanted)
    if target != CUDA:
        arrays = [tw.nd.array(x, tw.device(target)) for x in (*given, np.full(wanted.shape, 77, "int32"))]
        tw.build(s, args, target)(*arrays)
        np.testing.assert_array_equal(arrays[-1].numpy(), wanted)


GPU = pytest.param("cuda", marks=pytest.mark.cuda)
OPENCL = pytest.param("opencl", marks=pytest.mark.opencl)


@pytest.mark.parametrize("target", [CUDA, OPENCL, GPU])
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_threads_sum_four_products_at_a_time(sizes: tuple[int, int, int], kind: str, target: str) -> None:
    m, n, k = sizes
    a, b = integers((m, k), kind), integers((n, k), kind)
    wanted = a.astype("int32") @ b.astype("int32").T
    check(*by_threads(m, n, k, kind), [a, b], wanted, target)


def test_words_are_loaded_at_once_where_they_are_aligned(golden: Callable[[str, str], None]) -> None:
    module = tw.build(*by_threads(16, 16, 32, "int8"), CUDA)
    golden("tensorize/dp4a.cu", module.program.source)
    (used,) = module.resources.values()
    assert used.spill_store_bytes == used.stack_bytes == 0
    for columns_first in (tw.build(*by_threads(16, 16, 32, "int8", b_turned=False), CUDA).program.source,
                          tw.build(*by_threads(13, 18, 37, "int8"), CUDA).program.source):  # fmt: skip
        assert "word_of_4((unsigned char)B[" in columns_first


def test_terms_that_are_no_neighbours_have_the_same_sums() -> None:
    a, b = integers((13, 37), "int8"), integers((37, 18), "int8")
    s, args = by_threads(13, 18, 37, "int8", b_turned=False)
    check(s, args, [a, b], a.astype("int32") @ b.astype("int32"), CUDA)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("target", [HOST, "llvm -mcpu=x86-64-v3", OPENCL])
@pytest.mark.parametrize("sizes", [(16, 32, 32), (5, 38, 9)], ids=str)
def test_vectors_sum_four_products_at_a_time(sizes: tuple[int, int, int], target: str, turned: bool) -> None:
    m, n, k = sizes
    k = -(-k // 4) * 4
    kinds = ("int8", "uint8") if turned else ("uint8", "int8")
    a, b = integers((m, k), kinds[0]), integers((k, n), kinds[1])
    wanted = a.astype("int32") @ b.astype("int32")
    check(*on_vectors(m, n, k, turned, bound=target == "opencl"), [a, packed(b)], wanted, target)


def test_a_processor_with_vnni_runs_the_instruction() -> None:
    module = tw.build(*on_vectors(16, 64, 32), "llvm -mcpu=cascadelake")
    assert module.program.source.count("call <16 x i32>") == 8  # 4 rows of 2 vectors
    assert "vpdpbusd" in assembly(module.program.source, host_processor("cascadelake"))
    for other in ("skylake-avx512", "x86-64-v3"):
        assert "vpdpbusd" not in tw.build(*on_vectors(16, 64, 32), f"llvm -mcpu={other}").program.source


@pytest.mark.parametrize("taken", ["avx512vnni", "avx512f", "avx2", "sse4.2"])
def test_a_feature_that_is_taken_away_takes_what_needs_it(taken: str) -> None:
    """LLVM ends the process where an intrinsic is called that the processor lacks."""
    for processor in ("", " -mcpu=cascadelake"):
        module = tw.build(*on_vectors(16, 64, 32), f"llvm{processor} -mattr=-{taken}")
        assert "vpdpbusd" not in module.program.source
    assert is_left("fma", "-avx2")
    assert not is_left("fma", "+sse3,-avx")


def test_operands_with_strides_of_their_own_run_the_loops() -> None:
    s, args = on_vectors(8, 32, 8)
    A, B, D = args
    strided = tw.tir.decl_buffer(B.shape, B.dtype, name="B", strides=[te.var("far"), 8, 2])
    source = tw.build(s, [A, B, D], "llvm -mcpu=cascadelake", binds={B: strided}).program.source
    assert "vpdpbusd" not in source


def test_the_drawing_of_an_instruction_of_one_thread() -> None:
    head, *rows = intrin.vnni().draw().splitlines()
    assert head == "vpdpbusd: 1 x 16 sums of 4 terms; byte of each term and column"
    assert [row.split()[:4] for row in rows] == [["term", f"{i}:", str(i), str(i + 4)] for i in range(4)]


def test_a_sum_may_lie_in_any_memory() -> None:
    """One sum for each thread, in the result itself: there is no stage to keep it."""
    A, B = te.placeholder((6, 8), "int8", "A"), te.placeholder((5, 8), "int8", "B")
    x = te.reduce_axis((0, 8), "x")
    D = te.compute((6, 5), lambda i, j: te.sum(A[i, x].astype("int32") * B[j, x].astype("int32"), axis=x), "D")
    s = te.create_schedule(D.op)
    s[D].bind(D.op.axis[0], te.thread_axis("blockIdx.x"))
    s[D].bind(D.op.axis[1], te.thread_axis("threadIdx.x"))
    s[D].tensorize(x, intrin.dp4a("int8"))
    assert "dp4a_int8(" in tw.build(s, [A, B, D], CUDA).program.source
    a, b = integers((6, 8), "int8"), integers((5, 8), "int8")
    check(s, [A, B, D], [a, b], a.astype("int32") @ b.astype("int32").T, CUDA)
