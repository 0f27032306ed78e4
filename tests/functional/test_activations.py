"""Activations of calls at special values, against PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tilewright import te

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tilewright.functional.pytorch import native as torch_native  # noqa: E402  # needs PyTorch

F = torch.nn.functional
pytestmark = pytest.mark.usefixtures("our_kernels")
ACTIVATIONS = {
    "relu": F.relu,
    "relu6": F.relu6,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda v: F.gelu(v, approximate="tanh"),
    "sigmoid": torch.sigmoid,
    "hardswish": F.hardswish,
    "tanh": torch.tanh,
    "leaky_relu": F.leaky_relu,
    "elu": F.elu,
    "mish": F.mish,
    "hardtanh": F.hardtanh,
    "softplus": F.softplus,
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
    # PyTorch's kernels disagree about these gradients at NaN.
    first = 1 if name in ("relu6", "hardswish", "hardtanh") else 0
    torch.testing.assert_close(
        ours.grad[first:], theirs.grad[first:], rtol=rtol, atol=1e-6, equal_nan=True, check_dtype=False
    )


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_gradients_of_activations_are_differentiable(name: str) -> None:
    """PyTorch's operators of some gradients have no derivative."""
    v, along = torch.linspace(-7.1, 7.3, 40, dtype=torch.float64), torch.linspace(-1, 1, 40, dtype=torch.float64)

    def theirs(v: Any) -> Any:
        return torch.func.vjp(ACTIVATIONS[name], v)[1](along)[0]

    def ours(v: Any) -> Any:
        return torch_native.ACTIVATION_GRADIENTS[name](along, v)

    for transform in (
        lambda f: torch.func.grad(lambda v: f(v).pow(2).sum())(v),
        lambda f: torch.func.jvp(f, (v,), (along,))[1],
        lambda f: torch.autograd.functional.vjp(f, v, along)[1],
    ):
        torch.testing.assert_close(transform(ours), transform(theirs))


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
    "tanh": math.tanh,
    "leaky_relu": lambda v: max(v, 0.01 * v),
    "elu": lambda v: v if v > 0 else math.expm1(v),
    "mish": lambda v: v * math.tanh(math.log1p(math.exp(v))),
    "hardtanh": lambda v: min(max(v, -1.0), 1.0),
    "softplus": lambda v: math.log1p(math.exp(v)),
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


OWN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "squared relu": (lambda v: te.max(v, 0) * te.max(v, 0), lambda v: torch.maximum(v, torch.zeros_like(v)) ** 2),
    "rational": (lambda v: v / (1 + te.abs(v)), lambda v: v / (1 + v.abs())),
    "of many functions": (
        lambda v: te.if_then_else(
            v > 0.5, te.log(te.abs(v) + 2) * te.sqrt(te.abs(v) + 1), te.sigmoid(v) * te.exp(v) + te.tanh(v)
        ),
        lambda v: torch.where(
            v > 0.5, torch.log(v.abs() + 2) * (v.abs() + 1).sqrt(), torch.sigmoid(v) * torch.exp(v) + torch.tanh(v)
        ),
    ),
    "steps": (lambda v: te.floor(v), lambda v: torch.floor(v)),
}


@pytest.mark.parametrize("name", OWN)
def test_gradients_of_activations_of_ones_own(name: str) -> None:
    """By the derivative of the expression; in one kernel, or by PyTorch's operators beside a residual and for more."""
    activation, theirs = OWN[name]
    torch.manual_seed(0)
    x, w, b = torch.randn(2, 6, 11).double(), torch.randn(6, 1, 3).double(), torch.randn(6).double()
    for residual in (None, torch.randn(2, 6, 9).double()):
        given = [a for a in (x, w, b, residual) if a is not None]
        mine, right = ([a.clone().requires_grad_() for a in given] for _ in range(2))

        def call(x: Any, w: Any, b: Any, r: Any = None) -> Any:
            return tw.conv1d(x, w, b, groups=6, activation=activation, residual=r)

        made = theirs(F.conv1d(*right[:3], groups=6) + (0 if residual is None else right[3]))
        dy = torch.randn_like(made)
        wanted = torch.autograd.grad(made, right, dy)
        for found, expected in zip(torch.autograd.grad(call(*mine), mine, dy), wanted, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    assert torch.autograd.gradgradcheck(lambda x: call(x, w, b)[..., :2], (mine[0],)) or name == "steps"
    _, moved = torch.func.jvp(lambda x: call(x, w, b), (x,), (torch.ones_like(x),))
    _, right_moved = torch.func.jvp(lambda x: theirs(F.conv1d(x, w, b, groups=6)), (x,), (torch.ones_like(x),))
    torch.testing.assert_close(moved, right_moved, rtol=1e-9, atol=1e-9)


def test_an_activation_of_ones_own_in_a_compiled_training_step() -> None:
    x, w = torch.randn(2, 6, 11, requires_grad=True), torch.randn(6, 1, 3)

    def step(x: Any) -> Any:
        return tw.conv1d(x, w, groups=6, activation=lambda v: v * te.sigmoid(v)).square().sum()

    (found,) = torch.autograd.grad(torch.compile(step, backend="aot_eager", fullgraph=True)(x), x)
    (wanted,) = torch.autograd.grad(F.silu(F.conv1d(x, w, groups=6)).square().sum(), x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


def test_an_activation_without_a_derivative() -> None:
    x, w = torch.randn(1, 2, 5, requires_grad=True), torch.randn(2, 1, 3)
    with pytest.raises(tw.UserError, match=r"the derivative of .*tanhf.* is not known"):
        tw.conv1d(x, w, groups=2, activation=lambda v: tw.tir.call_pure_extern("float32", "tanhf", v)).sum().backward()
