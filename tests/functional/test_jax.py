"""Calls on the arrays of JAX, where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tilewright.core.errors import UserError

jax = pytest.importorskip("jax")


def arrays(dtype: str = "float32"):
    x = np.random.default_rng(0).standard_normal((2, 8, 12, 13), np.float32)
    w = np.random.default_rng(1).standard_normal((8, 1, 3, 3), np.float32)
    return jax.numpy.asarray(x, dtype), jax.numpy.asarray(w, dtype)


def by_jax(x, w):
    return jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)], feature_group_count=8)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("bfloat16", 1e-1), ("float16", 1e-2)])
def test_a_call_returns_an_array_of_jax(dtype: str, tolerance: float) -> None:
    x, w = arrays(dtype)
    found = tw.conv2d(x, w, padding=1, groups=8)
    assert isinstance(found, jax.Array)
    assert found.dtype == dtype
    np.testing.assert_allclose(np.asarray(found, np.float32), np.asarray(by_jax(x, w), np.float32), atol=tolerance)


def test_operands_that_jax_still_computes() -> None:
    _, w = arrays()
    power = jax.jit(lambda a: a @ a)
    for seed in range(4):
        a = jax.random.normal(jax.random.PRNGKey(seed), (576, 576))
        found = tw.conv2d(power(a).reshape(2, 8, 144, 144), w, padding=1, groups=8) * 2.0
        wanted = by_jax(power(a).block_until_ready().reshape(2, 8, 144, 144), w) * 2.0
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), atol=1e-2)


@pytest.mark.parametrize("transform", ["jit", "grad", "vmap"])
def test_a_program_that_jax_traces(transform: str) -> None:
    x, w = arrays()
    traced = getattr(jax, transform)(lambda x: tw.conv2d(x, w, padding=1, groups=8).sum())
    with pytest.raises(UserError, match="JAX is tracing the program") as caught:
        traced(x if transform != "vmap" else x[None])
    assert "jax.pure_callback" in str(caught.value)


def test_the_way_into_a_traced_program() -> None:
    x, w = arrays()

    @jax.jit
    def program(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jax.pure_callback(lambda x: tw.conv2d(x, w, padding=1, groups=8), shape, x) + 1.0

    np.testing.assert_allclose(np.asarray(program(x)), np.asarray(by_jax(x, w) + 1.0), atol=1e-5)
