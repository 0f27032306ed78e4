"""Results of calls on PyTorch's tensors lie in memory as PyTorch's do, however they were allocated."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

import tilewright as tw
from tilewright.functional.planning.prepared_calls import drop_all

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

torch_allocation = import_module("tilewright.functional.pytorch.allocation")  # needs PyTorch

ON = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]
LAST = torch.channels_last


def arguments(case: str, on: str) -> tuple[Any, Any, int]:
    """Data, depthwise weights, and padding."""
    x, w = torch.randn(2, 6, 9, 10, device=on), torch.randn(6, 1, 3, 3, device=on)
    return {
        "same shape": (x, w, 1),
        "same shape, last": (x.to(memory_format=LAST), w, 1),
        "smaller": (x, w, 0),
        "smaller, last": (x.to(memory_format=LAST), w, 0),
        "not dense": (x[:, :, ::2], w, 1),
        "transposed": (x.transpose(2, 3), w, 1),
        "one channel, last": (x[:, :1].to(memory_format=LAST), w[:1], 1),
        "one pixel": (x[:, :, :1, :1].contiguous(), w, 1),
        "float16": (x.half(), w.half(), 1),
        "without a batch": (x[0], w, 0),
    }[case]


CASES = (
    "same shape;same shape, last;smaller;smaller, last;not dense;transposed;one channel, last;one pixel;float16;"
    "without a batch"
).split(";")


@pytest.mark.parametrize("on", ON)
@pytest.mark.parametrize("case", CASES)
def test_strides_without_the_functions_of_new_versions(case: str, on: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w, padding = arguments(case, on)
    quick = [tw.conv2d(x, w, padding=padding, groups=len(w)) for _ in range(3)]
    monkeypatch.setattr(torch_allocation, "_empty_on_cpu", None)
    monkeypatch.setattr(torch_allocation, "_empty_on_gpu", None)
    drop_all()
    slow = [tw.conv2d(x, w, padding=padding, groups=len(w)) for _ in range(3)]
    drop_all()
    wanted = torch.nn.functional.conv2d(x, w, padding=padding, groups=len(w))
    for found in (*quick, *slow):
        assert (found.shape, found.dtype, found.device) == (wanted.shape, wanted.dtype, wanted.device)
        assert found.stride() == quick[0].stride()
        assert found.is_contiguous() or found.is_contiguous(memory_format=LAST)
        torch.testing.assert_close(found, wanted, atol=2e-2 if case == "float16" else 1e-5, rtol=1e-3)
    assert len({found.data_ptr() for found in (*quick, *slow)}) == 6  # each has memory of its own


@pytest.mark.parametrize("on", ON)
def test_inference_mode_marks_results(on: str) -> None:
    x, w, padding = arguments("smaller", on)
    for _ in range(3):
        with torch.inference_mode():
            assert tw.conv2d(x, w, padding=padding, groups=6).is_inference()
        assert not tw.conv2d(x, w, padding=padding, groups=6).is_inference()


@pytest.mark.cuda
def test_another_gpu_is_current() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("it takes two GPUs, and there are fewer")
    x, w, padding = arguments("same shape", "cuda:1")
    for current in (0, 1, 0):
        with torch.cuda.device(current):
            assert tw.conv2d(x, w, padding=padding, groups=6).device == x.device
