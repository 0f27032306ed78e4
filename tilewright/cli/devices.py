"""The device that a command runs on."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.errors import UserError
from ..report.environment import cpu_name
from ..runtime.device import Device, cpu, cuda, device, opencl


def choose_device(target: str | None, known: Sequence[str] = ("cuda", "opencl")) -> tuple[Device, str]:
    """The device to run on, and a line that names it; raises UserError if the kind is unknown or absent."""
    if target is not None:
        if target == "llvm" and target not in known:
            raise UserError(
                "target 'llvm' has no blocks and threads, which these schedules bind loops to",
                fix="use opencl, which runs them on the CPU too; for schedules made for llvm: tilewright tune",
                where="",
            )
        if target not in known:
            names = f"{', '.join(known[:-1])} or {known[-1]}"
            raise UserError(f"there is no target {target!r} here", fix=f"use {names}", where="")
        on = _present(device(target), known)
        return on, f"target {target}: {cpu_name() if on.kind == 'cpu' else on.name}"
    if cuda().exist:
        return cuda(), f"target cuda: {cuda().name}"
    reason = cuda().driver.why_not().partition(";")[0]
    if "llvm" in known and not opencl().exist:
        others = opencl().driver.why_not().partition(" (")[0].removeprefix("no OpenCL: ")
        return cpu(), f"no CUDA device here ({reason}), no OpenCL device ({others}), so target llvm: {cpu_name()}"
    if "llvm" in known and opencl().attributes.on_host:
        return cpu(), f"no CUDA device here ({reason}), and the OpenCL device is the CPU; target llvm: {cpu_name()}"
    on = _present(opencl(), known)
    # PoCL, which makes the CPU an OpenCL device, names it after its way to run threads.
    place = " on the CPU" if on.name.startswith(("pthread", "cpu")) else ""
    return on, f"no CUDA device here ({reason}), so target opencl{place}: {on.name}"


def _present(on: Device, known: Sequence[str]) -> Device:
    """Return the device; raise UserError, which names the command's alternatives, if it is absent."""
    reason = on.driver.why_not()
    if on.exist or not reason:
        return on.require()
    kinds = {"cuda": "cuda", "opencl": "opencl", "llvm": "cpu"}
    others = [f"--target {kind}" for kind in known if kinds[kind] != on.kind and device(kinds[kind]).exist]
    fix = " or ".join(others) or "pip install 'tilewright[opencl]', which makes the CPU a device"
    raise UserError(reason, fix=fix, where="")
