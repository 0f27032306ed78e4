"""The exact evaluator, against Python's own arithmetic."""

from __future__ import annotations

import math
import struct
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.dtype import DType
from tilewright.core.errors import InternalError
from tilewright.expr import intrinsics
from tilewright.expr import nodes as n
from tilewright.expr import operators as op
from tilewright.expr.evaluate import UndefinedValueError, evaluate

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATS = ["float16", "bfloat16", "float32", "float64"]


def ranged(dtype: str) -> st.SearchStrategy[int]:
    kind = DType(dtype)
    edges = st.sampled_from([kind.min_value, kind.max_value, 0, 1])
    return st.one_of(edges, st.integers(kind.min_value, kind.max_value))


def in_c(value: int, dtype: str) -> int:
    """An integer as the C type holds it."""
    code = {"int8": "b", "int16": "h", "int32": "i", "int64": "q"}[dtype.removeprefix("u")]
    code = code.upper() if dtype[0] == "u" else code
    size = struct.calcsize(code)
    held: int = struct.unpack(code, (value % (1 << 8 * size)).to_bytes(size, "little"))[0]
    return held


# Integers.


@given(st.data(), st.sampled_from(INTEGERS))
def test_integers_wrap(data: st.DataObject, dtype: str) -> None:
    x, y = n.Var("x", dtype), n.Var("y", dtype)
    p, q = data.draw(ranged(dtype)), data.draw(ranged(dtype))
    env = {x: p, y: q}
    assert evaluate(n.Add(x, y), env) == in_c(p + q, dtype)
    assert evaluate(n.Sub(x, y), env) == in_c(p - q, dtype)
    assert evaluate(n.Mul(x, y), env) == in_c(p * q, dtype)
    assert evaluate(n.Min(x, y), env) == min(p, q)
    assert evaluate(n.Max(x, y), env) == max(p, q)
    assert evaluate(n.LT(x, y), env) is (p < q)
    assert type(evaluate(n.Add(x, y), env)) is int
    if q != 0:
        exact = Fraction(p, q)
        assert evaluate(n.FloorDiv(x, y), env) == in_c(math.floor(exact), dtype)
        assert evaluate(n.FloorMod(x, y), env) == in_c(p - q * math.floor(exact), dtype)
        assert evaluate(n.Div(x, y), env) == in_c(math.trunc(exact), dtype)
        assert evaluate(n.Mod(x, y), env) == in_c(p - q * math.trunc(exact), dtype)


@given(st.data(), st.sampled_from(INTEGERS))
def test_bits(data: st.DataObject, dtype: str) -> None:
    x, y = n.Var("x", dtype), n.Var("y", dtype)
    p, q = data.draw(ranged(dtype)), data.draw(ranged(dtype))
    bits = x.dtype.bits
    env = {x: p, y: q}
    word = p % (1 << bits)
    assert evaluate(x & y, env) == p & q
    assert evaluate(x | y, env) == p | q
    assert evaluate(x ^ y, env) == p ^ q
    assert evaluate(~x, env) == in_c(~p, dtype)
    assert evaluate(intrinsics.TABLE["popcount"](x), env) == word.bit_count()
    assert evaluate(intrinsics.TABLE["clz"](x), env) == bits - word.bit_length()
    count = data.draw(st.integers(0, bits - 1))
    assert evaluate(x << y, {x: p, y: count}) == in_c(p << count, dtype)
    assert evaluate(x >> y, {x: p, y: count}) == p >> count


@pytest.mark.parametrize("count", [-(2**31), -1, 32, 33, 64])
def test_a_shift_out_of_the_word_leaves_the_sign(count: int) -> None:
    x, y = n.Var("x"), n.Var("y")
    for value in (5, -5):
        assert evaluate(x << y, {x: value, y: count}) == 0
        assert evaluate(x >> y, {x: value, y: count}) == (-1 if value < 0 else 0)


# Floats.


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_round_as_their_type(dtype: str) -> None:
    kind = DType(dtype).numpy.type
    x, y = n.Var("x", dtype), n.Var("y", dtype)
    for p, q in ((0.1, 0.2), (3e4, 7.0), (1.0, 3.0), (-0.0, 0.0), (1e-5, 1e4), (60000.0, 60000.0)):
        env = {x: p, y: q}
        a, b = kind(p), kind(q)
        with np.errstate(all="ignore"):
            for build, expected in ((n.Add, a + b), (n.Sub, a - b), (n.Mul, a * b), (n.Div, a / b)):
                found = evaluate(build(x, y), env)
                assert type(found) is kind
                np.testing.assert_equal(found, expected)


def test_float32_is_not_computed_wider() -> None:
    x = n.Var("x", "float32")
    assert evaluate(x + 1.0 - x, {x: 2.0**25}) == 0
    assert evaluate(op.const(0.1) + 0.2, {}) == np.float32(np.float32(0.1) + np.float32(0.2))
    h = n.Var("h", "float16")
    assert evaluate(h * h, {h: 300.0}) == np.float16(np.inf)
    w = n.Var("w", "bfloat16")
    assert evaluate(w + 1.0, {w: 256.0}) == ml_dtypes.bfloat16(256)


def test_division_of_floats_by_zero_is_infinite() -> None:
    x = n.Var("x", "float32")
    assert evaluate(x / 0.0, {x: 1.0}) == np.inf
    assert np.isnan(evaluate(x / 0.0, {x: 0.0}))
    assert evaluate(x // 2.0, {x: -3.0}) == -2
    assert evaluate(x % 2.0, {x: -3.0}) == 1


EXACT = {
    "exp10": lambda v: 10.0**v,
    "rsqrt": lambda v: 1 / math.sqrt(v),
    "sigmoid": lambda v: 1 / (1 + math.exp(-v)),
    "saturate": lambda v: min(max(v, 0.0), 1.0),
    "exp2": lambda v: 2.0**v,
    "exp2_normal": lambda v: 2.0**v,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", intrinsics.FLOAT_UNARY)
def test_functions_of_one_number(name: str, dtype: str) -> None:
    x = n.Var("x", dtype)
    kind = DType(dtype).numpy
    for value in (0.25, 0.75, 1.0 if name == "acosh" else 0.5):
        at = value + 1 if name == "acosh" else value
        found = evaluate(intrinsics.TABLE[name](x), {x: at})
        assert type(found) is kind.type
        exact = EXACT.get(name) or getattr(math, name)
        assert float(found) == pytest.approx(exact(at), rel=4 * float(ml_dtypes.finfo(kind).eps), abs=1e-30)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rounding(dtype: str) -> None:
    x = n.Var("x", dtype)
    values = [-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.25, -0.75, 3.0]
    expected: dict[str, list[float]] = {
        "floor": [-3, -2, -1, 0, 1, 2, 0, -1, 3],
        "ceil": [-2, -1, 0, 1, 2, 3, 1, 0, 3],
        "trunc": [-2, -1, 0, 0, 1, 2, 0, 0, 3],
        "round": [-3, -2, -1, 1, 2, 3, 0, -1, 3],
        "nearbyint": [-2, -2, 0, 0, 2, 2, 0, -1, 3],
    }
    for name, wanted in expected.items():
        assert [float(evaluate(intrinsics.TABLE[name](x), {x: v})) for v in values] == wanted
    below_half = float(np.nextafter(np.float32(0.5), np.float32(0)))
    y = n.Var("y", "float32")
    assert evaluate(intrinsics.TABLE["round"](y), {y: below_half}) == 0


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_two_numbers(dtype: str) -> None:
    x, y = n.Var("x", dtype), n.Var("y", dtype)
    kind = DType(dtype).numpy
    for name in intrinsics.FLOAT_BINARY:
        for p, q in ((2.0, 0.5), (3.5, -1.5), (0.75, 2.0)):
            if name == "pow" and q != int(q) and p < 0:
                continue
            found = evaluate(intrinsics.TABLE[name](x, y), {x: p, y: q})
            assert type(found) is kind.type
            exact = getattr(math, name)(p, q)
            assert float(found) == pytest.approx(exact, rel=4 * float(ml_dtypes.finfo(kind).eps))


def test_predicates_and_magnitude() -> None:
    x, i = n.Var("x", "float32"), n.Var("i")
    table = intrinsics.TABLE
    for value in (1.0, math.inf, -math.inf, math.nan):
        assert evaluate(table["isnan"](x), {x: value}) is math.isnan(value)
        assert evaluate(table["isinf"](x), {x: value}) is math.isinf(value)
        assert evaluate(table["isfinite"](x), {x: value}) is math.isfinite(value)
    assert evaluate(table["abs"](x), {x: -2.5}) == 2.5
    assert evaluate(table["abs"](i), {i: -3}) == 3
    assert [evaluate(table["clip"](i, 0, 6), {i: v}) for v in (-1, 3, 9)] == [0, 3, 6]


# Casts.


@given(st.data(), st.sampled_from(INTEGERS), st.sampled_from(INTEGERS))
def test_casts_between_integers_wrap(data: st.DataObject, source: str, to: str) -> None:
    x = n.Var("x", source)
    value = data.draw(ranged(source))
    assert evaluate(n.Cast(DType(to), x), {x: value}) == in_c(value, to)


@given(st.sampled_from(INTEGERS), st.floats(-1e18, 1e18))
def test_casts_from_floats_truncate_and_saturate(to: str, value: float) -> None:
    x, kind = n.Var("x", "float64"), DType(to)
    wanted = min(max(math.trunc(value), kind.min_value), kind.max_value)
    assert evaluate(n.Cast(kind, x), {x: value}) == wanted


@pytest.mark.parametrize(
    ("value", "source", "to", "expected"),
    [
        (1e300, "float64", "int32", 2**31 - 1),
        (-200.5, "float32", "int8", -128),
        (-1.5, "float32", "uint8", 0),
        (math.nan, "float32", "int32", 0),
        (math.inf, "float32", "int64", 2**63 - 1),
        (-math.inf, "float32", "uint64", 0),
        (2.0**63, "float64", "uint64", 1 << 63),
        (0.5, "float32", "bool", True),
        (0.0, "float32", "bool", False),
        (math.nan, "float32", "bool", True),
        (256, "int32", "bool", True),
        (True, "bool", "int32", 1),
        (True, "bool", "float32", np.float32(1)),
        (2**24 + 1, "int32", "float32", np.float32(2**24)),
        (9007199791611905, "int64", "float32", np.float32(9007200328482816)),  # rounded once
        (0.1, "float32", "float64", np.float64(np.float32(0.1))),
        (1e10, "float32", "float16", np.float16(np.inf)),
        (1.00390625, "float32", "bfloat16", ml_dtypes.bfloat16(1.0)),  # a tie, to even
    ],
)
def test_other_casts(value: Any, source: str, to: str, expected: Any) -> None:
    x = n.Var("x", source)
    found = evaluate(n.Cast(DType(to), x), {x: value})
    assert found == expected
    assert type(found) is type(expected)
    if source != "bool" and math.isfinite(value):
        assert evaluate(op.cast(to, op.const(value, source)), {}) == expected


# Choices.


def test_only_the_branch_taken_is_evaluated() -> None:
    x = n.Var("x")
    safe = op.if_then_else(x > 0, 12 // x, 7)
    assert [evaluate(safe, {x: v}) for v in (0, 4)] == [7, 3]
    eager = op.select(x > 0, 12 // x, 7)
    with pytest.raises(UndefinedValueError, match="division by zero"):
        evaluate(eager, {x: 0})
    assert evaluate(eager, {x: 4}) == 3


def test_and_or_stop_early() -> None:
    x = n.Var("x")
    assert evaluate(op.all_of(x > 0, 1 // x > 0), {x: 0}) is False
    assert evaluate(op.any_of(x < 1, 1 // x > 0), {x: 0}) is True
    assert evaluate(op.logical_not(x > 0), {x: 0}) is True
    assert evaluate(op.likely(x > 0), {x: 1}) is True
    with pytest.raises(UndefinedValueError):
        evaluate(op.all_of(1 // x > 0, x > 0), {x: 0})


# Loads and vectors.


class Source:
    name, dtype = "A", DType("float32")


A = Source()
DATA = np.arange(12, dtype="float32").reshape(3, 4)


def read(source: Any, indices: tuple[int, ...]) -> Any:
    assert source is A
    return DATA[indices]


def test_loads() -> None:
    i = n.Var("i")
    found = evaluate(n.Load(A, (i, i + 1)) * 2.0, {i: 1}, read)
    assert found == 12
    assert type(found) is np.float32
    wide = evaluate(n.Load(A, (i, n.Ramp(op.const(3), op.const(-1), 4))), {i: 2}, read)
    np.testing.assert_array_equal(wide, DATA[2, ::-1])
    lazy = op.if_then_else(i < 3, n.Load(A, (i, op.const(0))), op.const(0.0))
    assert evaluate(lazy, {i: 3}, read) == 0


def test_vectors() -> None:
    i, v = n.Var("i"), n.Var("v", "int32x4")
    ramp = n.Ramp(i, op.const(2), 4)
    found = evaluate(ramp + n.Broadcast(op.const(1), 4), {i: 5})
    np.testing.assert_array_equal(found, [6, 8, 10, 12])
    assert found.dtype == np.int32
    np.testing.assert_array_equal(evaluate(v * v, {v: np.array([1, 2, 3, 4])}), [1, 4, 9, 16])
    np.testing.assert_array_equal(evaluate(ramp < 9, {i: 5}), [True, True, False, False])
    chosen = n.IfThenElse(n.NE(v, n.Broadcast(op.const(0), 4)), n.FloorDiv(n.Broadcast(op.const(12), 4), v), v)
    np.testing.assert_array_equal(evaluate(chosen, {v: np.array([0, 3, 4, -5])}), [0, 4, 3, -3])
    wide = n.Ramp(op.const(120, "int8"), op.const(5, "int8"), 3)
    np.testing.assert_array_equal(evaluate(wide, {}), [120, 125, -126])
    assert evaluate(n.Broadcast(op.const(1.5, "bfloat16"), 2), {}).dtype == ml_dtypes.bfloat16


# Faults.


def test_what_has_no_value() -> None:
    x = n.Var("x")
    for build in (n.Div, n.Mod, n.FloorDiv, n.FloorMod):
        with pytest.raises(UndefinedValueError, match="division by zero"):
            evaluate(build(x, x), {x: 0})
    with pytest.raises(UndefinedValueError, match="variable x has no value"):
        evaluate(x, {})
    with pytest.raises(UndefinedValueError, match="no source is given"):
        evaluate(n.Load(A, (x, x)), {x: 0})


def test_what_is_malformed() -> None:
    x = n.Var("x", "int8")
    with pytest.raises(InternalError, match="200 is not a value of type int8"):
        evaluate(x, {x: 200})
    with pytest.raises(InternalError, match="intrinsic frobnicate"):
        evaluate(n.Call("frobnicate", (), DType("int32")), {})
    with pytest.raises(InternalError, match="arithmetic on bool"):
        evaluate(n.Add(n.TRUE, n.TRUE), {})


def test_shared_parts_are_evaluated_once() -> None:
    x = n.Var("x")
    e: n.Expr = x
    for _ in range(200):
        e = n.Add(e, e)
    assert evaluate(e, {x: 1}) == 0  # 2 ** 200 wraps
