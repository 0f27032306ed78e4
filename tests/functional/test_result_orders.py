"""Results lie in memory as PyTorch's own do, over layouts of inputs and weights, slices and extents of 1."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilewright as tw
from tilewright.functional.arguments.call import CallOptions, OperatorCall

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from tests.functional.memories import memories  # noqa: E402  # after the check for PyTorch
from tilewright.functional.pytorch.allocation import allocator  # noqa: E402  # needs PyTorch
from tilewright.functional.pytorch.tensors import signed  # noqa: E402  # needs PyTorch

F = torch.nn.functional
OPERATORS = ("conv2d", "conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d")


def placed(rng: random.Random, shape: list[int], dtype: Any) -> Any:
    """A tensor in a random memory order, often a slice of another one in some dimensions."""
    cut = [rng.choice([1, 1, 1, 2]) for _ in shape] if rng.random() < 0.4 else [1] * len(shape)
    whole = torch.randn([n * step for n, step in zip(shape, cut, strict=True)]).to(dtype)
    order = rng.choice(["rows", "rows", "last", "permuted", "any"])
    if order == "any":
        whole = rng.choice(memories(len(shape))[: 24 if len(shape) == 4 else 6]).place(whole)
    elif order == "permuted":
        whole = whole.movedim(-3, -1).contiguous().movedim(-1, -3)
    elif order == "last" and whole.dim() == 4:
        whole = torch.empty_like(whole, memory_format=torch.channels_last).copy_(whole)
    return whole[tuple(slice(None, None, step) for step in cut)]


def drawn(seed: int) -> tuple[str, list[Any], dict[str, Any]]:
    """An operator, its tensors and its options."""
    rng = random.Random(seed)
    name, dtype = rng.choice(OPERATORS), rng.choice([torch.float32, torch.float32, torch.bfloat16, torch.float16])
    groups, per_group, filters = rng.choice([1, 1, 2, 4]), rng.choice([1, 2, 4]), rng.choice([1, 2, 3])
    size = [groups * per_group, *(rng.choice([1, 4, 5]) for _ in range(2))]
    size[1] = (
        4 if size == [1, 1, 1] else size[1]
    )  # PyTorch has no rule for slices of images, or of filters, of one element
    kernel = [rng.choice([1, 1, 3]) for _ in range(2)]
    kernel[1] = 3 if [per_group, *kernel] == [1, 1, 1] or filters == 1 else kernel[1]
    batch = rng.random()
    x = placed(rng, size if batch < 0.15 else [rng.choice([0, 1, 1, 2, 3]), *size], dtype)
    if batch > 0.85:  # an image out of a batch
        x = x[0] if len(x) and batch > 0.95 else x[:1]
    if "pool" in name:
        return name, [x], {"kernel_size": min(2, *size[1:]), "stride": rng.choice([1, 2])}
    options = {"groups": groups, "stride": rng.choice([1, 2]), "padding": 0 if "transpose" in name else 1}
    first = [groups * per_group, filters] if "transpose" in name else [groups * filters, per_group]
    return name, [x, placed(rng, [*first, *kernel], dtype)], options


def test_the_strides_of_results_are_those_of_pytorch() -> None:
    """By the allocator of calls, without kernels."""
    wrong = []
    for seed in range(250):
        name, arrays, options = drawn(seed)
        wanted = getattr(F, name)(*arrays, **options)
        call = OperatorCall(name, arrays[0], (*arrays, None)[1], None, None, None, CallOptions(**options))
        found = allocator(signed(call)[0], arrays[0])()
        if wanted.numel() and (found.shape, found.stride()) != (wanted.shape, wanted.stride()):
            seen = [(tuple(a.shape), a.stride()) for a in arrays]
            wrong.append(f"{seed}: {name} {seen} {options}: {found.stride()}, not {wanted.stride()}")
    assert not wrong, "\n".join(wrong)


def test_calls_return_results_with_these_strides(kernels: str) -> None:
    """Values are right, too; also in training, and in programs of `torch.compile`, which are told the strides."""
    for seed in range(0, 250, 21):
        name, arrays, options = drawn(seed)
        wanted = getattr(F, name)(*arrays, **options)
        with torch._subclasses.FakeTensorMode() as mode:
            told = getattr(tw, name)(*map(mode.from_tensor, arrays), **options)
        trained = [a.detach().requires_grad_() for a in arrays]
        for given in (arrays, arrays, trained):
            found = getattr(tw, name)(*given, **options)
            torch.testing.assert_close(found, wanted, rtol=2e-2, atol=5e-2)
            if wanted.numel():
                assert found.stride() == told.stride() == wanted.stride(), (seed, name, options)
