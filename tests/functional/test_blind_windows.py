"""Gradients of max pooling with windows that see padding only: PyTorch's own write outside of the tensor."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

import tilewright as tw  # noqa: E402


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("ceil", [False, True])
def test_a_gradient_stays_inside_of_its_tensor(layout: str, ceil: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 20, 1, dtype=torch.float64)
    sized = x.permute(0, 2, 3, 1).contiguous() if layout == "NHWC" else x.clone()
    sized.requires_grad_()
    made = tw.max_pool2d(sized, (1, 2), (1, 2), (0, 1), (2, 2), ceil_mode=ceil, layout=layout)
    assert (made == -torch.inf).all(), "column 0 lies between the taps"
    made.backward(torch.ones_like(made))
    assert not sized.grad.any()


@pytest.mark.parametrize("way", ["backward", "func", "compiled", "mapped", "many at once"])
@pytest.mark.parametrize("ceil", [False, True])
def test_blind_windows_have_no_gradient(ceil: bool, way: str) -> None:
    """Not into the next image either: there, PyTorch's own gradient is 1."""

    def call(x: Any) -> Any:
        return tw.max_pool2d(x, (1, 2), (1, 2), (0, 1), (2, 2), ceil_mode=ceil).sum()

    x = torch.zeros(3, 2, 20, 1)
    if way == "func":
        found = torch.func.grad(call)(x)
    elif way == "mapped":
        found = torch.func.vmap(torch.func.grad(call))(x)
    elif way == "many at once":
        x.requires_grad_()
        found = torch.autograd.grad(call(x), x, torch.ones(4), is_grads_batched=True)[0].sum(0)
    else:
        x.requires_grad_()
        (torch.compile(call, backend="aot_eager") if way == "compiled" else call)(x).backward()
        found = x.grad
    assert found.shape == x.shape
    assert not found.any()


@pytest.mark.parametrize("size", [(13, 14), (12, 9), (7, 16), (5, 5)])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("ceil", [False, True])
def test_gradients_of_dilated_windows_are_pytorchs(ceil: bool, stride: int, size: tuple[int, int]) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, *size, dtype=torch.float64, requires_grad=True)
    made = tw.max_pool2d(x, 3, stride, 1, 2, ceil_mode=ceil)
    wanted = F.max_pool2d(x, 3, stride, 1, 2, ceil_mode=ceil)  # each of these windows sees an element
    assert torch.equal(made, wanted)
    grad = torch.randn_like(made)
    assert torch.equal(*(torch.autograd.grad(each, x, grad)[0] for each in (made, wanted)))
