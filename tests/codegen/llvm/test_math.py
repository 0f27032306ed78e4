"""Math functions on the CPU: float32 ones to their stated error, all types to that of their own rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.codegen.llvm.harness import EXACT, call, pointwise
from tilewright.codegen.llvm import float32
from tilewright.core.dtype import DType
from tilewright.expr import intrinsics
from tilewright.runtime.module import Module

SIZE = 1 << 14
RNG = np.random.default_rng(5)
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-42, -1e-42, 3.4e38, -3.4e38, 0.5, 2.0, 1e-30, 16777216.0]
EXACTLY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in "exp exp2 log log2 log10 log1p sqrt tanh sin cos tan sinh cosh".split()},
    **{name: getattr(np, name.replace("a", "arc", 1)) for name in "asin acos atan asinh acosh atanh".split()},
    "exp10": lambda x: np.power(10.0, x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf, otypes=["float64"]),
}
LIBRARY_ERROR = 2.1
"""Units in the last place that the C library's float32 functions may be wrong by."""


def stated_error(name: str) -> float:
    """What the docstring of a float32 function promises, in units in the last place."""
    functions = {**float32.UNARY, **float32.BINARY, **float32.ANGLES}
    match = re.search(r"at most ([\d.]+) ulp", functions[name].__doc__ or "") if name in functions else None
    return float(match[1]) if match else LIBRARY_ERROR


def module_of(name: str, lanes: int, dtype: str = "float32", operands: int = 1) -> Module:
    """A kernel that applies the function to SIZE elements."""
    return pointwise(intrinsics.TABLE[name], [dtype] * operands, dtype, SIZE, lanes)


def errors(got: np.ndarray, exact: np.ndarray) -> tuple[float, int]:
    """The largest error in units in the last place of the exact result, and how many special results are wrong."""
    with np.errstate(all="ignore"):
        rounded = exact.astype("float32")
        special = ~np.isfinite(rounded) | ~np.isfinite(got)
        wrong = special & ~((got == rounded) | (np.isnan(got) & np.isnan(rounded)))
        exponent = np.floor(np.log2(np.maximum(np.abs(exact), 2.0**-126)))
        ulp = np.abs(got.astype("float64") - exact) / 2.0 ** (exponent - 23)
    return float(ulp[~special].max(initial=0.0)), int(wrong.sum())


def inputs(round_: int) -> np.ndarray:
    """All bit patterns alike, or numbers of everyday size."""
    x = RNG.integers(0, 2**32, SIZE, dtype=np.uint32).view("float32")
    if round_ % 2:
        x = (RNG.normal(0, 1, SIZE) * 10.0 ** RNG.integers(-3, 3, SIZE)).astype("float32")
    x[: len(SPECIAL)] = np.array(SPECIAL, "float32")
    return x


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("name", sorted(EXACTLY))
def test_float32_functions_keep_their_stated_error(name: str, lanes: int) -> None:
    module = module_of(name, lanes)
    for round_ in range(8):
        x = inputs(round_)
        with np.errstate(all="ignore"):
            exact = EXACTLY[name](x.astype("float64"))
        worst, wrong = errors(call(module, [x], SIZE, "float32"), exact)
        assert wrong == 0
        assert worst <= stated_error(name)


@pytest.mark.parametrize("lanes", [1, 16])
def test_powers_keep_their_stated_error(lanes: int) -> None:
    module = module_of("power", lanes, operands=2)
    for round_ in range(8):
        x, y = inputs(round_), inputs(1)
        RNG.shuffle(x)
        RNG.shuffle(y)
        if round_ > 4:
            x, y = np.abs(x), np.clip(y, -30, 30)
        y[::3] = np.rint(y[::3])
        with np.errstate(all="ignore"):
            exact = np.power(x.astype("float64"), y.astype("float64"))
        worst, wrong = errors(call(module, [x, y], SIZE, "float32"), exact)
        assert wrong == 0
        assert worst <= stated_error("pow")


def test_powers_of_all_special_values() -> None:
    values = np.array([*SPECIAL, 3.0, -3.0, -0.5, 2.5, -2.0, 4.0], "float32")
    x, y = (np.resize(part, SIZE) for part in (np.repeat(values, len(values)), np.tile(values, len(values))))
    with np.errstate(all="ignore"):
        exact = np.power(x.astype("float64"), y.astype("float64"))
    got = call(module_of("power", 16, operands=2), [x, y], SIZE, "float32")
    assert errors(got, exact)[1] == 0
    np.testing.assert_array_equal(np.signbit(got[got == 0]), np.signbit(exact[got == 0]))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_too_large_for_the_vector_functions(name: str) -> None:
    x = np.full(SIZE, 0.5, "float32")
    x[5], x[SIZE - 1], x[100] = 1e30, -3e38, 2e5
    worst, wrong = errors(call(module_of(name, 16), [x], SIZE, "float32"), EXACTLY[name](x.astype("float64")))
    assert wrong == 0
    assert worst <= stated_error(name)


@pytest.mark.parametrize("name", sorted(EXACTLY))
def test_float64_functions(name: str) -> None:
    x = RNG.normal(0, 3, SIZE)
    with np.errstate(all="ignore"):
        got, exact = call(module_of(name, 4, "float64"), [x], SIZE, "float64"), EXACTLY[name](x)
    np.testing.assert_allclose(got, exact, rtol=3e-15, atol=1e-300)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(EXACTLY))
def test_functions_of_16_bits_are_those_of_float32_rounded(name: str, dtype: str) -> None:
    kind = DType(dtype).numpy
    x = RNG.normal(0, 3, SIZE).astype(kind)
    single = call(module_of(name, 1), [x.astype("float32")], SIZE, "float32")
    with np.errstate(all="ignore"):
        rounded = single.astype(kind)
    got = call(module_of(name, 16, dtype), [x], SIZE, dtype)
    np.testing.assert_array_equal(got.astype("float64"), rounded.astype("float64"))


ROUNDING = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "nearbyint": np.rint,
    "round": lambda x: np.copysign(np.trunc(np.abs(x)) + (np.abs(x) - np.trunc(np.abs(x)) >= 0.5), x),
    "abs": np.abs,
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", sorted(ROUNDING))
def test_rounding(name: str, dtype: str) -> None:
    x = np.concatenate([RNG.normal(0, 100, SIZE - 60), np.arange(-15, 15, 0.5)]).astype(DType(dtype).numpy)
    for lanes in (1, 16):
        got = call(module_of(name, lanes, dtype), [x], SIZE, dtype)
        np.testing.assert_array_equal(got.astype("float64"), ROUNDING[name](x.astype("float64")))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_what_kind_of_number_it_is(dtype: str) -> None:
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 0.0, 1.5, -2.0]), SIZE).astype(DType(dtype).numpy)
    for name in ("isnan", "isinf", "isfinite"):
        for lanes in (1, 16):
            module = pointwise(intrinsics.TABLE[name], [dtype], "bool", SIZE, lanes)
            np.testing.assert_array_equal(call(module, [x], SIZE, "bool"), getattr(np, name)(x.astype("float64")))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@settings(max_examples=5)
@given(st.data())
def test_bits(dtype: str, data: st.DataObject) -> None:
    kind = DType(dtype)
    values = data.draw(st.lists(st.integers(kind.min_value, kind.max_value), min_size=16, max_size=16))
    x = np.resize(np.array([*values, 0, kind.max_value, kind.min_value], kind.numpy), SIZE)
    words = [format(int(v) & ((1 << kind.bits) - 1), f"0{kind.bits}b") for v in x[:19]]
    for name, wanted in (
        ("popcount", [w.count("1") for w in words]),
        ("clz", [len(w) - len(w.lstrip("0")) for w in words]),
    ):
        for lanes in (1, 16):
            got = call(pointwise(intrinsics.TABLE[name], [dtype], dtype, SIZE, lanes), [x], SIZE, dtype)
            np.testing.assert_array_equal(got[:19], wanted)


@pytest.mark.parametrize(
    ("name", "of"), [("hypot", np.hypot), ("atan2", np.arctan2), ("fmod", np.fmod), ("copysign", np.copysign)]
)
def test_functions_of_two_numbers(name: str, of: Callable[..., Any]) -> None:
    x, y = (RNG.normal(0, 5, SIZE) for _ in range(2))
    for dtype, error in (("float32", 3e-7), ("float64", 1e-15)):
        a, b = x.astype(dtype), y.astype(dtype)
        got = call(module_of(name, 4, dtype, 2), [a, b], SIZE, dtype)
        np.testing.assert_allclose(got, of(a.astype("float64"), b.astype("float64")), rtol=error, atol=1e-12)


def test_a_loop_without_vectors_is_vectorised_over_the_functions_too() -> None:
    module = pointwise(intrinsics.TABLE["exp"], ["float32"], "float32", SIZE, target=EXACT)
    vectors = re.findall(r"fmul <(\d+) x float>", module.get_source("opt"))
    assert vectors
    assert max(map(int, vectors)) >= 4
