"""Calls with a budget of tuning: what they find is right, kept, and not searched for again."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tilewright.functional import tuning


def test_a_budget_of_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)  # whatever else the machine does, the first batch is measured
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((1, 4, 9, 9), "float32"), rng.standard_normal((4, 1, 3, 3), "float32")
    wanted = direct.conv(x, w, None, 1, ((1, 1), (1, 1)), 1, 4)
    found = tw.depthwise_conv2d(x, w, padding=1, tune=0.5)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
    assert "measured, the best of" in str(tw.explain_call(tw.depthwise_conv2d, x, w, padding=1, tune=0.5))

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the layer is known already")

    monkeypatch.setattr(tuning, "tuned", never)
    np.testing.assert_allclose(tw.depthwise_conv2d(x, w, padding=1, tune=0.5), wanted, rtol=1e-4, atol=1e-4)
