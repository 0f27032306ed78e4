"""A CUDA device that is a core of this machine: the system's C++ compiler compiles generated source, which runs there.

It checks what the interpreter cannot see, since that runs loop nests: fragments, the addresses given to `ldmatrix`,
swizzled shared memory, and groups of asynchronous copies. machine.cpp lists what it checks besides the results. With
`python -m pytest --emulate-cuda`, the tests that need a GPU run on it.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tests.emulator.translate import translate
from tilewright.codegen.abi import CompiledProgram, KernelAbi
from tilewright.codegen.program import generate
from tilewright.core.dtype import DType
from tilewright.core.target import Target
from tilewright.driver import finished, lower_for
from tilewright.runtime.cpu_driver import CpuDriver, HostMemory
from tilewright.runtime.driver import DeviceAttributes, Driver, Handle, Launcher, scalar_type
from tilewright.runtime.module import Module

TARGET = Target("cuda -arch=sm_90")
HERE = Path(__file__).parent
_FLAGS = (
    "-std=gnu++17 -fPIC -w -mf16c -fno-strict-aliasing -fvisibility=hidden -fno-stack-protector -fwrapv "
    "-ftrivial-auto-var-init=pattern"
).split()
_CHECKS = (
    "-fsanitize=kernel-address -fsanitize=alignment --param asan-stack=0 --param asan-globals=0 "
    "--param asan-instrumentation-with-call-threshold=0"
).split()
_TEXT = 1000


class EmulationError(AssertionError):
    """A kernel does what it must not do."""


@cache
def compiler() -> str | None:
    """The C++ compiler; None where there is none that instruments accesses as the machine needs it."""
    return shutil.which("g++")


@cache
def _folder() -> Path:
    """Where this machine's compiled parts are kept: by what they are made from, so that all processes share them."""
    text = b"".join(path.read_bytes() for path in (*sorted(HERE.glob("*.[ch]pp")), Path(__file__)))
    made = Path(tempfile.gettempdir()) / f"tilewright-emulator-{os.getuid()}-{hashlib.sha256(text).hexdigest()[:12]}"
    made.mkdir(mode=0o700, exist_ok=True)
    if made.stat().st_uid != os.getuid():
        raise RuntimeError(f"{made} belongs to somebody else")
    return made


def _compiled(name: str, *command: str) -> Path:
    """A file that the compiler makes, unless it is there."""
    made = _folder() / name
    if not made.exists():
        own = made.with_suffix(f".{os.getpid()}{made.suffix}")
        words = [str(compiler()), *_FLAGS, *command, "-o", str(own)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(words)}\n{done.stderr[:4000]}")
        own.replace(made)
    return made


@cache
def _library(source: str, capability: str) -> ctypes.CDLL:
    """The kernels of CUDA source as a library, for a compute capability such as "90"."""
    text = f"#define __CUDA_ARCH__ {capability}0\n{translate(source)}"
    name = f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.{os.getpid()}"
    code = _folder() / f"{name}.cpp"
    code.write_text(text, encoding="utf-8")
    machine = _compiled("machine.o", "-O1", "-c", str(HERE / "machine.cpp"))
    made = _compiled(f"{name}.so", *_CHECKS, "-O1", f"-I{HERE}", "-shared", "-Wl,-Bsymbolic", str(code), str(machine))
    loaded = ctypes.CDLL(str(made))
    for file in (code, made):  # thousands of programs would leave their files behind
        file.unlink()
    return loaded


def install(driver: Driver) -> Driver:
    """Let `tw.cuda()` be another device, in this process; returns the driver before."""
    devices = import_module("tilewright.runtime.device")
    before: Driver = devices._DRIVERS["cuda"]
    devices._DRIVERS["cuda"] = devices.device("cuda", 0).driver = driver
    devices.COUNTS["cuda"] = driver.count
    return before


@contextmanager
def emulation(seed: int = 0) -> Iterator[None]:
    """Let `tw.cuda()` be the emulated device; `seed` chooses the order in which threads run."""
    before = install(EmulatedCuda(seed))
    try:
        yield
    finally:
        install(before)


def emulated(s: Any, args: Sequence[Any], target: Target = TARGET) -> Module:
    """The module of a schedule as source alone, which NVRTC does not compile."""
    functions = lower_for(target, s, args).functions
    return Module(generate(tuple(finished(function, target) for function in functions), target)[0])


class EmulatedCuda(CpuDriver):
    """One device of compute capability 9.0 in the memory of the host."""

    kind: ClassVar[str] = "cuda"

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.held: dict[int, int] = {}

    def attributes(self, index: int) -> DeviceAttributes:
        return DeviceAttributes(
            name="emulated",
            compute_version="9.0",
            max_threads_per_block=1024,
            warp_size=32,
            max_shared_memory_per_block=49152,
            max_shared_memory_opt_in=232448,
            multi_processor_count=132,
            max_clock_rate=1_980_000,
            max_thread_dimensions=(1024, 1024, 64),
            total_global_memory=1 << 34,
            l2_cache_bytes=50 << 20,
        )

    def allocate(self, index: int, size: int) -> Handle:
        whole = np.full(size + 1024, 0xFF, np.uint8)
        start = 256 + -whole.ctypes.data % 256  # aligned as memory of a GPU is, and nothing else within 256 bytes
        made = HostMemory(whole[start : start + max(size, 1)])
        self.held[int(made)] = int(made) + size
        return made

    def free(self, index: int, handle: Handle) -> None:
        self.held.pop(int(handle), None)

    def adopt(self, address: int, size: int) -> Handle:
        self.held[address] = address + size
        return super().adopt(address, size)

    def load(self, program: CompiledProgram, index: int) -> dict[str, Launcher]:
        library = _library(program.source, re.sub(r"\D", "", Target(program.target).hardware.name))
        return {abi.name: self._launcher(library, abi) for abi in program.kernels}

    def _launcher(self, library: ctypes.CDLL, abi: KernelAbi) -> Launcher:
        run: Callable[..., int] = getattr(library, f"run_{abi.name}")
        letters = ["Q" if kind == "buffer" else scalar_type(DType(kind)) for kind in abi.params]

        def launch(*given: Any) -> None:
            extents, args = (ctypes.c_uint * 6)(*map(int, given[:6])), given[6:]
            held = [_PACKED[letter](arg) for letter, arg in zip(letters, args, strict=True)]
            places = (ctypes.c_void_p * max(1, len(held)))(*map(ctypes.addressof, held))
            ends = [end for pair in self.held.items() for end in pair]
            ranges = (ctypes.c_size_t * max(1, len(ends)))(*ends)
            text = ctypes.create_string_buffer(_TEXT)
            sizes = ctypes.c_size_t(abi.dynamic_shared_bytes), ctypes.c_size_t(_TEXT)
            if run(places, extents, sizes[0], ranges, len(ends) // 2, self.seed, text, sizes[1]):
                raise EmulationError(f"{abi.name}: {text.value.decode()}")

        return launch


_PACKED: dict[str, Any] = {
    "Q": ctypes.c_uint64, "q": ctypes.c_int64, "i": ctypes.c_int32, "I": ctypes.c_uint32, "h": ctypes.c_int16,
    "H": ctypes.c_uint16, "b": ctypes.c_int8, "B": ctypes.c_uint8, "f": ctypes.c_float, "d": ctypes.c_double,
    "?": ctypes.c_bool,
}  # fmt: skip
