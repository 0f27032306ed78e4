"""A session that measures on a fleet: as `MeasureSession` does on this host, and with the same outcomes.

    jobs ──► tokens ──► ledger ──► courier ──► workers ──► outcomes, as they come

The ledger notes the worker of a candidate before the candidate is sent. The entry is settled once the caller asks for
more, since by then the caller has logged the outcome.
"""

from __future__ import annotations

import itertools
import pickle
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.errors import UserError
from ..core.log import logger
from ..measure.base_session import BaseSession
from ..measure.channel import Channel, wait
from ..measure.children import start_fresh
from ..measure.job import Job
from ..measure.option import LocalBuilder
from ..measure.outcome import WAITS, Outcome, RunFailed, shorten
from ..runtime.driver import DeviceAttributes
from . import protocol as p
from .dispatch import Dispatcher
from .ledger import Ledger, Sent
from .option import RPCRunner
from .security import NONE, Files, check_installed

_LEAST_PATIENCE_SECONDS = 60.0
_GRACE_SECONDS = 60.0
_ABSENT_SECONDS = 300.0
"""Seconds without a scheduler, or without a worker, after which the session gives up."""
_FIRST_SECONDS = 60.0
"""Seconds to wait for the first worker."""
_AGAIN_SECONDS = 1.0
_AWAY_SECONDS = 10.0
"""Seconds between two checks for workers; the time of a longer gap does not count as their absence."""
_SETTLED_AT_ONCE = 64


class FleetSession(BaseSession):
    """Measures candidates for `target` on a fleet; a context manager.

    Parameters
    ----------
    target : Target or str
        The target to tune for.
    builder : LocalBuilder
        How workers build.
    runner : RPCRunner
        The fleet's address, and how workers run.
    log : Path, optional
        The log that results go to. With it, candidates in progress when this process ends are not lost.
    files : tuple of str
        The files of TLS; by default the files of Dask's configuration.
    grace : float
        Seconds that a lost worker has to return, before its candidates are recorded as failed.
    first : float
        Seconds that the first worker is waited for.

    Raises
    ------
    UserError
        If Dask is not installed, or another session uses the log.
    """

    def __init__(
        self,
        target: Any,
        builder: LocalBuilder | None,
        runner: RPCRunner,
        log: Path | None = None,
        files: Files = NONE,
        grace: float = _GRACE_SECONDS,
        first: float = _FIRST_SECONDS,
    ) -> None:
        check_installed()
        super().__init__(target, builder)
        self.runner = runner
        patience = max(_LEAST_PATIENCE_SECONDS, 2 * (self.builder.timeout + runner.timeout))
        self.dispatcher = Dispatcher(str(self._target.kind), runner.key, grace, patience, runner.n_parallel)
        self.ledger = Ledger(log)
        self._files = files
        self._first = first
        self._tokens = itertools.count()
        self._pickle = _pickler()
        self._references: dict[Any, bytes] = {}
        self._jobs: dict[str, Job] = {}
        self._sent_at: dict[str, float] = {}
        self._done: deque[tuple[str, Outcome]] = deque()
        self._settled: list[str] = []
        self._adopted: dict[str, list[str]] = {}
        for sent in self.ledger.open.values():
            if sent.identity:
                self._adopted.setdefault(sent.identity, []).append(sent.token)
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._again_at = self._looked = 0.0
        self._heard = time.monotonic()
        """The time at which a usable worker was last present; time without checks does not count."""
        self._checked = self._heard
        self._met = False
        self._said: set[str] = set()
        self._unreachable = ""
        """Why the last attempt to reach the scheduler failed."""

    def close(self) -> None:
        """Leave the scheduler. Workers finish their candidates; the next session with this log asks for them."""
        self._disconnect()
        self.ledger.close()

    @property
    def attributes(self) -> DeviceAttributes:
        """The attributes of the fleet's devices. UserError if no worker joins."""
        while self.dispatcher.model is None:
            self._advance()
        return self.dispatcher.model.attributes

    @property
    def outstanding(self) -> list[str]:
        """The identities of the candidates that earlier sessions sent and have no record of."""
        return list(self._adopted)

    @property
    def courier_pid(self) -> int:
        """The process that speaks with the scheduler; 0 if there is none."""
        return self._process.pid if self._process is not None else 0

    def wait(self) -> None:
        """Wait a moment for workers to join."""
        self._advance()

    def abandon(self, identity: str) -> None:
        """Give up a candidate of an earlier session, as its record exists."""
        for token in self._adopted.pop(identity, []):
            self.ledger.settle(token)

    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]:
        """Measure batches, as `measure` does. Each batch is requested as soon as workers have room for it."""
        source = iter(batches)
        more = True
        _ = self.attributes  # before anything is asked for
        try:
            while more or self._jobs:
                while more and len(self._jobs) < self._wanted:
                    batch = next(source, None)
                    more = batch is not None
                    self._take(batch or ())
                if self._jobs:
                    self._advance()
                while self._done:
                    token, outcome = self._done.popleft()
                    if (job := self._jobs.pop(token, None)) is not None:
                        yield job, outcome
                        self.ledger.settle(token)  # the caller has taken it
                        self._settled.append(token)
        finally:  # candidates in progress stay in the ledger
            self.dispatcher.drop()
            self._jobs.clear()

    @property
    def _wanted(self) -> int:
        """How many candidates keep all workers busy while the search proposes the next ones."""
        return max(1, self.dispatcher.slots + self.dispatcher.slots // 2)

    def _take(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            known = self._adopted.get(_identity(job), [])
            if known:
                token = known.pop()
                if not known:
                    del self._adopted[_identity(job)]
                self._jobs[token] = job
                self._resume(token)
            else:
                token = f"{self.ledger.campaign}.{next(self._tokens)}"
                self._jobs[token] = job
                self.dispatcher.submit([token])

    def _resume(self, token: str) -> None:
        """Ask the worker that was sent a candidate for its outcome."""
        name = self.ledger.open[token].worker
        self.dispatcher.adopt(token, name)
        if self.dispatcher.places[name].up:
            self._send(name, [token])

    # Events

    def _advance(self) -> None:
        """Send all messages that can be sent, and wait for an event."""
        self._connect()
        given = self.dispatcher.assign()
        if given:
            self.ledger.send([Sent(token, _identity(self._jobs[token]), name) for token, name in given])
        parcels: dict[str, list[str]] = {}
        for token, name in given:
            parcels.setdefault(name, []).append(token)
        for name, tokens in parcels.items():
            self._send(name, tokens)
        if not self._done:
            self._sleep()
        for message in self._channel.arrived() if self._channel is not None else ():
            self._on_message(message)
        if self._channel is not None and self._channel.closed:
            self._lost_courier(self._unreachable or "the process that speaks with the scheduler ended")
        if time.monotonic() >= self._looked + _AGAIN_SECONDS:
            self._look()

    def _look(self) -> None:
        """Handle workers that are gone or silent."""
        self._looked = time.monotonic()
        lost, silent = self.dispatcher.overdue()
        for token, reason in lost:
            self._finish(token, RunFailed(reason=reason, killed=True))
        self.dispatcher.enlist()
        for name in silent:
            self._tell(p.Ping(name))
        self._check_presence()

    def _sleep(self) -> None:
        if self._channel is not None and self._channel.holds_message:
            return
        descriptors = [self._channel.fileno()] if self._channel is not None and not self._channel.closed else []
        wait(descriptors, time.monotonic() + _AGAIN_SECONDS)

    def _on_message(self, message: Any) -> None:
        match message:
            case p.Joined():
                self._unreachable = ""
                self._on_joined(message.announcements)
            case p.Left():
                self.dispatcher.leave(message.worker)
            case p.Finished():
                self.dispatcher.alive(message.worker)
                for token, text in message.outcomes:
                    self._finish(token, p.read_outcome(text))
            case p.Answered():
                self.dispatcher.alive(message.worker)
                held = self.dispatcher.held(message.worker)
                # The worker's missing candidates, or their outcomes, were lost on the way; its journal knows.
                self._send(message.worker, [t for t in held if t not in message.tokens and t in self._jobs])
            case p.Unreachable():
                self._unreachable = message.reason
                if message.final:
                    raise UserError(message.reason, primitive="fleet", fix="see docs/fleet.md, the section on TLS")

    def _on_joined(self, texts: Sequence[str]) -> None:
        announced = []
        for text in texts:
            try:
                announced.append(p.Announcement.read(text))
            except UserError as error:
                self._say(f"a worker is not used: {error.message}")
        refused, again = self.dispatcher.join(announced)
        for line in refused:
            self._say(line)
        for name, tokens in again.items():
            self._send(name, [token for token in tokens if token in self._jobs])

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            logger.warning("%s", line)

    def _finish(self, token: str, outcome: Outcome) -> None:
        sent = self._sent_at.pop(token, None)
        if self.dispatcher.finish(token):
            if sent is not None and outcome.stages:
                there = sum(outcome.stages.get(stage, 0.0) for stage in WAITS)
                there += outcome.build_seconds + outcome.run_seconds
                stages = {**outcome.stages, "way": time.monotonic() - sent - there}
                outcome = replace(outcome, stages=stages)
            self._done.append((token, outcome))

    def _send(self, name: str, tokens: list[str]) -> None:
        work = []
        for token in tokens:
            try:
                work.append((token, self._written(self._jobs[token])))
            except Exception as error:  # a template that cannot be pickled
                reason = f"it cannot be sent to a worker: {type(error).__name__}: {error}"
                self._finish(token, RunFailed(reason=shorten(reason)))
        self._sent_at.update((token, time.monotonic()) for token, _ in work)
        most = self.dispatcher.bundle  # the outcomes of a message come back together, with that of the last one
        for at in range(0, len(work), most):
            settled, self._settled = self._settled[:_SETTLED_AT_ONCE], self._settled[_SETTLED_AT_ONCE:]
            self._tell(p.Send(name, tuple(work[at : at + most]), tuple(settled)))

    def _written(self, job: Job) -> bytes:
        if job.reference is not None and job.reference not in self._references:
            self._references[job.reference] = self._pickle(job.reference)
        reference = self._references[job.reference] if job.reference is not None else b""
        made = p.PickledCandidate(
            str(self._resolved(job.target)),
            self._pickle(job.instantiate),
            reference,
            self.builder,
            self.runner.local,
            job.lowered,
        )
        return self._pickle(made)

    def _tell(self, message: Any) -> None:
        if self._channel is not None:
            try:
                self._channel.exchange(message)
            except OSError:  # the courier ends; its candidates are requested again
                self._channel.closed = True

    # The courier

    def _connect(self) -> None:
        if self._channel is not None or time.monotonic() < self._again_at:
            return
        self._process, self._channel = start_fresh("tilewright.fleet.courier")
        self._tell(p.Connect(self.runner.address, tuple(zip(("ca", "cert", "key"), self._files, strict=True))))

    def _lost_courier(self, reason: str) -> None:
        """Start another courier after a moment; it asks the workers that it finds for their candidates."""
        self._say(f"{reason}; trying again")
        self._disconnect()
        self.dispatcher.leave_all()
        self._again_at = time.monotonic() + _AGAIN_SECONDS

    def _disconnect(self) -> None:
        if self._channel is not None:
            with suppress(OSError):
                self._channel.send(p.Leave(), 1.0)
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(10.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def _check_presence(self) -> None:
        """Raise UserError if no worker has been present for long."""
        now = time.monotonic()
        if now - self._checked > _AWAY_SECONDS:  # between two searches, or stopped: a worker had no chance to be heard
            self._heard += now - self._checked
        self._checked = now
        if self.dispatcher.slots:
            self._heard, self._met = now, True
            return
        limit = _ABSENT_SECONDS if self._met else self._first
        if now - self._heard < limit or self._done:
            return
        refused = "; ".join(sorted(line for line in self._said if line.startswith("worker")))
        why = self._unreachable or refused or "none is there"
        raise UserError(
            f"for {limit:g} s no worker of {self.runner.address} could be used: {why}",
            primitive="fleet",
            fix=f"start some: tilewright worker {self.runner.address} --target {self._target.kind}",
        )


def _identity(job: Job) -> str:
    """Return the identity of a candidate in later sessions; empty if nothing does."""
    return str(getattr(job.instantiate, "identity", ""))


def _pickler() -> Callable[[Any], bytes]:
    """Return a module that pickles functions of scripts by value."""
    try:
        import cloudpickle
    except ImportError:  # distributed brings it
        return pickle.dumps
    found: Callable[[Any], bytes] = cloudpickle.dumps
    return found
