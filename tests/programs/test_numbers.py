"""What programs compute where C and the hardware leave it open: the same on every target, and as NumPy has it."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright
from tests.programs.harness import FLOATS, INTEGERS, build, every_target, pointwise, result, results, spread
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.expr.numerics import convert

pytestmark = pytest.mark.optimised  # what optimisers do to NaN, infinities and the bits of small types

ODD = (np.nan, 1, np.nan, np.inf, -np.inf, 0, 3, -2), (1, np.nan, np.nan, np.nan, 2, -np.inf, np.inf, 5)
BEYOND = (
    *(np.nan, np.inf, -np.inf, 0, -0.0, 1.9, -1.9, 127.5, 128, 255.9, 256, -128.9, -129, 32767, 65535, 65536),
    *(2**31 - 1, 2**31, -(2**31), -(2**31) - 300, 2**32, 2**63, -(2**63), 2**64, 1e38, -1e38),
)


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_min_and_max_give_nan_where_an_operand_is_one(target: str, dtype: str) -> None:
    kind = DType(dtype).numpy
    a, b = (np.asarray(values * 2, "float64").astype(kind) for values in ODD)
    zero = te.const(0, dtype)
    module = pointwise(lambda x, y: (te.max(x, y), te.min(x, y), te.max(x, zero), te.max(zero, x)), [dtype] * 2, target)
    with np.errstate(invalid="ignore"):
        relu = np.maximum(a, a.dtype.type(0))
        wanted = np.maximum(a, b), np.minimum(a, b), relu, relu
    for got, want in zip(results(module, (a, b), [dtype] * 4), wanted, strict=True):
        np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@every_target
def test_reductions_to_the_extreme_give_nan_where_there_is_one(target: str) -> None:
    A, k = te.placeholder((4, 5), name="A"), te.reduce_axis((0, 5), "k")
    B = te.compute((4,), lambda i: te.max(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    spread(s, B, target)
    x = np.arange(20, dtype="float32").reshape(4, 5) - 30
    x[1, 2], x[2, 4], x[3, 0] = np.nan, np.inf, -np.inf
    np.testing.assert_array_equal(result(tilewright.build(s, [A, B], target), (x,), (4,), "float32"), x.max(axis=1))


@every_target
@pytest.mark.parametrize("source", FLOATS)
def test_floats_beyond_an_integer_type_become_its_end_and_nan_becomes_0(target: str, source: str) -> None:
    with np.errstate(all="ignore"):
        x = np.asarray(BEYOND, "float64").astype(DType(source).numpy)
    module = pointwise(lambda value: [value.astype(to) for to in INTEGERS], [source], target)
    for to, got in zip(INTEGERS, results(module, (x,), INTEGERS), strict=True):
        for value, found, wanted in zip(x, got, convert(x, DType(to)), strict=True):
            exact, limits = float(value), np.iinfo(to)
            by_hand = 0 if np.isnan(exact) else limits.max if exact > limits.max else max(exact, limits.min)
            assert found == wanted == int(by_hand), f"{exact} as {to}"


@every_target
@pytest.mark.parametrize("dtype", FLOATS)
def test_what_a_division_of_floats_leaves(target: str, dtype: str) -> None:
    """Of infinite divisors, the number itself; of large quotients, exactly what is left."""
    kind = DType(dtype).numpy
    each = (5, -5, 0.75, -0.75, 0, 3, 1000, -1000, np.inf, np.nan), (np.inf, -np.inf, 3, -3, 0.125, -7, 0)
    a, b = (grid.ravel().astype(kind) for grid in np.meshgrid(*each))
    module = pointwise(lambda x, y: (te.floormod(x, y), te.truncmod(x, y)), [dtype] * 2, target)
    with np.errstate(invalid="ignore"):
        wanted = [function(*(v.astype("float64") for v in (a, b))).astype(kind) for function in (np.mod, np.fmod)]
    for got, want in zip(results(module, (a, b), [dtype] * 2), wanted, strict=True):
        np.testing.assert_array_equal(got.astype("float64"), want.astype("float64"))


@every_target
def test_float64_rounds_to_float16_once(target: str) -> None:
    """Not to float32 on the way, which makes ties of numbers beside them."""
    ties = np.array([1 + 2**-11, 2049, 65520, 2**-25, 3 * 2**-25, 0.0999, 3.7e-6, 1e-40, 1e300], "float64")
    x = np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf), [np.inf, np.nan, 0]])
    x = np.concatenate([x, -x])
    module = pointwise(lambda value: [value.astype("float16")], ["float64"], target)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(results(module, (x,), ["float16"])[0], x.astype("float16"))


@every_target
@pytest.mark.parametrize("source", [*FLOATS, *INTEGERS, "bool"])
def test_casts_between_all_types(target: str, source: str) -> None:
    """As NumPy casts what fits; integers wrap, and floats round to the nearest."""
    kind = DType(source)
    plain = [0, 1, 2, 3, 100, 127] + ([-1, -2, -100, -128] if kind.kind in ("int", "float", "bfloat") else [])
    if kind.is_int:
        plain += [kind.min_value, kind.max_value, kind.max_value // 3]
    x = np.array([0, 1] if kind.is_bool else plain, object).astype("float64" if kind.is_float else kind.numpy)
    x = x.astype(kind.numpy)
    types = [to for to in (*FLOATS, *INTEGERS, "bool") if not (kind.is_float and DType(to).kind == "uint")]
    module = pointwise(lambda value: [value.astype(to) for to in types], [source], target)
    for to, got in zip(types, results(module, (x,), types), strict=True):
        with np.errstate(all="ignore"):
            wanted = x.astype(DType(to).numpy)
        np.testing.assert_array_equal(got.astype("float64"), wanted.astype("float64"), err_msg=f"{source} as {to}")


@every_target
@pytest.mark.parametrize("dtype", INTEGERS)
def test_divisions_of_every_sign_by_zero_and_of_the_least_integer(target: str, dtype: str) -> None:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    signs = (-7, -3, -1) if low < 0 else ()
    values = np.array([low, high, 0, 1, 2, 3, 7, 8, *signs], dtype)
    a, b = (grid.ravel() for grid in np.meshgrid(values, values))
    operators = te.floordiv, te.floormod, te.truncdiv, te.truncmod
    module = pointwise(lambda x, y: [operator(x, y) for operator in operators], [dtype] * 2, target)
    with np.errstate(all="ignore"):
        truncated = np.where(b == 0, 0, (a - np.fmod(a, b)) // np.where(b == 0, 1, b)).astype(dtype)
        wanted = a // b, a % b, truncated, np.fmod(a, b)
    for operator, got, want in zip(operators, results(module, (a, b), [dtype] * 4), wanted, strict=True):
        np.testing.assert_array_equal(got, want, err_msg=operator.__name__)


@every_target
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_and_know_their_bits(target: str, dtype: str) -> None:
    """Except for sums and products of int32 and int64, which are taken not to overflow."""
    rng, kind = np.random.default_rng(5), DType(dtype)
    wraps = kind.bits < 32 or kind.kind == "uint"
    limit = (kind.min_value, kind.max_value) if wraps else (-(2**14), 2**14)
    a, b = (rng.integers(*limit, 50, dtype=dtype, endpoint=True) for _ in range(2))
    count = (b % kind.bits).astype(dtype)
    module = pointwise(
        lambda x, y, n: (x + y, x - y, x * y, x & y, x | y, x ^ y, ~x, x << n, x >> n, te.min(x, y), te.max(x, y)),
        [dtype] * 3,
        target,
    )
    with np.errstate(all="ignore"):
        wanted = (
            a + b,
            a - b,
            a * b,
            a & b,
            a | b,
            a ^ b,
            ~a,
            a << count,
            a >> count,
            np.minimum(a, b),
            np.maximum(a, b),
        )
    for number, (got, want) in enumerate(zip(results(module, (a, b, count), [dtype] * 11), wanted, strict=True)):
        np.testing.assert_array_equal(got, want, err_msg=f"result {number}")


@every_target
@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float64", "int8", "uint64"])
def test_comparisons_and_conditions(target: str, dtype: str) -> None:
    kind = DType(dtype)
    values = [0, 1] if kind.is_bool else [0, 1, 2, 100] + ([-1, -100] if kind.kind != "uint" else [])
    x = np.array(values).astype(kind.numpy)
    a, b = (grid.ravel() for grid in np.meshgrid(x, x))
    if kind.is_float:
        a, b = (np.append(v, [np.nan, 1]).astype(kind.numpy) for v in (a, b))

    def compared(p: te.Var, q: te.Var) -> list[object]:
        both = te.all(p == q, te.if_then_else(p != q, p == p, q == q))
        if kind.is_bool:
            return [p == q, p != q, te.all(p, q), te.any(p, q), te.if_then_else(p, q, p), both]
        return [p == q, p != q, p < q, p <= q, p > q, both]

    if kind.is_bool:
        wanted = a == b, a != b, a & b, a | b, np.where(a, b, a), a == b
    else:
        with np.errstate(invalid="ignore"):
            wanted = a == b, a != b, a < b, a <= b, a > b, a == b
    got = results(pointwise(compared, [dtype] * 2, target), (a, b), ["bool"] * 6)
    for number, (found, want) in enumerate(zip(got, wanted, strict=True)):
        np.testing.assert_array_equal(found, want, err_msg=f"result {number}")


@every_target
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bit_floats_gathered_in_every_memory(target: str, dtype: str) -> None:
    """Compilers of OpenCL drop stores of their bits where the conversions break the rules of aliasing."""
    A, k = te.placeholder((64, 40), dtype, "A"), te.reduce_axis((0, 40), "k")
    B = te.compute((64,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    total = s.cache_write(B, "local")
    inner = spread(s, B, target, threads=8)
    if target != "llvm":
        s[total].compute_at(s[B], inner)
        tile = s.cache_read(A, "shared", [total])
        outer, _ = s[total].split(s[total].op.reduce_axis[0], factor=8)
        s[tile].compute_at(s[total], outer)
        _, lane = s[tile].split(s[tile].fuse(*s[tile].op.axis), factor=8)
        s[tile].bind(lane, te.thread_axis("threadIdx.x"))
    x = np.random.default_rng(0).integers(0, 4, (64, 40)).astype(DType(dtype).numpy)
    got = result(build(s, [A, B], target), (x,), (64,), dtype)
    np.testing.assert_array_equal(got.astype("float64"), x.astype("float64").sum(axis=1))


@every_target
@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_by_any_amount(target: str, dtype: str) -> None:
    """Amounts beyond the word shift every bit out; hardware takes them modulo the word, and LLVM gives poison."""
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    bits = np.iinfo(dtype).bits
    amounts = [0, 1, bits - 1, bits, bits + 1, 2 * bits, high, -1 % (high + 1) if low == 0 else -1, low]
    pairs = [(a, b) for a in (low, -5, 1, high) for b in amounts if a >= low]
    x, by = (np.array(column, dtype) for column in zip(*pairs, strict=True))
    module = pointwise(lambda a, b: (a << b, a >> b, a << (b & 3), a >> (bits - 1)), [dtype, dtype], target)
    found = results(module, (x, by), [dtype] * 4)
    wide = 1 << bits
    for value, amount, *got in zip(x.tolist(), by.tolist(), *(column.tolist() for column in found), strict=True):
        within = 0 <= amount < bits
        left = [(value << amount) if within else 0, value << (amount & 3)]
        left = [(shifted - low) % wide + low for shifted in left]
        right = value >> (amount if within else bits)
        assert got == [left[0], right, left[1], value >> (bits - 1)], f"{value} by {amount}"
