"""Tensors whose elements are vectors: computed with on every target, as arrays with one more dimension in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.programs.harness import FLOATS, INTEGERS, build, every_target
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.runtime.array import array, empty
from tilewright.runtime.device import device

LANES = {"float16": 2, "bfloat16": 2, "float64": 2, "int8": 16, "uint8": 4, "int64": 2, "uint64": 2}


def products(dtype: str, target: str) -> Any:
    """C[i] = sum of A[i, k] * B[i, k], lane by lane, each gathered in local memory."""
    n, k = te.size_var("n"), te.reduce_axis((0, 3), "k")
    A, B = te.placeholder((n, 3), dtype, "A"), te.placeholder((n, 3), dtype, "B")
    C = te.compute((n,), lambda i: te.sum(A[i, k] * B[i, k], axis=k), name="C")
    s = te.create_schedule(C.op)
    local = s.cache_write(C, "local")
    outer, inner = s[C].split(C.op.axis[0], factor=8)
    s[local].compute_at(s[C], inner)
    if target != "llvm":
        s[C].bind(outer, te.thread_axis("blockIdx.x"))
        s[C].bind(inner, te.thread_axis("threadIdx.x"))
    return build(s, [A, B, C], target)


@every_target
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_sums_of_products_lane_by_lane(dtype: str, target: str) -> None:
    lanes, on = LANES.get(dtype, 4), device(target)
    vector = f"{dtype}x{lanes}"
    rng = np.random.default_rng(3)
    x, y = (rng.integers(0, 3, (11, 3, lanes)).astype(DType(dtype).numpy) for _ in range(2))
    out = empty((11,), vector, on)
    products(vector, target)(array(x, on, dtype=vector), array(y, on, dtype=vector), out)
    wanted = (x.astype("int64") * y.astype("int64")).sum(1)
    np.testing.assert_array_equal(out.numpy().astype("int64"), wanted)


def test_arrays_of_vectors() -> None:
    a = array(np.arange(12).reshape(3, 4), dtype="int32x4")
    assert (a.shape, a.dtype, a.nbytes, a.itemsize) == ((3,), "int32x4", 48, 16)
    np.testing.assert_array_equal(a.numpy(), np.arange(12).reshape(3, 4))
    np.testing.assert_array_equal(a.as_strided((2,), (2,)).numpy(), np.arange(12).reshape(3, 4)[::2])


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
@pytest.mark.parametrize(("extent", "lanes"), [(5, 4), (9, 8), (13, 4), (7, 3), (17, 16), (3, 2)])
def test_the_last_lane_of_a_narrow_type_is_stored_alone(dtype: str, extent: int, lanes: int) -> None:
    """LLVM stores one lane of truncated integers as wide as they were before, if it is let."""
    A = te.placeholder((extent,), "int32", "A")
    B = te.compute((extent,), lambda i: ((A[i] * 3 + 1) >> 1).astype(dtype), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=lanes)[1])
    values = np.arange(1, extent + 1, dtype="int32")
    memory = np.full(extent + 16, 77, dtype)
    tw.build(s, [A, B], "llvm")(array(values), tw.nd.from_dlpack(memory[:extent]))
    np.testing.assert_array_equal(memory, [*((values * 3 + 1) >> 1), *[77] * 16])


def test_the_largest_of_bfloat16_in_parts() -> None:
    A, k = te.placeholder((13,), "bfloat16", "A"), te.reduce_axis((0, 13), "k")
    B = te.compute((1,), lambda i: te.max(A[k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s.rfactor(B, s[B].split(k, factor=4)[1])
    f = tw.build(s, [A, B], "llvm")
    for place in range(13):
        values, out = np.full(13, -1).astype(A.dtype.numpy), array(np.zeros(1).astype(A.dtype.numpy))
        values[place] = 2
        f(array(values), out)
        assert out.numpy()[0] == 2
