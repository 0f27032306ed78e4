"""Programs that Inductor writes call our operators without PyTorch's dispatcher."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tilewright as tw  # noqa: E402
import tilewright.functional.pytorch.operators.registration  # noqa: E402  # it registers the operators
from tilewright.functional.planning import prepared_calls  # noqa: E402
from tilewright.functional.pytorch.operators import inductor as torch_inductor  # noqa: E402

pytestmark = pytest.mark.torch


def layer(x: Any, w: Any, b: Any, residual: Any) -> Any:
    """Three layers: one with a bias, one with a residual and no bias, and one of packed sequences."""
    y = tw.conv2d(x, w, b, padding=1, groups=8, activation="silu")
    y = tw.conv2d(y, w, padding=1, groups=8, residual=residual)
    sequence = torch.arange(36, dtype=torch.int32).expand(x.shape[0], -1) // 9
    return tw.causal_conv1d_fn(y.flatten(2), w[:, 0, 0], b, seq_idx=sequence.contiguous())


def exact(x: Any, w: Any, b: Any, residual: Any) -> Any:
    conv = torch.nn.functional.conv2d
    y = torch.nn.functional.silu(conv(x, w, b, padding=1, groups=8))
    y = (conv(y, w, padding=1, groups=8) + residual).flatten(2)
    made = b[:, None].expand_as(y).clone()
    for tap in range(3):
        back = 2 - tap
        moved = torch.nn.functional.pad(y, (back, 0))[..., : y.shape[2]]
        same = torch.arange(36) // 9 == (torch.arange(36) - back).clamp(min=-9).div(9, rounding_mode="floor")
        made = made + w[:, 0, 0, tap, None] * moved * same
    return made


def drawn(batch: int) -> list[Any]:
    shapes = (batch, 8, 6, 6), (8, 1, 3, 3), (8,), (batch, 8, 6, 6)
    return [torch.randn(shape).requires_grad_() for shape in shapes]


@pytest.fixture
def dispatched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of our operators that the dispatcher calls."""
    names: list[str] = []
    called = torch._ops.OpOverload.__call__

    def counted(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        if self.namespace == "tilewright":
            names.append(self._opname)
        return called(self, *args, **kwargs)

    monkeypatch.setattr(torch._ops.OpOverload, "__call__", counted)
    return names


@pytest.mark.slow
def test_steps_of_a_compiled_layer_skip_the_dispatcher(dispatched: list[str]) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(layer, fullgraph=True, dynamic=False)
    for round in range(6):
        if round == 4:
            prepared_calls.drop_all()  # as if a search had found a better plan
        given = drawn(2)
        dispatched.clear()
        found = compiled(*given)
        wide = [a.detach().double().requires_grad_() for a in given]
        wanted = exact(*wide)
        torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
        above = torch.randn_like(found)
        gradients = torch.autograd.grad(found, given, above)
        for a, b in zip(gradients, torch.autograd.grad(wanted, wide, above.double()), strict=True):
            torch.testing.assert_close(a.double(), b, rtol=1e-4, atol=1e-4)
        assert round < 2 or not dispatched, dispatched  # PyTorch watches the first calls
    with torch.no_grad():
        torch.testing.assert_close(compiled(*given), found)


def test_a_call_site_follows_its_tensors(dispatched: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other sizes and other memory are looked up, and remembered from the second call on; the dispatcher records
    gradients."""
    looked_up: list[int] = []
    plain = torch_inductor.is_plain
    monkeypatch.setattr(torch_inductor, "is_plain", lambda arrays: looked_up.append(1) or plain(arrays))
    options = "'conv2d', [1, 1], [1, 1, 1, 1], [1, 1], 8, '', 'NCHW', [0, 0], 'fp32'"
    site = torch.ops.tilewright.call_sites[f"'convolution', (0, 1, 3), ({options}), 'buf7'"]
    x, w, _, residual = drawn(2)

    def looks_up(*given: Any) -> bool:
        looked_up.clear()
        x, w, residual = given
        wanted = torch.nn.functional.conv2d(x.double(), w.double(), padding=1, groups=8) + residual
        torch.testing.assert_close(site(*given).double(), wanted, rtol=1e-5, atol=1e-5)
        return bool(looked_up)

    beside = torch.randn(2, 8, 6, 7)[..., 1:]
    odd = torch.randn(2 * 8 * 6 * 6 + 1)[1:].view(2, 8, 6, 6)
    with torch.no_grad():
        for given in ((x, w, residual), (x[:1], w, residual[:1]), (beside, w, residual), (odd, w, residual)):
            assert [looks_up(*given) for _ in range(4)] == [True, True, False, False]
    assert not dispatched
    (gradient,) = torch.autograd.grad(site(odd, w, residual).sum(), residual)
    torch.testing.assert_close(gradient, torch.ones_like(residual))
    assert dispatched
