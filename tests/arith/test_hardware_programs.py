"""Programs of integers at the ends of their types, one for each kind of fault that random programs have shown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import te, tir

TARGETS = ["llvm", pytest.param("opencl", marks=pytest.mark.opencl)]


def run(target: str, output: Any, *given: tuple[Any, Any], hint: str = "") -> Any:
    """The elements of a tensor of one dimension, computed from pairs of a parameter and its argument."""
    schedule = te.create_schedule(output.op)
    (axis,) = output.op.axis
    if target == "opencl":
        axis, inner = schedule[output].split(axis, factor=4)
        schedule[output].bind(axis, te.thread_axis("blockIdx.x"))
        axis = inner
    if hint:
        getattr(schedule[output], hint)(axis)
    device = tw.device(target)
    result = tw.nd.empty(output.shape, output.dtype, device)
    arguments = [tw.nd.array(held, device) if isinstance(held, np.ndarray) else int(held) for _, held in given]
    tw.build(schedule, [*(parameter for parameter, _ in given), output], target)(*arguments, result)
    return result.numpy()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_an_index_that_wraps_reads_all_that_it_reaches(kind: str, target: str) -> None:
    step, start = (12, 128) if kind != "int16" else (400, 32768)
    A = te.placeholder((65536,), "int32", name="A")
    B = te.compute((65536,), lambda i: A[i] * 2, name="B")
    C = te.compute((100,), lambda i: B[(i.astype(kind) * te.const(step, kind)).astype("int32") + start], name="C")
    schedule = te.create_schedule(C.op)
    if target == "opencl":
        for tensor in (B, C):
            schedule[tensor].bind(tensor.op.axis[0], te.thread_axis("blockIdx.x"))
    device = tw.device(target)
    a = np.arange(65536, dtype="int32")
    got = tw.nd.empty((100,), "int32", device)
    tw.build(schedule, [A, C], target)(tw.nd.array(a, device), got)
    places = (np.arange(100).astype(kind) * np.array(step, kind)).astype("int32") + start
    np.testing.assert_array_equal(got.numpy(), a[places] * 2)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_scalars_at_the_ends_of_their_type_are_compared_as_they_are(kind: str, target: str) -> None:
    k = te.var("k", kind)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    i = np.arange(100)
    below = te.compute((100,), lambda i: tir.Select(i.astype(kind) + te.const(62, kind) <= k, 1, 0))
    beyond = te.compute((100,), lambda i: tir.Select(i.astype(kind) * te.const(4, kind) - k > 3, 1, 0))
    for value in (low, low + 61, 100, high - 3, high):
        np.testing.assert_array_equal(run(target, below, (k, value)), i + 62 <= value)
        if value > low + 400:
            np.testing.assert_array_equal(run(target, beyond, (k, value)), i * 4 - value > 3)


@pytest.mark.parametrize("target", TARGETS)
def test_the_upper_half_of_uint64(target: str) -> None:
    wide = te.compute((100,), lambda i: tir.Select(i.astype("uint64") + te.const(2**64 - 4, "uint64") < 10, 1, 0))
    np.testing.assert_array_equal(run(target, wide), np.arange(100, dtype="uint64") + np.uint64(2**64 - 4) < 10)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", ["int8", "int32", "int64"])
def test_the_least_integer_is_divided_by_negative_constants(kind: str, target: str) -> None:
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    a = np.array([low, low + 1, -7, -1, 0, 1, 7, high], kind)
    A = te.placeholder((8,), kind, name="A")
    for by in (-2, -3, low + 1):
        divisor = te.const(by, kind)
        floored = te.compute((8,), lambda i, d=divisor: tir.floordiv(A[i], d))
        np.testing.assert_array_equal(run(target, floored, (A, a)), a // np.array(by, kind))
        rest = te.compute((8,), lambda i, d=divisor: tir.floormod(A[i], d))
        np.testing.assert_array_equal(run(target, rest, (A, a)), a % np.array(by, kind))
        turned = te.compute((8,), lambda i, d=divisor: tir.truncmod(A[i], d))
        np.testing.assert_array_equal(run(target, turned, (A, a)), np.fmod(a, np.array(by, kind)))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("hint", ["", "unroll", "vectorize"])
def test_sums_that_only_other_iterations_overflow(hint: str, target: str) -> None:
    large = te.const(2**31 - 2, "int32")
    guarded = te.compute((8,), lambda i: tir.if_then_else(i < 2, large + i, i))
    np.testing.assert_array_equal(run(target, guarded, hint=hint), [2**31 - 2, 2**31 - 1, 2, 3, 4, 5, 6, 7])
    scaled = te.compute((8,), lambda i: tir.if_then_else(i < 2, tir.min(i * (2**31 - 1), 7), i))
    np.testing.assert_array_equal(run(target, scaled, hint=hint), [0, 7, 2, 3, 4, 5, 6, 7])


@pytest.mark.parametrize("target", TARGETS)
def test_an_index_that_was_unsigned_is_negative(target: str) -> None:
    A = te.placeholder((16,), "int32", name="A")

    def read(i: Any) -> Any:
        below = (i.astype("uint32") - te.const(8, "uint32")).astype("int32")  # -8, -7, ...
        return A[tir.floormod(te.const(20, "int32") - below, 7)]

    a = np.arange(16, dtype="int32") * 3
    got = run(target, te.compute((8,), read), (A, a))
    np.testing.assert_array_equal(got, a[(20 - (np.arange(8) - 8)) % 7])
