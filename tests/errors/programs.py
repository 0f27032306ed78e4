"""Small built functions that the tests of wrong calls call."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import tilewright
from tilewright import te
from tilewright.runtime.array import NDArray, array
from tilewright.runtime.module import Module


@cache
def scaled() -> Module:
    """f(a: float32, k: int8, keep: bool, A: float32[4, 3], B: float32[4, 3])"""
    a, k, keep = te.var("a", "float32"), te.var("k", "int8"), te.var("keep", "bool")
    A = te.placeholder((4, 3), name="A")
    B = te.compute((4, 3), lambda i, j: te.if_then_else(keep, A[i, j] * a + k.astype("float32"), A[i, j]), name="B")
    return tilewright.build(te.create_schedule(B.op), [a, k, keep, A, B], "llvm", name="f")


@cache
def sized(declare: Callable[..., Any] = te.size_var, **facts: Any) -> Module:
    """g(A: float32[n], B: float32[n])"""
    n = te.size_var("n", **facts)
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    return tilewright.build(te.create_schedule(B.op), [A, B], "llvm", name="g")


def floats(*shape: int) -> NDArray:
    """An array of float32 on the CPU."""
    return array(np.zeros(shape, "float32"))
