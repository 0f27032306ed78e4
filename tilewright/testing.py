"""Helpers for tests of numerical programs."""

from typing import Any

import numpy as np


def assert_allclose(actual: Any, desired: Any, rtol: float = 1e-7, atol: float = 1e-7) -> None:
    """Raise AssertionError unless |actual - desired| <= atol + rtol * |desired| everywhere and the shapes agree."""
    got, wanted = np.asanyarray(actual), np.asanyarray(desired)
    np.testing.assert_equal(got.shape, wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=rtol, atol=atol, verbose=True)
