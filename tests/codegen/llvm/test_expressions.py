"""Random expressions, compiled, against the exact evaluator; one lane at a time and by vectors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright
from tests.codegen.llvm.harness import call, pointwise
from tests.expr.random_exprs import DIVISIONS, conditions, numbers
from tilewright import te
from tilewright.core.dtype import DType
from tilewright.expr import nodes as n
from tilewright.expr import operators as op
from tilewright.expr.evaluate import UndefinedValueError, evaluate
from tilewright.expr.traverse import post_order, substitute

POINTS = 48
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")


def samples(dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Values of a type: small ones, extreme ones, and everything between."""
    kind = DType(dtype)
    if kind.is_int:
        ends = [kind.min_value, kind.min_value + 1, kind.max_value, kind.max_value - 1, 0, 1, 2, 3]
        small = rng.integers(max(kind.min_value, -9), 10, POINTS // 2)
        rest = [int(x) for x in rng.integers(kind.min_value, kind.max_value, POINTS - 8 - POINTS // 2, kind.numpy)]
        return np.array([*ends, *(int(x) for x in small), *rest], kind.numpy)
    small = rng.integers(-4, 5, POINTS // 2).astype("float64")
    special = [0.0, np.inf, -np.inf, np.nan]
    return np.array([*special, *small, *rng.normal(0, 30, POINTS - 4 - POINTS // 2)], "float64").astype(kind.numpy)


def expected(e: n.Expr, env: dict[n.Var, Any]) -> Any:
    """The value of `e`; None where it has none."""
    try:
        return evaluate(e, env)
    except UndefinedValueError:
        return None


def splits_zeros(e: n.Expr, env: dict[n.Var, Any]) -> bool:
    """Whether `e` divides by a zero that min or max may have chosen: which of 0.0 and -0.0, nobody says."""
    nodes = list(post_order(e))
    if not e.dtype.is_float or not any(isinstance(at, (n.Min, n.Max)) for at in nodes):
        return False
    return any(isinstance(at, DIVISIONS) and expected(at.b, env) == 0 for at in nodes)


def overflows(e: n.Expr, env: dict[n.Var, Any]) -> bool:
    """Whether a sum or product of an index type, below `e`, does not fit it: `simplify` takes these to fit."""
    exact: dict[type, Any] = {n.Add: operator.add, n.Sub: operator.sub, n.Mul: operator.mul}
    for at in post_order(e):
        if type(at) in exact and at.dtype in ("int32", "int64"):
            a, b = expected(at.a, env), expected(at.b, env)
            if a is not None and b is not None and exact[type(at)](int(a), int(b)) != expected(at, env):
                return True
    return False


def check(e: n.Expr, variables: list[n.Var], lanes: int) -> None:
    """Compare `e` with its exact value, over many values of the variables: the same whenever it is called."""
    rng = np.random.default_rng(11)
    columns = [samples(v.dtype, rng) for v in variables]
    for column in columns:
        rng.shuffle(column)
    out = str(e.dtype)
    value = lambda *loads: substitute(e, dict(zip(variables, loads, strict=True)))
    got = call(pointwise(value, [str(v.dtype) for v in variables], out, POINTS, lanes), columns, POINTS, out)
    for i in range(POINTS):
        env = {
            v: column[i] if v.dtype.is_float else int(column[i]) for v, column in zip(variables, columns, strict=True)
        }
        want = expected(e, env)
        if want is not None and not splits_zeros(e, env):
            same = got[i] == want or (e.dtype.is_float and np.isnan(got[i]) and np.isnan(want))
            assert same or overflows(e, env), f"{e} at {env}: {got[i]}, not {want}"


def variables_of(dtype: str) -> list[n.Var]:
    """Three variables of a type."""
    return [n.Var(name, dtype) for name in "xyz"]


def constants(dtype: str) -> st.SearchStrategy[Any]:
    """Constants of a type."""
    kind = DType(dtype)
    if kind.is_float:
        return st.sampled_from([0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1000.0])
    small = st.integers(max(-5, kind.min_value), 9)
    return st.one_of(small, st.integers(kind.min_value, kind.max_value))


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint64"])
def test_what_is_assumed_of_overflow(dtype: str) -> None:
    """Only sums of index types are taken to fit: elsewhere, `x + 1 < x` holds for the largest x."""
    x = n.Var("x", dtype)
    largest = {x: DType(dtype).max_value}
    e = n.LT(n.Add(x, op.const(1, dtype)), x)
    assert overflows(e, largest) == (dtype in ("int32", "int64"))
    assert not overflows(e, {x: 5})
    check(n.Select(e, x, op.const(3, dtype)), [x], 1)


@pytest.mark.parametrize("dtype", INTEGERS)
@settings(max_examples=settings.default.max_examples // 6)
@given(st.data(), st.sampled_from([1, 4, 16]))
def test_integers(dtype: str, data: st.DataObject, lanes: int) -> None:
    variables = variables_of(dtype)
    check(data.draw(numbers(variables, constants(dtype))), variables, lanes)


@pytest.mark.parametrize("dtype", FLOATS)
@settings(max_examples=settings.default.max_examples // 6)
@given(st.data(), st.sampled_from([1, 4, 16]))
def test_floats(dtype: str, data: st.DataObject, lanes: int) -> None:
    variables = variables_of(dtype)
    check(data.draw(numbers(variables, constants(dtype))), variables, lanes)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.data(), st.sampled_from(["int32", "uint8", "int64", "float32"]), st.sampled_from([1, 8]))
def test_conditions(data: st.DataObject, dtype: str, lanes: int) -> None:
    variables = variables_of(dtype)
    check(data.draw(conditions(variables, constants(dtype))), variables, lanes)


@pytest.mark.parametrize("source", [*INTEGERS, *FLOATS, "bool"])
def test_casts(source: str) -> None:
    x = n.Var("x", source)
    for to in (*INTEGERS, *FLOATS, "bool"):
        for lanes in (1, 16):
            if source == "bool":
                column = np.arange(POINTS) % 3 == 0
                got = call(
                    pointwise(
                        lambda v, to=to: n.Cast(DType(to).with_lanes(v.dtype.lanes), v), [source], to, POINTS, lanes
                    ),
                    [column],
                    POINTS,
                    to,
                )
                np.testing.assert_array_equal(got, column.astype(DType(to).numpy))
            elif source != to:
                check(n.Cast(DType(to), x), [x], lanes)


@pytest.mark.parametrize("lanes", [1, 8])
def test_float64_to_float16_rounds_once(lanes: int) -> None:
    """Values beside the middles between neighbours, where rounding to float32 first would go the wrong way."""
    size = 1 << 12
    A = te.placeholder((size,), "float64", name="A")
    B = te.compute((size,), lambda i: A[i].astype("float16"), name="B")
    s = te.create_schedule(B.op)
    if lanes > 1:
        s[B].vectorize(s[B].split(B.op.axis[0], lanes)[1])
    rng = np.random.default_rng(1)
    below = rng.integers(0, 0x7BFF, size).astype("uint16")
    low, high = (b.view("float16").astype("float64") for b in (below, (below + 1).astype("uint16")))
    middle = (low + high) / 2
    values = np.choose(
        rng.integers(0, 4, size), [low, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)]
    ) * rng.choice([-1.0, 1.0], size)
    values[:8] = [np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300, 65519.99999, 65520.0]
    out = tilewright.nd.array(np.zeros(size, "float16"))
    tilewright.build(s, [A, B], "llvm")(tilewright.nd.array(values), out)
    with np.errstate(over="ignore"):
        want = values.astype("float16")
    np.testing.assert_array_equal(out.numpy(), want)
    np.testing.assert_array_equal(np.signbit(out.numpy()), np.signbit(want))
