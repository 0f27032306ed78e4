"""Dynamic shapes: one compiled program serves every batch and every length, since sizes are arguments of the call.

The host code of such a program is Python that checks its arguments and starts kernels. It runs once per set of sizes,
with arguments that only have shapes, to list the launches. A call then only passes addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from ...codegen.abi import ArrayArgument, CompiledProgram
from ...codegen.llvm.binding import PACKED, PARALLEL_FOR
from ...core.errors import InternalError
from ...core.forking import new_reentrant_lock
from ...core.launches import FixedLaunch
from ...core.target import Target
from ...runtime.divisions import DIVISIONS
from ...runtime.llvm_link import link
from ...runtime.saved import archive_of, program_in
from . import cuda_kernels, fingerprint, launcher
from .store import StoredKernel, store

if TYPE_CHECKING:
    from ...runtime.device import Device
    from .cuda_kernels import LoadedKernel
    from .running import CpuLaunch, Threads

_ADDRESS = 1 << 48
"""The first made-up address of recorded arguments, and the distance between two of them: larger than any size."""


_COMPLAINTS = "wrong wrong_extent wrong_size wrong_stride wrong_offset overlap misaligned beyond scalar".split()
"""Names of the functions that host code calls to report wrong arguments."""


class UnsuitableError(Exception):
    """Launches cannot hold a call: an array is too large for its indices, or a size could be mistaken for an address or
    for -1."""


class SizedLaunch(NamedTuple):
    """A launch of known sizes: for each parameter of the kernel a number, or the place of an argument.

    Scratch memory has the places -1, -2 and so on.
    """

    kernel: str
    extents: tuple[int, ...]
    shared: int
    places: tuple[int, ...]
    numbers: tuple[int, ...]


class SizedLaunches(NamedTuple):
    """The launches of a call, and the bytes of each piece of scratch memory between them."""

    launches: tuple[SizedLaunch, ...]
    scratch: tuple[int, ...]


class _Recorded:
    """An argument with a shape and without memory."""

    def __init__(self, place: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
        self.shape, self.strides, self.offset = shape, strides, 0
        self.kind = self.layout = None
        self.handle = _ADDRESS * (place + 1)
        self.start = self.end = place


def launches(program: CompiledProgram, arrays: Sequence[tuple[Any, Any]], numbers: Sequence[int]) -> SizedLaunches:
    """Return the launches of a program. Its arguments are arrays of these shapes and strides, then the values of its
    size variables."""
    entry = program.entries[0]
    if any(abs(number) >= _ADDRESS for number in numbers):
        raise UnsuitableError
    scratch: list[int] = []
    found: list[SizedLaunch] = []
    shared = {kernel.name: kernel.dynamic_shared_bytes for kernel in program.kernels}

    def allocate(name: str, size: int) -> int:
        scratch.append(size)
        return -_ADDRESS * len(scratch)

    def started(name: str) -> Callable[..., None]:
        def start(*values: int) -> None:
            extents, values = values[:6], values[6:]
            addresses = [value // _ADDRESS for value in values if abs(value) >= _ADDRESS]
            places = tuple(a - 1 if a > 0 else a for a in addresses)
            # Launchers take unsigned words. They read the word of -1 as an error of Python's conversion.
            words = tuple(number % (1 << 64) for number in values[len(places) :])
            if (1 << 64) - 1 in words:
                raise UnsuitableError
            found.append(SizedLaunch(name, extents, shared[name], places, words))

        return start

    def wrong(*values: Any) -> None:
        raise InternalError(f"the arguments of {entry.name} do not suit it: {values}")

    def too_large(*values: Any) -> None:
        raise UnsuitableError

    names: dict[str, Any] = {**DIVISIONS, **{limit.name: limit.allowed for limit in entry.limits}}
    names |= dict.fromkeys(_COMPLAINTS, wrong) | dict.fromkeys(("too_large", "too_many"), too_large)
    names |= {kernel.name: started(kernel.name) for kernel in program.kernels}
    names |= {"allocate": allocate, "strided": lambda array, place: array.strides, "apart": lambda *spans: None}
    for argument in entry.arguments:
        if isinstance(argument, ArrayArgument):
            names |= {f"{argument.name}_kind": None, f"{argument.name}_layout": None}
    exec(compile(entry.source, f"<host code of {entry.symbol}>", "exec"), names)
    names[entry.symbol](*[_Recorded(place, *each) for place, each in enumerate(arrays)], *numbers)
    return SizedLaunches(tuple(found), tuple(scratch))


Build = Callable[[Any, Target], tuple[Any, list[Any], dict[Any, Any]]]
"""The schedule of a description for a target, its arguments, and their buffers."""
_programs: dict[tuple[Any, Device], CompiledProgram] = {}
_lock = new_reentrant_lock()


def sized_program(of: Any, on: Device, scheduler: str, name: str) -> CompiledProgram:
    """Return the program of a description: from memory, from disk, or newly compiled.

    `scheduler` names a module below this package. Its function `scheduled` returns the schedule. `name` is the name of
    the program.
    """
    with _lock:
        found = _programs.get((of, on))
        if found is None:
            found = _programs[of, on] = _from_disk(of, on) or _compiled(of, on, scheduler, name)
        return found


def _from_disk(of: Any, on: Device) -> CompiledProgram | None:
    entry = store().get(fingerprint.cache_key(of, on, ""))
    with suppress(Exception):  # a damaged entry is compiled anew
        return None if entry is None else program_in(entry.binary)
    return None


def _compiled(of: Any, on: Device, scheduler: str, name: str) -> CompiledProgram:
    # The compiler, which a kernel on disk does not need.
    driver, programs = (import_module(f"...{name}", __package__) for name in ("driver", "runtime.program"))
    target = programs.target_on(on)
    schedule, arguments, binds = import_module(f"...{scheduler}", __package__).scheduled(of, target)
    program: CompiledProgram = driver.build(schedule, arguments, target, name=name, binds=binds).program
    description = {"problem": of.described(), "device": fingerprint.machine(on), "shown": str(of)}
    store().put(fingerprint.cache_key(of, on, ""), StoredKernel(description, archive_of(program)))
    return program


def on_cpu(program: CompiledProgram, found: SizedLaunches, threads: Threads) -> list[CpuLaunch]:
    """Return the launches on the CPU, with their code loaded; parallel loops run on `threads`."""
    functions = _linked(program, threads)
    return [
        (launcher.on_cpu(functions[one.kernel + PACKED], _aligned(program, one), False), one.places, one.numbers)
        for one in found.launches
    ]


def on_gpu(
    program: CompiledProgram, found: SizedLaunches, index: int
) -> list[tuple[LoadedKernel, tuple[int, ...], tuple[int, ...]]]:
    """Return the launches on a GPU: each loaded kernel, the places of its addresses, and its numbers."""
    made = []
    for one in found.launches:
        (x, y, z, *block), aligned = one.extents, _aligned(program, one)
        values = tuple(range(len(aligned)))
        launch = FixedLaunch(one.kernel, (x, y, z), (block[0], block[1], block[2]), one.shared, values)
        kernel = cuda_kernels.load_one(program.binary or b"", launch, aligned, index)
        made.append((kernel, one.places, one.numbers))
    return made


def _aligned(program: CompiledProgram, one: SizedLaunch) -> tuple[int, ...]:
    return (*[_alignment(program, place) for place in one.places], *[1] * len(one.numbers))


def _alignment(program: CompiledProgram, place: int) -> int:
    """The bytes that the address of an argument must be a multiple of."""
    argument = program.entries[0].arguments[place] if place >= 0 else None
    return argument.align if isinstance(argument, ArrayArgument) else 1


_linked_programs: dict[int, tuple[CompiledProgram, Any, dict[str, int]]] = {}


def _linked(program: CompiledProgram, threads: Threads) -> dict[str, int]:
    """The functions of a program, linked into this process once."""
    found = _linked_programs.get(id(program))
    if found is None:
        symbols = [kernel.name + PACKED for kernel in program.kernels]
        imports = {PARALLEL_FOR: threads.start()} if PARALLEL_FOR in program.source else {}
        found = _linked_programs[id(program)] = (program, *link(program.binary or b"", symbols, imports))
    return found[2]
