"""Compiled kernels in the form in which a call starts them: machine code, and the launches with all their numbers.

A call of one size always launches the same kernels with the same grids: code generation lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...core.errors import InternalError
from ...core.launches import Extents, FixedLaunch

if TYPE_CHECKING:
    from ...codegen.abi import CompiledProgram


class Executable(NamedTuple):
    """A compiled call. Its arguments are pointers, and the last one is the result.

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
    launches: tuple[FixedLaunch, ...]
    scratch: tuple[int, ...]
    alignment: tuple[int, ...]
    parallel: bool
    binary: bytes

    @property
    def arguments(self) -> int:
        """The number of arrays among the arguments."""
        return len(self.alignment)

    def described(self) -> dict[str, Any]:
        """Return all fields except the machine code, as JSON data."""
        fields = {name: value for name, value in self._asdict().items() if name != "binary"}
        return {**fields, "launches": [launch._asdict() for launch in self.launches]}

    @classmethod
    def read(cls, described: dict[str, Any], binary: bytes) -> Executable:
        """Return the executable of a description, as `described` returns it."""
        launches = tuple(
            FixedLaunch(
                one["kernel"], _three(one["grid"]), _three(one["block"]), one["shared"], tuple(one["arguments"])
            )
            for one in described["launches"]
        )
        lists = {name: tuple(described[name]) for name in ("scratch", "alignment")}
        return cls(described["target"], launches, lists["scratch"], lists["alignment"], described["parallel"], binary)


def _three(numbers: list[int]) -> Extents:
    x, y, z = numbers
    return x, y, z


def executable(program: CompiledProgram, parallel: bool = False) -> Executable:
    """The executable of a program's entry, which does nothing but launch kernels of known sizes."""
    entry = program.entries[0]
    if program.binary is None or entry.fixed is None:
        missing = "machine code" if program.binary is None else "list of launches"
        raise InternalError(f"the program {entry.name} for {program.target} has no {missing}")
    alignment = tuple(getattr(argument, "align", 1) for argument in entry.arguments)
    return Executable(program.target, *entry.fixed, alignment, parallel, program.binary)
