"""Element-wise and broadcasting operators against NumPy, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import te, topi
from tilewright.tensor.reference import reference
from tilewright.topi import testing

RANDOM = np.random.default_rng(1)
SIGNED = np.concatenate([[0, -0.0, 0.5, -0.5, 1.5, -2.5, 1, -1], RANDOM.uniform(-3, 3, 27)]).astype("float32")
POSITIVE = (np.abs(SIGNED) + np.float32(0.01)).reshape(5, 7)
SPECIAL = np.array([[np.nan, np.inf, -np.inf, 0, 1.5]], "float32")
INSIDE = RANDOM.uniform(-0.9, 0.9, (3, 4, 5)).astype("float32")
WHOLE = RANDOM.integers(-50, 50, (3, 11)).astype("int32")
TRUTH = RANDOM.integers(0, 2, 13).astype(bool)
DOMAIN = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "log1p"), POSITIVE),
    **dict.fromkeys(("asin", "acos", "atanh"), INSIDE),
    "acosh": POSITIVE + 1,
    **dict.fromkeys(("isnan", "isinf", "isfinite"), SPECIAL),
    "logical_not": TRUTH,
    "bitwise_not": WHOLE,
}


def unary(name: str, value: np.ndarray, shown: str = "") -> Case:
    return Case(f"{name}{shown}", getattr(topi, name), [value], testing.UNARY[name](value))


@every_target
def test_element_by_element(target: str) -> None:
    cases = [unary(name, DOMAIN.get(name, SIGNED)) for name in testing.UNARY]
    cases += [unary(name, WHOLE, " of integers") for name in ("abs", "negative", "sign", "identity", "floor")]
    cases += [unary("exp", np.float32(0.5).reshape(()), " of a scalar"), unary("sigmoid", INSIDE.astype("float64"))]
    check(cases, target)


@every_target
def test_conversions_and_bounds(target: str) -> None:
    powers = np.array([1, 2, 3, 4, 5, 64, 65, 1 << 30], "int32")
    large = np.array([-(2**31), 2**31 - 1, 12345, -7, 0], "int32")
    cases = [
        Case("cast", lambda x: topi.cast(x, "int8"), [WHOLE], WHOLE.astype("int8")),
        Case("cast down", lambda x: topi.cast(x, "int32"), [SIGNED], SIGNED.astype("int32")),
        Case("clip", lambda x: topi.clip(x, -1, 1.5), [SIGNED], np.clip(SIGNED, np.float32(-1), np.float32(1.5))),
        Case("clip whole", lambda x: topi.clip(x, -5, 1 << 40), [WHOLE], np.maximum(WHOLE, np.int32(-5))),
        Case("ceil_log2", topi.ceil_log2, [powers], testing.ceil_log2_python(powers)),
        Case("ceil_log2 f", topi.ceil_log2, [POSITIVE], testing.ceil_log2_python(POSITIVE)),
        Case("full_like", lambda x: topi.full_like(x, 3), [WHOLE], np.full_like(WHOLE, 3)),
        Case("full", lambda: topi.full((3, 5), "float16", 2.5), [], np.full((3, 5), 2.5, "float16")),
        Case("zeros", lambda: topi.zeros((7,)), [], np.zeros(7, "float32")),
        Case("ones", lambda: topi.ones((2, 3), "int8"), [], np.ones((2, 3), "int8")),
        Case("zeros_like", topi.zeros_like, [WHOLE], np.zeros_like(WHOLE)),
        Case("ones_like", topi.ones_like, [SIGNED], np.ones_like(SIGNED)),
        Case("elemwise_sum", lambda *x: topi.elemwise_sum(x), [SIGNED] * 3, SIGNED * 3),
        Case("relu", topi.nn.relu, [SIGNED], np.maximum(SIGNED, 0)),
        Case("leaky_relu", lambda x: topi.nn.leaky_relu(x, 0.1), [SIGNED], np.where(SIGNED > 0, SIGNED, SIGNED / 10)),
    ]
    image, scale, shift = INSIDE[None], DOMAIN["asin"][0, 0, :3], SIGNED[-3:]
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    expected = testing.scale_shift_nchw_python(image, scale, shift)
    cases += [
        Case("scale_shift", topi.nn.scale_shift_nchw, [image, scale, shift], expected),
        Case("scale_shift last", topi.nn.scale_shift_nhwc, [last, scale, shift], expected.transpose(0, 2, 3, 1)),
        Case(
            "scale_shift in blocks",
            topi.nn.scale_shift_nchwc,
            [image[..., None], scale[:, None], shift[:, None]],
            expected[..., None],
        ),
    ]
    steep = np.array([0.5, -2, 3, 0.25], "float32")
    expected = np.where(INSIDE > 0, INSIDE, INSIDE * steep[:, None])
    cases.append(Case("prelu", topi.nn.prelu, [INSIDE, steep], expected))
    for multiplier, shift in ((1 << 30, 0), (1395864371, -3), (2**31 - 1, 0)):
        expected = testing.fixed_point_multiply_python(large, multiplier, shift)
        scale = lambda x, m=multiplier, s=shift: topi.fixed_point_multiply(x, m, s)
        cases.append(Case(f"fixed_point {shift}", scale, [large], expected))
    check(cases, target)


PAIRS = [((3, 1, 5), (4, 1)), ((7,), (7,)), ((2, 3), ()), ((1, 4), (6, 4)), ((16, 8), (8,))]
ON_INTEGERS = "trunc_divide trunc_mod bitwise_and bitwise_or bitwise_xor left_shift right_shift".split()


def operands(name: str, a: tuple[int, ...], b: tuple[int, ...]) -> list[np.ndarray]:
    if name.startswith("logical"):
        return [RANDOM.integers(0, 2, s).astype(bool) for s in (a, b)]
    if name in ON_INTEGERS:
        return [RANDOM.integers(-40, 40, a).astype("int32"), RANDOM.integers(1, 7, b).astype("int32")]
    left, right = (RANDOM.uniform(-4, 4, s).astype("float32") for s in (a, b))
    if name == "power":
        return [np.abs(left), right]
    if "equal" in name:
        return [np.round(left), np.round(right)]
    return [left, right]


@every_target
def test_broadcasting(target: str) -> None:
    cases = []
    for number, name in enumerate(testing.BINARY):
        pair = PAIRS[number % len(PAIRS)]
        for shapes in (pair, pair[::-1]):
            given = operands(name, *shapes)
            cases.append(Case(name, getattr(topi, name), given, testing.BINARY[name](*given), rtol=2e-5))
    for name in ("divide", "mod", "floor_divide", "floor_mod"):
        given = operands("trunc_mod", (3, 4), (4,))
        cases.append(Case(f"{name} whole", getattr(topi, name), given, testing.BINARY[name](*given)))
    cases += [
        Case("add 1", lambda x: topi.add(x, 1), [SIGNED], SIGNED + 1),
        Case("subtract", lambda x: topi.subtract(2.0, x), [SIGNED], 2 - SIGNED),
        Case("wider", topi.multiply, [WHOLE, INSIDE[0, 0, :1]], (WHOLE * INSIDE[0, 0, :1]).astype("float32")),
        Case(
            "broadcast_to", lambda x: topi.broadcast_to(x, (2, 3, 4)), [WHOLE[:, :1]], np.tile(WHOLE[:, :1], (2, 1, 4))
        ),
    ]
    check(cases, target)


def test_numbers_make_expressions() -> None:
    i = te.var("i")
    assert str(topi.add(i, 1)) == str(i + 1)
    assert topi.maximum(2, 3).value == 3


def test_arithmetic_of_whole_tensors() -> None:
    """As `intro_topi` has it: `a + b` broadcasts."""
    A, B = te.placeholder((5, 7), name="A"), te.placeholder((7,), name="B")
    a, b = POSITIVE, POSITIVE[0]
    rows = [(A + B, a + b), (1 - A, 1 - a), (A * 2.0, a * 2), (B / A, b / a), (A - B, a - b), (2 / B, 2 / b)]
    for whole, wanted in [*rows, (3 * A, 3 * a)]:
        given = {A: a, B: b}
        (found,) = reference([whole], {t: given[t] for t in whole.op.input_tensors})
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    assert (A + B).op.tag == "broadcast"


def test_any_number_of_elements() -> None:
    """Sizes that are known only at the call."""
    n = te.size_var("n")
    A, B = te.placeholder((n, 3), name="A"), te.placeholder((3,), name="B")
    made: Any = topi.add(A, B)
    assert tuple(made.shape) == (n, 3)
    assert made.op.tag == "broadcast"
