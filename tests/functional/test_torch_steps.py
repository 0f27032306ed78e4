"""Training steps on CPUs that PyTorch computes and differentiates as a whole."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tests.decided import SAID
from tilewright.functional.planning import plans, rivals

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_steps = import_module("tilewright.functional.pytorch.training.steps")
checkpoint = import_module("torch.utils.checkpoint").checkpoint
F = torch.nn.functional


def layer(dtype: Any = torch.float32, taps: int = 3) -> list[Any]:
    shapes = (2, 4, 9, 8), (4, 1, taps, taps), (4,)
    return [torch.randn(shape).to(dtype).requires_grad_() for shape in shapes]


def made_by_pytorch(y: Any) -> bool:
    return bool(type(y.grad_fn).__name__ == "ConvolutionBackward0")


def test_pytorch_differentiates_layers_that_it_computes(rival_kernels: None) -> None:
    x, w, b = layer()
    for _ in range(3):
        y = tw.conv2d(x, w, b, padding=1, groups=4)
        assert made_by_pytorch(y)
    right = F.conv2d(x, w, b, padding=1, groups=4)
    both = [torch.autograd.grad(each.sum(), (x, w, b)) for each in (y, right)]
    assert all(torch.equal(*pair) for pair in zip(*both, strict=True))
    y = tw.conv2d(x, w, b, padding=1, groups=4, activation="silu")
    torch.testing.assert_close(y, F.silu(right))
    kept = checkpoint(lambda *a: tw.conv2d(*a, padding=1, groups=4), x, w, b, use_reentrant=False)
    torch.autograd.grad(kept.sum(), (x, w, b))


def test_ours_runs_if_it_saves_time(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    for saved, faster in (((0.0, 1.0), False), ((0.5, 1.0), True)):
        monkeypatch.setattr(rivals, "saved_by", lambda *_, saved=saved: saved)
        plans.forget()
        x, w, b = layer()
        assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4)) != faster
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (0.0, 1e-4))  # so short that both are timed
    for times in ([2.0, 1.0], [1.0, 2.0]):
        monkeypatch.setattr(
            torch_steps, "in_turns", lambda works, *_, times=times, **__: [w() for w in works] and times
        )
        plans.forget()
        state = torch.random.get_rng_state()
        x, w, b = (a.detach().requires_grad_() for a in (x, w, b))
        assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4)) == (times[0] > times[1])
        assert torch.equal(torch.random.get_rng_state(), state)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    plans.forget()
    assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))  # by rates, although ours was timed as faster
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (0.5, 1e-4))
    plans.forget()
    assert not made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))


def test_layers_that_pytorch_does_not_differentiate_right(rival_kernels: None) -> None:
    x, w, b = layer(torch.bfloat16)
    assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))
    assert not made_by_pytorch(tw.conv2d(x, w, b, padding=2, dilation=2, groups=4))
    x, w, b = layer(torch.bfloat16, 11)
    assert made_by_pytorch(tw.conv2d(x, w, b, padding=5, groups=4))
    assert not made_by_pytorch(tw.conv2d(x, w, b, padding=2, groups=4))  # the first row of taps sees only padding
    assert not made_by_pytorch(tw.conv2d(x, w.transpose(2, 3), b, padding=5, groups=4))
    assert not made_by_pytorch(tw.conv2d(x, w.detach(), b, padding=5, groups=4))  # which keeps the input


def test_explain_call_says_that_pytorch_computes_the_whole_layer(kernels: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (0.0, 1.0))
    x, w, b = layer()
    text = tw.explain_call(tw.conv2d, x, w, b, padding=1, groups=4)
    assert "in both passes" in text
    assert "weight_gradient" not in text
    assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))
    w.requires_grad_(False)  # PyTorch may compute each direction, but not the layer as a whole
    parts = tw.explain_call(tw.conv2d, x, w, b, padding=1, groups=4).split("\n\n")
    assert [part.split()[1] for part in parts] == ["conv", "data_gradient"]
    assert all((SAID in part) == (kernels == "theirs") for part in parts)


def test_explain_call_says_what_the_timing_of_steps_decided(our_kernels: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rivals, "saved_by", lambda *_: (0.0, 1e-4))
    times = iter([[1.0, 2.0], [2.0, 1.0]])
    monkeypatch.setattr(torch_steps, "in_turns", lambda *_, **__: next(times))
    plans.forget()
    x, w, b = layer()
    assert not made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))
    assert "weight_gradient" in tw.explain_call(tw.conv2d, x, w, b, padding=1, groups=4)
    plans.forget()
    assert "in both passes" in tw.explain_call(tw.conv2d, x, w, b, padding=1, groups=4)
    assert made_by_pytorch(tw.conv2d(x, w, b, padding=1, groups=4))
