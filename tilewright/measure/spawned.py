"""Measuring on platforms without forks: a worker that is started afresh builds, runs, checks and times candidates.

    jobs ──► this process: schedule and loop nest ──► worker: machine code and runs ──► outcomes

A candidate that loops for ever, crashes or is killed there affects no other candidate: the worker is started again.
Templates run in this process, one at a time: a template that does not return blocks the search.
"""

from __future__ import annotations

import itertools
import os
import pickle
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from threading import Thread
from typing import Any

from ..core.errors import InternalError, UserError
from ..core.paths import package_path
from ..driver import refined_bounds
from ..runtime.device import device
from ..runtime.driver import DeviceAttributes
from . import reference_file
from .base_session import BaseSession
from .build import build
from .device_runner import DeviceRunner
from .job import Built, CheckSpec, Feed, Job
from .lowered import packed
from .option import LocalBuilder, LocalRunner
from .outcome import SWITCHED_OFF, BuildFailed, Failure, Measured, Outcome, ReferenceDisputed, RunFailed, TimedOut
from .protocol import RunRequest
from .reference import expected_of

_START_SECONDS = 120.0


class SpawnedSession(BaseSession):
    """Measures as `MeasureSession` does, one candidate after the other; a context manager."""

    def __init__(self, target: Any, builder: LocalBuilder | None = None, runner: LocalRunner | None = None) -> None:
        super().__init__(target, builder)
        self.runner = runner or LocalRunner()
        self._folder = Path(tempfile.mkdtemp(prefix="tilewright-"))
        self._references: dict[Any, str] = {}
        self._numbers = itertools.count()
        self._worker: _Worker | None = None

    def close(self) -> None:
        """End the worker, and remove its files."""
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def attributes(self) -> DeviceAttributes:
        """The description of the device. Raises UserError if there is none."""
        return self._connect().attributes

    def measure_all(self, batches: Iterable[Sequence[Job]], feed: Feed | None = None) -> Iterator[tuple[Job, Outcome]]:
        """Measure batches one after the other, as `measure` does."""
        for batch in batches:
            for job in batch:
                began = time.perf_counter()
                outcome = self._measured(job)
                yield job, replace(outcome, run_seconds=time.perf_counter() - began - outcome.build_seconds)
                time.sleep(self.runner.cooldown_interval)

    def _measured(self, job: Job) -> Outcome:
        made = _portable(replace(job, target=self.target), self.builder)
        if isinstance(made, Outcome):
            return made
        work, spec = made
        path = self._reference(job, spec) if self.runner.check_correctness else ""
        outcome = self._connect().attempt(work, path, self.builder.timeout, self.runner)
        if isinstance(outcome, ReferenceDisputed):
            del self._references[job.reference or spec.declaration]
            path = self._reference(job, spec, outcome)
            outcome = self._connect().attempt(work, path, self.builder.timeout, self.runner)
            if isinstance(outcome, ReferenceDisputed):
                outcome = RunFailed(reason=outcome.reason)
        if isinstance(outcome, (TimedOut, RunFailed)) or (
            isinstance(outcome, BuildFailed) and outcome.stage == "crash"
        ):
            self._end()
        if isinstance(outcome, Measured) and not path:
            return replace(outcome, unchecked=SWITCHED_OFF)
        return outcome

    def _reference(self, job: Job, spec: CheckSpec, dispute: ReferenceDisputed | None = None) -> str:
        """Return the file with inputs and expected outputs of a job's workload."""
        workload = job.reference or spec.declaration
        if workload not in self._references:
            path = self._folder / f"reference{next(self._numbers)}.npz"
            inputs, expected = expected_of(job, self.runner.ref_input, dispute)
            reference_file.save(path, inputs, expected)
            self._references[workload] = str(path)
        return self._references[workload]

    def _connect(self) -> _Worker:
        if self._worker is None:
            self._worker = _Worker(str(self._target.kind))
        return self._worker

    def _end(self) -> None:
        if self._worker is not None:
            self._worker.end()
            self._worker = None


def _portable(job: Job, builder: LocalBuilder) -> tuple[Job | Built, CheckSpec] | Outcome:
    """Return a job that another process can build, else its program built here; and its check."""
    if builder.build_func == "default" and not job.lowered:
        with suppress(Exception), job.target:
            handle, tensors = job.instantiate()
            bounds = refined_bounds(handle.value, job.target)
            job = replace(job, lowered=packed(handle, tensors, job.target, bounds))
    if builder.build_func != "default" or not job.lowered:  # `build` also explains why there is no program
        made = build(job, builder.build_func)
        return (made, made.spec) if isinstance(made, Built) else made
    return replace(job, instantiate=_elsewhere, key=None, reference=None), pickle.loads(job.lowered).spec


def _elsewhere() -> Any:
    raise InternalError("a job without a loop nest came to a worker")


class _Worker:
    """The process that builds and runs, and the connection to it."""

    def __init__(self, kind: str) -> None:
        key = secrets.token_bytes(16)
        with Listener(authkey=key) as listener:
            # A fresh interpreter, which does not run the caller's script again; -P: nor imports from its folder.
            command = [sys.executable, "-P", "-m", __name__, str(listener.address), kind]
            environment = {**os.environ, "PYTHONPATH": package_path()}
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            assert self.process.stdin is not None
            Thread(target=self._knock, args=(listener.address,), daemon=True).start()
            found = None
            with suppress(EOFError, OSError, AuthenticationError):
                self.process.stdin.write(key)
                self.process.stdin.close()
                self.connection: Connection = listener.accept()
                found = self._receive(_START_SECONDS)
        if not isinstance(found, DeviceAttributes):
            self.process.kill()
            self.process.wait()
            raise UserError(
                found or "the worker ends before it has opened a device",
                primitive="measure",
                fix="run `tilewright doctor`, which tries each target and says why one does not work",
            )
        self.attributes = found

    def _knock(self, address: Any) -> None:
        """Once the process has ended, end a wait for its connection."""
        self.process.wait()
        with suppress(OSError):
            Client(address).close()

    def attempt(self, work: Job | Built, path: str, seconds: float, runner: LocalRunner) -> Outcome:
        """Return the outcome of a candidate; the worker is of no use after a time-out or a crash."""
        try:
            self.connection.send((work, path, runner))
            built = self._receive(seconds)
        except OSError:
            built = None
        if isinstance(built, Outcome):
            return built
        if not isinstance(built, float):
            return self._failure(built, "build", seconds)
        found = self._receive(runner.timeout)
        outcome = found if isinstance(found, Outcome) else self._failure(found, "run", runner.timeout)
        return replace(outcome, build_seconds=built)

    def _receive(self, seconds: float) -> Any:
        """Return the next message: "" after the time, None if the worker has ended."""
        try:
            return self.connection.recv() if self.connection.poll(seconds) else ""
        except (EOFError, OSError):
            return None

    def _failure(self, found: str | None, phase: str, seconds: float) -> Failure:
        if found is not None:
            return TimedOut(reason=f"it takes longer than {seconds:g} s to {phase}", phase=phase)
        how = f"it ended its process with status {self.process.wait()}"
        return RunFailed(reason=how) if phase == "run" else BuildFailed(reason=how, stage="crash")

    def end(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.kill()
        self.process.wait()


def serve(connection: Connection, kind: str) -> None:
    """Open the device, and serve requests until the connection ends."""
    try:
        runner = DeviceRunner(device(kind, 0).require())
        connection.send(runner.on.attributes)
    except UserError as error:
        connection.send(error.message)
        return
    while True:
        work, path, options = connection.recv()
        found = work if isinstance(work, Built) else build(work, "default")
        if isinstance(found, Outcome):
            connection.send(found)
            continue
        connection.send(found.seconds)
        connection.send(runner.attempt(RunRequest(found.program, found.spec, path, options), lambda: None))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tuner decides when to end
    with suppress(EOFError, OSError), Client(sys.argv[1], authkey=sys.stdin.buffer.read()) as to:
        serve(to, sys.argv[2])
