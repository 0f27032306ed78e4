"""The origin of a result: the machine, the device, the relevant versions, the command."""

from __future__ import annotations

import platform
import shlex
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from ..runtime.device import Device

_PACKAGES = {
    "cuda": ("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
    "opencl": ("pyopencl", "pocl-binary-distribution"),
    "cpu": ("llvmlite",),
}


def environment(on: Device) -> dict[str, object]:
    """The context of a measurement on a device, ready for JSON."""
    known = on.attributes
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["tilewright", *sys.argv[1:]]),
        "device": {
            "kind": on.kind,
            "name": known.name,
            "compute_version": known.compute_version,
            "driver_version": known.driver_version,
            "compute_units": known.multi_processor_count,
        },
        "host": {"cpu": cpu_name(), "system": platform.platform(), "python": platform.python_version()},
        "versions": versions(("tilewright", "numpy", "torch", *_PACKAGES[on.kind])),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """The versions of the packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_name() -> str:
    """The name of the processor, if the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
