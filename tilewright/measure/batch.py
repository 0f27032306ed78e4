"""One call of `measure`: a loop that hands work to whoever is free and sleeps otherwise.

`session.py` starts it; each job and its outcome go to the caller, which for a search is `tune/session/campaign.py`.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.target import Target
from . import reference_file
from .build import build, died_building, preload
from .channel import wait
from .client import Client
from .job import Built, Feed, Job
from .option import LocalBuilder, LocalRunner
from .outcome import SWITCHED_OFF, WAITS, Measured, Outcome, ReferenceDisputed, ReferenceLost, RunFailed, shorten
from .pool import Died, WorkerPool
from .protocol import DropQueued, RunRequest, Submit
from .reference import expected_of
from .reference_queue import ReferenceQueue, References
from .waits import Waits

_tokens = itertools.count()
_ATTEMPTS = 3
"""How often a task goes to another server because its server ended, or gets another reference."""
_TASKS_PER_DEVICE = 8
"""Tasks that the server holds for each device, so that the device is busy while the caller chooses candidates."""
_UNFINISHED_DIVISOR = 8
"""The next batch is requested when at most 1 / `_UNFINISHED_DIVISOR` of a batch is unfinished."""
_NICE_INCREMENT = 5
"""The increment of the nice value of a worker's builders, so that its device does not wait for them."""
_COMPUTING = "the expected values, which NumPy computes from the declaration"
_CANDIDATES_PER_CORE = 8
"""Candidates built per core before they are run, if the same cores do both."""


class Batch:
    """Takes jobs through building, waiting for their reference, and running.

    On a GPU all of that goes on at once. If candidates run on the cores that build them, building pauses meanwhile: it
    would distort their times.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        folder: Callable[[], Path],
        references: References,
        builder: LocalBuilder,
        runner: LocalRunner,
        feed: Feed | None = None,
        on_wait: Callable[[str], None] | None = None,
    ) -> None:
        """`references` holds the known references and is extended. `feed` supplies the batches, if given. `on_wait` is
        called with the object of each long wait, and with "" at its end."""
        self.connect = connect
        self.folder = folder
        self.references = references
        self.builder = builder
        self.runner = runner
        self.inputs = reference_file.digest(runner.ref_input)
        self.feed = feed
        self.given: dict[int, Job] = {}
        """The jobs without an outcome yet, by number."""
        self.jobs: list[Job] = []
        """All jobs, with resolved targets. A finished job no longer holds its loop nest."""
        self.unbuilt: deque[int] = deque()
        self.built: dict[int, Built] = {}
        self.runnable: deque[int] = deque()
        self.running: dict[int, int] = {}  # token → job
        self.restarts: dict[int, int] = {}
        self.done: deque[tuple[int, Outcome]] = deque()
        # Jobs of a feed travel: they come a few at a time, and a builder forked for each would start cold.
        given = None if feed is None else self.jobs.__getitem__
        self.builders = WorkerPool(
            self._build, builder.processes, builder.timeout, given, nice=0 if feed is None else _NICE_INCREMENT
        )
        self.reference_queue = ReferenceQueue(references, self._refer, self._asked)
        self.disputes: dict[Any, ReferenceDisputed] = {}
        """The latest dispute of each workload with a sampled reference."""
        self.client: Client | None = None
        self.waits = Waits(on_wait)
        self.since: dict[int, float] = {}
        """When each job was taken, or built."""
        self.stages: dict[int, dict[str, float]] = {}

    def run(
        self, batches: Iterable[Sequence[Job]], resolve: Callable[[Target], Target]
    ) -> Iterator[tuple[Job, Outcome]]:
        """Yield each job with its outcome when the job is done; `resolve` returns a target with all limits.

        Batches of a `feed` may be empty. After a batch with jobs, the next is requested at once. After an empty one, it
        is requested when the feed or a process has sent something, or a time limit has passed.
        """
        source = iter(batches)
        size: int | None = 0  # size of the latest batch; None: there are no more
        left: set[int] = set()
        while size is not None or left:
            client = self.client = self.connect()
            if size is not None and len(left) <= self._enough(client, size):
                taken = next(source, None)
                size = None if taken is None else len(taken)
                left.update(self._take(taken or (), resolve))
                if taken or taken is None or self.feed is None:
                    continue
            self.builders.foreign = self.reference_queue.pool.foreign = [client.channel]
            self._advance(client)
            if not (self.done or client.channel.closed or (self.feed is not None and self.feed.pending)):
                self._sleep(client)
            while self.done:
                index, outcome = self.done.popleft()
                left.remove(index)
                yield self.given.pop(index), outcome

    def _enough(self, client: Client, size: int) -> int:
        """Return the number of unfinished jobs at which the next batch is requested.

        These jobs keep the device busy until the batch arrives. They are few because the caller learns from results:
        with more unfinished jobs, simulated searches ended worse. If candidates run on the caller's cores, no job may
        be left.
        """
        if self.feed is not None:
            return len(self.jobs)
        return 0 if client.on_host or not client.opened else min(self.builder.processes, size // _UNFINISHED_DIVISOR)

    def _take(self, jobs: Sequence[Job], resolve: Callable[[Target], Target]) -> range:
        """Add jobs, which workers forked earlier do not know, and have them built; returns their numbers."""
        new = range(len(self.jobs), len(self.jobs) + len(jobs))
        if not new:
            return new
        self.given.update(zip(new, jobs, strict=True))
        self.jobs += [replace(job, target=resolve(Target.parse(job.target))) for job in jobs]
        if self.feed is None:
            for pool in (self.builders, self.reference_queue.pool):
                pool.renew()
        self.since.update(dict.fromkeys(new, time.perf_counter()))
        for target in {self.jobs[index].target for index in new}:
            preload(target)
        with suppress(OSError):  # before the fork that writes to it, which will report errors
            self.folder()
        for index in new:
            reference = self.jobs[index].reference
            if reference is not None and self.runner.check_correctness:
                self.reference_queue.expect(reference, index)
            if kept := self.jobs[index].kept:
                self.built[index] = kept[0]
                self._queue(index)
            else:
                self.unbuilt.append(index)
        return new

    def close(self) -> None:
        """End the processes of this call."""
        self.builders.close()
        self.reference_queue.pool.close()
        if self.running and self.client is not None:
            with suppress(OSError):
                self.client.channel.send(DropQueued())

    def _sleep(self, client: Client) -> None:
        """Wait for a message, the end of a process, or somebody's time limit."""
        pools = (self.builders, self.reference_queue.pool)
        descriptors = [client.channel.fileno(), *(d for pool in pools for d in pool.descriptors())]
        descriptors += [self.feed.fileno()] if self.feed is not None else []
        computing = self.reference_queue.pool.active and not (self.builders.active or self.running)
        deadlines = [self.waits.note(_COMPUTING if computing else ""), *(pool.deadline for pool in pools)]
        wait(descriptors, min((each for each in deadlines if each is not None), default=None))

    def _advance(self, client: Client) -> None:
        """Handle all results that have arrived, and hand out all work that can be handed out."""
        for finished in client.hear():
            if (job := self.running.pop(finished.token, -1)) >= 0:
                self._on_ran(job, finished.outcome)
        for index, result in self.builders.advance():
            self._on_built(index, result)
        self.runnable.extend(self.reference_queue.advance(bool(self.unbuilt or self.builders.active)))
        self._feed_builders(client)  # last, as a built job or a reference may have made room or work for builders
        self.builders.start()
        if client.channel.closed:
            self._lost_server()
        elif not (client.on_host and self._building):
            while self.runnable and not client.channel.closed and len(self.running) < _TASKS_PER_DEVICE * client.usable:
                self._submit(client, self.runnable.popleft())

    @property
    def _building(self) -> bool:
        return self.builders.active or self.reference_queue.pool.active

    def _finish(self, index: int, outcome: Outcome) -> None:
        stages = {**self.stages.pop(index, {}), **outcome.stages}
        self.since.pop(index, None)
        if (made := self.built.pop(index, None)) is not None:
            outcome = replace(outcome, build_seconds=made.seconds)
        self.jobs[index] = replace(self.jobs[index], lowered=b"")
        self.done.append((index, replace(outcome, stages=stages)))

    def _passed(self, index: int, stage: str, without: float = 0.0) -> None:
        """Note the duration of a job's stage that ends now, `without` the seconds that belong to other stages."""
        now = time.perf_counter()
        self.stages.setdefault(index, {})[stage] = now - self.since.get(index, now) - without
        self.since[index] = now

    # Building.

    def _feed_builders(self, client: Client) -> None:
        if not self.unbuilt or not client.opened:  # a device that cannot be used shows before any work is done
            return
        if not client.on_host:
            chunk = len(self.unbuilt)
        elif self._building or self.runnable or self.running:
            chunk = 0
        else:
            chunk = min(len(self.unbuilt), _CANDIDATES_PER_CORE * self.builder.processes)
        self.builders.submit(self.unbuilt.popleft() for _ in range(chunk))

    def _build(self, given: int | Job) -> Built | Outcome:
        """In a child."""
        return build(self._job(given), self.builder.build_func)

    def _job(self, given: int | Job) -> Job:
        """In a child: return the job, which was sent, or is a copy of the parent's."""
        return given if isinstance(given, Job) else self.jobs[given]

    def _on_built(self, index: int, result: Built | Outcome | Died) -> None:
        if isinstance(result, Died):
            self._finish(index, died_building(result, self.builder.timeout))
        elif isinstance(result, Outcome):
            self._finish(index, result)
        else:
            self.built[index] = result
            if (kept := self.jobs[index].kept) is not None:
                kept.append(result)
            self._passed(index, WAITS[0], result.seconds)
            self._queue(index)

    # References.

    def _workload(self, index: int) -> Any:
        """The key of a built job's reference."""
        held = self.jobs[index].reference or self.built[index].spec.declaration
        return (held, self.inputs) if self.inputs else held

    def _queue(self, index: int) -> None:
        """Queue a built job to run when its reference is ready."""
        if not self.runner.check_correctness or not self.reference_queue.hold(self._workload(index), index):
            self.runnable.append(index)

    def _asked(self, index: int) -> tuple[int | Job, ReferenceDisputed | None]:
        """Return the request for a reference, which is sent to a child."""
        dispute = self.disputes.get(self._workload(index)) if index in self.built else None
        return index if self.feed is None else self.jobs[index], dispute

    def _refer(self, asked: tuple[int | Job, ReferenceDisputed | None]) -> tuple[str, str]:
        """In a child: compute the reference of a job; returns its file, or the reason for the failure."""
        job, dispute = self._job(asked[0]), asked[1]
        path = ""
        try:
            inputs, expected = expected_of(job, self.runner.ref_input, dispute)
            descriptor, path = tempfile.mkstemp(".npz", dir=self.folder())
            os.close(descriptor)
            reference_file.save(path, inputs, expected)
            if dispute is not None:
                Path(dispute.path).unlink(missing_ok=True)
        except (Exception, SystemExit) as error:
            with suppress(OSError):  # half a file would fill a full disk for good
                Path(path).unlink()
            return "", shorten(f"{type(error).__name__}: {error}")
        return path, ""

    # Running.

    def _on_ran(self, index: int, outcome: Outcome) -> None:
        if isinstance(outcome, (ReferenceLost, ReferenceDisputed)):
            if isinstance(outcome, ReferenceDisputed):
                self.disputes[self._workload(index)] = outcome
            self.references.drop(self._workload(index), outcome.path)
            self.restarts[index] = self.restarts.get(index, 0) + 1
            if self.restarts[index] < _ATTEMPTS:
                self._queue(index)
                return
            outcome = RunFailed(reason=outcome.reason, killed=True)
        if isinstance(outcome, Measured) and not outcome.checked:
            asked = self.runner.check_correctness
            outcome = replace(
                outcome, unchecked=self.references.reason(self._workload(index)) if asked else SWITCHED_OFF
            )
        self._passed(index, WAITS[1], outcome.run_seconds)
        self._finish(index, outcome)

    def _submit(self, client: Client, index: int) -> None:
        made = self.built[index]
        path = self.references.file(self._workload(index)) if self.runner.check_correctness else ""
        token = next(_tokens)
        if self.feed is not None:
            self.feed.begins(self.given[index])
        try:
            client.channel.send(Submit(token, RunRequest(made.program, made.spec, path, self.runner)))
        except OSError:
            client.channel.close()
            self.runnable.appendleft(index)
            self._lost_server()
        else:
            self.running[token] = index

    def _lost_server(self) -> None:
        """Give the unfinished work of a lost server to the next server."""
        begun = self.client.started if self.client is not None else set()
        for token, index in reversed(self.running.items()):
            self.restarts[index] = self.restarts.get(index, 0) + (token in begun)
            if self.restarts[index] < _ATTEMPTS:
                self.runnable.appendleft(index)
            else:
                self._finish(index, RunFailed(reason="the measurement server ended while it had it", killed=True))
        self.running.clear()
