"""Casts of a weight and its bias by one program, as GPUs run it; here on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
torch_casts = pytest.importorskip("tilewright.functional.pytorch.casts")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """A device whose casts are ours."""
    if request.param == "cpu":
        monkeypatch.setattr(torch_casts, "_is_ours", lambda a, kind: a.dtype == kind and a.is_contiguous())
    return str(request.param)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("shape", "biased"), [((6, 1, 3, 3), True), ((6, 1, 3, 3), False), ((64, 2, 1), True)])
def test_values_are_pytorchs(shape: tuple[int, ...], biased: bool, kind: Any, device: str) -> None:
    weight, bias = torch.randn(shape, device=device), torch.randn(shape[0], device=device) if biased else None
    weight.view(-1)[:3] = torch.tensor([1e6, torch.inf, torch.nan])
    both = torch_casts.casts_of(weight, bias, kind)
    for change in (1.0, 0.5):
        weight *= change
        narrow, narrow_bias = both(weight, bias)
        torch.testing.assert_close(narrow, weight.to(kind), rtol=0, atol=0, equal_nan=True)
        assert narrow_bias is None if bias is None else torch.equal(narrow_bias, bias.to(kind))
    wide = torch_casts.cast_of(narrow, torch.float32)
    torch.testing.assert_close(wide(narrow), narrow.float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("kernel", [1, 2])
@pytest.mark.parametrize("biased", [True, False])
def test_steps_under_autocast(kernel: int, biased: bool, device: str) -> None:
    of: Any = {1: ("Conv1d", (2, 8, 20), 3), 2: ("Conv2d", (2, 8, 9, 10), 3)}[kernel]
    name, shape, taps = of
    torch.manual_seed(0)
    options = {"padding": 1, "groups": 8, "bias": biased, "device": device}
    ours, theirs = (getattr(each, name)(8, 8, taps, **options) for each in (tw.nn, torch.nn))
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(shape, device=device)
    for _ in range(3):
        found = []
        for layer in (ours, theirs):
            layer.zero_grad()
            mine = x.clone().requires_grad_()
            with torch.autocast(device, torch.bfloat16):
                y = layer(mine)
            y.backward(torch.linspace(-1, 1, y.numel(), device=device).to(y.dtype).view(y.shape))
            found.append([y, mine.grad, *[p.grad for p in layer.parameters()]])
        for a, b in zip(*found, strict=True):
            assert a.dtype == b.dtype
            assert (a - b).norm() <= 0.02 * b.norm()
        with torch.no_grad():
            for layer in (ours, theirs):
                layer.weight.mul_(1.5)
