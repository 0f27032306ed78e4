"""Calls on arrays of CuPy, which needs a GPU: by a library of the same face, around NumPy or PyTorch's tensors."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.functional import direct
from tilewright.functional.arrays import library_of


class ndarray:  # noqa: N801  # CuPy's name
    """An array of another library, that says it is CuPy's."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()


ndarray.__module__ = "cupy"


def face(monkeypatch: pytest.MonkeyPatch, from_dlpack: Any, stream: Any) -> list[int]:
    """Put a module called `cupy` in place; returns the devices whose streams are asked for."""
    asked: list[int] = []

    def device(index: int) -> Any:
        asked.append(index)
        return nullcontext()

    module: Any = ModuleType("cupy")
    module.from_dlpack = lambda array: ndarray(from_dlpack(array))
    module.cuda = SimpleNamespace(Device=device, get_current_stream=lambda: SimpleNamespace(ptr=stream()))
    monkeypatch.setitem(sys.modules, "cupy", module)
    return asked


def test_arrays_of_cupy_are_taken_and_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    face(monkeypatch, np.from_dlpack, lambda: 0)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 9, 9), "float32"), rng.standard_normal((4, 1, 3, 3), "float32")
    found = tw.conv2d(ndarray(x), ndarray(w), padding=1, groups=4)
    assert type(found) is ndarray
    np.testing.assert_allclose(found.held, direct.conv(x, w, None, 1, ((1, 1), (1, 1)), 1, 4), rtol=1e-4, atol=1e-4)


def test_the_stream_is_the_current_one_of_the_arrays_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = face(monkeypatch, np.from_dlpack, lambda: 1234)
    assert library_of(ndarray(np.zeros(1))).stream(3) == 1234
    assert asked == [3]


@pytest.mark.cuda
def test_work_is_queued_on_the_current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    face(monkeypatch, torch.from_dlpack, lambda: torch.cuda.current_stream().cuda_stream)
    x, w = torch.randn(8, 64, 56, 56, device="cuda"), torch.randn(64, 1, 3, 3, device="cuda")
    wanted = torch.nn.functional.conv2d(2 * x, w, padding=1, groups=64)
    tw.conv2d(ndarray(x), ndarray(w), padding=1, groups=64)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(50_000_000)  # what comes before on the stream takes its time
        y = 2 * x
        found = tw.conv2d(ndarray(y), ndarray(w), padding=1, groups=64)
    torch.cuda.synchronize()
    torch.testing.assert_close(found.held, wanted, atol=1e-4, rtol=1e-4)
