"""The cache key of a stored kernel: the problem, the device, the compilers, and the source of this package."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING

from ...core.cache_folder import cache_folder
from ...core.version import __version__
from ...runtime.thread_pool import POOL
from . import cuda_kernels

if TYPE_CHECKING:
    from ...runtime.device import Device
    from ..arguments.problem import Problem

FORMAT = 2
"""The version of entries; it increases when older entries can no longer be read."""
_PACKAGE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
_THREADS_OF_TORCH = f"{__package__.rpartition('.')[0]}.pytorch.threads"
_DESCRIBED = "/proc/cpuinfo"
_OF_ARM = ("Features", "CPU implementer", "CPU variant", "CPU part")
_COMPILERS = {"cuda": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"), "cpu": ("llvmlite",)}


@cache
def package() -> str:
    """Return a digest of this package: of the installer's record, or, in a source tree, of every file's size and time.

    The installer's record has the hash of every file. In a source tree, an edit changes the time of a file; hashing all
    sources would take longer than starting a kernel.
    """
    return hashlib.sha256((_installed() or _sources()).encode()).hexdigest()


def _installed() -> str:
    """Return the installer's record of the package, a file beside it; "" in a source tree."""
    described = f"{os.path.basename(_PACKAGE)}-{__version__}.dist-info"
    try:
        with open(os.path.join(os.path.dirname(_PACKAGE), described, "RECORD"), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def _sources() -> str:
    """Return the size and time of every source file on which a kernel may depend."""
    root = _PACKAGE
    facts, folders = [__version__], [root]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for one in entries:
                if one.name.endswith((".py", ".log", ".ll", ".json", ".jsonl")):
                    status = one.stat()
                    facts.append(f"{one.path[len(root) :]}{status.st_size}{status.st_mtime_ns}")
                elif one.is_dir() and one.name != "__pycache__":
                    folders.append(one.path)
    return "".join(sorted(facts))


@cache
def compiler(kind: str) -> str:
    """Return the compiler for a kind of device, with its version if it was installed as a package.

    If NVRTC is here for both versions of CUDA, the driver decides which one is in use.
    """
    found = {name: version for name in _COMPILERS[kind] if (version := _version(name))}
    of_bindings = _version("cuda-bindings") if len(found) > 1 else ""
    return ", ".join(filter(None, [*map(" ".join, found.items()), of_bindings])) or _COMPILERS[kind][0]


def _version(distribution: str) -> str:
    """Return the version of an installed distribution, from the name of its metadata folder; "" if there is none.

    `importlib.metadata` reads the same name, but importing it takes longer than loading a kernel.
    """
    start = distribution.replace("-", "_") + "-"
    for folder in sys.path:
        with suppress(OSError):
            for name in os.listdir(folder or "."):
                if name.lower().startswith(start) and name.endswith(".dist-info"):
                    return name[len(start) : -len(".dist-info")]
    return ""


@cache
def machine(on: Device) -> str:
    """Return the properties of a device on which code depends: the architecture, or the CPU's features; and its name.

    The name is included because decisions were measured on that device. Linux has no names for Arm CPUs, so `_cpu`
    includes their model numbers.
    """
    if on.kind == "cuda":
        return "cuda {} {}".format(*cuda_kernels.architecture_and_name(on.index)) + _calibration("calibration.json")
    return f"cpu {_cpu()} {on.attributes.name}{_calibration('cpu_rates.json')}"


def _calibration(table: str) -> str:
    """Return the time when rates were measured on this computer, because decisions depend on them; "" if they were
    not."""
    folder = cache_folder()
    try:
        return "" if folder is None else f" {os.stat(os.path.join(folder, table)).st_mtime_ns}"
    except OSError:
        return ""


def _cpu() -> str:
    """Return the features of the CPU, and the models of an Arm CPU, as the system lists them: LLVM is not loaded."""
    listed: set[str] = set()
    try:
        with open(_DESCRIBED, encoding="utf-8") as file:
            for line in file:
                if line.startswith(("flags", *_OF_ARM)):
                    listed.add(line)
                if line.startswith("flags"):  # x86 only, on which all cores have the same features
                    break
    except OSError:
        return platform.machine()
    return hashlib.sha256("".join(sorted(listed)).encode()).hexdigest()[:16]


def threads(on: Device, rival: str) -> int:
    """Return the number of threads on which a measurement on a CPU depends; 0 for other devices.

    If there is a `rival`, calls are on arrays of PyTorch's, and run on its threads.
    """
    if on.kind != "cpu":
        return 0
    of_torch = sys.modules.get(_THREADS_OF_TORCH) if rival else None  # without the module, no call runs on its threads
    return POOL.number if of_torch is None else int(of_torch.number())


def cache_key(problem: Problem, on: Device, rivals: str, measured_with: int = 0) -> str:
    """Return the key of a kernel in the cache.

    `rivals` names the alternative kernels, on which decisions depend. `measured_with` is the number of threads of a
    measured decision on a CPU, else 0.
    """
    facts = [FORMAT, problem.description(), machine(on), compiler(on.kind), package(), rivals, measured_with]
    return digest(facts)


def digest(facts: Sequence[object]) -> str:
    """Return a digest of facts: equal facts have equal digests."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:40]
