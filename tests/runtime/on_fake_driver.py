"""Programs that `test_contexts` runs with the CUDA driver of `fake_driver.cpp`: two GPUs that compute nothing.

`python -m tests.runtime.on_fake_driver` runs them in turn; it ends with an error where something is wrong.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewright as tw
from tests.runtime.test_several import scaled
from tilewright.core.errors import UserError
from tilewright.functional.programs import running
from tilewright.runtime.array import NDArray, array, empty
from tilewright.runtime.device import Device, cuda
from tilewright.runtime.driver import DeviceError
from tilewright.runtime.from_dlpack import from_dlpack

NONE = -1
CALLS = 20
"""More than the launches after which the compiled launcher takes over."""


def fake(name: str, *arguments: int) -> int:
    """What the fake driver has counted, or which GPU is current."""
    found: int = getattr(ctypes.CDLL("libcuda.so.1"), f"fake_{name}")(*arguments)
    return found


@contextmanager
def current(index: int, settles: bool = False) -> Iterator[None]:
    """The context of a GPU, or none, is the thread's, and must be so afterwards; a thread may settle on the first."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    if index != NONE:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), index)
    driver.cuCtxSetCurrent(context)
    yield
    found = fake("current"), fake("depth")
    assert found == (index, int(index != NONE)) or (settles and found == (0, 1)), found
    assert fake("wrong") == 0
    driver.cuCtxSetCurrent(None)


def places() -> Iterator[tuple[int, Device]]:
    """Each current GPU, or none, with each GPU of the arrays."""
    return product((NONE, 0, 1), (cuda(0), cuda(1)))


def arrays() -> None:
    values = np.arange(6, dtype="float32")
    for index, on in places():
        with current(index):
            a = array(values, on)
            there = a.copyto(cuda(1 - on.index))
            np.testing.assert_array_equal(there.numpy() + a.copyto(on).numpy(), 2 * values)
            on.sync()
            assert on.name == "a GPU that computes nothing"
            with pytest.raises(DeviceError, match=re.escape(f"{on} cannot allocate")):
                empty((1 << 40,), device=on)
            del a, there


def modules() -> None:
    module, loaded = tw.build(*scaled(2, "cuda"), "cuda"), fake("modules")
    for index, on in places():
        before = fake("launches", on.index)
        with current(index, settles=on.index == 0):
            a, out = empty((5,), device=on), empty((5,), device=on)
            for _ in range(CALLS):
                module(a, out)
            assert fake("launches", on.index) == before + CALLS
            module.time_evaluator(module.entry_name, on, number=10)(a, out)
            del a, out
    assert fake("modules") == loaded + 2


def operands(on: Device, channels: int, groups: int, size: int) -> list[NDArray]:
    shapes = (2, channels, size, size), (channels, channels // groups, 3, 3)
    return [array(np.zeros(shape, "float32"), on) for shape in shapes]


def calls() -> None:
    loaded, known = fake("modules"), len(running._programs)
    for (index, on), (groups, kernels) in product(places(), ((512, 1), (1, 3))):
        given = operands(on, 512, groups, 7)
        before = fake("launches", on.index)
        with current(index):
            for _ in range(CALLS):
                assert tw.conv2d(*given, padding=1, groups=groups).device is on
        assert fake("launches", on.index) - before == kernels * CALLS
    assert len(running._programs) - known == fake("modules") - loaded == 4


def batches() -> None:
    """Programs whose machine code is the same share a module."""
    loaded, known = fake("modules"), len(running._programs)
    for batch in (48, 64, 128):
        x, w = empty((batch, 144, 56, 56), device=cuda(1)), empty((144, 1, 3, 3), device=cuda(1))
        tw.conv2d(x, w, padding=1, groups=144)
    assert (fake("modules") - loaded, len(running._programs) - known) == (1, 3)


def threads() -> None:
    given = {on: operands(on, 8, 8, 9) for on in (cuda(0), cuda(1))}
    wrong: list[BaseException] = []

    def work(index: int, on: Device) -> None:
        try:
            with current(index):
                for _ in range(CALLS):
                    tw.conv2d(*given[on], padding=1, groups=8)
        except BaseException as error:  # for the thread that waits
            wrong.append(error)

    started = [threading.Thread(target=work, args=place) for place in places()]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert not wrong, wrong
    assert [fake("launches", i) for i in (0, 1)] == [3 * CALLS, 3 * CALLS]


class ndarray:  # noqa: N801  # CuPy's name
    """An array of another library, that says it is CuPy's."""

    def __init__(self, held: NDArray) -> None:
        self.held = held
        self.__dlpack__, self.__dlpack_device__ = held.__dlpack__, held.__dlpack_device__


ndarray.__module__ = "cupy"


class Address(NamedTuple):
    """A stream of CuPy's."""

    ptr: int


def stream_of(index: int) -> int:
    """A stream of a GPU."""
    made = ctypes.c_void_p()
    with current(index):
        ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(made), 0)
    return made.value or 0


def streams() -> None:
    """Calls run on the stream of the arrays' library; its arrays need not be waited for then."""
    for index, on in places():
        given, stream = [ndarray(a) for a in operands(on, 8, 8, 9)], stream_of(on.index)
        library: Any = ModuleType("cupy")
        library.cuda = SimpleNamespace(Device=lambda _: nullcontext(), get_current_stream=lambda s=stream: Address(s))
        library.from_dlpack = ndarray
        sys.modules["cupy"] = library
        before = fake("launches", on.index), fake("waits")
        with current(index):
            made = tw.conv2d(*given, padding=1, groups=8)
        assert (fake("launches", on.index), fake("waits")) == (before[0] + 1, before[1])
        assert made.held.device is on
        assert on.driver.consumer_stream(on.index) == 1  # the thread has its own stream again


class Shown:
    """What another library shows of the memory of an array."""

    def __init__(self, held: NDArray, **more: Any) -> None:
        self.held = held  # whose memory it is
        address = int(held.handle)
        self.__cuda_array_interface__ = {"shape": held.shape, "typestr": "<f4", "data": (address, False), **more}


def interfaces() -> None:
    """Memory is known by its address, and awaited where its stream says so."""
    for index, on in places():
        held, stream = array(np.arange(3, dtype="float32"), on), stream_of(on.index)
        before = fake("waits")
        with current(index):
            for given, waits in (({}, 0), ({"stream": None}, 0), ({"stream": 1}, 0), ({"stream": stream}, 1)):
                before += waits
                a = from_dlpack(Shown(held, **given))
                assert a.device is on
                assert fake("waits") == before
            assert a.__cuda_array_interface__["stream"] == 1
            with on.use_stream(stream):
                assert from_dlpack(Shown(held, stream=stream)).__cuda_array_interface__["stream"] == stream
            assert fake("waits") == before


class Strict:
    """An array of another library, which shares it while its GPU is current only, as CuPy and PyTorch do."""

    def __init__(self, held: NDArray) -> None:
        self.held = held
        self.__dlpack_device__ = held.__dlpack_device__

    def now(self) -> int:
        """The GPU that is current for the library."""
        return fake("current")

    def __dlpack__(self, **given: Any) -> Any:
        if self.now() != self.held.device.index:
            raise BufferError(f"{self.now()} is current, not {self.held.device.index}")
        return self.held.__dlpack__(**given)


class Tensor(Strict):
    """PyTorch's: it counts on its own idea of the current GPU, whatever the driver says."""

    current = 0

    def now(self) -> int:
        return Tensor.current

    def is_neg(self) -> bool:
        return False

    @staticmethod
    @contextmanager
    def on(index: int) -> Iterator[None]:
        """`torch.cuda.device`."""
        before, Tensor.current = Tensor.current, index
        yield
        Tensor.current = before


def producers() -> None:
    """Arrays of libraries are taken in while their GPU is current."""
    sys.modules["torch"] = ModuleType("torch")
    sys.modules["torch"].__dict__.update(Tensor=Tensor, cuda=SimpleNamespace(device=Tensor.on))
    try:
        for (index, on), kind in product(places(), (Strict, Tensor)):
            held = array(np.arange(3, dtype="float32"), on)
            with current(index):
                a = from_dlpack(kind(held))
                assert a.device is on
                assert a.handle == held.handle
                del a
    finally:
        del sys.modules["torch"]
    assert Tensor.current == 0


class Foreign(NamedTuple):
    """A stream of PyTorch's."""

    cuda_stream: int
    device_index: int


def foreign_streams() -> None:
    """A launch into a stream of the other GPU is refused, before it or by the driver."""
    module = tw.build(*scaled(2, "cuda"), "cuda")
    for on in (cuda(0), cuda(1)):
        other = 1 - on.index
        a, out = empty((5,), device=on), empty((5,), device=on)
        own, stream = stream_of(on.index), stream_of(other)
        with current(other):
            with on.use_stream(stream), pytest.raises(DeviceError) as refused:
                module(a, out)
            says = rf"HANDLE[^\n]*\n  the stream {stream:#x} is not one of cuda\({on.index}\)\n  fix: use a stream "
            assert re.search(says, str(refused.value)), refused.value
            with pytest.raises(UserError, match=rf"a stream of cuda\({other}\), not of cuda\({on.index}\)\n  fix: "):
                on.use_stream(Foreign(stream, other)).__enter__()
            with on.use_stream(Foreign(own, on.index)):
                module(a, out)
            del a, out


PROGRAMS = (threads, arrays, modules, calls, batches, streams, interfaces, producers, foreign_streams)
"""The first of them compiles the launcher, in several threads at once."""

if __name__ == "__main__":
    for program in PROGRAMS:
        program()
