"""Reducers that depend on the element: the axes in their combination and identity follow the loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.loops.running import run
from tilewright import te


def cached(s: te.Schedule, B: te.Tensor, C: te.Tensor) -> None:
    cache = s.cache_write(B, "local")
    s[cache].compute_at(s[B], B.op.axis[0])


SCHEDULES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "as declared": lambda s, B, C: None,
    "split": lambda s, B, C: s[B].split(B.op.axis[0], factor=5),
    "computed inside": lambda s, B, C: s[B].compute_at(s[C], C.op.axis[0]),
    "cached": cached,
    "split, cached": lambda s, B, C: (s[B].split(B.op.axis[0], factor=5), s.cache_write(B, "local")),
    "in two steps": lambda s, B, C: s.rfactor(B, s[B].split(B.op.reduce_axis[0], factor=2)[1]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_maximum_that_begins_at_the_index(name: str) -> None:
    A = te.placeholder((12, 5), name="A")

    def element(i: te.Var) -> Any:
        k = te.reduce_axis((0, 5), name="k")
        own = te.comm_reducer(lambda x, y: te.max(x, y) + 0 * i.astype("float32"), lambda t: i.astype(t), name="own")
        return own(A[i, k], axis=k)

    B = te.compute((12,), element, name="B")
    C = te.compute((12,), lambda i: B[i] + 1, name="C")
    s = te.create_schedule(C.op)
    SCHEDULES[name](s, B, C)
    values = np.random.default_rng(0).integers(0, 20, (12, 5)).astype("float32")
    out = np.full(12, 77, "float32")
    run(tilewright.lower(s, [A, C])["main"], values, out)
    np.testing.assert_array_equal(out, np.maximum(values.max(1), np.arange(12)) + 1)
