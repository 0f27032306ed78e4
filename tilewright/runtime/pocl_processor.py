"""A name that PoCL's compiler knows for processors that are newer than it.

PoCL from the package index has Clang 14. It calls a later processor, such as AMD's Zen 5, "generic", and then refuses
to compile for that name: no program builds. PoCL has no option for the name, so it is put into PoCL's own description
of the device before the first program. The name is the processor for which PoCL compiled the library of built-in
functions that it links here. Another name would not do, since functions that return vectors return them in other
registers there.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

POCL = "Portable Computing Language"
"""The name of its platform."""
UNKNOWN = "generic"
"""The compiler's name for an unknown processor."""
REFUSAL = "unknown target CPU"
"""The compiler's message about that."""
_TRIPLE = "x86_64-unknown-linux-gnu"
_AVX2 = {"avx", "avx2", "cx16", "popcnt", "lzcnt", "f16c", "fma", "bmi", "bmi2"}
_AVX512 = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
_LIBRARIES = (("skylake-avx512", _AVX2 | _AVX512), ("haswell", _AVX2))
"""Processors that libraries of built-in functions are compiled for, and the features with which PoCL links them."""
_RECORD_BYTES = 2048
_POINTER_BYTES = struct.calcsize("P")
_MOST_NAME_BYTES = 32
"""Bytes to read of PoCL's description of a device, per pointer in it, and of a name."""
_given: list[Any] = []
"""The memory of the names that PoCL's description points to."""


def name_processor(device: Any) -> bool:
    """Give the processor a name that PoCL's compiler knows, if it has none; return whether it has one now.

    `device` is one of pyopencl's. In PoCL's description of the device, this replaces the pointer to "generic" that
    directly follows a pointer to this machine's triple. If there is no such pair, or several, nothing is replaced.
    """
    if str(device.platform.name).strip() != POCL or not str(device.version).strip().endswith(f"-{UNKNOWN}"):
        return True
    name = processor(import_module("llvmlite.binding").get_host_cpu_features())
    if name is None:
        return False
    places = [*_places(int(device.int_ptr), (_TRIPLE, UNKNOWN))]
    if not places:  # an earlier context may have given it a name
        return any(True for _ in _places(int(device.int_ptr), (_TRIPLE, name)))
    if len(places) > 1:
        return False
    text = ctypes.create_string_buffer(name.encode())
    _given.append(text)
    ctypes.c_void_p.from_address(places[0] + _POINTER_BYTES).value = ctypes.addressof(text)
    return True


def processor(features: Mapping[str, bool]) -> str | None:
    """Return the processor for which PoCL compiled the library that it links for these features; None if unknown.

    The names of features are LLVM's.
    """
    there = {feature for feature, has in features.items() if has}
    return next((name for name, needed in _LIBRARIES if needed <= there), None)


def _places(record: int, texts: tuple[str, ...]) -> Iterator[int]:
    """Yield the addresses in a record of successive pointers to the given texts."""
    wanted = [text.encode() + b"\0" for text in texts]
    try:
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            held = _read(memory.fileno(), record, _RECORD_BYTES)
            pointers = struct.unpack_from(f"{len(held) // _POINTER_BYTES}P", held)
            for at in range(len(pointers) - len(wanted) + 1):
                found = zip(pointers[at:], wanted, strict=False)
                if all(_read(memory.fileno(), pointer, _MOST_NAME_BYTES).startswith(text) for pointer, text in found):
                    yield record + at * _POINTER_BYTES
    except OSError:  # the file is absent, or not readable
        return


def _read(memory: int, address: int, size: int) -> bytes:
    """Bytes of this process; none if nothing is mapped."""
    try:
        return os.pread(memory, size, address)
    except (OSError, OverflowError):
        return b""
