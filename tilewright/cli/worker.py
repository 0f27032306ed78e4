"""`tilewright worker`: a process for each device, started again when it dies."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from types import FrameType

from ..core.errors import UserError
from ..fleet.addresses import checked, joined
from ..fleet.security import Files, check_installed
from ..fleet.serve import CANNOT
from ..fleet.worker import visible_devices
from ..runtime.device import device
from .console import print_lines

_LOOK_SECONDS = 0.2
_REST_SECONDS = 1.0
_LEAVE_SECONDS = 15.0


def worker(
    address: str, target: str, devices: str, name: str, key: str, builders: int, files: Files, insecure: bool
) -> int:
    """Run the command until a signal ends it; returns its exit status."""
    where = checked(joined(address), insecure)
    check_installed()
    if target not in ("cuda", "opencl", "llvm"):
        raise UserError(f"there is no target {target!r}", fix="use cuda, opencl or llvm", where="")
    device(target).require()
    common = [where, "--target", target, "--key", key, "--builders", str(builders)]
    for option, path in zip(("--tls-ca-file", "--tls-cert", "--tls-key"), files, strict=True):
        common += [option, path] if path else []
    if target != "cuda":
        return _watch([[*common, "--name", name]])
    chosen = visible_devices(devices, device("cuda").driver.count())
    several = len(chosen) > 1
    return _watch(
        [
            [
                *common,
                "--sharing",
                str(len(chosen)),
                "--visible",
                str(index),
                "--name",
                f"{name}-{index}" if name and several else name,
            ]
            for index in chosen
        ]
    )


def _watch(commands: list[list[str]]) -> int:
    """Keep a process running for each command line; pass SIGTERM and Ctrl-C on to them."""
    stopping: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        stopping.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    running = {index: _start(command) for index, command in enumerate(commands)}
    cannot = False
    while running and not stopping:
        time.sleep(_LOOK_SECONDS)
        for index, process in list(running.items()):
            status = process.poll()
            if status is None:
                continue
            cannot |= status == CANNOT
            if status in (0, CANNOT):
                del running[index]
            else:
                print_lines([f"a worker ended with status {status}; another one takes its place"])
                time.sleep(_REST_SECONDS)
                running[index] = _start(commands[index])
    for process in running.values():
        process.send_signal(signal.SIGTERM)
    end = time.monotonic() + _LEAVE_SECONDS
    for process in running.values():
        try:
            process.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
    return 2 if cannot else 0


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # A separate group: Ctrl-C of a terminal reaches only this process, which tells the child to end.
    return subprocess.Popen([sys.executable, "-P", "-m", "tilewright.fleet.serve", *command], process_group=0)
