"""Activations of calls at special values, against PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "hardswish": F.hardswish,
}
VALUES = [torch.nan, torch.inf, -torch.inf, 0.0, -0.0, *(s * v for v in (1e-8, 3, 6, 20, 100, 1e4) for s in (1, -1))]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_special_values(name: str, dtype: Any) -> None:
    x, w = torch.tensor(VALUES, dtype=dtype), torch.ones(1, 1, 1, dtype=dtype)
    found, wanted = tw.conv1d(x.reshape(1, 1, -1), w, activation=name).flatten(), ACTIVATIONS[name](x)
    if name == "gelu" and dtype != torch.float64:  # of infinities, the limits
        wanted = torch.where(x.isinf(), x.clamp(min=0), wanted)
    rtol = 1e-2 if dtype.itemsize == 2 else 1e-5
    torch.testing.assert_close(found, wanted, rtol=rtol, atol=1e-6, equal_nan=True)
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    tw.conv1d(ours.reshape(1, 1, -1), w, activation=name).sum().backward()
    ACTIVATIONS[name](theirs).sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=rtol, atol=1e-6, equal_nan=True)
