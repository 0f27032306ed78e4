"""The server: a small process that has never touched a device, and forks the processes that do.

It is started fresh, as `python -m tilewright.measure`, so it holds nothing of the caller's: no GPU context, no threads,
none of its modules. It keeps one runner per device and sends it requests. It ends a runner when a request takes too
long, replaces it when it dies, and reports the outcome of each request. It ends when the caller does. `protocol.py`
lists the messages, `docs/measuring.md` the states of a device.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import time
from collections import deque
from contextlib import suppress
from typing import Any

# Imported before any runner is forked: runners share these modules, and start in milliseconds.
from ..runtime.opencl_driver import load_pyopencl
from .channel import LATE, Channel, Garbled, wait
from .children import Child, fork, open_pidfd
from .outcome import Outcome, RunFailed, TimedOut
from .protocol import (
    Accepted,
    Completed,
    CooledDown,
    DeviceLost,
    DeviceOpened,
    DeviceReady,
    DeviceState,
    DropQueued,
    FirstRunOver,
    FromRunner,
    OpenFailed,
    RunFinished,
    RunStarted,
    Shutdown,
    Submit,
)
from .runner import quiet, serve

_START_SECONDS = 60.0
_ATTEMPTS = 3
"""The most successive failures to open a device, and losses of a request through no fault of its own."""
_SEND_SECONDS = 10.0
_LEAVE_SECONDS = 5.0
_REST_SECONDS = 1.0
"""Seconds before a device that did not open is tried again: its earlier work may still be ending."""
_LOG_TAIL = 600


class Slot:
    """A device with its state, and the process that runs on it."""

    def __init__(self, kind: str, index: int, report: Any, others: Any) -> None:
        self.kind = kind
        self.index = index
        self.report = report
        self.others = others
        self.child: Child | None = None
        self.state = DeviceState.RESTING
        self.current: Submit | None = None
        self.began = False
        self.ran = False
        self.deadline: float | None = None
        self.again = False
        self.limit = 0.0
        self.nonsense = ""
        self.failures = 0
        self.log = os.memfd_create(f"runner-{index}", os.MFD_CLOEXEC)
        fcntl.fcntl(self.log, fcntl.F_SETFL, os.O_APPEND)  # the file can be emptied while a runner writes

    def start(self) -> None:
        """Fork a runner."""
        kind, index, log = self.kind, self.index, self.log
        os.ftruncate(log, 0)

        def main(channel: Channel) -> None:
            quiet(log)
            serve(channel, kind, index)

        self.child = fork(main, self.others())
        self._become(DeviceState.STARTING, _START_SECONDS)

    def give(self, submitted: Submit) -> bool:
        """Send a request to the runner, which is idle; False if the runner is gone."""
        if self.child is None:
            return False
        os.ftruncate(self.log, 0)
        try:
            self.child.channel.send(submitted.request, _SEND_SECONDS)
        except OSError:
            self.child.kill()
            self._become(DeviceState.ENDING)
            return False
        self.current, self.began, self.ran = submitted, False, False
        self._become(DeviceState.BUSY, submitted.request.options.timeout)
        return True

    def advance(self) -> Submit | None:
        """React to the runner and to the clock; returns a request that the runner lost before it accepted it."""
        if self.child is None:
            if self.state is DeviceState.RESTING and self.deadline is not None and time.monotonic() >= self.deadline:
                self.start()
            return None
        gone = self.child.ended()
        for message in self.child.channel.arrived():
            if isinstance(message, Garbled):  # the runner wrote over its own memory
                self.nonsense = message.reason
                self.child.kill()
                break
            self._hear(message)
        if gone:
            return self._buried()
        if self.deadline is not None and (late := time.monotonic() - self.deadline) >= 0:
            if late > LATE and not self.again and self.state is DeviceState.BUSY:  # perhaps both were stopped meanwhile
                self.again = True
                self.deadline = time.monotonic() + self.limit
            else:
                self._overdue()
        return None

    def _become(self, state: DeviceState, seconds: float | None = None) -> None:
        self.state = state
        self.again, self.limit = False, seconds or 0.0
        self.deadline = None if seconds is None else time.monotonic() + seconds

    def _hear(self, message: FromRunner) -> None:
        if isinstance(message, DeviceReady):
            self.failures = 0
            self._become(DeviceState.IDLE)
            self.report(DeviceOpened(self.index, message.attributes))
        elif isinstance(message, OpenFailed):
            self.failures = _ATTEMPTS if message.final else self.failures + 1
            self._become(DeviceState.ENDING)
            self._give_up(message.reason)
        elif isinstance(message, Accepted) and self.current is not None:
            self.began = True
            self.report(RunStarted(self.current.token))
        elif isinstance(message, FirstRunOver):
            self.ran = True
        elif isinstance(message, Completed) and self.state is DeviceState.BUSY:
            pause = self.current.request.options.cooldown_interval if self.current is not None else 0.0
            self._finish(message.outcome)
            self._become(DeviceState.COOLING if message.healthy else DeviceState.ENDING, pause + _LEAVE_SECONDS)
        elif isinstance(message, CooledDown) and self.state is DeviceState.COOLING:
            self._become(DeviceState.IDLE)

    def _finish(self, outcome: Outcome) -> None:
        if self.current is not None:
            self.report(RunFinished(self.current.token, outcome))
            self.current = None

    def _overdue(self) -> None:
        if self.child is None:
            return
        if self.state is DeviceState.BUSY and self.current is not None:
            limit = self.current.request.options.timeout
            # Some drivers compile a kernel when it is first launched, which may take longer than all of its runs.
            doing = "running" if self.ran else "compiling or at its first run"
            self._finish(TimedOut(reason=f"still {doing} after {limit:g} s", phase="run", run_seconds=limit))
        elif self.state is DeviceState.STARTING:
            self.failures += 1
            self._give_up(f"{self.kind}({self.index}) does not open within {_START_SECONDS:g} s")
        self.child.kill()
        if self.state is not DeviceState.LOST:
            self._become(DeviceState.ENDING)

    def _buried(self) -> Submit | None:
        """Report the request that the runner was at when it ended, and start another runner."""
        child, lost = self.child, None
        if child is None:
            return None
        if self.current is not None and self.began:
            text = f"the process that ran it {self.nonsense or child.describe_end()}{self._last_words()}"
            self._finish(RunFailed(reason=text, killed=child.killed_from_outside and not self.nonsense))
        elif self.current is not None:
            lost, self.current = self.current, None
        elif self.state is DeviceState.STARTING:
            self.failures += 1
            self._give_up(f"opening it, a process {child.describe_end()}{self._last_words()}")
        child.bury()
        self.child, self.nonsense = None, ""
        if self.state is not DeviceState.LOST:
            self._become(DeviceState.RESTING, _REST_SECONDS * self.failures)
            self.advance()
        return lost

    def _give_up(self, reason: str) -> None:
        if self.failures >= _ATTEMPTS:
            self._become(DeviceState.LOST)
            self.report(DeviceLost(self.index, reason))

    def _last_words(self) -> str:
        """The end of the runner's output, as a reason."""
        size = os.fstat(self.log).st_size
        data = os.pread(self.log, _LOG_TAIL, max(0, size - _LOG_TAIL))
        text = data.strip().decode(errors="replace")
        return f": {text}" if text else ""


class Server:
    """The loop between the messages of the caller and the runners."""

    def __init__(self, caller: Channel, kind: str, devices: int, caller_id: int) -> None:
        self.caller = caller
        self.caller_id = caller_id
        self.dismissed = False
        self._caller_end = [pidfd] if (pidfd := open_pidfd(caller_id)) >= 0 else []
        self.waiting: deque[Submit] = deque()
        self.losses: dict[int, int] = {}
        self.slots = [Slot(kind, index, caller.send, self._open_channels) for index in range(devices)]

    def _open_channels(self) -> list[Channel]:
        return [self.caller, *(slot.child.channel for slot in self.slots if slot.child is not None)]

    def run(self) -> None:
        """Serve until the caller is gone."""
        for slot in self.slots:
            slot.start()
        while not self.caller.closed:
            self._dispatch()
            # The socket may be held open by other children of the caller, so its process is watched as well.
            descriptors = [self.caller.fileno(), *self._caller_end]
            for slot in self.slots:
                descriptors += slot.child.descriptors() if slot.child is not None else []
            ready = wait(descriptors, min((s.deadline for s in self.slots if s.deadline is not None), default=None))
            if ready.intersection(self._caller_end):
                return
            for message in self.caller.arrived():
                if isinstance(message, Submit):
                    self.waiting.append(message)
                elif isinstance(message, DropQueued):
                    self.waiting.clear()
                elif isinstance(message, Shutdown):
                    self.dismissed = True
                    return
            for slot in self.slots:
                if (lost := slot.advance()) is not None:
                    self._again(lost)

    def _dispatch(self) -> None:
        for slot in self.slots:
            if slot.state is DeviceState.IDLE and self.waiting:
                submitted = self.waiting.popleft()
                if not slot.give(submitted):
                    self.waiting.appendleft(submitted)

    def _again(self, submitted: Submit) -> None:
        """Queue a request again if its runner died between two requests, or before accepting this one."""
        count = self.losses[submitted.token] = self.losses.get(submitted.token, 0) + 1
        if count < _ATTEMPTS:
            self.waiting.appendleft(submitted)
        else:
            reason = f"{count} processes ended before they began it"
            self.caller.send(RunFinished(submitted.token, RunFailed(reason=reason, killed=True)))

    def close(self) -> None:
        """End all runners."""
        for slot in self.slots:
            if slot.child is not None:
                slot.child.bury()

    def caller_died(self) -> bool:
        """Whether the caller has ended, rather than dismissed the server. Its sockets close a moment before it ends."""
        if self.dismissed:
            return False
        return bool(wait(self._caller_end, time.monotonic() + 0.5)) or os.getppid() != self.caller_id


def main(descriptor: int, kind: str, devices: int, folder: str, caller: int) -> None:
    """Serve process `caller` over an inherited socket, and remove its `folder` if it ends without doing so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the caller decides when to end
    if kind == "cuda":
        with suppress(ImportError):
            import cuda.bindings.driver  # noqa: F401  # for the runners; importing it touches no device
    elif kind == "opencl":
        with suppress(ImportError):
            load_pyopencl()  # likewise
    server = Server(Channel(socket.socket(fileno=descriptor)), kind, devices, caller)
    try:
        server.run()
    except (BrokenPipeError, ConnectionResetError):  # the caller has gone while it was told something
        pass
    finally:
        server.close()
        if server.caller_died():
            shutil.rmtree(folder, ignore_errors=True)
