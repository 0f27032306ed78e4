"""`runtime.system_lib()`: the functions that libraries in this process were linked from."""

from __future__ import annotations

import mmap
from pathlib import Path

from ..codegen.abi import CompiledProgram
from ..codegen.exported import elf
from ..core.errors import UserError
from ..core.target import Target
from .module import Entry, Module
from .saved import read_programs

_MAPPED = Path("/proc/self/maps")
_OPTION = "system-lib"


class SystemLib(Module):
    """The functions of all loaded libraries that were built with `-system-lib`."""

    def __init__(self, programs: list[CompiledProgram], prefix: str) -> None:
        super().__init__(programs[0])
        self._prefix = prefix
        for program in programs[1:]:
            self.import_module(Module(program))

    def get_function(self, name: str, query_imports: bool = True) -> Entry:
        """The function of the name `prefix + name`, or else of `name`."""
        longer = f"{self._prefix}{name}"
        return super().get_function(longer if self.implements_function(longer, query_imports) else name, query_imports)


def system_lib(symbol_prefix: str = "") -> Module:
    """Return the functions of the libraries in this process that were built for "llvm -system-lib".

    Parameters
    ----------
    symbol_prefix
        `module[name]` looks for the function `symbol_prefix + name` before it looks for `name`.

    Raises
    ------
    UserError
        If no library with such functions is loaded.

    Notes
    -----
    Link the object files of modules into a library, and load it with `ctypes.CDLL`. A library is found by the archive
    that `load_module(path)` reads.
    """
    if not isinstance(symbol_prefix, str):
        raise UserError(f"symbol_prefix={symbol_prefix!r} is not text", primitive="system_lib", fix='give "" or "my_"')
    programs = [program for path in _libraries() for program in read_programs(path) if _is_registered(program)]
    if not programs:
        raise UserError(
            "no library with functions for -system-lib is loaded in this process",
            primitive="system_lib",
            fix='build for "llvm -system-lib", link the saved objects with cc.create_shared, and load it: ctypes.CDLL',
        )
    return SystemLib(programs, symbol_prefix)


def _is_registered(program: CompiledProgram) -> bool:
    return _OPTION in dict(Target(program.target).labels)


def _libraries() -> list[Path]:
    """The files in this process's memory that hold modules, in the order of their addresses."""
    names = {line.split(maxsplit=5)[5]: None for line in _MAPPED.read_text().splitlines() if " /" in line}
    return [path for path in map(Path, names) if _holds_module(path)]


def _holds_module(path: Path) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return elf.section(content, elf.SECTION) is not None
    except (OSError, ValueError):  # deleted since, empty, or no ELF file
        return False
