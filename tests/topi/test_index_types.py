"""Indices of every integer type, of which the narrow ones do not hold the extents that they index."""

from __future__ import annotations

import numpy as np
import pytest

from tests.programs.harness import every_target
from tests.topi.cases import Case, check
from tilewright import te, tir, topi

LONG = np.arange(600, dtype="float32").reshape(300, 2)
PLACES = (0, 1, 100, 120)
TYPES = ("int8", "uint8", "int16", "uint32", "uint64")


def cases_of(dtype: str) -> list[Case]:
    """Operators that compare an index with an extent of 300."""
    places = np.array(PLACES, dtype)
    wide = places.astype("int64")
    marked = np.zeros((4, 300), "float32")
    marked[np.arange(4), wide] = 1
    lengths = np.array([100, 120], dtype)
    held = np.where(np.arange(300)[:, None] < lengths.astype("int64"), LONG, -1).astype("float32")
    written = LONG.copy()
    written[wide] = -1
    news = np.full((4, 2), -1, "float32")
    order = np.random.default_rng(3).permutation(100).astype(dtype)
    modes = ("clip", "wrap", "nan", "fast")
    taken = [
        Case(f"take {mode}", lambda a, i, m=mode: topi.take(a, i, 0, mode=m), [LONG, places], LONG[wide])
        for mode in modes
    ]
    begin, step = np.array([100], dtype), np.array([2], dtype)
    return [
        *taken,
        Case("one hot", lambda i: topi.one_hot(i, 1, 0, 300, -1, "float32"), [places], marked),
        Case("mask", lambda a, n: topi.sequence_mask(a, n, -1, 0), [LONG, lengths], held),
        Case(
            "slice",
            lambda a, b, s: topi.dynamic_strided_slice(a, b, b, s, (90, 2)),
            [LONG, begin, step],
            LONG[100:280:2],
        ),
        Case(
            "unravel",
            lambda i: topi.unravel_index(i, (7, 300)),
            [places],
            np.stack(np.unravel_index(wide, (7, 300))).astype(dtype),
        ),
        Case(
            "scatter",
            lambda a, i, u: topi.scatter_elements(a, i, u, 0),
            [LONG, np.stack([places, places], 1), news],
            written,
            "schedule_extern",
        ),
        Case("scatter nd", topi.scatter_nd, [LONG, places[None], news], written, "schedule_extern"),
        Case("invert", topi.invert_permutation, [order], np.argsort(order).astype(dtype), "schedule_extern"),
    ]


@every_target
def test_an_index_may_be_of_any_integer_type(target: str) -> None:
    for dtype in TYPES:
        check(cases_of(dtype), target)


@every_target
def test_the_logarithm_of_a_sum_of_infinities(target: str) -> None:
    x = np.array([-np.inf, np.inf, 1, -np.inf, np.nan, 800], "float32")
    y = np.array([-np.inf, np.inf, 1, 2, 1, -800], "float32")
    with np.errstate(invalid="ignore"):  # of the NaN
        wanted = np.logaddexp(x, y)
    check([Case("log_add_exp", topi.log_add_exp, [x, y], wanted)], target)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
@every_target
def test_a_function_of_a_choice_among_narrow_integers(target: str, dtype: str) -> None:
    """To C, such a choice is an int: of which of the functions it is an argument is then open."""
    values = np.array([0, 1, 3, 64, 100], dtype) if dtype[0] == "u" else np.array([-9, -1, 0, 3, 100], dtype)
    bits = np.dtype(dtype).itemsize * 8

    def operator(a: te.Tensor) -> list[te.Tensor]:
        three = te.const(3, dtype)
        chosen = te.compute(a.shape, lambda i: te.if_then_else(a[i] < three, a[i] + three, a[i]), "chosen")
        return [
            te.compute(a.shape, lambda i: tir.max(chosen[i], three), "larger"),
            te.compute(a.shape, lambda i: tir.clz(chosen[i]), "zeros"),
        ]

    chosen = np.where(values < 3, values + np.array(3, dtype), values).astype(dtype)
    zeros = np.array([bits - int(x).bit_length() if x >= 0 else 0 for x in chosen], "int32")  # as in v0.19
    check([Case("choice", operator, [values], [np.maximum(chosen, 3).astype(dtype), zeros])], target)
