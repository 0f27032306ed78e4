"""What the operators build: types, folding, errors, and text that means the same in Python."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tests.expr.random_exprs import conditions, numbers
from tilewright.core.dtype import DType
from tilewright.core.errors import UserError
from tilewright.expr import intrinsics
from tilewright.expr import nodes as n
from tilewright.expr import operators as op
from tilewright.expr.evaluate import UndefinedValueError, evaluate
from tilewright.expr.printer import show

i, j, k = n.Var("i"), n.Var("j"), n.Var("k", "int64")
f, h, b = n.Var("f", "float32"), n.Var("h", "float16"), n.Var("b", "bool")


# Types.


@pytest.mark.parametrize(
    ("made", "dtype"),
    [
        (i + 1, "int32"),
        (1 + k, "int64"),
        (i + k, "int64"),
        (i + (1 << 40), "int64"),
        (i + 0.5, "float32"),
        (h + 1, "float16"),
        (h + 0.5, "float16"),
        (h * f, "float32"),
        (i * f, "float32"),
        (i + True, "int32"),
        (b + i, "int32"),
        (n.Var("u", "uint8") + n.Var("s", "int8"), "uint8"),
        (n.Var("u", "uint32") + i, "uint32"),
        (n.Var("u", "uint64") + i, "uint64"),
        (n.Var("x", "bfloat16") + h, "float32"),
        (n.Var("x", "bfloat16") + f, "float32"),
        (n.Broadcast(i, 4) + 1, "int32x4"),
        (n.Broadcast(i, 4) * f, "float32x4"),
        (f / 2, "float32"),
        (f // 2, "float32"),
        (i < 1, "bool"),
        (f >= i, "bool"),
        (np.float64(2) * f, "float32"),
        (np.int64(2) + i, "int32"),
        (op.select(b, i, 0.5), "float32"),
        (op.cast("float16", n.Broadcast(i, 2)), "float16x2"),
        (op.cast("int32x4", i), "int32x4"),
        (intrinsics.TABLE["exp"](i), "float32"),
        (intrinsics.TABLE["sqrt"](h), "float16"),
        (intrinsics.TABLE["isnan"](f), "bool"),
        (intrinsics.TABLE["floor"](i), "int32"),
        (intrinsics.TABLE["pow"](f, 2), "float32"),
        (intrinsics.TABLE["abs"](i), "int32"),
        (intrinsics.TABLE["clip"](f, 0, 6), "float32"),
    ],
    ids=str,
)
def test_types(made: n.Expr, dtype: str) -> None:
    assert made.dtype == dtype


@given(
    st.sampled_from(["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "bool"]),
    st.sampled_from(["int8", "uint8", "int16", "int32", "int64", "float16", "float32", "bool"]),
)
def test_the_common_type_does_not_depend_on_the_order(p: str, q: str) -> None:
    x, y = n.Var("x", p), n.Var("y", q)
    assert op.match_types(x, y)[0].dtype == op.match_types(y, x)[0].dtype
    assert op.match_types(x, y)[0].dtype == op.match_types(x, y)[1].dtype


# Folding.


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (op.const(2) + 3, "5"),
        (op.const(2**31 - 1) + 1, "-2147483648"),
        (op.const(200, "uint8") + op.const(100, "uint8"), "T.uint8(44)"),
        (op.const(-7) // 2, "-4"),
        (op.const(-7) % 2, "1"),
        (op.truncdiv(-7, 2), "-3"),
        (op.truncmod(-7, 2), "-1"),
        (op.const(-(2**31)) // op.const(-1), "-2147483648"),
        (op.minimum(3, 4), "3"),
        (op.maximum(i, i), "i"),
        (i + 0, "i"),
        (0 + i, "i"),
        (i - 0, "i"),
        (i * 1, "i"),
        (i * 0, "0"),
        (i // 1, "i"),
        (i % 1, "0"),
        (f * 1, "f"),
        (f / 1, "f"),
        (f + 0.0, "f + T.float32(0)"),
        (f * 0.0, "f * T.float32(0)"),
        (-f, "T.float32(-0.0) - f"),
        (op.const(0.1) + 0.2, "T.float32(0.30000001192092896)"),
        (op.const(1.0) / 0.0, "T.float32(1) / T.float32(0)"),
        (op.const(3) < 4, "T.bool(True)"),
        (op.all_of(op.const(True), i < 1), "i < 1"),
        (op.any_of(op.const(True), i < 1), "T.bool(True)"),
        (op.all_of(i < 1, op.const(False)), "T.bool(False)"),
        (op.any_of(i < 1, op.const(True)), "T.bool(True)"),
        (intrinsics.TABLE["ceil"](op.const(-0.5)), "T.float32(-0.0)"),
        (intrinsics.TABLE["floor"](op.const(-1.5)), "T.float32(-2)"),
        (intrinsics.TABLE["trunc"](op.const(-1.5)), "T.float32(-1)"),
        (intrinsics.TABLE["round"](op.const(2.5)), "T.float32(3)"),
        (intrinsics.TABLE["nearbyint"](op.const(2.5)), "T.float32(2)"),
        (op.cast("int32", op.const(-1.5)), "-1"),
        (op.cast("int8", op.const(300.0)), "T.Cast('int8', T.float32(300))"),
        (op.logical_not(op.const(True)), "T.bool(False)"),
        (op.if_then_else(op.const(1) < 2, i, j), "i"),
        (op.const(6) & 3, "2"),
        (op.const(6) | 1, "7"),
        (op.const(6) ^ 3, "5"),
        (~op.const(6), "-7"),
        (op.const(1) << 31, "-2147483648"),
        (op.const(-8) >> 1, "-4"),
        (b & (i < 1), "b and i < 1"),
        (~b, "not (b)"),
        (op.cast("float32", op.const(3)), "T.float32(3)"),
        (op.cast("int8", op.const(300)), "T.Cast('int8', 300)"),
        (op.likely(op.const(True)), "T.bool(True)"),
    ],
)
def test_folding(made: n.Expr, text: str) -> None:
    assert str(made) == text


BINARY = {
    n.Add: op.add,
    n.Sub: op.subtract,
    n.Mul: op.multiply,
    n.FloorDiv: op.floordiv,
    n.FloorMod: op.floormod,
    n.Div: op.truncdiv,
    n.Mod: op.truncmod,
    n.Min: op.minimum,
    n.Max: op.maximum,
    n.LT: op.less,
    n.LE: op.less_equal,
    n.GT: op.greater,
    n.GE: op.greater_equal,
    n.EQ: op.equal,
    n.NE: op.not_equal,
}


def ints(dtype: str) -> st.SearchStrategy[int]:
    kind = DType(dtype)
    return st.one_of(st.integers(-3, 3), st.integers(kind.min_value, kind.max_value)).filter(
        lambda v: kind.min_value <= v <= kind.max_value
    )


@given(st.data(), st.sampled_from(["int8", "uint8", "int32", "uint32", "int64", "uint64"]), st.sampled_from([*BINARY]))
def test_folding_integers_is_what_evaluation_gives(data: st.DataObject, dtype: str, kind: Any) -> None:
    p, q = (op.const(data.draw(ints(dtype)), dtype) for _ in "pq")
    try:
        expected = evaluate(kind(p, q), {})
    except UndefinedValueError:
        with pytest.raises(UserError, match="division by zero"):
            BINARY[kind](p, q)
        return
    folded = BINARY[kind](p, q)
    assert isinstance(folded, n.IntImm)
    assert folded.dtype == kind(p, q).dtype
    assert folded.value == expected


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.sampled_from([op.add, op.subtract, op.multiply, op.divide, op.less, op.equal]),
    st.floats(width=16),
    st.floats(width=16),
)
def test_folding_floats_is_what_evaluation_gives(dtype: str, build: Any, p: float, q: float) -> None:
    x, y = n.Var("x", dtype), n.Var("y", dtype)
    expected = evaluate(build(x, y), {x: p, y: q})
    folded = evaluate(build(op.const(p, dtype), op.const(q, dtype)), {})
    np.testing.assert_equal(folded, expected)
    assert type(folded) is type(expected)


@given(st.sampled_from([*BINARY]), st.integers(-3, 3), st.integers(-9, 9), st.booleans())
def test_identities_keep_the_value(kind: Any, constant: int, value: int, left: bool) -> None:
    x = n.Var("x")
    p, q = (op.const(constant), x) if left else (x, op.const(constant))
    assume(not (kind in (n.FloorDiv, n.FloorMod, n.Div, n.Mod) and (value if left else constant) == 0))
    assert evaluate(BINARY[kind](p, q), {x: value}) == evaluate(kind(p, q), {x: value})


# Errors.


def test_numbers_that_do_not_fit() -> None:
    with pytest.raises(UserError, match=r"300 does not fit int8 \(-128 to 127\)"):
        op.const(300, "int8")
    with pytest.raises(UserError, match="-1 does not fit uint32"):
        op.const(-1, "uint32")
    with pytest.raises(UserError, match=r"1\.5 is not a whole number"):
        op.const(1.5, "int32")
    with pytest.raises(UserError, match="nan is not a whole number"):
        op.const(math.nan, "int32")
    with pytest.raises(UserError, match="inf is not a whole number"):
        op.const(math.inf, "int64")
    with pytest.raises(UserError, match="unknown data type 'int7'"):
        op.const(1, "int7")
    assert op.const(3.0, "int32") is op.const(3)


def test_conditions_have_no_arithmetic() -> None:
    c = i < j
    for build in (op.add, op.subtract, op.multiply, op.floordiv, op.floormod, op.truncdiv, op.minimum):
        for pair in ((c, c), (c, b), (op.const(True), c), (c, op.const(False))):
            with pytest.raises(UserError, match="is a condition: it has no arithmetic"):
                build(*pair)
    with pytest.raises(UserError, match="`i < j` is a condition"):
        -c
    with pytest.raises(UserError, match="cannot combine"):
        i + n.StringImm("a")


def test_constant_conditions_are_numbers_in_sums() -> None:
    true, false = op.const(True), op.const(False)
    assert op.subtract(true, true) is op.const(0)
    assert op.subtract(false, true) is op.const(-1)
    assert op.add(true, true) is op.const(2)


def test_numbers_are_no_conditions() -> None:
    for build in (
        lambda: op.all_of(i, i < 1),
        lambda: op.any_of(i < 1, f),
        lambda: op.logical_not(i),
        lambda: op.if_then_else(i, 1, 2),
        lambda: op.select(1, i, j),
        lambda: op.likely(i),
    ):
        with pytest.raises(UserError, match="but a condition has type bool"):
            build()
    with pytest.raises(UserError, match="at least one condition"):
        op.all_of()


def test_division_by_the_constant_zero() -> None:
    for build in (op.floordiv, op.floormod, op.truncdiv, op.truncmod):
        with pytest.raises(UserError, match="division by zero in `i "):
            build(i, 0)
    assert str(f / 0.0) == "f / T.float32(0)"


def test_bits_are_for_integers_and_shifts_stay_in_the_word() -> None:
    for build in (lambda: f & f, lambda: f | 1, lambda: f << 1, lambda: ~f):
        with pytest.raises(UserError, match=r"needs (an )?integer"):
            build()
    for count in (-1, 32):
        with pytest.raises(UserError, match=f"cannot shift int32 by {count}"):
            i << count
        with pytest.raises(UserError, match=f"cannot shift int32 by {count}"):
            op.const(1) >> count


def test_vectors_of_different_lengths() -> None:
    with pytest.raises(UserError, match="cannot combine vectors of 4 and 2 lanes"):
        n.Broadcast(i, 4) + n.Broadcast(i, 2)


def test_things_that_are_no_expressions() -> None:
    for thing in (None, [1], object(), (i,)):
        with pytest.raises(UserError, match="in an expression"):
            i + thing


def test_integers_divided_by_slash_truncate_and_warn_once_a_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            made = i / 2  # the line that the warning names
        direct = op.divide(i, 3)
        f / 2
    assert type(made) is n.Div
    assert str(direct) == "T.truncdiv(i, 3)"
    assert [w.category for w in caught] == [DeprecationWarning] * 2
    assert [w.filename for w in caught] == [__file__] * 2
    line = test_integers_divided_by_slash_truncate_and_warn_once_a_line.__code__.co_firstlineno + 4
    assert [w.lineno for w in caught] == [line, line + 1]
    assert f"{__file__}:{line}: `/` on integers truncates" in str(caught[0].message)


# Text.


class T:
    """What stands for `T` when printed text is run: exact Python integers, NumPy floats."""

    truncdiv = staticmethod(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
    truncmod = staticmethod(lambda a, b: a - abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) * b)
    min = staticmethod(lambda a, b: np.minimum(a, b) if isinstance(a, np.floating) else min(a, b))
    max = staticmethod(lambda a, b: np.maximum(a, b) if isinstance(a, np.floating) else max(a, b))
    Select = if_then_else = staticmethod(lambda c, p, q: p if c else q)
    int64 = staticmethod(int)
    bool = staticmethod(bool)
    float32 = staticmethod(np.float32)


P, Q, R = (n.Var(name, "int64") for name in "pqr")
X, Y, Z = (n.Var(name, "float32") for name in "xyz")


@given(numbers([P, Q, R], st.integers(-5, 5), depth=3), *[st.integers(-6, 6)] * 3)
@example(n.Sub(P, n.Sub(Q, R)), 1, 2, 3)
@example(n.Sub(P, n.Add(Q, R)), 1, 2, 3)
@example(n.Mul(P, n.FloorDiv(Q, R)), 3, 5, 2)
@example(n.FloorDiv(n.Mul(P, Q), R), 3, 5, 2)
@example(n.FloorMod(P, n.FloorMod(Q, R)), 3, 5, 4)
@example(n.Add(P, n.Add(Q, R)), 3, 5, 4)
@example(n.Mul(op.const(-1, "int64"), P), 3, 5, 4)
@example(n.Sub(P, op.const(-1, "int64")), 3, 5, 4)
def test_printed_integers_mean_the_same_in_python(e: n.Expr, p: int, q: int, r: int) -> None:
    try:
        expected = evaluate(e, {P: p, Q: q, R: r})
        given_text = eval(show(e), {"T": T, "p": p, "q": q, "r": r})
    except (UndefinedValueError, ZeroDivisionError):  # Select evaluates both branches, Python as well
        assume(False)
    assume(abs(given_text) < 2**63)
    assert given_text == expected


@given(conditions([P, Q], st.integers(-2, 2)), *[st.integers(-3, 3)] * 2)
@example(n.EQ(n.Not(n.LT(P, Q)), n.LT(Q, P)), 1, 2)
@example(n.NE(n.LT(P, Q), n.EQ(P, Q)), 1, 1)
@example(n.And(n.Or(n.LT(P, Q), n.LT(Q, P)), n.EQ(P, Q)), 1, 2)
@example(n.Not(n.And(n.LT(P, Q), n.LT(Q, P))), 1, 2)
@example(n.Or(n.Not(n.LT(P, Q)), n.LT(P, Q)), 1, 2)
def test_printed_conditions_mean_the_same_in_python(e: n.Expr, p: int, q: int) -> None:
    try:
        expected = evaluate(e, {P: p, Q: q})
    except UndefinedValueError:
        assume(False)
    assert bool(eval(show(e), {"T": T, "p": p, "q": q})) is expected


@given(
    numbers([X, Y, Z], st.sampled_from([0.0, -0.0, 1.5, -2.0, 3e38, math.inf, 1e-3]), divisions=False, depth=3),
    *[st.floats(-4, 4, width=16)] * 3,
)
@example(n.Add(X, n.Add(Y, Z)), 1e-3, 2.0, -2.0)
@example(n.Mul(X, n.Div(Y, Z)), 3.0, 1.0, 3.0)
def test_printed_floats_mean_the_same_in_python(e: n.Expr, x: float, y: float, z: float) -> None:
    with np.errstate(all="ignore"):
        given_text = eval(show(e), {"T": T, **{v: np.float32(w) for v, w in zip("xyz", (x, y, z), strict=True)}})
    np.testing.assert_equal(given_text, evaluate(e, {X: x, Y: y, Z: z}))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (n.Load(n.Var("A"), ()), "A[()]"),
        (n.Load(n.Var("A"), (i, j)), "A[i, j]"),
        (n.Load(n.Var("A"), (n.Ramp(i, op.const(1), 4),)), "A[i:i + 4]"),
        (n.Load(n.Var("A"), (n.Ramp(i * 4, op.const(2), 4),)), "A[i * 4:i * 4 + 8:2]"),
        (n.Load(n.Var("A"), (n.Ramp(op.const(0), op.const(1), 4),)), "A[0:4]"),
        (n.Load(n.Var("A"), (n.Ramp(op.const(6), op.const(2, "int32"), 4),)), "A[6:14:2]"),
        (n.Broadcast(f, 4), "T.Broadcast(f, 4)"),
        (n.Ramp(i, op.const(1), 4), "T.Ramp(i, 1, 4)"),
        (op.cast("int64", i), "T.Cast('int64', i)"),
        (op.const(math.nan), 'T.float32("nan")'),
        (op.const(-math.inf), 'T.float32("-inf")'),
        (op.const(1e30, "float64"), "T.float64(1e+30)"),
        (n.StringImm("s"), '"s"'),
        (intrinsics.TABLE["exp"](f), "T.exp(f)"),
        (op.truncmod(i, j), "T.truncmod(i, j)"),
    ],
)
def test_text(made: n.Expr, text: str) -> None:
    assert show(made) == text
    assert repr(made) == text
