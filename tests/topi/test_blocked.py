"""Products and convolutions in blocks on processors, at awkward sizes and with what follows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.topi.cases import Case, check
from tilewright import te, topi
from tilewright.topi import nn, testing

RANDOM = np.random.default_rng(12)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    return RANDOM.integers(-3, 4, shape).astype(dtype)


def products() -> list[Case]:
    cases = []
    for m, n, k in ((1, 33, 16), (7, 8, 17), (6, 40, 64), (13, 100, 31), (50, 17, 20), (64, 256, 16)):
        a, b = numbers(m, k), numbers(n, k)
        cases.append(Case(f"dense {m} {n} {k}", nn.dense, [a, b], a @ b.T, "schedule_dense"))
        cases.append(Case(f"matmul {m} {n} {k}", topi.matmul, [a, b.T.copy()], a @ b.T, "schedule_matmul"))
    a, b, bias = numbers(3, 11, 24), numbers(3, 19, 24), numbers(19)
    small, wide = numbers(9, 32, dtype="int8"), numbers(21, 32, dtype="int8")
    cases += [
        Case("batch", nn.batch_matmul, [a, b], a @ b.swapaxes(1, 2), "schedule_batch_matmul"),
        Case("relu", lambda x, w, c: nn.relu(nn.dense(x, w, c)), [a[0], b[0], bias],
             np.maximum(a[0] @ b[0].T + bias, 0), "schedule_dense"),
        Case("int8", lambda x, w: nn.dense(x, w, None, "int32"), [small, wide],
             small.astype("int32") @ wide.T.astype("int32"), "schedule_dense"),
        Case("both turned", lambda x, w: nn.matmul(x, w, None, None, True, True), [a[0].T.copy(), b[0]], a[0] @ b[0].T,
             "schedule_matmul"),
    ]  # fmt: skip
    return cases


def convolutions() -> list[Case]:
    cases = []
    for shape, filters, stride, pad in (
        ((2, 5, 9, 13), (6, 5, 3, 3), 1, 1), ((1, 8, 8, 40), (10, 8, 1, 1), 1, 0), ((1, 4, 12, 19), (7, 4, 3, 3), 2, 1),
        ((1, 3, 6, 34), (4, 3, 5, 5), 1, 2),
    ):  # fmt: skip
        x, w = numbers(*shape), numbers(*filters)
        expected = testing.conv2d_nchw_python(x, w, stride, pad)
        conv: Any = lambda x, w, s=stride, p=pad: nn.conv2d_nchw(x, w, s, p, 1)
        cases.append(Case(f"nchw {shape}", conv, [x, w], expected, "schedule_conv2d_nchw"))
        last: Any = lambda x, w, s=stride, p=pad: nn.relu(nn.conv2d_nhwc(x, w, s, p, 1))
        turned = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)), np.ascontiguousarray(w.transpose(2, 3, 1, 0))]
        positive = np.maximum(expected, 0).transpose(0, 2, 3, 1)
        cases.append(Case(f"nhwc {shape}", last, turned, positive, "schedule_conv2d_nhwc"))
    return cases


@pytest.mark.parametrize("cases", [products, convolutions])
def test_blocks_compute_the_same(cases: Callable[[], list[Case]]) -> None:
    check(cases(), "llvm")


def lowered(out: te.Tensor, name: str, *inputs: te.Tensor) -> str:
    with tw.target.Target("llvm"):
        return str(tw.lower(getattr(topi.x86, name)([out]), [*inputs, out]))


def test_weights_are_packed_for_a_block_of_columns() -> None:
    A, B = te.placeholder((60, 64), name="A"), te.placeholder((96, 64), name="B")
    text = lowered(nn.dense(A, B), "schedule_dense", A, B)
    assert text.count("T.parallel(") == 1
    assert 'T.allocate([2048], "float32", "global")' in text  # 64 terms of 32 columns
    assert text.index("T.parallel(") < text.index("T.allocate([2048]")
    assert text.count("T.Broadcast(A_1[") == 6  # rows of sums that share a vector of weights


def test_neighbours_in_memory_are_loaded_as_they_lie() -> None:
    A, B = te.placeholder((60, 64), name="A"), te.placeholder((64, 96), name="B")
    text = lowered(topi.matmul(A, B), "schedule_matmul", A, B)
    assert "global" not in text.partition("T.func_attr")[2].replace("is_global", "")
    X, W = te.placeholder((1, 16, 32, 32), name="X"), te.placeholder((8, 16, 3, 3), name="W")
    text = lowered(nn.conv2d_nchw(X, W, 1, 1, 1), "schedule_conv2d_nchw", X, W)
    assert text.count("T.parallel(") == 2  # the padding, and the blocks
    assert text.count("T.Broadcast(W_1[") == 8
