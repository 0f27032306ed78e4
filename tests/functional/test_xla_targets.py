"""Handlers of XLA's foreign function interface, called with call frames as XLA builds them; without JAX or a GPU."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tilewright.core.launches import FixedLaunch
from tilewright.functional.jax import xla_targets
from tilewright.functional.programs.executable import Executable
from tilewright.runtime.llvm_link import link
from tilewright.runtime.thread_pool import compiled_for_host

STREAM, X, W, OUT, SCRATCH = 0x77, 0x10000, 0x20000, 0x30000, 0x40000
PROGRAM = Executable(
    "cuda",
    (
        FixedLaunch("first", (1, 2, 3), (4, 5, 6), 7, (0, -1)),
        FixedLaunch("second", (8, 9, 1), (32, 1, 1), 0, (-1, 1, 2)),
    ),
    (256,), (16, 4, 16), False, b"",
)  # fmt: skip


def words(*values: int) -> Any:
    return (ctypes.c_uint64 * len(values))(*values)


def address(of: Any) -> int:
    return ctypes.cast(of, ctypes.c_void_p).value or 0


class Frame:
    """An XLA_FFI_CallFrame, and all that it points to."""

    def __init__(self, buffers: tuple[int, ...], inputs: int, extension: int = 0) -> None:
        self.errors: list[tuple[str, int]] = []

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
        def create(given: Any) -> int:
            self.errors.append((ctypes.string_at(given[2]).decode(), given[3] & 0xFFFFFFFF))
            return 0xBAD

        @ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
        def stream(given: Any) -> None:
            assert (given[0], given[2]) == (32, 0xC0)
            given[3] = STREAM

        each = [words(48, 0, 11, one, 0, 0) for one in buffers]
        args, rets = words(*map(address, each[:inputs])), words(*map(address, each[inputs:]))
        api = words(184, 0, 24, 0, 0, 0, address(create), 0, 0, 0, address(stream))
        self.memory = words(
            168, extension, address(api), 0xC0, 3,  # ... context, stage
            40, 0, inputs, 0, address(args),
            40, 0, len(buffers) - inputs, 0, address(rets),
        )  # fmt: skip
        self.held = create, stream, each, args, rets, api


def handler(monkeypatch: pytest.MonkeyPatch, statuses: list[int]) -> tuple[Any, list[Any]]:
    """The handler of `PROGRAM`, whose launches return the given statuses; and a list of the launches."""
    monkeypatch.setattr(xla_targets, "_version", lambda: 3 << 32)
    launched: list[Any] = []

    @ctypes.CFUNCTYPE(
        ctypes.c_int, *[ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_void_p
    )
    def launch(kernel: int, *given: Any) -> int:
        *sizes, stream, params, _ = given
        count = {1: 2, 2: 3}[kernel]
        places = (ctypes.c_void_p * count).from_address(params)
        launched.append((kernel, sizes, stream, [ctypes.c_uint64.from_address(p).value for p in places]))
        return statuses[len(launched) - 1]

    imports = {"launch": address(launch), "kernel0": 1, "kernel1": 2}
    held, found = link(compiled_for_host(xla_targets._text(PROGRAM, on_gpu=True)), ["handler"], imports)
    call = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(found["handler"])
    call.held = held, launch
    return call, launched


def test_kernels_are_launched_on_the_stream_of_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    call, launched = handler(monkeypatch, [0, 0])
    frame = Frame((X, W, OUT, SCRATCH), 2)
    assert call(address(frame.memory)) is None
    assert launched == [
        (1, [1, 2, 3, 4, 5, 6, 7], STREAM, [X, SCRATCH]),
        (2, [8, 9, 1, 32, 1, 1, 0], STREAM, [SCRATCH, W, OUT]),
    ]


def test_errors_are_reported_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    call, launched = handler(monkeypatch, [0, 700])
    frame = Frame((X, W, OUT, SCRATCH), 2)
    assert call(address(frame.memory)) == 0xBAD
    assert frame.errors == [("tilewright: a kernel could not be launched (status 700)", 13)]
    crooked = Frame((X + 8, W, OUT, SCRATCH), 2)
    assert call(address(crooked.memory)) == 0xBAD
    assert "address that the kernel cannot load vectors from" in crooked.errors[0][0]
    assert len(launched) == 2


def test_the_version_and_the_traits(monkeypatch: pytest.MonkeyPatch) -> None:
    call, launched = handler(monkeypatch, [])
    metadata = words(36, 24, 0, 0, 0, 0)
    extension = words(32, 1, 0, address(metadata))
    assert call(address(Frame((), 0, address(extension)).memory)) is None
    assert [*metadata[3:]] == [3 << 32, 1, 0]
    assert launched == []
