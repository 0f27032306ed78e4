"""Tensors whose channels lie behind the spatial dimensions in memory, and in front of them in the shape."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tilewright.core.errors import UserError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tests.functional.drawn_layers import draw  # noqa: E402  # after the check for PyTorch
from tests.functional.random_layers import judged  # noqa: E402  # needs PyTorch

F = torch.nn.functional
ON = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
CALLS: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[int, ...], tuple[int, ...] | None, Any]] = {
    "depthwise 1-D": (tw.conv1d, F.conv1d, (2, 8, 20), (8, 1, 3), {"groups": 8, "padding": 1}),
    "dense 1-D": (tw.conv1d, F.conv1d, (2, 8, 20), (16, 8, 3), {"stride": 2}),
    "transposed 1-D": (tw.conv_transpose1d, F.conv_transpose1d, (2, 8, 20), (8, 4, 3), {"stride": 2}),
    "2-D": (tw.conv2d, F.conv2d, (2, 8, 9, 10), (8, 1, 3, 3), {"groups": 8}),
    "transposed 2-D": (tw.conv_transpose2d, F.conv_transpose2d, (2, 8, 9, 10), (8, 1, 3, 3), {"groups": 8}),
    "largest": (tw.max_pool2d, F.max_pool2d, (2, 8, 9, 10), None, {"kernel_size": 3, "padding": 1}),
    "average": (tw.avg_pool2d, F.avg_pool2d, (2, 8, 9, 10), None, {"kernel_size": 3, "ceil_mode": True}),
}


def channels_last(*shape: int, rank: int, on: str = "cpu") -> Any:
    """A random tensor with the channels in front of `rank` dimensions, and behind them in memory."""
    order = [*range(len(shape) - rank - 1), *range(-rank, 0), -rank - 1]
    return torch.randn([shape[d] for d in order], device=on).movedim(-1, -rank - 1)


def is_channels_last(a: Any, rank: int) -> bool:
    return bool(a.movedim(-rank - 1, -1).is_contiguous() and not a.is_contiguous())


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("name", CALLS)
def test_channels_last_memory_is_used_and_returned_without_a_copy(
    name: str, batched: bool, on: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs, shape, weight, options = CALLS[name]
    rank = len(shape) - 2
    x = channels_last(*(shape if batched else shape[1:]), rank=rank, on=on)
    arguments = [x] if weight is None else [x, torch.randn(weight, device=on)]
    wanted = theirs(*[a.double() for a in arguments], **options).float()  # PyTorch rounds float32 to TF32 on GPUs
    copies: list[Any] = []
    whole = torch.Tensor.contiguous
    monkeypatch.setattr(torch.Tensor, "contiguous", lambda a: a if a.is_contiguous() else copies.append(a) or whole(a))
    last = batched or rank == 1  # PyTorch's results of images without a batch lie with the channels in front
    for _ in range(3):
        found = ours(*arguments, **options)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert is_channels_last(found, rank) == last
    if not last:
        return
    assert not copies
    layout = "NWC" if rank == 1 else "NHWC"
    turned = [x.movedim(-rank - 1, -1), *arguments[1:]]
    lines = [tw.explain_call(ours, *each, **options, layout=how).splitlines() for each, how in
             ((arguments, None), (turned, layout))]  # fmt: skip
    assert lines[0][0] == lines[1][0]  # the problem


@pytest.mark.parametrize("batched", [True, False], ids=["batched", "unbatched"])
@pytest.mark.parametrize("name", CALLS)
def test_the_operators_of_pytorch_have_the_strides_that_they_promise(name: str, batched: bool) -> None:
    """Also through gradients and in compiled programs, which allocate by what they were told."""
    ours, theirs, shape, weight, options = CALLS[name]
    rank = len(shape) - 2
    torch.compiler.reset()  # functions of one line count as one, which Dynamo compiles a few times only
    x = channels_last(*(shape if batched else shape[1:]), rank=rank).requires_grad_()
    arguments = [x] if weight is None else [x, torch.randn(weight, requires_grad=True)]
    compiled = torch.compile(lambda *given: ours(*given, **options), backend="aot_eager", fullgraph=True)
    wanted = theirs(*arguments, **options)
    grad = torch.randn_like(wanted)
    exact = torch.autograd.grad(wanted, arguments, grad)
    for call in (lambda *given: ours(*given, **options), compiled):
        found = call(*arguments)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)
        assert is_channels_last(found, rank) == (batched or rank == 1)
        for got, want in zip(torch.autograd.grad(found, arguments, grad), exact, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("height", [20, 64])
def test_pytorchs_kernel_computes_images_without_a_batch(height: int, on: str) -> None:
    """Dense layers of 16-bit types, which PyTorch's kernels compute."""
    w = torch.randn(64, 64, 3, 3, device=on).bfloat16()
    image = torch.randn(64, height, 10, device=on).bfloat16()
    for x in (image, image.permute(1, 2, 0).contiguous().permute(2, 0, 1)):
        wanted = F.conv2d(x, w, padding=1)
        torch.testing.assert_close(tw.conv2d(x, w, padding=1), wanted, rtol=2e-2, atol=0.3)
        found = tw.conv2d(x.permute(1, 2, 0), w, padding=1, layout="NHWC")
        torch.testing.assert_close(found, wanted.permute(1, 2, 0), rtol=2e-2, atol=0.3)
    line, taps = image[:, :, 0], w[:, :, 0].contiguous()
    wanted = F.conv1d(line, taps, padding=1)
    torch.testing.assert_close(tw.conv1d(line.t(), taps, padding=1, layout="NWC"), wanted.t(), rtol=2e-2, atol=0.3)


@pytest.mark.parametrize("layout", ["NCW", "NWC"])
def test_pytorchs_own_check_of_operators(layout: str) -> None:
    """The check compares, among others, the strides of results with those of shape inference."""
    import_module("tilewright.functional.pytorch.operators.registration")  # registers them
    x = channels_last(2, 8, 20, rank=1).requires_grad_()
    x = x if layout == "NCW" else x.detach().transpose(1, 2).requires_grad_()
    for weight, groups in ((torch.randn(8, 1, 3, requires_grad=True), 8), (torch.randn(16, 8, 3), 1)):
        given = (x, weight, None, None, "conv1d", [1], [0, 0], [1], groups, "", layout, [0])
        torch.library.opcheck(torch.ops.tilewright.convolution, given)
        given = (x[0].detach(), *given[1:])
        torch.library.opcheck(torch.ops.tilewright.convolution, given, test_utils=("test_schema", "test_faketensor"))


def test_modules_and_accelerate_keep_channels_last_memory() -> None:
    x = channels_last(2, 8, 20, rank=1)
    module = tw.nn.Conv1d(8, 8, 3, groups=8)
    found = module(x)
    torch.testing.assert_close(found, torch.nn.Conv1d.forward(module, x), rtol=1e-4, atol=1e-4)
    assert is_channels_last(found, 1)
    layers = import_module("tilewright.nn.layers")  # needs PyTorch
    theirs = torch.nn.Conv1d(8, 8, 3, groups=8)
    assert [layers.problem_of(theirs, a).layout for a in (x, x.contiguous())] == ["NHWC", "NCHW"]


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_random_layers_in_random_memory(first: int, kernels: str) -> None:
    """A few of the layers of `python -m tests.functional.random_layers`."""
    for number in range(first, first + 20):
        layer = draw(1, number)
        wrong = judged(layer)
        assert not wrong, f"{layer}: {wrong}"


@pytest.mark.cuda
def test_random_layers_in_random_memory_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    wrong = {}
    for number in range(100):
        layer = draw(2, number, "cuda")
        if found := judged(layer, "cuda"):
            wrong[str(layer)] = found
    assert not wrong, wrong


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("weight", [(8, 1, 3, 3), (64, 8, 3, 3)], ids=["ours", "PyTorch's own kernel"])
def test_an_output_whose_elements_are_one_place_is_refused(weight: tuple[int, ...], requires_grad: bool) -> None:
    x, w = torch.randn(2, 8, 9, 10, requires_grad=requires_grad), torch.randn(weight)
    with pytest.raises(UserError, match="conv2d: several elements of out are one place in memory"):
        tw.conv2d(x, w, groups=8 // weight[1], out=torch.zeros(1).expand(2, weight[0], 7, 8))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["conv1d", "conv_transpose1d"])
def test_taps_that_see_padding_only_have_no_gradient(name: str, dtype: torch.dtype) -> None:
    """PyTorch's own gradient of such taps on a CPU is memory that nobody has written."""
    shape = (5, 16, 5) if name == "conv1d" else (16, 5, 5)
    for _ in range(20):
        poison = [torch.full((5 * 16 * 5,), float("nan"), dtype=dtype) for _ in range(50)]
        del poison
        x, weight = torch.randn(1, 16, 1).to(dtype), torch.randn(shape).to(dtype).requires_grad_()
        options = {"stride": 2, "padding": 3} if name == "conv1d" else {"stride": 1, "padding": 2}
        (found,) = torch.autograd.grad(getattr(tw, name)(x, weight, **options).sum(), weight)
        exact = weight.detach().double().requires_grad_()
        made = getattr(torch.nn.functional, name)(x.double(), exact, **options).sum()
        (wanted,) = torch.autograd.grad(made, exact)
        torch.testing.assert_close(found.double(), wanted, rtol=2e-2, atol=2e-2)
