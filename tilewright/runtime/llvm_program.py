"""Compiled programs for the CPU: loaded into this process, and called."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..codegen.llvm.binding import OF_THREADS, PACKED
from ..core.dtype import DType
from ..core.errors import InternalError, UserError
from ..core.system import family_of, process_library
from .driver import DeviceError, Launcher, scalar_type
from .llvm_link import link
from .thread_pool import POOL

if TYPE_CHECKING:
    from ..codegen.abi import CompiledProgram, KernelAbi


def load_kernels(program: CompiledProgram) -> dict[str, Launcher]:
    """The kernels of a program, ready to be called."""
    if program.binary is None and program.target.startswith("c"):
        raise UserError(
            "the program is C source, and no C compiler is on the PATH to compile it",
            primitive="call",
            fix="install one (apt-get install gcc) and build again, or build for llvm",
        )
    foreign = re.search(r"-mtriple=(\S+)", program.target)
    triple = foreign[1] if foreign else ""
    if family_of(triple) != family_of(""):
        raise UserError(
            f"the program is for {triple}, and this machine is not",
            primitive="call",
            fix='export it, and load it there: module.export_library("lib.so"); or build without -mtriple',
        )
    if program.binary is None:
        raise InternalError(f"a program for {program.target} has no machine code for the CPU")
    symbols = [abi.name + PACKED for abi in program.kernels]
    parallel = any(name in program.source for name in OF_THREADS)
    own = POOL.functions() if parallel else {}
    # LLVM's linker prints to stderr before it raises, so functions that are known to be missing are reported here.
    if program.called and not program.objects and (lost := _missing(program, own)) is not None:
        raise lost
    try:
        held, addresses = link(program.binary, symbols, own, program.objects)
    except RuntimeError as error:
        raise _missing(program, own) or error from error
    return {abi.name: _launcher(held, addresses[abi.name + PACKED], abi, parallel) for abi in program.kernels}


def _missing(program: CompiledProgram, own: Mapping[str, int]) -> UserError | None:
    """The error if code was not linked for want of a C function; None for other causes."""
    process = process_library()
    called = [name for name in re.findall(r"^declare .*?@(\w+)\(", program.source, re.MULTILINE) if name not in own]
    lost = [name for name in called if not hasattr(process, name)]
    if not lost:
        return None
    return UserError(
        f"the program calls {', '.join(map(repr, lost))}, which neither this process nor an imported module defines",
        primitive="call_extern",
        fix='define it by s[stage].pragma(axis, "import_c", source) or "import_llvm", or load the library that does: '
        'ctypes.CDLL("library.so", ctypes.RTLD_GLOBAL)',
    )


def _launcher(held: Any, address: int, abi: KernelAbi, parallel: bool) -> Launcher:
    """Return a function that packs the arguments into its own memory and calls the code; the caller holds a lock."""
    letters = ["Q" if kind == "buffer" else scalar_type(DType(kind)) for kind in abi.params]
    layout = "=" + "".join(f"{letter}{8 - struct.calcsize('=' + letter)}x" for letter in letters)
    packed = ctypes.create_string_buffer(max(8, struct.calcsize(layout)))
    pack = struct.Struct(layout).pack_into
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(address)
    where = ctypes.c_void_p(ctypes.addressof(packed))

    def launch(gx: int, gy: int, gz: int, bx: int, by: int, bz: int, *args: Any) -> None:
        pack(packed, 0, *args)
        if parallel and not POOL.ready:
            POOL.start()
        if function(where):
            raise DeviceError(f"{abi.name} ran out of memory for its intermediate results", "OUT_OF_MEMORY")

    launch.held = held  # type: ignore[attr-defined]  # the code lives as long as its callers
    return launch
