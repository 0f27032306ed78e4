"""CUDA source to machine code through NVRTC: no toolkit, no driver, no GPU.

The result is a cubin for one architecture. The log of `ptxas -v` reports the resources of each kernel.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..core.errors import InternalError, UserError
from ..core.forking import new_lock, not_while_forking
from .abi import Resources


@dataclass(frozen=True)
class CompiledSource:
    """A cubin, the resources of its kernels, the compiler's log, and the compile time."""

    cubin: bytes = field(repr=False)
    resources: Mapping[str, Resources]
    log: str = field(repr=False)
    seconds: float


@cache
def _nvrtc() -> Any:
    try:
        from cuda.bindings import nvrtc

        if (older := library_for(_driver_version(), sys.path)) is not None:
            with suppress(OSError):
                ctypes.CDLL(str(older), ctypes.RTLD_GLOBAL)
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"the CUDA compiler NVRTC is not usable here: {error}",
            fix="pip install 'tilewright[cuda]', or 'tilewright[cuda12]' for drivers before 580",
        ) from error
    return nvrtc


def _driver_version() -> int:
    """The newest CUDA that the driver runs, such as 12080; 0 without a driver. It leaves the driver uninitialised."""
    from cuda.bindings import driver

    try:
        status, found = driver.cuDriverGetVersion()
    except RuntimeError:
        return 0
    return 0 if status else int(found)


def library_for(driver: int, folders: Iterable[str]) -> Path | None:
    """The NVRTC of CUDA 12 in folders of packages, if the driver needs it.

    `cuda-bindings` uses a loaded NVRTC, else the newest one. A driver of CUDA 12 loads no cubins of CUDA 13.
    """
    if not 0 < driver < 13_000:
        return None
    place = ("bin", "nvrtc64_120_0.dll") if sys.platform == "win32" else ("lib", "libnvrtc.so.12")
    found = (Path(folder, "nvidia", "cuda_nvrtc", *place) for folder in folders)
    return next((path for path in found if path.is_file()), None)


def version() -> tuple[int, int]:
    """NVRTC's version."""
    _, major, minor = _nvrtc().nvrtcVersion()
    return int(major), int(minor)


@cache
def architectures() -> tuple[str, ...]:
    """The architectures that NVRTC compiles for."""
    _, numbers = _nvrtc().nvrtcGetSupportedArchs()
    return tuple(f"sm_{number}" for number in numbers)


_memo: dict[tuple[str, str, tuple[str, ...]], CompiledSource] = {}
_memo_lock = new_lock()
_MEMO_SIZE = 1024


@not_while_forking
def compile_cuda(source: str, arch: str, options: tuple[str, ...] = ()) -> CompiledSource:
    """Compile `source` for `arch`; the same request in one process compiles once."""
    key = (source, arch, options)
    found = _memo.get(key)
    if found is None:
        found = _compile(source, arch, options)
        with _memo_lock:
            while len(_memo) >= _MEMO_SIZE:
                _memo.pop(next(iter(_memo)))
            _memo[key] = found
    return found


def _compile(source: str, arch: str, options: tuple[str, ...]) -> CompiledSource:
    nvrtc = _nvrtc()
    if re.sub("[af]$", "", arch) not in architectures():
        raise UserError(
            f"NVRTC {'.'.join(map(str, version()))} compiles for {', '.join(architectures())}, not {arch}",
            fix="give one of these architectures, or install an NVRTC that knows it: 'tilewright[cuda12]' has sm_50 to "
            "sm_121, and 'tilewright[cuda13]' has sm_75 and later ones",
        )
    began = time.perf_counter()
    # Without NVRTC's own cache (which is in use if there is a driver): its hits come without the log of ptxas.
    known = [flag for flag, since in (("--minimal", (12, 4)), ("--no-cache", (12, 9))) if version() >= since]
    # Floats have NVRTC's defaults: multiply-adds are fused, but there is no fast math, and denormals are not flushed.
    flags = [f"--gpu-architecture={arch}", "--ptxas-options=-v", *known, *options]
    status, program = nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", 0, [], [])
    _expect(status)
    try:
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [flag.encode() for flag in flags])
        log = (
            _read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            .decode(errors="replace")
            .rstrip("\0 \n")
        )
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise InternalError(f"NVRTC refuses generated code ({status.name}):\n{log}\n\n{_numbered(source)}")
        cubin = _read(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return CompiledSource(cubin, parse_log(log), log, time.perf_counter() - began)


@not_while_forking
def compile_users(source: str, form: str, arch: str, options: tuple[str, ...]) -> bytes:
    """Compile CUDA source of a user's to a "cubin" or to "ptx". Raises UserError with NVRTC's log if it is wrong."""
    nvrtc = _nvrtc()
    real = arch if form == "cubin" else arch.replace("sm_", "compute_")
    status, program = nvrtc.nvrtcCreateProgram(source.encode(errors="replace"), b"source.cu", 0, [], [])
    _expect(status)
    try:
        flags = [f"--gpu-architecture={real}", *options]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(flags), [os.fsencode(flag) for flag in flags])
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            log = _read(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog)
            said = log.decode(errors="replace").rstrip("\0 \n") or status.name
            raise UserError(
                f"NVRTC refuses the source for {real}:\n{said}",
                primitive="compile_cuda",
                fix="correct the source or the options; NVRTC has no headers of the host's",
            )
        if form == "cubin":
            return _read(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
        return _read(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX).rstrip(b"\0")
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _expect(status: Any) -> None:
    if int(status) != 0:
        raise InternalError(f"NVRTC: {status.name}")


def _read(program: Any, size_of: Any, get: Any) -> bytes:
    status, size = size_of(program)
    _expect(status)
    # Filled in place, so these bytes have to be new. Python keeps one object for every single byte (b" " * 1), and an
    # empty log is one byte long.
    data = bytes(max(size, 2))
    (status,) = get(program, data)
    _expect(status)
    return data[:size]


def _numbered(source: str) -> str:
    return "\n".join(f"{i:4} {line}" for i, line in enumerate(source.splitlines(), 1))


_ENTRY = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers(.*)")
_SHARED = re.compile(r"(\d+) bytes smem")
_CONSTANT = re.compile(r"(\d+) bytes cmem")


def parse_log(log: str) -> dict[str, Resources]:
    """The resources of each kernel, by the log of `ptxas -v`.

    A kernel's frame line follows its own `Function properties` line; lines of device functions that are not inlined
    (`__internal_trig_reduction_slowpathd`) appear too, and count towards no kernel.
    """
    found: dict[str, Resources] = {}
    entry = subject = ""
    frame = (0, 0, 0)
    for line in log.splitlines():
        if match := _ENTRY.search(line):
            entry, frame = match[1], (0, 0, 0)
        elif match := _PROPERTIES.search(line):
            subject = match[1]
        elif (match := _FRAME.search(line)) and subject == entry:
            frame = (int(match[1]), int(match[2]), int(match[3]))
        elif (match := _USED.search(line)) and entry:
            shared = _SHARED.search(match[2])
            constants = sum(int(number) for number in _CONSTANT.findall(match[2]))
            stack, stores, loads = frame
            found[entry] = Resources(int(match[1]), stores, loads, stack, int(shared[1]) if shared else 0, constants)
    return found
