"""LLVM's linker straight from the library that llvmlite brings, without llvmlite's Python.

Importing llvmlite takes 20 ms, a third of the time from the start of a process to the result of a known kernel. Its
library has a C interface, which may differ between versions: unknown versions are left to llvmlite.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from ..core.forking import new_reentrant_lock, not_while_forking

KNOWN = ("0.50.",)
"""Versions of llvmlite with the interface that is called here."""
_OBJECT, _PROCESS = 2, 3
"""Kinds of link inputs: an object file, and a library; the one without a name is the process."""
_FAILED = b"LLVM gives no reason"
LINKS_OF_A_SESSION = 256
"""Links after which a new session begins: a session keeps 10 KiB for each library, also when its code is unloaded."""


class _Element(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_uint8), ("value", ctypes.c_char_p), ("size", ctypes.c_size_t))


class _Symbol(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("address", ctypes.c_uint64))


def linker() -> Linker | None:
    """The linker of this process; None for an unknown version of llvmlite."""
    spec = find_spec("llvmlite")
    folder = os.path.dirname(spec.origin) if spec is not None and spec.origin is not None else ""
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            text = file.read()
        if not any(f"'{version}" in text or f'"{version}' in text for version in KNOWN):
            return None
        return Linker(ctypes.CDLL(os.path.join(folder, "binding", "libllvmlite.so")))
    except (OSError, AttributeError):  # packaged in another way
        return None


class Linker:
    """LLVM's LLJIT, which links object files into memory."""

    def __init__(self, library: Any) -> None:
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        error = ctypes.POINTER(ctypes.c_void_p)
        self._link, self._dispose = library.LLVMPY_LLJIT_Link, library.LLVMPY_LLJIT_Dylib_Tracker_Dispose
        self._link.argtypes = (pointer, text, pointer, size, pointer, size, pointer, size, error)
        self._link.restype = pointer
        self._dispose.argtypes, self._dispose.restype = (pointer, error), ctypes.c_bool
        self._free = library.LLVMPY_DisposeString
        self._free.argtypes, self._free.restype = (pointer,), None
        self._lock = new_reentrant_lock()  # linking may collect garbage, and with it code that is unloaded
        self._create, self._end = library.LLVMPY_CreateLLJITCompiler, library.LLVMPY_LLJITDispose
        self._create.argtypes, self._create.restype = (pointer, ctypes.c_bool, ctypes.c_bool, error), pointer
        self._end.argtypes, self._end.restype = (pointer,), None
        library.LLVMPY_InitializeNativeTarget()
        library.LLVMPY_InitializeNativeAsmPrinter()
        self._jit, self._links = self._session(), 0

    def _session(self) -> int:
        """A new LLJIT. It lives until this object ends it, and the last of its libraries is dropped."""
        said = ctypes.c_void_p()
        made: int | None = self._create(None, False, True, ctypes.byref(said))
        if not made:
            raise OSError(self._text(said))
        return made

    def link(
        self, name: str, objects: Sequence[bytes], imports: Mapping[str, int], symbols: Sequence[str]
    ) -> tuple[Any, dict[str, int]]:
        """The object that keeps the code in memory, and the addresses of the symbols."""
        linked = [(_PROCESS, b""), *((_OBJECT, each) for each in objects)]
        elements = (_Element * len(linked))(*(_Element(kind, value, len(value)) for kind, value in linked))
        given = (_Symbol * len(imports))(*(_Symbol(symbol.encode(), address) for symbol, address in imports.items()))
        wanted = (_Symbol * len(symbols))(*(_Symbol(symbol.encode(), 0) for symbol in symbols))
        said = ctypes.c_void_p()
        with self._lock:
            if self._links >= LINKS_OF_A_SESSION:
                before, self._jit, self._links = self._jit, self._session(), 0
                self._end(before)
            self._links += 1
            tracker = self._link(
                self._jit, name.encode(), elements, len(elements), given, len(given), wanted, len(wanted),
                ctypes.byref(said),
            )  # fmt: skip
        if not tracker:
            raise RuntimeError(self._text(said))
        return _Tracker(self, tracker), {symbol: one.address for symbol, one in zip(symbols, wanted, strict=True)}

    @not_while_forking
    def drop(self, tracker: int) -> None:
        """Take linked objects out of memory."""
        said = ctypes.c_void_p()
        with self._lock:
            if self._dispose(tracker, ctypes.byref(said)):
                self._text(said)  # nobody can act on this error

    def _text(self, said: ctypes.c_void_p) -> str:
        """LLVM's error message; the caller owns its memory."""
        found = ctypes.string_at(said.value) if said.value else _FAILED
        if said.value:
            self._free(said)
        return found.decode(errors="replace")


class _Tracker:
    """Linked objects, which stay in memory as long as this does."""

    def __init__(self, linker: Linker, tracker: int) -> None:
        self._linker, self._tracker = linker, tracker

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # at the end of the process, other threads may still run in it
            self._linker.drop(self._tracker)
