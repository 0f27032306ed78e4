"""The caller's side of the measurement server: start it, hear from it, end it."""

from __future__ import annotations

import os
import subprocess
import weakref
from contextlib import suppress
from pathlib import Path

from ..core.errors import AbsentDeviceError, UserError
from ..core.log import logger as _log
from ..runtime.driver import DeviceAttributes
from .channel import Channel, wait
from .children import start_fresh, tuner_mark
from .protocol import DeviceLost, DeviceOpened, RunFinished, RunStarted, Shutdown
from .watchdog import TUNER

_KINDS = {"cuda": "cuda", "opencl": "opencl", "llvm": "cpu"}
_LEAVE_SECONDS = 5.0


class Client:
    """A running server for `devices` devices of the kind that a target needs."""

    def __init__(self, target: str, devices: int, folder: Path) -> None:
        if target not in _KINDS:
            raise UserError(f"candidates for {target} cannot be measured", fix=f"use one of {', '.join(_KINDS)}")
        arguments = (_KINDS[target], str(devices), str(folder), str(os.getpid()))
        self.process, self.channel = start_fresh("tilewright.measure", *arguments, **{TUNER: tuner_mark()})
        self.devices = devices
        self.opened: dict[int, DeviceAttributes] = {}
        self.broken: dict[int, str] = {}
        self.results = 0
        self.started: set[int] = set()
        """Tokens of the tasks that were begun."""
        self._end = weakref.finalize(self, _end, self.process, self.channel, os.getpid())

    @property
    def usable(self) -> int:
        """How many devices are open."""
        return len(self.opened.keys() - self.broken.keys())

    @property
    def on_host(self) -> bool:
        """Whether candidates run on the cores that build them."""
        return any(attributes.on_host for attributes in self.opened.values())

    def hear(self) -> list[RunFinished]:
        """The server's new results; raises UserError if no device is usable and all results have been returned."""
        finished = []
        for message in self.channel.arrived():
            if isinstance(message, RunFinished):
                finished.append(message)
                self.results += 1
                self.started.discard(message.token)
            elif isinstance(message, RunStarted):
                self.started.add(message.token)
            elif isinstance(message, DeviceOpened):
                self.opened[message.index] = message.attributes
            elif isinstance(message, DeviceLost):
                self.broken[message.index] = message.reason
                if len(self.broken) < self.devices:
                    _log.warning("device %d is out of use: %s", message.index, message.reason)
        if len(self.broken) == self.devices and not finished:  # otherwise the next call raises: no result is lost
            kind = UserError if self.opened else AbsentDeviceError
            raise kind(
                next(iter(self.broken.values())), primitive="measure", fix="look at the output of `tilewright doctor`"
            )
        return finished

    def attributes(self) -> DeviceAttributes | None:
        """The first device's attributes, waited for until it is open; None if the server ends before."""
        while not self.opened and not self.channel.closed:
            wait([self.channel.fileno()], None)
            self.hear()
        return next(iter(self.opened.values()), None)

    def close(self) -> None:
        """End the server and all that it started."""
        self._end()


def _end(process: subprocess.Popen[bytes], channel: Channel, owner: int) -> None:
    if os.getpid() != owner:  # a fork of the caller that ends has no say
        return
    with suppress(OSError):  # the server has ended, or somebody was interrupted in the middle of a message
        channel.send(Shutdown(), 1.0)
    channel.close()
    try:
        process.wait(_LEAVE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
