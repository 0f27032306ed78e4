"""The compiled launcher of a GPU, by functions that stand for the driver's."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import pytest

from tilewright.functional.programs import launcher

SIZES = (1, 2, 3, 4, 5, 6, 7)
OURS, FAILS = 70, 999


class FakeDriver:
    """A driver whose thread has a current context; it launches within `OURS` alone."""

    def __init__(self, current: int, pushes: bool = True) -> None:
        self.stack, self.pushes = [current], pushes
        self.launches: list[tuple[Any, ...]] = []
        whole, pointer = ctypes.c_int, ctypes.c_void_p
        arguments = ctypes.POINTER(pointer)
        self._functions = [
            ctypes.CFUNCTYPE(whole, pointer, *[ctypes.c_uint] * 7, pointer, arguments, pointer)(self._launch),
            ctypes.CFUNCTYPE(whole, pointer)(self._push),
            ctypes.CFUNCTYPE(whole, arguments)(self._pop),
        ]

    def start(self) -> launcher.Start:
        launch, push, pop = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions)
        return launcher.on_gpu(55, launch, SIZES, (16, 4), (OURS, push, pop))

    def _launch(self, function: int, *rest: Any) -> int:
        *sizes, stream, params, _ = rest
        values = [ctypes.cast(params[i], ctypes.POINTER(ctypes.c_uint64))[0] for i in range(2)]
        self.launches.append((function, tuple(sizes), stream, values, self.stack[-1]))
        return 0 if self.stack[-1] == OURS else launcher.NO_CONTEXT[self.stack[-1] % 2]

    def _push(self, context: int) -> int:
        self.stack += [context] if self.pushes else []
        return 0 if self.pushes else FAILS

    def _pop(self, popped: Any) -> int:
        popped[0] = self.stack.pop()
        return 0


def test_a_launch_passes_everything_on() -> None:
    driver = FakeDriver(OURS)
    assert driver.start()(64, 4, 99) == 0
    assert driver.launches == [(55, SIZES, 99, [64, 4], OURS)]


@pytest.mark.parametrize("current", [1, 2])
def test_another_context_is_the_threads_again_afterwards(current: int) -> None:
    driver = FakeDriver(current)
    assert driver.start()(64, 4, 99) == 0
    assert [context for *_, context in driver.launches] == [current, OURS]
    assert driver.launches[0][:-1] == driver.launches[1][:-1]
    assert driver.stack == [current]


def test_a_context_that_cannot_be_entered() -> None:
    driver = FakeDriver(1, pushes=False)
    assert driver.start()(64, 4, 99) == FAILS
    assert len(driver.launches) == 1


def test_a_misaligned_address_is_not_launched() -> None:
    driver = FakeDriver(OURS)
    assert driver.start()(64, 2, 99) == launcher.MISALIGNED
    assert driver.launches == []


def test_threads_that_begin_at_once_keep_what_their_functions_point_to() -> None:
    """Each of them has definitions of its own then, of which only one is remembered."""
    made = weakref.ref(launcher._definitions.__wrapped__()["start_on_gpu"])
    gc.collect()
    assert made() is not None
