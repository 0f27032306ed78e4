"""Calls on PyTorch's tensors of unusual kinds, and under its transforms, after calls of the usual kind."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
F = torch.nn.functional
nn = import_module("tilewright.nn")  # needs PyTorch

X, W, B = torch.randn(2, 6, 9, 10), torch.randn(6, 1, 3, 3), torch.randn(6)
WINDOW = {"padding": 1, "groups": 6}


@pytest.fixture(autouse=True)
def _called_before() -> None:
    for _ in range(3):
        tw.conv2d(X, W, B, **WINDOW)


def test_shapes_without_memory() -> None:
    found = tw.conv2d(X.to("meta"), W.to("meta"), B.to("meta"), **WINDOW)
    assert (found.shape, found.device.type) == (X.shape, "meta")
    assert nn.Conv2d(6, 6, 3, padding=1, groups=6, device="meta")(X.to("meta")).shape == X.shape
    with pytest.raises(UserError, match="weight is on meta"):
        tw.conv2d(X, W.to("meta"), **WINDOW)


@pytest.mark.parametrize("kind", ["to_sparse", "to_mkldnn"])
def test_memory_that_is_not_strided_is_named(kind: str) -> None:
    x = getattr(X, kind)()
    with pytest.raises(UserError, match=f"x has the layout {x.layout}") as caught:
        tw.conv2d(x, W, B, **WINDOW)
    assert caught.value.fix == "convert it: x.to_dense()"


@pytest.mark.filterwarnings("ignore")
def test_a_traced_module_computes() -> None:
    model = torch.nn.Sequential(
        nn.Conv2d(6, 6, 3, groups=6), nn.MaxPool2d(2), nn.ConvTranspose2d(6, 6, 4, stride=2, groups=6)
    )
    model.requires_grad_(False)
    for _ in range(3):
        model(X)
    traced, other = torch.jit.trace(model, X), torch.randn_like(X)
    torch.testing.assert_close(traced(other), model(other))


@pytest.mark.parametrize("activation", [None, "gelu"])
def test_transforms_of_functions(activation: str | None) -> None:
    after = F.gelu if activation else torch.nn.Identity()

    def ours(x: Any, w: Any, b: Any) -> Any:
        return tw.conv2d(x, w, b, **WINDOW, activation=activation)

    def theirs(x: Any, w: Any, b: Any) -> Any:
        return after(F.conv2d(x, w, b, **WINDOW))

    given, moved = (X, W, B), (X * 2, W + 1, B - 1)
    everything = (0, 1, 2)
    found = torch.func.grad(lambda *a: ours(*a).square().sum(), everything)(*given)
    wanted = torch.func.grad(lambda *a: theirs(*a).square().sum(), everything)(*given)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(
        torch.func.jvp(ours, given, moved), torch.func.jvp(theirs, given, moved), rtol=1e-4, atol=1e-4
    )


def test_forward_gradients() -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        made = tw.conv2d(forward_ad.make_dual(X, X * 2), W, B, **WINDOW)
        torch.testing.assert_close(forward_ad.unpack_dual(made).tangent, F.conv2d(X * 2, W, **WINDOW))


@pytest.mark.parametrize("activation", [torch.nn.ReLU(), F.relu, torch.relu], ids="module function builtin".split())
def test_an_activation_of_tensors_is_named(activation: Any) -> None:
    with pytest.raises(UserError, match="which computes on arrays") as caught:
        tw.conv2d(X, W, B, **WINDOW, activation=activation)
    assert 'activation="relu"' in caught.value.fix


@pytest.mark.parametrize("given", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_autocast_casts_what_pytorch_casts(given: Any) -> None:
    x, w = X.to(given), W.to(given)
    with torch.autocast("cpu", torch.bfloat16):
        assert tw.conv2d(x, w, **WINDOW).dtype == F.conv2d(x, w, **WINDOW).dtype
