"""Reductions against NumPy, on every target and by every schedule: rows, columns, few sums of many terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import topi
from tilewright.topi import testing

RANDOM = np.random.default_rng(2)
CUBE = RANDOM.uniform(-1, 1, (3, 37, 41)).astype("float32")
WHOLE = RANDOM.integers(-9, 9, (5, 67)).astype("int32")
TRUTH = RANDOM.integers(0, 8, (6, 5, 40)) > 0
AXES: list[tuple[Any, bool]] = [(None, False), (-1, False), (1, True), (0, False), ((0, 2), False), ((1, 2), True)]


def reducing(
    name: str, value: np.ndarray, axis: Any, keepdims: bool = False, on_opencl: bool = True, **options: Any
) -> Case:
    expected = testing.REDUCTIONS[name](value, axis, keepdims, **options)
    operator = getattr(topi, name)
    return Case(
        f"{name} {value.shape} {axis} {options}".translate(str.maketrans("(),-{}:'", "_______ ")),
        lambda x: operator(x, axis, keepdims, **options),
        [value],
        expected,
        "schedule_reduce",
        rtol=1e-4,
        atol=1e-4,
        on_opencl=on_opencl,
    )


@every_target
def test_over_every_choice_of_dimensions(target: str) -> None:
    cases = [reducing("sum", CUBE, *choice) for choice in AXES]
    cases += [reducing("max", WHOLE, axis, on_opencl=axis == 1) for axis in (None, 0, 1)]
    cases += [reducing(name, CUBE, axis, on_opencl=axis == 2) for name in ("min", "max") for axis in (1, 2)]
    cases += [reducing("prod", CUBE[:, :6], 1), reducing("prod", 1 + CUBE[0, :2] / 64, -1)]
    cases += [reducing(name, TRUTH, axis) for name in ("all", "any") for axis in (2, 0)]
    check(cases, target)


@every_target
def test_sums_have_the_type_of_the_elements(target: str) -> None:
    """A sum of float16 is one, added up as such; a wider type is asked for by converting the elements."""
    ones = np.ones((3, 4096), "float16")
    short = testing.REDUCTIONS["sum"](ones[:, :2000], 1, False)
    cases = [
        Case("short", lambda x: topi.sum(x, 1), [ones[:, :2000]], short.astype("float16"), "schedule_reduce", 0, 0),
        Case("wide", lambda x: topi.sum(topi.cast(x, "float32"), 1), [ones], np.full(3, 4096, "float32"),
             "schedule_reduce", 0, 0),
    ]  # fmt: skip
    check(cases, target)


@every_target
def test_places(target: str) -> None:
    with_ties = np.round(CUBE * 3)
    low = np.full((2, 50), -np.inf, "float32")
    unknown = CUBE[0].copy()
    unknown[::2, 17] = np.nan
    cases = [reducing("argmax", with_ties, *choice) for choice in AXES]
    cases += [reducing("argmin", with_ties, *choice, on_opencl=i == 1) for i, choice in enumerate(AXES)]
    cases += [reducing("argmax", with_ties, axis, on_opencl=axis == 2, select_last_index=True) for axis in (None, 2, 0)]
    cases += [reducing("argmax", low, 1), reducing("argmin", WHOLE, 1), reducing("argmax", unknown, 1)]
    check(cases, target)


@every_target
def test_sums_that_blocks_share(target: str) -> None:
    """Few sums of many terms are computed in two steps."""
    long = RANDOM.uniform(-1, 1, (2, 30_001)).astype("float32")
    flat, tall = long.reshape(-1)[:60_000], RANDOM.uniform(-1, 1, (9001, 5)).astype("float32")
    vectors = RANDOM.uniform(-1, 1, 1 << 16).astype("float32")
    cases = [reducing("sum", a, axis) for a, axis in ((long, 1), (flat, 0), (tall, 0), (long, None), (vectors, 0))]
    cases += [
        reducing("argmax", long, 1),
        reducing("max", vectors, None),
        reducing("sum", vectors.reshape(64, 1024), 1),
    ]
    check(cases, target)


@every_target
def test_what_follows_a_reduction_joins_its_kernel(target: str) -> None:
    cases = [
        Case(
            "mean",
            lambda x: topi.divide(topi.sum(topi.exp(x), -1), 41.0),
            [CUBE],
            np.exp(CUBE.astype("float64")).mean(-1).astype("float32"),
            "schedule_reduce",
        ),
        Case(
            "norm",
            lambda x: topi.sqrt(topi.sum(topi.multiply(x, x))),
            [CUBE],
            np.asarray(np.sqrt((CUBE.astype("float64") ** 2).sum())).astype("float32"),
            "schedule_reduce",
        ),
    ]
    check(cases, target)
