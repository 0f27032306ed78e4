"""Compiled programs for the CPU, linked into this process and called."""

from __future__ import annotations

import ctypes
import itertools
import struct
from functools import cache
from typing import Any

from ..codegen.abi import CompiledProgram, KernelAbi, scalar_type
from ..codegen.llvm.compile import binding
from ..codegen.llvm.module import PACKED
from ..core.dtype import DType
from ..core.errors import InternalError
from .driver import DeviceError, Launcher

_numbers = itertools.count()


@cache
def _linker() -> Any:
    """The process's own linker of compiled code; it lives as long as the process."""
    llvm = binding()
    made = llvm.create_lljit_compiler()
    keep_for_ever(made)
    return made


def keep_for_ever(thing: Any) -> None:
    """Let Python's own shutdown not destroy `thing`: code in it may still be running in another thread then."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def link(binary: bytes, symbols: list[str], imports: dict[str, int]) -> tuple[Any, dict[str, int]]:
    """Put an object file into memory: what keeps it there, and the addresses of its functions."""
    builder = binding().JITLibraryBuilder().add_object_img(binary).add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    for name in symbols:
        builder.export_symbol(name)
    held = builder.link(_linker(), f"tilewright.{next(_numbers)}")
    return held, {name: held[name] for name in symbols}


def load_program(program: CompiledProgram) -> dict[str, Launcher]:
    """The kernels of a program, ready to be called."""
    if program.binary is None:
        raise InternalError(f"a program for {program.target} has no machine code for the CPU")
    symbols = [abi.name + PACKED for abi in program.kernels]
    held, addresses = link(program.binary, symbols, {})
    return {abi.name: _launcher(held, addresses[abi.name + PACKED], abi) for abi in program.kernels}


def _launcher(held: Any, address: int, abi: KernelAbi) -> Launcher:
    """A function that packs the arguments into memory of its own, and calls; its caller holds a lock."""
    letters = ["Q" if kind == "buffer" else scalar_type(DType(kind)) for kind in abi.params]
    layout = "=" + "".join(f"{letter}{8 - struct.calcsize('=' + letter)}x" for letter in letters)
    packed = ctypes.create_string_buffer(max(8, struct.calcsize(layout)))
    pack = struct.Struct(layout).pack_into
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)
    where = ctypes.c_void_p(ctypes.addressof(packed))

    def launch(gx: int, gy: int, gz: int, bx: int, by: int, bz: int, *args: Any) -> None:
        pack(packed, 0, *args)
        if function(where):
            raise DeviceError(f"{abi.name} ran out of memory for what it computes in between", "OUT_OF_MEMORY")

    launch.held = held  # type: ignore[attr-defined]  # the code lives as long as what calls it
    return launch
