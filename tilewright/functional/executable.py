"""Compiled kernels in the form in which a call starts them: machine code, and the launches with all their numbers.

A call of one size always launches the same kernels with the same grids. The host code of a module therefore runs once,
when the kernel is made, and its launches are recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.errors import InternalError

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram, EntryPoint

Grid = tuple[int, int, int]


class Launch(NamedTuple):
    """One launch: the kernel, its grid and block, and which arguments it takes.

    An argument is a number from 0 on; scratch memory is counted from -1 on downwards.
    """

    kernel: str
    grid: Grid
    block: Grid
    shared: int
    arguments: tuple[int, ...]


class Executable(NamedTuple):
    """A compiled call. It takes `arguments` pointers, the last of which is the result.

    Attributes
    ----------
    scratch : tuple of int
        Bytes of each intermediate buffer between kernels.
    alignment : tuple of int
        Bytes that the address of each argument must be a multiple of.
    parallel : bool
        Whether the code runs loops on the thread pool of the CPU.
    """

    target: str
    launches: tuple[Launch, ...]
    scratch: tuple[int, ...]
    alignment: tuple[int, ...]
    parallel: bool
    binary: bytes

    @property
    def arguments(self) -> int:
        """The number of arrays that it takes."""
        return len(self.alignment)

    def described(self) -> dict[str, Any]:
        """Return all fields but the machine code, as JSON data."""
        fields = {name: value for name, value in self._asdict().items() if name != "binary"}
        return {**fields, "launches": [launch._asdict() for launch in self.launches]}

    @classmethod
    def read(cls, described: dict[str, Any], binary: bytes) -> Executable:
        """The executable that `described` was made from."""
        launches = tuple(
            Launch(one["kernel"], _three(one["grid"]), _three(one["block"]), one["shared"], tuple(one["arguments"]))
            for one in described["launches"]
        )
        lists = {name: tuple(described[name]) for name in ("scratch", "alignment")}
        return cls(described["target"], launches, lists["scratch"], lists["alignment"], described["parallel"], binary)


def _three(numbers: list[int]) -> Grid:
    x, y, z = numbers
    return x, y, z


class _Argument:
    """A stand-in for an array while host code runs: it passes every check, and knows its number."""

    def __init__(self, number: int, mark: object) -> None:
        self.handle = _Token(number)
        self.layout = self.kind = mark
        self.start, self.end = 2 * number, 2 * number + 1


class _Token(int):
    """A handle that is aligned to everything, and still knows which one it is."""

    def __and__(self, mask: int) -> int:
        return 0


def executable(program: CompiledProgram, parallel: bool = False) -> Executable:
    """Record the launches of a program's entry; all of its sizes must be numbers."""
    if program.binary is None:
        raise InternalError(f"a program for {program.target} has no machine code")
    entry = program.entries[0]
    marks = [object() for _ in entry.arguments]
    launches: list[Launch] = []
    scratch: list[int] = []
    shared = {kernel.name: kernel.dynamic_shared_bytes for kernel in program.kernels}

    def recorder(name: str) -> Callable[..., None]:
        def record(gx: int, gy: int, gz: int, bx: int, by: int, bz: int, *arguments: int) -> None:
            launches.append(Launch(name, (gx, gy, gz), (bx, by, bz), shared[name], tuple(map(int, arguments))))

        return record

    def allocate(name: str, size: int) -> int:
        scratch.append(size)
        return -len(scratch)

    names: dict[str, Any] = {"allocate": allocate, **{name: recorder(name) for name in shared}}
    for argument, mark in zip(entry.arguments, marks, strict=True):
        names[f"{argument.name}_layout"] = names[f"{argument.name}_kind"] = mark
    _run(entry, names, [_Argument(number, mark) for number, mark in enumerate(marks)])
    alignment = tuple(getattr(argument, "align", 1) for argument in entry.arguments)
    return Executable(program.target, tuple(launches), tuple(scratch), alignment, parallel, program.binary)


def _run(entry: EntryPoint, names: dict[str, Any], arguments: list[_Argument]) -> None:
    exec(compile(entry.source, f"<host code of {entry.name}>", "exec"), names)
    try:
        names[entry.symbol](*arguments)
    except NameError as error:  # a check that objects, or a size that is not a number
        raise InternalError(f"the host code of {entry.name} needs more than launches: {error}") from error
