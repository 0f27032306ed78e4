"""Stores past the caches: the pragma, at which addresses they happen, and that all threads see them."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tvm
from tilewright import te

FENCE = "llvm.x86.sse.sfence"
ROWS, COLUMNS = 6, 64


def doubled(dtype: str = "float32", lanes: int = 16, value: int = 1, parallel: bool = True, rows: int = ROWS):
    """A schedule of twice a matrix, in vectors that bypass the caches; and its arguments."""
    A = te.placeholder((rows, COLUMNS), dtype, "A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    jo, ji = s[B].split(j, factor=lanes)
    s[B].vectorize(ji)
    s[B].pragma(jo, "nontemporal_stores", value)
    if parallel:
        s[B].parallel(i)
    return s, [A, B]


def source(*args, **kwargs) -> str:
    s, tensors = doubled(*args, **kwargs)
    return tvm.build(s, tensors, "llvm").get_source()


@pytest.mark.parametrize("parallel", [False, True])
def test_a_fence_follows_the_stores_of_a_function(parallel: bool) -> None:
    text = source(parallel=parallel)
    functions = [part for part in text.split("define ") if "!nontemporal" in part.split("\n}")[0]]
    assert len(functions) == 1
    body = functions[0].split("\n}")[0]
    assert body.count("sfence()") == 1 or "fence release" in body
    assert body.rstrip().splitlines()[-2].strip().startswith(("call void @llvm.x86.sse.sfence", "fence release"))


def test_without_the_pragma_there_are_none() -> None:
    assert "!nontemporal" not in source(value=0)
    assert FENCE not in source(value=0)


@pytest.mark.parametrize("lanes", [3, 6, 24])
def test_vectors_that_are_no_power_of_two_are_stored_as_ever(lanes: int) -> None:
    assert "!nontemporal" not in source(lanes=lanes)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "float64"])
@pytest.mark.parametrize("start", [0, 1, 4, 8, 16])
def test_results_may_begin_at_any_address(dtype: str, start: int) -> None:
    s, tensors = doubled(dtype)
    module = tvm.build(s, tensors, "llvm")
    like = tvm.nd.empty((1,), dtype).numpy().dtype
    a = np.random.default_rng(start).integers(-9, 9, (ROWS, COLUMNS)).astype(like)
    memory = np.zeros(ROWS * COLUMNS + 64, like)
    lines = -memory.ctypes.data % 64 // like.itemsize
    view = memory[lines + start :][: ROWS * COLUMNS].reshape(ROWS, COLUMNS)
    module(tvm.nd.array(a), tvm.nd.from_dlpack(view) if like.kind != "V" else tvm.nd.array(view))
    if like.kind != "V":
        np.testing.assert_array_equal(view, a * 2)
        outside = np.concatenate([memory[: lines + start], memory[lines + start + view.size :]])
        assert not outside.any()


def test_a_reader_on_another_thread_sees_them() -> None:
    """A second parallel loop reads, in another order, what the first one stored."""
    rows = 256
    A = te.placeholder((rows, COLUMNS), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2, name="B")
    C = te.compute(A.shape, lambda i, j: B[rows - 1 - i, j] + 1, name="C")
    s = te.create_schedule(C.op)
    for stage in (B, C):
        jo, ji = s[stage].split(stage.op.axis[1], factor=16)
        s[stage].vectorize(ji)
        s[stage].pragma(jo, "nontemporal_stores", 1)
        s[stage].parallel(stage.op.axis[0])
    module = tvm.build(s, [A, B, C], "llvm")
    rng = np.random.default_rng(0)
    for _ in range(50):
        a = rng.random((rows, COLUMNS), np.float32)
        b, c = (tvm.nd.empty((rows, COLUMNS)) for _ in range(2))
        module(tvm.nd.array(a), b, c)
        np.testing.assert_array_equal(c.numpy(), a[::-1] * 2 + 1)


def test_loops_of_tasks_store_as_ever() -> None:
    """Their barriers order ordinary stores only."""
    s, tensors = doubled(parallel=False)
    B = tensors[1]
    s[B].pragma(B.op.axis[0], "parallel_launch_point")
    s[B].parallel(B.op.axis[0])
    assert "!nontemporal" not in tvm.build(s, tensors, "llvm").get_source()


def test_gpus_ignore_it() -> None:
    texts = []
    for value in (0, 1):
        s, tensors = doubled(parallel=False, value=value)
        s[tensors[1]].bind(tensors[1].op.axis[0], te.thread_axis("blockIdx.x"))
        texts.append(tvm.build(s, tensors, "cuda").get_source())
    assert texts[0] == texts[1]
