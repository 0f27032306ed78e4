"""Programs that Inductor writes call our operators without PyTorch's dispatcher."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tilewright as tw  # noqa: E402
import tilewright.functional.pytorch.operators.registration  # noqa: E402  # it registers the operators
from tilewright.functional import operators  # noqa: E402  # after the check for PyTorch
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


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The programs that Inductor writes. Their own kernels compute nothing, which saves the time of compiling them."""
    from torch._inductor import async_compile, codecache, config, cpu_vec_isa

    texts: list[str] = []
    write = codecache.PyCodeCache.write

    def noted(text: str, *args: Any, **kwargs: Any) -> Any:
        texts.append(text)
        return write(text, *args, **kwargs)

    monkeypatch.setattr(codecache.PyCodeCache, "write", noted)
    monkeypatch.setattr(async_compile.AsyncCompile, "cpp_pybinding", lambda *args, **kwargs: lambda *given: None)
    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", list)  # it compiles, too
    torch._dynamo.reset()
    with config.patch(force_disable_caches=True):
        yield texts


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_weight_gradient_under_autocast_has_the_type_of_the_weight(kind: Any, programs: list[str]) -> None:
    """One program, compiled once, for the first call of a process too: the table of public calls is as at its start."""
    weight = torch.nn.Parameter(torch.randn(8, 1, 3, 3, dtype=kind))

    def run(x: Any) -> Any:
        return tw.conv2d(x, weight, padding=1, groups=8)

    compiled, x = torch.compile(run, fullgraph=True), torch.randn(2, 8, 6, 6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(operators, "_calls", {np.ndarray: operators._calls[np.ndarray]})
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16):
                made = compiled(x)
            made.sum().backward()
    forward, backward = programs
    assert "'convolution', (0, 1)" in forward
    assert f"'fp32', False, {kind == torch.float32}, )" in backward
    assert "_to_copy" not in backward
    assert (weight.grad.dtype, weight.grad.shape) == (kind, weight.shape)


def test_only_conversions_of_whole_gradients_are_removed() -> None:
    aten, convert = torch.ops.aten, torch.ops.prims.convert_element_type.default

    def users(*kinds: Any) -> tuple[bool, set[Any]]:
        graph = torch.fx.Graph()
        made = graph.placeholder("made")
        parts = [graph.call_function(aten.slice.Tensor, (made, 0, i, i + 1)) for i in range(len(kinds))]
        parts = [graph.call_function(aten.view.default, (part, [1, 1])) for part in parts]
        graph.output([part if kind is None else graph.call_function(convert, (part, kind)) for part, kind in
                      zip(parts, kinds, strict=True)])  # fmt: skip
        return torch_inductor._widens(made), {node.target for node in graph.nodes} & {convert, aten.alias.default}

    assert users(torch.float32, torch.float32) == (True, {aten.alias.default})
    assert users(torch.float32, torch.float64) == users(torch.float32, None) == (False, {convert})
    assert users() == (False, set())
