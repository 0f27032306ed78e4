"""Compiled kernels in the form that calls launch: machine code, and launches with all their numbers.

A call of one size always launches the same kernels with the same grids. Code generation lists these launches. If sizes
are arguments of the program, `sized_programs.py` lists the launches for each set of sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ...codegen.llvm.binding import PARALLEL_FOR
from ...core.errors import InternalError
from ...core.launches import Extents, FixedLaunch, FixedLaunches

if TYPE_CHECKING:
    from ...codegen.abi import CompiledProgram


class Executable(NamedTuple):
    """A compiled call. Its arguments are pointers; the last argument is the result.

    Attributes
    ----------
    scratch : tuple of int
        Bytes of each intermediate buffer between kernels.
    alignment : tuple of int
        The alignment in bytes of each argument's address.
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

    def alignments(self, launch: FixedLaunch) -> tuple[int, ...]:
        """Return the alignment in bytes of each word of a launch; 1 for scratch memory and numbers."""
        places = (self.alignment[place] if place >= 0 else 1 for place in launch.arguments)
        return *places, *[1] * len(launch.numbers)

    def takes_arguments(self, launch: FixedLaunch) -> bool:
        """Return whether a launch takes exactly the arguments of the call, in order."""
        return launch.arguments == tuple(range(self.arguments)) and not launch.numbers

    def description(self) -> dict[str, Any]:
        """Return all fields except the machine code, as JSON data. Launches of stored code have no numbers."""
        fields = {name: value for name, value in self._asdict().items() if name != "binary"}
        launches = [
            {name: value for name, value in one._asdict().items() if name != "numbers"} for one in self.launches
        ]
        return {**fields, "launches": launches}

    @classmethod
    def read(cls, described: dict[str, Any], binary: bytes) -> Executable:
        """Return the executable of a `description`."""
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


def executable(program: CompiledProgram, listed: FixedLaunches | None = None) -> Executable:
    """Return the executable of a program's entry.

    `listed` has the launches if they depend on sizes that the call passes. Otherwise code generation lists them.
    """
    entry = program.entries[0]
    launches = listed or entry.fixed
    if program.binary is None or launches is None:
        missing = "machine code" if program.binary is None else "list of launches"
        raise InternalError(f"the program {entry.name} for {program.target} has no {missing}")
    alignment = tuple(one.align for one in entry.arguments if hasattr(one, "align"))  # numbers have no alignment
    return Executable(program.target, *launches, alignment, PARALLEL_FOR in program.source, program.binary)
