"""Activations of calls at special values, against PyTorch."""

from __future__ import annotations

import math
from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tilewright.functional import torch_native  # noqa: E402  # needs PyTorch

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
    ours, theirs = x.clone().requires_grad_(), x.double().requires_grad_()
    tw.conv1d(ours.reshape(1, 1, -1), w, activation=name).sum().backward()
    ACTIVATIONS[name](theirs).sum().backward()
    first = 1 if name in ("relu6", "hardswish") else 0  # PyTorch's kernels disagree about the gradient at NaN
    torch.testing.assert_close(
        ours.grad[first:], theirs.grad[first:], rtol=rtol, atol=1e-6, equal_nan=True, check_dtype=False
    )


@pytest.mark.parametrize(("name", "layout"), [*((name, "NCW") for name in ACTIVATIONS), ("silu", "NWC")])
def test_gradients_through_fused_activations(name: str, layout: str) -> None:
    """Against PyTorch in float64: the sums before the activation are computed again, with their bias and residual."""
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 6, 11).double(), torch.randn(6, 1, 3).double(), torch.randn(6).double()
    residual, dy = torch.randn(2, 2, 6, 9).double()
    for added in (None, residual):
        given = [a for a in (x, w, b, added) if a is not None]
        wanted = torch.autograd.functional.vjp(
            lambda x, w, b, r=None: ACTIVATIONS[name](F.conv1d(x, w, b, groups=6) + (0 if r is None else r)),
            tuple(given), dy,
        )[1]  # fmt: skip
        mine = [a.clone().requires_grad_() for a in given]
        turned = [a.movedim(1, -1) if layout == "NWC" and a.dim() == 3 and a.shape[1] == 6 and i != 1 else a
                  for i, a in enumerate(mine)]  # fmt: skip
        extra = turned[3] if added is not None else None
        made = tw.conv1d(*turned[:3], groups=6, activation=name, residual=extra, layout=layout)
        found = torch.autograd.grad(made, mine, dy.movedim(1, -1) if layout == "NWC" else dy)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)
        mine[0].grad = None
        assert torch.autograd.gradcheck(
            lambda x: tw.conv1d(x, w[..., :1], b, groups=6, activation=name).sum(), (x[:1, :, :2].requires_grad_(),)
        )


def test_a_backward_step_needs_the_gradient() -> None:
    x, w = torch.ones(1, 2, 5), torch.ones(2, 1, 3)
    with pytest.raises(tw.UserError, match="silu_gradient needs a residual"):
        tw.conv1d(x, w, groups=2, activation="silu_gradient")


def sigmoid(v: float) -> float:
    return 1 / (1 + math.exp(-v))


EXACT = {
    "relu": lambda v: max(v, 0.0),
    "relu6": lambda v: min(max(v, 0.0), 6.0),
    "silu": lambda v: v * sigmoid(v),
    "gelu": lambda v: v * math.erfc(-v / math.sqrt(2)) / 2,
    "gelu_tanh": lambda v: v * sigmoid(2 * math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)),
    "sigmoid": sigmoid,
    "hardswish": lambda v: v * min(max(v + 3, 0.0), 6.0) / 6,
}


class Operators(TorchDispatchMode):
    """Keep the names of PyTorch's operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("on", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("name", EXACT)
def test_epilogues_of_pytorchs_kernels_are_exact_in_float64(name: str, on: str) -> None:
    """PyTorch's own hardswish has a constant of float32 on CUDA."""
    values = [0.137 * k + 0.05 for k in range(-60, 60)]
    v = torch.tensor(values, dtype=torch.float64, device=on)
    exact = torch.tensor([EXACT[name](each) for each in values], dtype=torch.float64)
    with Operators() as run:
        found = torch_native.ACTIVATIONS[name](v)
    torch.testing.assert_close(found.cpu(), exact, rtol=1e-13, atol=1e-14)
    assert "aten.hardswish.default" not in run.names
    step = 2.0**-12
    slopes = [(EXACT[name](each + step) - EXACT[name](each - step)) / (2 * step) for each in values]
    found = torch_native.ACTIVATION_GRADIENTS[name](torch.ones_like(v), v).cpu()
    torch.testing.assert_close(found, torch.tensor(slopes, dtype=torch.float64), rtol=3e-7, atol=3e-7)
