"""Dynamic shapes: one compiled program serves all batches and lengths, because sizes are arguments of the call.

The host code of such a program is Python code that checks arguments and starts kernels. It runs once per set of sizes,
with arguments that have shapes but no memory, to list the launches. A call then only passes addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ...codegen.abi import ArrayArgument, CompiledProgram
from ...core.errors import InternalError
from ...core.forking import new_reentrant_lock
from ...core.launches import FixedLaunch, FixedLaunches
from ...core.target import Target
from ...runtime.divisions import DIVISIONS
from ...runtime.saved import archive_of, program_in
from . import fingerprint
from .executable import Executable, executable
from .store import StoredKernel, store

if TYPE_CHECKING:
    from ...runtime.device import Device

_ADDRESS = 1 << 48
"""The first artificial address of recorded arguments, and the distance between two of them: larger than any size."""


_COMPLAINTS = "wrong wrong_extent wrong_size wrong_stride wrong_offset overlap misaligned beyond scalar".split()
"""Names of the functions that host code calls to report wrong arguments."""


class UnsuitableError(Exception):
    """Raised if launches cannot represent a call: indices of an array overflow, or a size could be mistaken for an
    address or for -1."""


class _Recorded:
    """An argument with a shape and without memory."""

    def __init__(self, place: int, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> None:
        self.shape, self.strides, self.offset = shape, strides, 0
        self.kind = self.layout = None
        self.handle = _ADDRESS * (place + 1)
        self.start = self.end = place


def sized(program: CompiledProgram, arrays: Sequence[tuple[Any, Any]], numbers: Sequence[int]) -> Executable:
    """Return the executable of a program for given shapes and strides of arrays, and values of its size variables."""
    entry = program.entries[0]
    if any(abs(number) >= _ADDRESS for number in numbers):
        raise UnsuitableError
    scratch: list[int] = []
    found: list[FixedLaunch] = []
    shared = {kernel.name: kernel.dynamic_shared_bytes for kernel in program.kernels}

    def allocate(name: str, size: int) -> int:
        scratch.append(size)
        return -_ADDRESS * len(scratch)

    def started(name: str) -> Callable[..., None]:
        def start(x: int, y: int, z: int, *values: int) -> None:
            block, values = values[:3], values[3:]
            addresses = [value // _ADDRESS for value in values if abs(value) >= _ADDRESS]
            places = tuple(a - 1 if a > 0 else a for a in addresses)
            # Launchers take unsigned words, and treat the word of -1 as a failed conversion.
            words = tuple(number % (1 << 64) for number in values[len(places) :])
            if (1 << 64) - 1 in words:
                raise UnsuitableError
            found.append(FixedLaunch(name, (x, y, z), (block[0], block[1], block[2]), shared[name], places, words))

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
    return executable(program, FixedLaunches(tuple(found), tuple(scratch)))


Build = Callable[[Any, Target], tuple[Any, list[Any], dict[Any, Any]]]
"""The schedule of a description for a target, its arguments, and their buffers."""
_programs: dict[tuple[Any, Device], CompiledProgram] = {}
_lock = new_reentrant_lock()


def sized_program(of: Any, on: Device, scheduled: Build, name: str) -> CompiledProgram:
    """Return the program of a description: from memory, from disk, or newly compiled.

    `scheduled` returns the schedule; it loads the modules that a program on disk does not need. `name` is the name of
    the program.
    """
    with _lock:
        found = _programs.get((of, on))
        if found is None:
            found = _programs[of, on] = _from_disk(of, on) or _compiled(of, on, scheduled, name)
        return found


def _from_disk(of: Any, on: Device) -> CompiledProgram | None:
    entry = store().get(fingerprint.cache_key(of, on, ""))
    with suppress(Exception):  # a damaged entry is compiled anew
        return None if entry is None else program_in(entry.binary)
    return None


def _compiled(of: Any, on: Device, scheduled: Build, name: str) -> CompiledProgram:
    from ...driver import build  # the compiler, which a kernel on disk does not need
    from ...runtime.compile import target_on

    target = target_on(on)
    schedule, arguments, binds = scheduled(of, target)
    program = build(schedule, arguments, target, name=name, binds=binds).program
    description = {"problem": of.description(), "device": fingerprint.machine(on), "shown": str(of)}
    store().put(fingerprint.cache_key(of, on, ""), StoredKernel(description, archive_of(program)))
    return program
