"""Calls with a budget of tuning: what they find is right, kept, and not searched for again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tilewright.core.errors import UserError
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


def test_a_budget_where_gradients_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    budgets, search = [], tuning.tuned

    def counted(*given: Any) -> Any:
        budgets.append(given[-1])
        return search(*given)

    monkeypatch.setattr(tuning, "tuned", counted)
    monkeypatch.setattr(tuning, "TIMEOUT", 600.0)
    x, w = torch.randn(1, 5, 11, 9), torch.randn(5, 1, 3, 3, requires_grad=True)
    for _ in range(2):
        found = tw.conv2d(x, w, padding=1, groups=5, tune=0.5)
        torch.testing.assert_close(found, torch.nn.functional.conv2d(x, w, padding=1, groups=5), atol=1e-4, rtol=1e-4)
    assert found.requires_grad
    assert budgets == [0.5], "the first call tunes, and the second one knows the layer"
    with pytest.raises(UserError, match="tune is 'slow', which is not a budget"):
        tw.conv2d(x, w, padding=1, groups=5, tune="slow")
