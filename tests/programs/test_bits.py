"""Functions of the bits of numbers, on every target and in the interpreter: as NumPy has them, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tests.programs.harness import FLOATS, every_target, pointwise, results
from tilewright import te, tir
from tilewright.core.dtype import DType
from tilewright.expr.evaluate import evaluate
from tilewright.loops.interpret import interpret

SPECIAL = (0.0, -0.0, 1.0, -1.0, 1.5, -2.0, 3.140625, 100.0, -65280.0, np.inf, -np.inf, np.nan)
WORD = {16: "int16", 32: "int32", 64: "int64"}


def numbers(dtype: str) -> np.ndarray:
    """Awkward numbers of a type, its least, least normal and largest among them."""
    kind = DType(dtype)
    words = np.array([1, 0x7F, 0x80, 0x3FF, 0x400, 0x7BFF, 0x7F7F], "uint64") << np.uint64(kind.bits - 16)
    edges = np.append(words, [1, 2]).astype(f"uint{kind.bits}").view(kind.numpy)
    with np.errstate(all="ignore"):
        return np.concatenate([np.array(SPECIAL).astype(kind.numpy), edges, -edges])


def same_bits(got: np.ndarray, want: np.ndarray) -> None:
    """Equal bits, but for those of NaN."""
    word = WORD[got.dtype.itemsize * 8]
    number = ~np.isnan(want.astype("float64"))
    np.testing.assert_array_equal(np.isnan(got.astype("float64")), ~number)
    np.testing.assert_array_equal(got.view(word)[number], want.view(word)[number])


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_reinterpret_keeps_bits_both_ways(target: str, dtype: str) -> None:
    x, word = numbers(dtype), WORD[DType(dtype).bits]
    unsigned = f"u{word}"
    module = pointwise(
        lambda v: [
            tir.reinterpret(word, v),
            tir.reinterpret(unsigned, v),
            tir.reinterpret(dtype, tir.reinterpret(word, v)),
        ],
        [dtype],
        target,
    )
    signed, plain, back = results(module, (x,), [word, unsigned, dtype])
    usual = ~np.isnan(x.astype("float64"))
    np.testing.assert_array_equal(signed[usual], x.view(word)[usual])
    np.testing.assert_array_equal(plain[usual], x.view(unsigned)[usual])
    same_bits(back, x)


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter(target: str, dtype: str) -> None:
    x, y = (grid.ravel() for grid in np.meshgrid(numbers(dtype), numbers(dtype)))
    module = pointwise(lambda a, b: [tir.nextafter(a, b)], [dtype] * 2, target)
    (got,) = results(module, (x, y), [dtype])
    with np.errstate(all="ignore"):
        want = np.nextafter(x, y)
    same_bits(np.where(x == y, y, got), np.where(x == y, y, want))  # which zero comes back where both are 0 is open


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp(target: str, dtype: str) -> None:
    kind = DType(dtype)
    x, power = (grid.ravel() for grid in np.meshgrid(np.array([1, -1.5, 0, 3, np.inf, np.nan]), np.arange(-20, 15)))
    x, power = x.astype(kind.numpy), power.astype("int32")
    module = pointwise(lambda a, n: [tir.ldexp(a, n)], [dtype, "int32"], target)
    (got,) = results(module, (x, power), [dtype])
    want = (x.astype("float64") * 2.0**power).astype(kind.numpy)
    np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@every_target
def test_functions_made_of_others(target: str) -> None:
    x = np.array([0, 1, -3, 200, np.inf, -np.inf, -np.inf, np.inf], "float32")
    y = np.array([0, 2, 50, 200, np.inf, -np.inf, 4, 1], "float32")
    module = pointwise(lambda a, b: [tir.logaddexp(a, b)], ["float32"] * 2, target)
    np.testing.assert_allclose(results(module, (x, y), ["float32"])[0], np.logaddexp(x, y), rtol=1e-6)
    a, b = np.array([7, 8, 9, -7, 0], "int32"), np.array([4, 4, 4, 4, 3], "int32")
    module = pointwise(lambda p, q: [tir.ceildiv(p, q)], ["int32"] * 2, target)
    np.testing.assert_array_equal(results(module, (a, b), ["int32"])[0], -(-a // b))


def test_the_interpreter_and_the_evaluator_agree_with_numpy() -> None:
    A = te.placeholder((3,), name="A")
    B = te.compute((3,), lambda i: tir.reinterpret("int32", tir.nextafter(tir.ldexp(A[i], 3), 100.0)), name="B")
    x, out = np.array([1, -2.5, 12.5], "float32"), np.zeros(3, "int32")
    (function,) = tilewright.lower(te.create_schedule(B.op), [A, B]).functions
    interpret(function, [x, out])
    want = np.nextafter(x * 8, np.float32(100)).view("int32")
    np.testing.assert_array_equal(out, want)
    v = te.var("v", "float32")
    assert [evaluate(tir.reinterpret("int32", tir.nextafter(tir.ldexp(v, 3), 100.0)), {v: e}) for e in x] == [*want]


def test_reinterpret_prints_its_type() -> None:
    v = te.var("v", "float32")
    assert str(tir.reinterpret("uint32", v)) == 'T.reinterpret("uint32", v)'
    assert tir.call_intrin("int32", "tir.reinterpret", v) is tir.reinterpret("int32", v)
    assert tir.reinterpret("float32", v) is v
    assert float(tir.infinity("float16").value) == float("inf")
