"""Measuring: jobs in, outcomes out, building and running at the same time.

    jobs ──► pool of forked builders ──► server ──► one runner a device ──► outcomes, as they come
                 └──► reference, once a workload ──► file ──────┘

`MeasureSession.measure` is a loop around one `poll`: it hands work to whoever is free, and sleeps otherwise.
"""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..core.errors import InternalError, UserError
from ..core.target import Target
from ..runtime.driver import DeviceAttributes
from . import reference
from .build import build, shorten
from .channel import Channel, wait
from .job import Built, Job, Task
from .option import LocalBuilder, LocalRunner
from .outcome import BuildFailed, Outcome, RunFailed, TimedOut
from .pool import Died, Pool
from .server import Broken, Finished, Forget, Opened, Submit

_log = logging.getLogger("autotvm")
_REFERENCE_SECONDS = 120.0
_AHEAD = 2
"""Tasks that the server holds for each device, so that it never waits for us between two."""
_SERVER_LIVES = 3


class MeasureSession:
    """Builds and runs candidates for `target` on this machine; a context manager.

    The device is opened by a process of its own, which is started at once. Jobs may come in any number of calls of
    `measure`; what was learned about a workload (its reference) is kept from call to call.
    """

    def __init__(self, target: Any, builder: LocalBuilder | None = None, runner: LocalRunner | None = None) -> None:
        self.builder = builder or LocalBuilder()
        self.runner = runner or LocalRunner()
        self._target = Target.parse(target)
        self._folder = Path(tempfile.mkdtemp(prefix="tilewright-"))
        self._references: dict[Any, str] = {}  # workload → file, or "" where there is no reference
        self._server: _Server | None = None
        self._tidy = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._connect()

    def __enter__(self) -> MeasureSession:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the server and its runners, and remove what was kept in files."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self._tidy()

    @property
    def attributes(self) -> DeviceAttributes:
        """What the device is. UserError where there is none."""
        return self._connect().attributes()

    @property
    def target(self) -> Target:
        """The target, for the architecture of the device that is here."""
        return self._resolve(self._target)

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Build and run jobs; each with its outcome, in the order in which they are done.

        UserError where the device cannot be used at all. Whatever a single candidate does costs that candidate only.
        """
        batch = _Batch(self, list(jobs))
        interrupted = True
        try:
            yield from batch.run()
            interrupted = False
        except GeneratorExit:  # the caller wants no more
            interrupted = False
            raise
        finally:
            batch.close()
            if interrupted and self._server is not None:  # in the middle of a message, perhaps
                self._server.close()
                self._server = None

    def _connect(self) -> _Server:
        if not self._folder.exists():
            raise InternalError("this measure session is closed")
        if self._server is None:
            self._server = _Server(str(self._target.kind), self.runner.n_parallel or 1)
        return self._server

    def _resolve(self, target: Target) -> Target:
        if target.kind == "cuda" and not target.arch_given:
            return target.with_arch("sm_" + self.attributes.compute_version.replace(".", ""))
        return target


class _Server:
    """Our side of the server process."""

    def __init__(self, kind: str, devices: int) -> None:
        if kind not in ("cuda", "opencl"):
            raise UserError(f"candidates for {kind} cannot be measured yet", fix='use target "cuda" or "opencl"')
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        with theirs:
            self.process = subprocess.Popen(
                # -P: a file called numpy.py where the caller happens to stand is none of our business.
                [sys.executable, "-P", "-m", __package__, str(theirs.fileno()), kind, str(devices)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
            )
        self.channel = Channel(ours)
        self.devices = devices
        self.opened: dict[int, DeviceAttributes] = {}
        self.broken: dict[int, str] = {}
        self._end = weakref.finalize(self, _end_server, self.process, self.channel)

    def hear(self) -> list[Finished]:
        """What has come from the server; UserError where no device can be used."""
        finished = []
        for message in self.channel.arrived():
            if isinstance(message, Finished):
                finished.append(message)
            elif isinstance(message, Opened):
                self.opened[message.index] = message.attributes
            elif isinstance(message, Broken):
                self.broken[message.index] = message.reason
                _log.warning("device %d is out of use: %s", message.index, message.reason)
        if len(self.broken) == self.devices:
            raise UserError(next(iter(self.broken.values())), primitive="measure")
        return finished

    def attributes(self) -> DeviceAttributes:
        """The first device's attributes, once it is open."""
        while not self.opened:
            if self.channel.closed:
                raise InternalError(f"the measurement server ended ({self.process.wait()})")
            wait([self.channel.fileno()], None)
            self.hear()
        return next(iter(self.opened.values()))

    def close(self) -> None:
        """End the process."""
        self._end()


def _end_server(process: subprocess.Popen[bytes], channel: Channel) -> None:
    channel.close()  # which tells it to end
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class _Batch:
    """One call of `measure`."""

    def __init__(self, session: MeasureSession, jobs: list[Job]) -> None:
        self.session = session
        self.jobs = [replace(job, target=session._resolve(job.target)) for job in jobs]
        self.given = jobs
        self.left = len(jobs)
        self.done: deque[tuple[Job, Outcome]] = deque()
        self.built: dict[int, Built] = {}
        self.waiting: dict[Any, list[int]] = {}  # workload → built jobs that wait for its reference
        self.asked: dict[int, Any] = {}  # job → the workload whose reference is computed from it
        self.runnable: deque[int] = deque()
        self.running: dict[int, int] = {}  # token → job
        self.lives: dict[int, int] = {}
        self.next_token = time.monotonic_ns()
        builder = session.builder
        self.builders = Pool(self._build, builder.processes, builder.timeout)
        self.referees = Pool(self._refer, 1, _REFERENCE_SECONDS)

    def close(self) -> None:
        """End what this call started."""
        self.builders.close()
        self.referees.close()
        if self.running and self.session._server is not None:
            with suppress(OSError):
                self.session._server.channel.send(Forget())

    def run(self) -> Iterator[tuple[Job, Outcome]]:
        """The loop."""
        self.builders.submit(range(len(self.jobs)))
        for index, job in enumerate(self.jobs):
            if job.reference is not None and self._checks:
                self._want(job.reference, index)
        while self.left or self.done:
            server = self.session._connect()
            for pool in (self.builders, self.referees):
                pool.foreign = [server.channel]
            if not self.done:
                self._sleep(server)
            self._advance(server)
            while self.done:
                self.left -= 1
                yield self.done.popleft()

    @property
    def _checks(self) -> bool:
        return self.session.runner.check_correctness

    def _sleep(self, server: _Server) -> None:
        ready = bool(self.builders.waiting and not self.builders.descriptors())
        ready = ready or bool(self.referees.waiting and not self.referees.descriptors())
        if ready or (self.runnable and len(self.running) < self._room(server)):
            return
        descriptors = [*self.builders.descriptors(), *self.referees.descriptors(), server.channel.fileno()]
        deadlines = [d for d in (self.builders.deadline, self.referees.deadline) if d is not None]
        wait(descriptors, min(deadlines, default=None))

    def _advance(self, server: _Server) -> None:
        for index, result in self.builders.advance():
            self._on_built(index, result)
        for index, result in self.referees.advance():
            self._on_reference(index, result)
        for finished in server.hear():
            if (index := self.running.pop(finished.token, None)) is not None:
                self._finish(index, finished.outcome)
        if server.channel.closed:
            self._restart(server)
            return
        while self.runnable and len(self.running) < self._room(server):
            self._submit(server, self.runnable.popleft())

    def _room(self, server: _Server) -> int:
        usable = len(server.opened.keys() - server.broken.keys())
        return _AHEAD * usable

    def _finish(self, index: int, outcome: Outcome) -> None:
        made = self.built.pop(index, None)
        if made is not None:
            outcome = replace(outcome, build_seconds=made.seconds)
        self.done.append((self.given[index], outcome))

    # Building.

    def _build(self, index: int) -> Built | Outcome:
        return build(self.jobs[index], self.session.builder.build_func)

    def _on_built(self, index: int, result: Built | Outcome | Died) -> None:
        if isinstance(result, Died):
            self._finish(index, _build_death(result, self.session.builder.timeout))
        elif isinstance(result, Outcome):
            self._finish(index, result)
        else:
            self.built[index] = result
            key = self._workload(index)
            if not self._checks or key in self.session._references:
                self.runnable.append(index)
            else:
                self._want(key, index)
                self.waiting[key].append(index)

    # References.

    def _workload(self, index: int) -> Any:
        """What identifies the reference of a job that is built."""
        return self.jobs[index].reference or self.built[index].workload.declaration

    def _want(self, key: Any, index: int) -> None:
        if key not in self.waiting and key not in self.session._references:
            self.waiting[key] = []
            self.asked[index] = key
            self.referees.submit([index])

    def _refer(self, index: int) -> str:
        """In a child: compute the reference of a job, and write it to a file."""
        job = self.jobs[index]
        try:
            with job.target:
                if job.reference is not None:
                    inputs, expected = job.reference()
                else:
                    _, tensors = job.instantiate()
                    inputs, expected = reference.compute(tensors, np.random.default_rng())
            path = self.session._folder / f"{index}-{time.monotonic_ns()}.npz"
            reference.save(path, inputs, expected)
        except Exception as error:
            return f"!{type(error).__name__}: {error}"
        return str(path)

    def _on_reference(self, index: int, result: str | Died) -> None:
        key = self.asked.pop(index)
        failure = result.how if isinstance(result, Died) else result[1:] if result.startswith("!") else ""
        if failure:
            _log.warning("outputs are not checked, as there is no reference to compare with: %s", shorten(failure))
        self.session._references[key] = "" if failure else str(result)
        self.runnable.extend(self.waiting.pop(key, []))

    # Running.

    def _submit(self, server: _Server, index: int) -> None:
        made = self.built[index]
        key = self._workload(index)
        path = self.session._references.get(key, "") if self._checks else ""
        self.next_token += 1
        task = Task(made.program, made.workload, path, self.session.runner)
        try:
            server.channel.send(Submit(self.next_token, task))
        except OSError:
            self.runnable.appendleft(index)
            self._restart(server)
        else:
            self.running[self.next_token] = index

    def _restart(self, server: _Server) -> None:
        """The server is gone: start another, and give it what the first one had not done."""
        server.close()
        self.session._server = None
        for index in reversed(self.running.values()):
            self.lives[index] = self.lives.get(index, 0) + 1
            if self.lives[index] < _SERVER_LIVES:
                self.runnable.appendleft(index)
            else:
                self._finish(index, RunFailed(reason="the measurement server ended while it had it", killed=True))
        self.running.clear()


def _build_death(died: Died, timeout: float) -> Outcome:
    if died.overdue:
        return TimedOut(reason=f"still building after {timeout:g} s", phase="build", build_seconds=died.seconds)
    reason = f"the process that built it {died.how}"
    return BuildFailed(reason=reason, stage="crash", killed=died.killed, build_seconds=died.seconds)
