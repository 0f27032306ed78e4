"""Machine code in memory: object files linked into this process."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ..codegen.llvm.binding import binding
from ..core.forking import not_while_forking
from . import orc

_numbers = itertools.count()


@cache
def _linker() -> Any:
    """The process's own linker of compiled code; it lives as long as the process.

    JITLink puts the sections of an object side by side. The older linker maps each section separately. If a
    driver has reserved much of the address space, the sections are more than 2 GiB apart: too far for relative
    addresses.
    """
    made = orc.linker() or _ByLlvmlite()
    keep_for_ever(made)
    return made


class _ByLlvmlite:
    """The linker by llvmlite's own Python, for any version."""

    def __init__(self) -> None:
        self._jit = binding().create_lljit_compiler(use_jit_link=True)

    def link(
        self, name: str, objects: Sequence[bytes], imports: Mapping[str, int], symbols: Sequence[str]
    ) -> tuple[Any, dict[str, int]]:
        """The object that keeps the code in memory, and the addresses of the symbols."""
        builder = binding().JITLibraryBuilder().add_current_process()
        for each in objects:
            builder.add_object_img(each)
        for symbol, address in imports.items():
            builder.import_symbol(symbol, address)
        for symbol in symbols:
            builder.export_symbol(symbol)
        held = builder.link(self._jit, name)
        return held, {symbol: held[symbol] for symbol in symbols}


def keep_for_ever(thing: Any) -> None:
    """Keep `thing` alive during Python's shutdown: another thread may still be running code in it."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


@not_while_forking
def link(
    binary: bytes, symbols: Sequence[str], imports: Mapping[str, int], objects: Sequence[bytes] = ()
) -> tuple[Any, dict[str, int]]:
    """Load an object file into memory; return its owner, and the addresses of its `symbols`.

    `imports` are the addresses of symbols that it may use beside the symbols of the process and of `objects`: other
    object files.
    """
    found: tuple[Any, dict[str, int]] = _linker().link(
        f"tilewright.{next(_numbers)}", (binary, *objects), imports, symbols
    )
    return found
