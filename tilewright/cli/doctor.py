"""`tilewright doctor`: the targets and libraries that work on this machine, and reasons for the others.

Each target is tried, not guessed: a process of its own builds a small program, runs it on every device, and checks
the result. A driver that hangs or crashes takes only that process with it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys
import time
from typing import Any

from ..core.errors import TVMError
from ..core.paths import package_path
from ..core.system import processors
from ..core.version import __version__
from ..report.environment import cpu_name, versions
from ..report.progress import progress
from ..report.table import Column, table
from ..runtime.device import Device, device
from .console import heading, print_lines

TARGETS = ("llvm", "opencl", "cuda")
SECONDS = 120
"""How long one target may take: a driver that compiles for the first time can be slow."""
_PACKAGES = (
    ("numpy", "arrays on the host", ""),
    ("ml_dtypes", "bfloat16", ""),
    ("llvmlite", "target llvm: the compiler", ""),
    ("pyopencl", "target opencl: the driver interface", "opencl"),
    ("pocl-binary-distribution", "target opencl: the CPU as a device", "opencl"),
    ("cuda-bindings", "target cuda: the driver and compiler interface", "cuda"),
    ("nvidia-cuda-nvrtc", "target cuda: the compiler of CUDA 13", "cuda"),
    ("nvidia-cuda-nvrtc-cu12", "target cuda: the compiler of CUDA 12", "cuda12"),
    ("torch", "rows to compare with, shared arrays", "torch"),
    ("distributed", "tuning on the devices of other hosts", "fleet"),
    ("matplotlib", "figures", "plot"),
)


def doctor() -> None:
    """Print the targets that can be built and run here."""
    found: dict[str, dict[str, Any]] = {}
    with progress(len(TARGETS), lines=True) as (say, step):
        for kind in TARGETS:
            say(f"trying {kind}")
            found[kind] = examine(kind)
            step()
    print_lines([heading(f"Tilewright {__version__}"), *_host(), ""])
    columns = [Column(title, right=False) for title in ("target", "builds", "runs", "device")]
    print_lines([*table(columns, [row for kind in TARGETS for row in _rows(kind, found[kind])]), ""])
    reasons = [line for kind in TARGETS for line in _reasons(kind, found[kind])]
    reasons += [f"{kind}: {said}" for kind in TARGETS if (said := found[kind].get("compiler"))]
    print_lines([*reasons, ""] if reasons else [])
    print_lines([*_packages(), "", *_settings()])


def calibrated() -> int:
    """Measure the rates of the CPU and the first NVIDIA GPU, print and keep them; returns the exit status."""
    on, has_torch = device("cuda"), importlib.util.find_spec("torch") is not None
    if not on.exist and not has_torch:
        print_lines(
            [
                "nothing to calibrate: there is no NVIDIA GPU here, and PyTorch is not installed",
                "the models take their rates from data sheets and from the package",
            ]
        )
        return 1
    if on.exist:  # a GPU takes seconds, the CPU minutes
        _calibrated_gpu(on)
    if has_torch:
        _calibrated_cpu()
    return 0


def _calibrated_cpu() -> None:
    from ..functional.planning.cpu_rates import keep
    from .cpu_calibration import EACH, TYPES, calibrate, described

    layers = EACH * len(TYPES)
    print_lines([f"calibrating {cpu_name()}: {layers} layers, about 2 minutes"])
    with progress(layers, lines=True) as (say, step):
        say("layers on one CPU, our kernels and PyTorch's")
        found = calibrate(step=step)
    kept = keep(found)
    columns = [Column(title, right=at > 2) for at, title in enumerate(
        ("instructions", "type", "kernels", "GFLOP/s", "GB/s", "µs of a call"))]  # fmt: skip
    print_lines([heading(cpu_name()), *table(columns, described(found)), "", _where(kept), ""])


def _where(kept: Any) -> str:
    return f"kept in {kept}" if kept else "not kept: the cache is off"


def _calibrated_gpu(on: Device) -> None:
    from ..tune.model.machine import keep
    from .calibration import KERNELS, calibrate, described

    print_lines([f"calibrating {on.name}: {KERNELS} kernels, about 10 seconds"])
    with progress(KERNELS, lines=True) as (say, step):
        say("small kernels on the GPU")
        rates = calibrate(on, step)
    kept = keep(on.name, rates, on.attributes.multi_processor_count)
    print_lines([heading(on.name), *described(rates), "", _where(kept), ""])


def _host() -> list[str]:
    return [
        f"Python {platform.python_version()} on {platform.platform()}",
        f"{cpu_name()}, {processors()} cores for this process",
    ]


def _rows(kind: str, found: dict[str, Any]) -> list[list[str]]:
    """Return a row per device, or one row that reports the absence of devices."""
    builds = f"{found['build_seconds'] * 1e3:.0f} ms" if "build_seconds" in found else "no"
    devices = found.get("devices", [])
    rows = [
        [kind, builds, "yes" if one["right"] else "no", f"{kind}({i}) {one['name']}"] for i, one in enumerate(devices)
    ]
    return rows or [[kind, builds, "no", "none"]]


def _reasons(kind: str, found: dict[str, Any]) -> list[str]:
    return [f"{kind}: {line}" if i == 0 else f"  {line}" for i, line in enumerate(found.get("reason", "").splitlines())]


def _packages() -> list[str]:
    """Libraries: their versions, or how to get them."""
    known = versions(name for name, _, _ in _PACKAGES)
    other = {"nvidia-cuda-nvrtc-cu12": "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc": "nvidia-cuda-nvrtc-cu12"}
    rows = [
        [name, known.get(name) or f"missing: pip install 'tilewright[{extra}]'", purpose]
        for name, purpose, extra in _PACKAGES
        if name in known or (other.get(name) not in known and extra != "cuda12")  # one compiler of CUDA suffices
    ]
    return table([Column(title, right=False) for title in ("library", "version", "what for")], rows)


def _settings() -> list[str]:
    """The environment variables that are set."""
    names = (
        "TILEWRIGHT_DEBUG", "TILEWRIGHT_NUM_THREADS", "TILEWRIGHT_OPENCL_OPTIONS", "CUDA_VISIBLE_DEVICES",
        "POCL_CACHE_DIR",
    )  # fmt: skip
    given = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    return [f"environment: {', '.join(given)}"] if given else []


# Trying a target


def examine(kind: str) -> dict[str, Any]:
    """The output of `probe` for a target, run in its own process; or the reason why that process failed."""
    # -P: a file called numpy.py in the caller's folder must not be imported.
    command = [sys.executable, "-P", "-c", f"from tilewright.cli.doctor import probe; probe({kind!r})"]
    own = {**os.environ, "PYTHONPATH": package_path()}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=own)
    except subprocess.TimeoutExpired:
        return {"reason": f"no answer within {SECONDS} s: its driver or compiler hangs"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer
    except (IndexError, ValueError):
        last = done.stderr.strip().splitlines()[-1:] or ["without a word"]
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
        return {"reason": f"trying it ended with {how}: {last[0]}"}


def probe(kind: str) -> None:
    """Build for a target and run on all its devices; print the outcome as one line of JSON."""
    found: dict[str, Any] = {"devices": []}
    try:
        began = time.perf_counter()
        module = _program(kind)
        found["build_seconds"] = time.perf_counter() - began
        on = device(kind)
        for index in range(on.driver.count()):
            found["devices"].append(_run(module, device(kind, index)))
        wrong = [str(device(kind, i)) for i, one in enumerate(found["devices"]) if not one["right"]]
        found["reason"] = on.driver.why_not() or (f"wrong results on {', '.join(wrong)}" if wrong else "")
        found["compiler"] = _cuda(on) if kind == "cuda" else ""
    except TVMError as error:
        found["reason"] = str(error)
    print(json.dumps(found))


def _cuda(on: Device) -> str:
    """The versions of CUDA of the driver and the compiler, and the architectures of the GPU and the compiler."""
    from ..codegen.nvrtc import architectures, version

    known = architectures()
    compiler = f"NVRTC {'.'.join(map(str, version()))} compiles for {known[0]} to {known[-1]}"
    if not on.exist:
        return compiler
    gpu = on.attributes
    return f"{on} is {gpu.architecture}; the driver runs CUDA {gpu.driver_version}; {compiler}"


def _program(kind: str) -> Any:
    """B = A + 1 for 1000 numbers."""
    from ..driver import build
    from ..schedule.handle import create_schedule
    from ..tensor.axis import thread_axis
    from ..tensor.tensor import compute, placeholder

    a = placeholder((1000,), name="A")
    b = compute((1000,), lambda i: a[i] + 1.0, name="B")
    s = create_schedule(b.op)
    if kind != "llvm":
        block, thread = s[b].split(b.op.axis[0], factor=64)
        s[b].bind(block, thread_axis("blockIdx.x"))
        s[b].bind(thread, thread_axis("threadIdx.x"))
    return build(s, [a, b], kind)


def _run(module: Any, on: Any) -> dict[str, Any]:
    import numpy as np

    from ..runtime.array import array, empty

    values = np.arange(1000, dtype="float32")
    result = empty((1000,), device=on)
    module(array(values, on), result)
    name = cpu_name() if on.kind == "cpu" else on.name
    return {"name": name, "right": bool(np.array_equal(result.numpy(), values + 1))}
