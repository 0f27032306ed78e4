"""Activations as code generation writes them for CUDA: what they are at infinity, and how far off they may be."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tilewright as tw
from tests.emulator.device import compiler, emulated, emulation
from tests.topi.test_direct import activated
from tilewright import te
from tilewright.topi.templates.epilogue import ACTIVATIONS

SPECIAL = [np.inf, -np.inf, np.nan, 0.0, 1e-30, 3.0, -3.0, 88.0, -88.0, -90.0, 1e4, -1e4, 1e30, -1e30, 3.4e38, -3.4e38]
POWER_ERROR, RECIPROCAL_ERROR = 2.0**-22, 2.0**-23
"""What the instructions ex2.approx.ftz.f32 and rcp.approx.ftz.f32 may be off by, relatively."""


X_VALUES = np.concatenate([SPECIAL, np.linspace(-9, 9, 240)]).astype("float32")


@pytest.fixture(scope="module")
def values() -> dict[tuple[str, str], np.ndarray]:
    """What one program computes of each activation and type."""
    if compiler() is None:
        pytest.skip("there is no g++ to compile generated source for this machine")
    keys, x = list(product(ACTIVATIONS, ["float32", "float16"])), X_VALUES
    X = te.placeholder(x.shape, "float32", "X")
    made = [te.compute(x.shape, lambda i, n=n, d=d: te.cast(d, ACTIVATIONS[n](X[i])), f"{n}_{d}") for n, d in keys]
    s = te.create_schedule([each.op for each in made])
    for each in made:
        s[each].bind(s[each].op.axis[0], te.thread_axis("threadIdx.x"))
    with emulation():
        arrays = [tw.nd.array(np.full(x.shape, 7, dtype), tw.cuda()) for _, dtype in keys]
        emulated(s, [X, *made])(tw.nd.array(x, tw.cuda()), *arrays)
        return dict(zip(keys, (each.numpy() for each in arrays), strict=True))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_values_and_limits(name: str, dtype: str, values: dict[tuple[str, str], np.ndarray]) -> None:
    """As in PyTorch: NaN stays, and so does infinity times 0, except of gelu, whose limit is 0."""
    x = X_VALUES
    with np.errstate(all="ignore"):
        right = activated(name, x.astype("float64"))
        right[1] = 0 if name == "gelu" else right[1]
        size = np.where(np.isfinite(right), np.abs(right), 1)
        if dtype == "float16":
            right = right.astype(dtype).astype("float64")
    got = values[name, dtype].astype("float64")
    np.testing.assert_array_equal(np.isnan(got), np.isnan(right))
    np.testing.assert_array_equal(np.isposinf(got), np.isposinf(right.astype(dtype)))
    there = np.isfinite(right) & np.isfinite(got)
    off = np.abs(got[there] - right[there]) / (1 + size[there])
    assert off.max() <= (3e-7 if dtype == "float32" else 2**-10)


@pytest.mark.parametrize("power_error", [-POWER_ERROR, 0.0, POWER_ERROR])
@pytest.mark.parametrize("reciprocal_error", [-RECIPROCAL_ERROR, 0.0, RECIPROCAL_ERROR])
def test_a_sigmoid_by_instructions_that_are_as_wrong_as_they_may_be(
    power_error: float, reciprocal_error: float
) -> None:
    """Within 2e-7 everywhere, and relatively within 2e-6 up to 16."""
    x = np.random.default_rng(0).integers(0, 2**32, 1 << 18, dtype=np.uint32).view("float32")
    x = np.concatenate([x[np.isfinite(x)], np.linspace(-120, 120, 1 << 18, dtype="float32")])
    with np.errstate(all="ignore"):
        argument = x * np.float32(-1.442695041)
        power = np.exp2(argument.astype("float64")) * (1 + power_error)
        power = np.where(power < 2.0**-126, 0, power).astype("float32")
        y = 1 / (np.float32(1) + power).astype("float64") * (1 + reciprocal_error)
        y = np.where(y < 2.0**-126, 0, y)
        right = 1 / (1 + np.exp(-x.astype("float64")))
    assert np.abs(y - right).max() <= 2e-7
    near = np.abs(x) <= 16
    assert (np.abs(y - right)[near] / right[near]).max() <= 2e-6
