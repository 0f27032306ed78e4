"""The operator that computes all gradients of a layer along lines, beside PyTorch's gradients in float64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tilewright.functional.arguments import problem
from tilewright.functional.planning import decision, plans
from tilewright.runtime.device import cpu

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import_module(
    "tilewright.functional.pytorch.operators.registration"
)  # the operator of one pass falls back to those of each direction
torch_backward = import_module("tilewright.functional.pytorch.operators.joint_gradients")
torch_steps = import_module("tilewright.functional.pytorch.training.steps")
torch_layer = import_module("tilewright.functional.pytorch.operators.layer")
ConvolutionOptions = import_module("tilewright.functional.pytorch.operators.options").ConvolutionOptions
F = torch.nn.functional
LIMITS = {torch.float64: 1e-13, torch.float32: 4e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def drawn(shape: tuple[int, ...], taps: int, last: bool, dtype: Any, device: str) -> list[Any]:
    """An input, weights and a bias, all of which need gradients."""
    x = torch.randn(shape, dtype=dtype, device=device)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if last else x
    others = (torch.randn(n, dtype=dtype, device=device) for n in ((shape[1], 1, taps), (shape[1],)))
    return [x.requires_grad_(), *(a.requires_grad_() for a in others)]


def exact(tensors: list[Any], padding: tuple[int, int], activation: str | None, above: Any) -> Any:
    x, w, *bias = doubles = [a.detach().double().requires_grad_() for a in tensors]
    y = F.conv1d(F.pad(x, padding), w, *bias, groups=x.shape[1])
    return torch.autograd.grad(F.silu(y) if activation else y, doubles, above.double())


def check(tensors: list[Any], padding: tuple[int, int], activation: str | None, layout: str = "NCW") -> list[Any]:
    x, *others = tensors
    seen = x.transpose(1, 2) if layout == "NWC" else x
    y = tw.conv1d(seen, *others, padding=padding, groups=x.shape[1], activation=activation, layout=layout)
    y = y.transpose(1, 2) if layout == "NWC" else y
    above = torch.randn_like(y)
    found = torch.autograd.grad(y, tensors, above)
    for a, b in zip(found, exact(tensors, padding, activation, above), strict=True):
        assert (a.double() - b).norm() <= LIMITS[x.dtype] * b.norm()
    assert found[0].stride() == x.stride()
    assert all(a.is_contiguous() for a in found[1:])
    return list(found)


@pytest.fixture(autouse=True)
def _by_our_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_steps, "by_pytorch_alone", lambda call, checked: None)


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the operator compute gradients on CPUs, too; counts its runs by separate kernels."""
    runs, separately = [0], torch_backward._separately

    def counted(*arguments: Any) -> Any:
        runs[0] += 1
        return separately(*arguments)

    monkeypatch.setattr(torch_backward, "_separately", counted)
    monkeypatch.setattr(torch_backward, "runs_on", lambda x: True)
    return runs


@pytest.mark.parametrize(
    ("last", "biased", "activation", "layout"),
    [(False, True, "silu", "NCW"), (True, False, "silu", "NCW"), (True, True, None, "NWC")],
)
def test_separate_kernels_compute_the_same(
    last: bool, biased: bool, activation: str | None, layout: str, everywhere: list[int]
) -> None:
    tensors = drawn((2, 6, 20), 4, last, torch.float32, "cpu")[: 2 + biased]
    for turn in range(1, 4):  # the later ones are known
        check(tensors, (3, 0), activation, layout)
        assert everywhere == [turn]


def test_the_operator_is_as_pytorch_asks() -> None:
    x, w, bias = (a.detach() for a in drawn((2, 6, 20), 4, True, torch.float32, "cpu"))
    given = (x, w, bias, x.clone(), True, [3, 0], [1], "")
    torch.library.opcheck(torch.ops.tilewright.convolution_backward, given)


def test_layers_that_it_leaves_to_others(everywhere: list[int]) -> None:
    x = torch.empty(2, 6, 20)

    def computes(taps: int = 4, filters: int = 6, rank: int = 1, given: Any = x, **changed: Any) -> bool:
        options = ConvolutionOptions(f"conv{rank}d", [1], [3, 0], [1], 6, "silu", "NCW", [0])
        return bool(torch_backward.computes(options._replace(**changed), given, torch.empty(filters, 1, taps)))

    assert computes()
    assert computes(4, padding=[3, 0], activation="")
    assert not computes(8, padding=[3, 4], activation="")  # in float32
    assert computes(8, padding=[3, 4], activation="", given=torch.empty(2, 6, 24).half())
    assert not computes(given=torch.empty(2, 6, 18))  # rows are not whole vectors
    assert computes(given=torch.empty(2, 18, 6).transpose(1, 2))
    assert not computes(given=x.double())
    assert not computes(stride=[2])
    assert not computes(padding=[4, 0])  # the first window sees only padding
    assert not computes(9)
    assert not computes(filters=12)
    assert not computes(activation="custom:v * 2")
    assert not computes(layout="NWC")  # which has 20 channels
    assert not computes(given=x[0])


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_gradients_by_weight_and_bias_come_together(
    layout: str, rival_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    biased, options = [], torch_layer.CalledLayer.weight_options

    def both(layer: Any, x: Any, wanted: Any, biased: bool) -> bool:
        return bool(layer.small and biased and wanted[1] and wanted[2])

    monkeypatch.setattr(torch_layer.CalledLayer, "adds_up_bias", both)
    monkeypatch.setattr(
        torch_layer.CalledLayer, "weight_options", lambda layer, *a: biased.append(a[0]) or options(layer, *a)
    )
    x, w, bias = (torch.randn(n, dtype=torch.float64, requires_grad=True) for n in ((2, 6, 9, 8), (12, 1, 3, 3), (12,)))
    if layout == "NHWC":
        x = x.detach().permute(0, 2, 3, 1).contiguous().requires_grad_()
    for _ in range(3):  # the later ones do not decide again
        y = tw.conv2d(x, w, bias, 1, 1, 1, 6, layout=layout)
        above = torch.randn_like(y)
        found = torch.autograd.grad(y, (x, w, bias), above)
        seen, grad = (a.permute(0, 3, 1, 2) if layout == "NHWC" else a for a in (x, above))
        right = torch.autograd.grad(F.conv2d(seen, w, bias, 1, 1, 1, 6), (x, w, bias), grad)
        for a, b in zip(found, right, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)
    assert biased == [True]
    assert found[1].is_contiguous()


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("order", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("groups", [12, 3])
def test_gpus_add_up_a_bias_with_the_weights(dtype: Any, order: Any, groups: int) -> None:
    x = torch.randn(3, 12, 30, 28, device="cuda", dtype=dtype).to(memory_format=order).requires_grad_()
    w = torch.randn(12, 12 // groups, 5, 5, device="cuda", dtype=dtype, requires_grad=True)
    bias = torch.randn(12, device="cuda", dtype=dtype, requires_grad=True)
    y = tw.conv2d(x, w, bias, 1, 2, 1, groups, activation="gelu")
    above = torch.randn_like(y)
    doubles = [a.detach().double().requires_grad_() for a in (x, w, bias)]
    exact = F.gelu(F.conv2d(*doubles, 1, 2, 1, groups))
    right = torch.autograd.grad(exact, doubles, above.double())
    for a, b in zip(torch.autograd.grad(y, (x, w, bias), above), right, strict=True):
        assert (a.double() - b).norm() <= LIMITS[dtype] * b.norm()


@pytest.mark.cuda
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize(("biased", "activation"), [(True, "silu"), (False, None)])
def test_gpus_compute_all_gradients_by_one_kernel(
    last: bool, dtype: Any, biased: bool, activation: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(torch_backward, "_separately")
    tensors = drawn((3, 40, 200), 4, last, dtype, "cuda")[: 2 + biased]
    first = check(tensors, (3, 0), activation)
    assert len(first) == 2 + biased
    check(drawn((2, 7, 33), 5, last, dtype, "cuda"), (2, 2), activation)


def test_explain_call_names_the_kernel_of_all_gradients(everywhere: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def parts(**more: Any) -> list[str]:
        return tw.explain_call(tw.conv1d, x, w, bias, padding=(3, 0), groups=6, **more).split("\n\n")

    def operations(**more: Any) -> list[str]:
        return [part.split()[1] for part in parts(**more)]

    x, w, bias = drawn((2, 6, 20), 4, False, torch.float32, "cpu")
    assert operations() == ["conv", "weight_gradient", "data_gradient"]  # there is no kernel for CPUs
    plan = plans.CallPlan(
        problem.Problem(
            problem.BACKWARD,
            (2, 6, 1, 20),
            6,
            (1, 4),
            (1, 1),
            (0, 3, 0, 0),
            (1, 1),
            6,
            "float32",
            "NCHW",
            True,
            False,
            "",
        ),
        *(cpu(), decision.Decision(decision.Side.OURS, why="a test says so"), None, "compiled"),
    )
    monkeypatch.setattr(torch_backward, "_plan", lambda *_: plan)
    assert operations() == ["conv", "backward"]
    assert "result:  (2, 6, 20) and (30,) on cpu" in parts()[1]
    assert operations(residual=torch.ones(2, 6, 20)) == ["conv", "weight_gradient", "data_gradient"]
    w.requires_grad_(False)
    assert operations() == ["conv", "data_gradient"]
