"""Gradients of average pooling, of which PyTorch computes some wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tilewright as tw

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from tilewright.functional.pytorch.operators.averages import AveragePooling  # noqa: E402

F = torch.nn.functional
ON = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
OPTIONS = [
    {"kernel_size": 3, "stride": 1, "padding": 1},
    {"kernel_size": (4, 3), "stride": (2, 3), "padding": (2, 1), "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    {"kernel_size": (3, 2), "stride": 2, "padding": (1, 0), "ceil_mode": True, "divisor_override": 7},
]
SHAPES = [(2, 3, 9, 9), (2, 1, 9, 8), (3, 9, 9)]


def memories(x: Any) -> Iterator[Any]:
    """Yield the images in both orders; channels last also where one channel makes the tensor row-major, too."""
    yield x.contiguous()
    last = x.movedim(-3, -1).contiguous().movedim(-1, -3)
    yield last.as_strided(last.shape, (*last.stride()[:-3], 1, *last.stride()[-2:]))


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_gradients_in_both_orders(options: dict[str, Any], on: str, kernels: str) -> None:
    for shape in SHAPES:
        values = torch.randn(shape, dtype=torch.float64)
        made = F.avg_pool2d(leaf := values.clone().requires_grad_(), **options)
        along = torch.randn_like(made)
        (wanted,) = torch.autograd.grad(made, leaf, along)
        for x in memories(values.to(on)):
            leaf = x.detach().requires_grad_()
            found = [torch.autograd.grad(tw.avg_pool2d(leaf, **options), leaf, a)[0] for a in memories(along.to(on))]
            turned = leaf.movedim(-3, -1)
            found += torch.autograd.grad(
                tw.avg_pool2d(turned, **options, layout="NHWC"), leaf, along.to(on).movedim(-3, -1)
            )
            if not x.is_contiguous():
                assert all(each.movedim(-3, -1).is_contiguous() for each in found)
            found.append(torch.func.vjp(lambda x: tw.avg_pool2d(x, **options), x)[1](along.to(on))[0])
            for each in found:
                torch.testing.assert_close(each.cpu(), wanted, rtol=1e-13, atol=1e-13)


class Seen(TorchDispatchMode):
    """Keep how PyTorch sees the memory of tensors given to its own gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: list[bool] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if "avg_pool2d" in str(function):
            self.memory += [torch._prims_common.suggest_memory_format(a) == torch.channels_last for a in args[:2]]
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("padding", [0, 1])
def test_pytorch_sees_padded_images_on_a_gpu_as_rows(padding: int) -> None:
    """Tensors without values stand for those on a GPU."""
    pooling = AveragePooling([3, 3], [1, 1], [padding] * 2, False, True, None)
    for channels in (1, 3):
        strides, size = (64 * channels, 1, 8 * channels, channels), 6 + 2 * padding
        x = torch.empty_strided((2, channels, 8, 8), strides, device="meta")
        grad = torch.empty((2, size, size, channels), device="meta").movedim(-1, 1)
        with Seen() as seen:
            made = pooling.gradient(grad, x)
        assert made.movedim(1, -1).is_contiguous()
        assert seen.memory
        assert any(seen.memory) == (padding == 0)


@pytest.mark.slow
def test_compiled_gradients_with_ceil_mode() -> None:
    """Inductor divides by the whole kernel where a window reaches beyond the images."""
    from torch._inductor import config

    def pooled(x: Any) -> Any:
        return tw.avg_pool2d(x, 3, 2, ceil_mode=True)

    x = torch.randn(1, 2, 6, 6, dtype=torch.float64, requires_grad=True)
    along = torch.randn_like(pooled(x))
    with config.patch(force_disable_caches=True):
        made = torch.compile(pooled)(x)
        found = torch.autograd.grad(made, x, along)
    torch.testing.assert_close(found, torch.autograd.grad(F.avg_pool2d(x, 3, 2, ceil_mode=True), x, along))
