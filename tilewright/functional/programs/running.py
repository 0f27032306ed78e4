"""Executables ready to run, with loaded code, prepared launches and scratch memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol
from weakref import WeakValueDictionary

import numpy as np

from ...codegen.llvm.binding import PACKED, PARALLEL_FOR
from ...core.errors import UserError
from ...runtime.cpu_driver import aligned_bytes
from ...runtime.driver import DeviceError
from ...runtime.llvm_link import link
from ...runtime.thread_pool import POOL
from . import cuda_kernels, launcher

if TYPE_CHECKING:
    from ...core.launches import FixedLaunch
    from ...runtime.device import Device
    from .executable import Executable


class Threads(Protocol):
    """Threads that run parallel loops: the pool of `runtime/thread_pool.py`, or another library's pool."""

    ready: bool

    def start(self) -> int:
        """Start the threads, and return the address of the function that runs a loop on them."""


Runner = Callable[[Sequence[int], int], None]
"""`run(addresses, stream)`."""


class CpuProgram:
    """An executable on the CPU. `start(*addresses)` and `start_arrays(*arrays)` return a status."""

    def __init__(self, program: Executable, threads: Threads = POOL) -> None:
        self._code = _linked(program, threads)
        self.addresses = self._code.addresses
        self.program = program
        self.threads = threads
        self.direct = self._direct(arrays=True)
        """Starts the program with NumPy arrays, if the program is one launch of exactly its arguments."""
        self.direct_pointers = self._direct(arrays=False)
        """Starts the program with addresses, under the same condition."""
        self._launches = [(self._start(one, arrays=False), one.arguments, one.numbers) for one in program.launches]

    def _start(self, launch: FixedLaunch, arrays: bool) -> launcher.Start:
        return launcher.on_cpu(self.addresses[launch.kernel + PACKED], self.program.alignments(launch), arrays)

    def _direct(self, arrays: bool) -> launcher.Start | None:
        program = self.program
        alone = len(program.launches) == 1 and program.takes_arguments(program.launches[0])
        return self._start(program.launches[0], arrays) if alone and launcher.fits(program.arguments) else None

    def __call__(self, pointers: Sequence[int], stream: int = 0) -> None:
        """Run the launches one after the other. Raises the errors of `failed`."""
        if self.program.parallel and not self.threads.ready:
            self.threads.start()
        scratch = [_piece(size) for size in self.program.scratch]
        addresses = [*pointers, *[piece.address for piece in reversed(scratch)]]
        try:
            for start, places, numbers in self._launches:
                if status := start(*[addresses[place] for place in places], *numbers):
                    failed(status)
        finally:
            _spare.extend(scratch)


class _LinkedCode:
    """Machine code linked into this process, and the addresses of its functions."""

    def __init__(self, program: Executable, symbols: tuple[str, ...], threads: Threads) -> None:
        imports = {PARALLEL_FOR: threads.start()} if program.parallel else {}
        self._held, self.addresses = link(program.binary, symbols, imports)
        self._threads = threads


_codes: WeakValueDictionary[tuple[bytes, tuple[str, ...], int], _LinkedCode] = WeakValueDictionary()
"""The linked code of all programs in use; programs of different sizes share it."""


def _linked(program: Executable, threads: Threads) -> _LinkedCode:
    symbols = tuple(dict.fromkeys(launch.kernel + PACKED for launch in program.launches))
    key = program.binary, symbols, id(threads)
    found = _codes.get(key)
    if found is None:
        found = _codes[key] = _LinkedCode(program, symbols, threads)
    return found


class _Piece(NamedTuple):
    """Scratch memory on the CPU: its bytes, its address, and its owner."""

    size: int
    address: int
    memory: np.ndarray


_spare: list[_Piece] = []
"""Unused scratch memory of all programs, the most recently used last. Concurrent calls share no memory."""


def _piece(size: int) -> _Piece:
    """Return spare memory, or new memory if the spare memory is too small.

    The number of pieces is the largest number of concurrent calls, and does not grow with the number of programs.
    """
    try:
        found = _spare.pop()
    except IndexError:
        return _new_piece(size)
    return found if found.size >= size else _new_piece(size)


def _new_piece(size: int) -> _Piece:
    made = aligned_bytes(size)
    return _Piece(size, made.ctypes.data, made)


def failed(status: int) -> None:
    """Raise the error that a launch on the CPU reported."""
    if status == launcher.MISALIGNED:
        raise UserError(
            "an array begins at an address that the kernel cannot load vectors from",
            fix="pass an array that begins at the start of its memory: x.copy() instead of a slice of it",
        )
    raise DeviceError("the kernel ran out of memory for its intermediate results", "OUT_OF_MEMORY")


class GpuProgram:
    """An executable on one GPU."""

    def __init__(self, program: Executable, index: int) -> None:
        self.program = program
        self.index = index
        self.kernels = cuda_kernels.load(program, index)
        self.launch_all = cuda_kernels.in_order(self.kernels)
        self._scratch: dict[int, list[int]] = {}
        self.starts: Callable[[list[int]], int] | None = None
        """Launches all kernels on the current stream of another library, with scratch memory of that library."""

    @property
    def direct(self) -> cuda_kernels.LoadedKernel | None:
        """Return the only kernel, if it takes exactly the program's arguments, else None."""
        alone = len(self.kernels) == 1 and self.program.takes_arguments(self.kernels[0].launch)
        return self.kernels[0] if alone else None

    def __call__(self, pointers: Sequence[int], stream: int = 0) -> None:
        """Launch the kernels, with scratch memory of the stream."""
        if self.launch_all(pointers, self._memory(stream), stream):
            self.kernels[0].failed(launcher.MISALIGNED, ())

    def _memory(self, stream: int) -> list[int]:
        """Return the scratch memory of a stream, the last piece first. Calls on one stream run one after the other."""
        found = self._scratch.get(stream)
        if found is None:
            sizes = reversed(self.program.scratch)
            found = self._scratch[stream] = [cuda_kernels.allocate(size, self.index) for size in sizes]
        return found


Program = CpuProgram | GpuProgram
_programs: dict[tuple[int, int], tuple[Executable, Program]] = {}


def load_program(executable: Executable, on: Device, threads: Threads = POOL) -> Program:
    """Return the program of an executable on a device, loaded once. On a CPU, its loops run on `threads`."""
    memo = (id(executable), id(threads))
    found = _programs.get(memo)
    if found is None:
        made: Program = CpuProgram(executable, threads) if on.kind == "cpu" else GpuProgram(executable, on.index)
        found = _programs.setdefault(memo, (executable, made))
    return found[1]
