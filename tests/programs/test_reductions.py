"""Reductions that start at values of other tensors, wherever those are computed, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.programs.harness import build, every_target, result, spread
from tilewright import te


def declared() -> tuple[Any, ...]:
    """E[i] = 3 B[i], where B[i] = D[i] + i + the sum of A[i, k] over k, and D[i] = 2 F[i]."""
    A, F = te.placeholder((10, 8), name="A"), te.placeholder((10,), name="F")
    k = te.reduce_axis((0, 8), "k")
    D = te.compute((10,), lambda i: F[i] * 2, name="D")
    B = te.compute((10,), lambda i: te.sum(A[i, k], axis=k, init=D[i] + i), name="B")
    E = te.compute((10,), lambda i: B[i] * 3, name="E")
    return te.create_schedule(E.op), A, F, D, B, E


@every_target
@pytest.mark.parametrize("place", ["inlined", "at the reader", "at the reader's reader", "before a cache"])
def test_a_reduction_starts_at_values_of_a_tensor(target: str, place: str) -> None:
    s, A, F, D, B, E = declared()
    inner = spread(s, E, target, threads=4)
    if target != "llvm":
        s[B].compute_at(s[E], inner)
    if place == "at the reader":
        s[D].compute_at(s[B], B.op.axis[0])
    elif place == "at the reader's reader" and target != "llvm":
        s[D].compute_at(s[E], inner)
    else:
        s[D].compute_inline()
    if place == "before a cache":
        cache = s.cache_write(B, "local")
        s[cache].compute_at(s[B], s[B].op.axis[0])
        s[cache].split(s[cache].op.reduce_axis[0], factor=3)
    rng = np.random.default_rng(0)
    a, f = rng.random((10, 8)).astype("float32"), rng.random(10).astype("float32")
    wanted = 3 * (a.sum(axis=1) + 2 * f + np.arange(10))
    got = result(build(s, [A, F, E], target), (a, f), (10,), "float32")
    np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_values_to_start_at_are_read_within_their_tensor() -> None:
    """A cache is as large as its tiles, which here reach beyond the tensor."""
    A, k = te.placeholder((10, 8), name="A"), te.reduce_axis((0, 8), "k")
    B = te.compute((10,), lambda i: te.sum(A[i, k], axis=k, init=A[i, 0]), name="B")
    s = te.create_schedule(B.op)
    cache = s.cache_write(B, "local")
    s[cache].compute_at(s[B], s[B].split(B.op.axis[0], factor=4)[0])
    a = np.random.default_rng(0).random((10, 8)).astype("float32")
    got = result(build(s, [A, B], "llvm"), (a,), (10,), "float32")
    np.testing.assert_allclose(got, a.sum(axis=1) + a[:, 0], rtol=1e-5)
