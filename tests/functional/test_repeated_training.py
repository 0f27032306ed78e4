"""Training steps after the first, which run prepared executors: each differs from the step that prepared them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("little_optimisation")


class Case:
    """A layer, PyTorch's twin of it, and an input."""

    def __init__(self, activation: str = "", dtype: Any = None, **named: Any) -> None:
        options = {"in_channels": 8, "out_channels": 8, "kernel_size": 3, "padding": 1, "groups": 8, **named}
        self.ours = tw.nn.Conv2d(**options, activation=activation or None).to(dtype)
        self.theirs = torch.nn.Conv2d(**options).to(dtype)
        self.theirs.load_state_dict(self.ours.state_dict())
        self.after: Any = {"": nullcontext, "silu": torch.nn.functional.silu}[activation]
        self.activation = activation
        self.x = torch.randn(2, 8, 9, 10, dtype=dtype)

    def step(self, change: Callable[[Any], Any] = lambda x: x, grad: Callable[[Any], Any] = lambda y: y) -> None:
        """Compare a step of both: the result, and the gradients of the input, the weight and the bias."""
        found = []
        for layer in (self.ours, self.theirs):
            x = change(self.x.detach().clone()).requires_grad_()
            layer.zero_grad()
            y = layer(x)
            if layer is self.theirs and self.activation:
                y = self.after(y)
            y.backward(grad(torch.linspace(-1, 1, y.numel()).to(y.dtype).view(y.shape)))
            found.append([y.detach(), x.grad, *[p.grad for p in layer.parameters()]])
        loose = found[0][0].dtype in (torch.float16, torch.bfloat16)
        for ours, theirs in zip(*found, strict=True):
            assert (ours is None) == (theirs is None)
            if ours is not None:
                assert ours.dtype == theirs.dtype
                torch.testing.assert_close(ours, theirs, rtol=0.05 if loose else 1e-4, atol=0.05 if loose else 1e-4)


@pytest.fixture(params=["plain", "silu", "strided", "grouped"])
def case(request: Any) -> Case:
    """A layer that has made two steps."""
    named: dict[str, Any] = {
        "plain": {}, "silu": {"activation": "silu"}, "strided": {"stride": 2}, "grouped": {"groups": 2, "bias": False}
    }[request.param]  # fmt: skip
    made = Case(**named)
    made.step()
    made.step()
    return made


def test_other_values_and_weights(case: Case) -> None:
    """Values are not remembered."""
    with torch.no_grad():
        for layer in (case.ours, case.theirs):
            layer.weight.mul_(1.5)
    case.x = torch.randn(2, 8, 9, 10)
    case.step()


def test_other_orders_in_memory(case: Case) -> None:
    """The order of the input, and that of the gradient, may change; a gradient may be expanded."""
    case.step(lambda x: x.to(memory_format=torch.channels_last))
    case.step(grad=lambda g: g.to(memory_format=torch.channels_last))
    case.step(grad=lambda g: g[:1, :1].expand(g.shape))
    case.step(grad=lambda g: g.transpose(2, 3).contiguous().transpose(2, 3))
    case.step(lambda x: x[:1])


def test_frozen(case: Case) -> None:
    """A weight or an input that stops to need a gradient has none, and gets one again."""
    for layer in (case.ours, case.theirs):
        layer.weight.requires_grad_(False)
    case.step()
    for layer in (case.ours, case.theirs):
        layer.weight.requires_grad_(True)
    case.step()
    x = torch.randn(2, 8, 9, 10)
    case.ours.zero_grad()
    case.ours(x).sum().backward()
    assert case.ours.weight.grad is not None
    with torch.no_grad():
        assert case.ours(x).grad_fn is None
    assert case.ours(x).grad_fn is not None


def test_autocast(case: Case) -> None:
    """Autocast begins, changes its type, and ends."""
    for dtype in (torch.bfloat16, torch.bfloat16, torch.float16, None):
        with nullcontext() if dtype is None else torch.autocast("cpu", dtype):
            case.step()
            x = torch.randn(1, 8, 5, 5)
            with torch.no_grad():
                assert case.ours(x).dtype == case.ours(x).dtype == (dtype or torch.float32)


def test_hooks_that_move_saved_tensors(case: Case) -> None:
    """Saved tensors come back in another order in memory, or are computed again."""
    with torch.autograd.graph.save_on_cpu():
        case.step(lambda x: x.to(memory_format=torch.channels_last))

    def checkpointed(layer: Any) -> Any:
        return lambda x: torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)

    for _ in range(2):
        x = torch.randn(2, 8, 9, 10, requires_grad=True)
        first, second = (
            torch.autograd.grad(run(x).square().sum(), x)[0] for run in (checkpointed(case.ours), case.ours)
        )
        torch.testing.assert_close(first, second)


def test_second_derivatives(case: Case) -> None:
    """A gradient of gradients, after steps without, and steps after it."""
    found = []
    for layer in (case.ours, case.theirs):
        x = case.x.clone().requires_grad_()
        y = layer(x)
        if layer is case.theirs and case.activation:
            y = case.after(y)
        first = torch.autograd.grad(y.square().sum(), (x, layer.weight), create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), (x, layer.weight)))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-2)
    case.step()


def test_second_derivatives_under_autocast() -> None:
    """A gradient of gradients reaches parameters that autocast converts."""
    case, found = Case(), []
    for layer in (case.ours, case.theirs):
        for _ in range(3):
            layer.zero_grad()
            x = case.x.clone().requires_grad_()
            with torch.autocast("cpu", torch.bfloat16):
                y = layer(x)
            first = torch.autograd.grad(y.float().square().sum(), (x, layer.weight), create_graph=True)
            sum(g.square().sum() for g in first).backward()
        assert {g.dtype for g in first} == {torch.float32}
        found.append((*(g.detach() for g in first), x.grad, layer.weight.grad))
    for ours, theirs in zip(*found, strict=True):
        assert (ours - theirs).norm() <= 0.05 * theirs.norm()


def test_orders_that_take_turns(case: Case) -> None:
    """Two orders of the gradient in turns: both passes stay known."""
    for _ in range(3):
        case.step(grad=lambda g: g.contiguous())
        case.step(grad=lambda g: g.to(memory_format=torch.channels_last))


def test_transforms_and_modes(case: Case) -> None:
    """Transforms, modes and batched gradients see the operators, although the call is known."""
    x = case.x.clone().requires_grad_()
    ours = torch.func.grad(lambda x: case.ours(x).square().sum())(case.x)
    torch.testing.assert_close(ours, torch.autograd.grad(case.ours(x).square().sum(), x)[0])
    y = case.ours(x)
    basis = torch.stack([torch.ones_like(y), torch.linspace(0, 1, y.numel()).view(y.shape)])
    batched = torch.autograd.grad(y, x, basis, is_grads_batched=True, retain_graph=True)[0]
    for each, direction in zip(batched, basis, strict=True):
        torch.testing.assert_close(each, torch.autograd.grad(y, x, direction, retain_graph=True)[0])
    with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert type(case.ours(mode.from_tensor(case.x))).__name__ == "FakeTensor"
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        case.ours(case.x.clone().requires_grad_()).sum().backward()
    assert counter.get_total_flops() > 0


def test_changed_in_place(case: Case) -> None:
    """A tensor that the gradients need, changed after the call, is an error as everywhere in PyTorch."""
    x = case.x.clone().requires_grad_()
    inside = x * 1
    y = case.ours(inside)
    inside.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_residual() -> None:
    """A residual gets the gradient by the sum."""
    x, r = torch.randn(1, 4, 6, 6, requires_grad=True), torch.randn(1, 4, 6, 6, requires_grad=True)
    w = torch.randn(4, 1, 3, 3, requires_grad=True)
    for _ in range(3):
        ours = torch.autograd.grad(
            tw.conv2d(x, w, padding=1, groups=4, residual=r, activation="relu").square().sum(), (x, w, r)
        )
        theirs = torch.autograd.grad(
            torch.relu(torch.nn.functional.conv2d(x, w, padding=1, groups=4) + r).square().sum(), (x, w, r)
        )
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
