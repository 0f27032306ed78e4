"""Packed functions that sort, and those of libraries that a program calls without an import."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.paths import python_path
from tilewright import te, tir

VALUES = np.array([[[3, 1, 2, 1], [0, 5, 5, 4]], [[9, 8, 7, 9], [1, 1, 1, 0]]], "float32")


def called(name: str, out: Any, *more: Any, dtype: str = "int32", counts: np.ndarray | None = None) -> np.ndarray:
    A = te.placeholder(VALUES.shape, name="A")
    inputs = [A] if counts is None else [A, te.placeholder(counts.shape, "int32", name="counts")]
    B = te.extern(VALUES.shape, inputs, lambda ins, outs: tir.call_packed(name, *ins, *outs, *more), dtype=dtype)
    made = tw.nd.empty(VALUES.shape, dtype)
    arrays = [tw.nd.array(VALUES), *([] if counts is None else [tw.nd.array(counts)])]
    tw.build(te.create_schedule(B.op), [*inputs, B], "llvm")(*arrays, made)
    return made.numpy()


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_orders(axis: int) -> None:
    up = called("tvm.contrib.sort.argsort", None, axis, True)
    assert np.array_equal(up, np.argsort(VALUES, axis, kind="stable"))
    down = called("tvm.contrib.sort.argsort", None, axis, False)
    assert np.array_equal(down, np.argsort(-VALUES, axis, kind="stable"))
    ordered = called("tvm.contrib.sort.sort", None, axis, False, dtype="float32")
    assert np.array_equal(ordered, -np.sort(-VALUES, axis))


def test_bfloat16_is_sorted() -> None:
    out = tw.nd.empty(VALUES.shape, "bfloat16")
    tw.get_global_func("tvm.contrib.sort.sort")(tw.nd.array(VALUES), out, -1, True)
    assert np.array_equal(out.numpy().astype("float32"), np.sort(VALUES, -1))


def test_the_first_elements_of_each_row() -> None:
    counts = np.array([[3, 0], [4, 2]], "int32")
    found = called("tvm.contrib.sort.argsort_nms", None, 2, False, counts=counts)
    assert found.tolist() == [[[0, 2, 1, 3], [0, 1, 2, 3]], [[0, 3, 1, 2], [0, 1, 2, 3]]]
    middle = np.array([[2, 1, 0, 2], [0, 1, 2, 2]], "int32")
    assert called("tvm.contrib.sort.argsort_nms", None, 1, True, counts=middle).tolist() == [
        [[1, 0, 0, 0], [0, 1, 1, 1]],
        [[0, 0, 1, 1], [1, 1, 0, 0]],
    ]


@pytest.mark.parametrize("name", ["tvm.contrib.cblas.matmul", "tvm.contrib.sort.argsort"])
def test_functions_are_there_without_an_import(name: str) -> None:
    program = (
        "import sys, tilewright as tw\n"
        f"print(any(m.startswith('tilewright.compat') for m in sys.modules), tw.get_global_func({name!r}).name)"
    )
    environment = {**os.environ, "PYTHONPATH": python_path()}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.stdout.split() == ["False", name], done.stderr
