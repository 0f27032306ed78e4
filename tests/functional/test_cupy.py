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
from tilewright.core.errors import UserError
from tilewright.core.libraries import library_name
from tilewright.functional import arrays
from tilewright.functional.programs.launcher import MISALIGNED
from tilewright.functional.programs.running import GpuProgram
from tilewright.runtime.foreign import STREAMS


class ndarray:  # noqa: N801  # CuPy's name
    """An array of another library, that says it is CuPy's."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def __dlpack__(self, **options: Any) -> Any:
        return self.held.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.held.__dlpack_device__()

    @property
    def strides(self) -> Any:
        return self.held.strides

    def copy(self) -> ndarray:
        return ndarray(self.held.copy())

    def __getitem__(self, key: Any) -> ndarray:
        return ndarray(self.held[key])

    def __setitem__(self, key: Any, value: ndarray) -> None:
        self.held[key] = value.held


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


class OnGpu(ndarray):
    """The same with the attributes of CuPy's arrays that the fast path reads."""

    @property
    def shape(self) -> Any:
        return self.held.shape

    @property
    def dtype(self) -> Any:
        return self.held.dtype

    @property
    def nbytes(self) -> int:
        return self.held.nbytes

    @property
    def flags(self) -> Any:
        return self.held.flags

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.held.ctypes.data, device_id=3)


OnGpu.__module__ = "cupy"


def test_calls_of_known_shapes_launch_by_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the kernel of the CPU in the place of a GPU's: launches, and the calls that take the way through DLPack."""
    face(monkeypatch, np.from_dlpack, lambda: 1234)
    cupy, prepare, launched, others = sys.modules["cupy"], arrays.prepared, [], []
    current = [3]
    cupy.cuda.runtime = SimpleNamespace(getDevice=lambda: current[0])  # type: ignore[attr-defined]
    cupy.empty = lambda shape, dtype: OnGpu(np.empty(shape, dtype))  # type: ignore[attr-defined]

    class Program(GpuProgram):
        def __init__(self, run: Any) -> None:
            self.run, self.index = run, 3

        @property
        def direct(self) -> Any:
            return self

        def start(self, *given: int) -> int:
            launched.append(given[-1])
            if any(pointer % 16 for pointer in given[:-1]):
                return MISALIGNED
            self.run(given[:-1])
            return 0

    def prepared(name: str, seen: Any, options: Any) -> Any:
        assert {each.device for each in seen if each is not None} == {("cuda", 3)}
        on_cpu = seen._make(None if each is None else each._replace(device=("cpu", 0)) for each in seen)
        checked, run = prepare(name, on_cpu, options)
        return checked, Program(run)

    monkeypatch.setattr(arrays, "prepared", prepared)
    monkeypatch.setattr(arrays, "compute", others.append)
    rng = np.random.default_rng(0)
    x, w, bias = (OnGpu(rng.standard_normal(shape, "float32")) for shape in ((2, 4, 9, 9), (4, 1, 3, 3), (4,)))
    wanted = direct.conv(x.held, w.held, bias.held, 1, ((1, 1), (1, 1)), 1, 4)
    for _ in range(2):
        found = tw.conv2d(x, w, bias, padding=1, groups=4)
        np.testing.assert_allclose(found.held, wanted, rtol=1e-4, atol=1e-4)
    assert launched == [1234] * 2
    assert not others
    tw.conv2d(OnGpu(x.held[:, ::-1]), w, bias, padding=1, groups=4)
    tw.conv2d(OnGpu(begins_off(x.held)), w, bias, padding=1, groups=4)
    assert tw.conv2d(x, w, bias, padding=1, groups=4, out=found) is found
    assert not others[2:]
    tw.conv2d(x, w, bias, padding=1, groups=4, out=x)
    tw.conv2d(x, w.held, bias, padding=1, groups=4)
    current[0] = 0
    tw.conv2d(x, w, bias, padding=1, groups=4)
    assert len(others) == 5


def begins_off(a: np.ndarray, by: int = 1) -> np.ndarray:
    """The values in memory that begins `by` elements behind a multiple of 64 bytes."""
    whole = np.full(a.size + by + 64, np.nan, a.dtype)
    first = -whole.ctypes.data % 64 // a.itemsize + by
    made = whole[first : first + a.size].reshape(a.shape)
    made[...] = a
    return made


class LoadsVectors:
    """A program that refuses addresses which vectors of 16 bytes cannot be loaded from, as many do on GPUs."""

    program = SimpleNamespace(alignment=(4, 16))

    def __init__(self, run: Any) -> None:
        self.run = run

    def __call__(self, pointers: list[int], stream: int) -> None:
        assert not any(pointer % 16 for pointer in pointers)
        self.run(pointers, stream)


def reversed_in(axes: tuple[int, ...]) -> Any:
    return lambda a: np.flip(np.flip(a, axes).copy(), axes)


MEMORIES = [begins_off, reversed_in((3,)), reversed_in((0, 1, 2, 3)), lambda a: np.repeat(a, 2, 3)[..., ::2]]


@pytest.mark.parametrize("place", MEMORIES, ids=["offset", "reversed", "all reversed", "steps"])
def test_operands_in_any_memory_are_copied(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    face(monkeypatch, np.from_dlpack, lambda: 0)
    prepare = arrays.prepared

    def prepared(*given: Any) -> Any:
        checked, run = prepare(*given)
        return checked, LoadsVectors(run)

    monkeypatch.setattr(arrays, "prepared", prepared)
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 4, 9, 9), "float32"), rng.standard_normal((4, 1, 3, 3), "float32")
    residual, out = rng.standard_normal((2, 4, 9, 9), "float32"), np.zeros((2, 4, 9, 9), "float32")
    wanted = direct.conv(x, w, None, 1, ((1, 1), (1, 1)), 1, 4) + residual
    operands = {"x": x, "weight": w, "residual": residual, "out": out}
    for name in operands:
        given = {n: ndarray(place(a) if n == name else a.copy()) for n, a in operands.items()}
        found = tw.conv2d(**given, padding=1, groups=4)
        assert found is given["out"]
        np.testing.assert_allclose(found.held, wanted, rtol=1e-4, atol=1e-4)


def test_an_output_of_one_place_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    face(monkeypatch, np.from_dlpack, lambda: 0)
    x, w = np.ones((2, 4, 9, 9), "float32"), np.ones((4, 1, 3, 3), "float32")
    out = np.lib.stride_tricks.as_strided(np.zeros(1, "float32"), (2, 4, 7, 7), (0, 0, 0, 0))
    with pytest.raises(UserError, match="conv2d: several elements of out are one place in memory"):
        tw.conv2d(ndarray(x), ndarray(w), groups=4, out=ndarray(out))


def test_the_stream_is_the_current_one_of_the_arrays_device(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = face(monkeypatch, np.from_dlpack, lambda: 1234)
    assert STREAMS[library_name(type(ndarray(np.zeros(1))))](3) == 1234
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


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_operands_that_begin_anywhere_on_a_gpu(dtype: str) -> None:
    """An array of a library other than PyTorch may begin where a kernel can load no vectors."""
    rng, gpu = np.random.default_rng(0), tw.cuda()
    shapes = {"x": (2, 32, 28, 28), "weight": (32, 1, 3, 3), "residual": (2, 32, 28, 28), "out": (2, 32, 28, 28)}
    values = {n: rng.integers(-3, 4, shape).astype(dtype) for n, shape in shapes.items()}
    wanted = direct.conv(values["x"], values["weight"], None, 1, ((1, 1), (1, 1)), 1, 32) + values["residual"]
    for name in shapes:
        given = {n: tw.nd.array(a, gpu) for n, a in values.items()}
        whole = tw.nd.array(np.concatenate([np.full(1, np.nan, dtype), values[name].ravel()]), gpu)
        given[name] = whole.as_strided(shapes[name], tuple(s // values[name].itemsize for s in values[name].strides), 1)
        found = tw.conv2d(**given, padding=1, groups=32)
        assert found is given["out"]
        np.testing.assert_array_equal(found.numpy(), wanted)
        assert np.isnan(whole.numpy()[0])
