"""The parts that make a Dask worker one of the fleet: a candidate process, a journal, and an announcement.

`--preload tilewright.fleet.worker` makes a Dask worker one of the fleet; `tilewright worker` starts one that returns
when the scheduler does. Tuners call its functions `measure` and `in_hand`.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import socket
import sqlite3
import subprocess
from asyncio import Future, get_running_loop
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..core.cache_folder import cache_folder
from ..core.errors import UserError
from ..core.log import logger
from ..core.version import __version__
from ..measure.channel import Channel
from ..measure.children import start_fresh
from ..measure.outcome import Outcome, RunFailed
from ..runtime.driver import DeviceAttributes
from .journal import Journal, State
from .protocol import Announcement, Begins, Broken, Done, Measure, Opened, Proceed, write_outcome

ANNOUNCED = "tilewright"
"""The name under which Dask's scheduler keeps a worker's announcement."""
_MOST_BUILDERS = 16
_SPARE_CORES = 2
"""Cores of a host without builders: they serve its devices and Dask's processes."""
_MOST_PROCESSES_WITHOUT_DEVICE = 5
_STUCK_SECONDS = 1800.0
"""A candidate process that has candidates and sends nothing for this long is assumed to have lost them."""


@dataclass(frozen=True)
class WorkerOptions:
    """A worker's device, and its name.

    `sharing` is the number of workers that share the cores of the host. `builders` is the number of candidates to build
    at a time; 0 means as many as that allows. `visible` is the index of the GPU in CUDA's order. `package` replaces the
    version of this package in tests.
    """

    target: str = "cuda"
    name: str = ""
    key: str = ""
    folder: Path | None = None
    visible: int | None = None
    package: str = ""
    sharing: int = 1
    builders: int = 0


def builders_of(sharing: int) -> int:
    """Return how many candidates a worker builds at a time, if `sharing` workers share the cores of this host."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(_MOST_BUILDERS, (cores - min(_SPARE_CORES, cores // 4)) // sharing))


def slots_of(builders: int) -> int:
    """Return how many candidates a worker takes at a time: candidates being built, and built ones that wait to run."""
    return builders + max(1, builders // 2)


class Host:
    """The worker's side: it passes candidates to its candidate process, and keeps the journal.

    Everything happens on one event loop, which Dask's worker runs on.
    """

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.name = options.name or f"{socket.gethostname()}-{options.target}-{options.visible or 0}"
        self.journal = Journal(options.folder or _folder(self.name))
        self.attributes: DeviceAttributes | None = None
        self.builders = options.builders or builders_of(options.sharing)
        self.slots = slots_of(self.builders)
        self.broken = asyncio.Event()
        """Set if the device or the journal fails for good. If the worker stayed, it would fail candidates faster than
        other workers measure them."""
        self._waiting: dict[str, Future[str]] = {}
        self._heard = 0.0
        self._processes_without_device = 0
        """The number of successive candidate processes that ended before they had the device."""
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._descriptor = -1
        self._opened: Future[DeviceAttributes] | None = None

    async def open(self) -> Announcement:
        """Start the candidate process; return the announcement. Raises UserError if the device cannot be used."""
        if self._channel is None or self._channel.closed:
            self._start()
        assert self._opened is not None
        self.attributes = await asyncio.shield(self._opened)
        python = ".".join(platform.python_version_tuple()[:2])
        return Announcement(
            self.name, self.options.target, self.attributes, self.options.package or __version__, python,
            self.journal.name, self.slots, self.options.key, socket.gethostname(), os.getpid(),
        )  # fmt: skip

    async def measure(self, token: str, candidate: bytes) -> str:
        """Measure a candidate unless it was begun before; returns the outcome as text when there is one."""
        try:
            state, outcome = self.journal.take(token)
        except sqlite3.Error:
            self.broken.set()
            raise
        if state is State.OVER:
            return outcome
        if state is State.NEW:
            self._waiting[token] = get_running_loop().create_future()
            await self._submit(token, candidate)
        found = self._waiting.get(token)
        if found is None:  # the candidate ended in the meantime
            return self.journal.take(token)[1]
        while not found.done():
            left = self._heard + _STUCK_SECONDS - get_running_loop().time()
            if left <= 0:
                self._finish(
                    token, RunFailed(reason=f"its candidate process said nothing for {_STUCK_SECONDS:g} s", killed=True)
                )
                self._restart()
            else:
                await asyncio.wait([found], timeout=left)
        return found.result()

    def in_hand(self) -> list[str]:
        """The candidates that the worker has begun and not finished."""
        return list(self._waiting)

    async def _submit(self, token: str, candidate: bytes) -> None:
        try:
            await self.open()
            assert self._channel is not None
            self._channel.send(Measure(token, candidate), 10.0)
        except (OSError, UserError) as error:
            self._finish(token, RunFailed(reason=f"the candidate process does not take it: {error}", killed=True))

    def _start(self) -> None:
        chosen = {} if self.options.visible is None else {"CUDA_VISIBLE_DEVICES": str(self.options.visible)}
        arguments = (self.options.target, str(self.builders))
        self._process, self._channel = start_fresh("tilewright.fleet.candidate_process", *arguments, **chosen)
        self._descriptor = self._channel.fileno()
        loop = get_running_loop()
        self._opened, self._heard = loop.create_future(), loop.time()
        loop.add_reader(self._descriptor, self._hear, self._channel)

    def _hear(self, channel: Channel) -> None:
        self._heard = get_running_loop().time()
        for message in channel.arrived():
            if isinstance(message, Opened) and self._opened is not None and not self._opened.done():
                self._opened.set_result(message.attributes)
                self._processes_without_device = 0
            elif isinstance(message, Broken) and self._opened is not None and not self._opened.done():
                self._opened.set_exception(UserError(message.reason, fix="look at the output of `tilewright doctor`"))
                self.broken.set()
            elif isinstance(message, Begins):
                self.journal.run(message.token)
                with suppress(OSError):
                    channel.send(Proceed(message.token), 10.0)
            elif isinstance(message, Done):
                self._finish(message.token, message.outcome)
        if channel.closed:
            self._lost(channel)

    def _lost(self, channel: Channel) -> None:
        """The candidate process ended: as far as is known, its candidates ended it."""
        get_running_loop().remove_reader(self._descriptor)
        channel.close()
        status = self._process.wait() if self._process is not None else None
        if self._opened is not None and not self._opened.done():
            self._processes_without_device += 1
            if self._processes_without_device >= _MOST_PROCESSES_WITHOUT_DEVICE:
                self.broken.set()
            self._opened.set_exception(
                UserError(
                    f"the candidate process ended with status {status} before it had its device",
                    fix="see its log; tilewright doctor says whether the device works",
                )
            )
        for token in list(self._waiting):
            self._finish(
                token,
                RunFailed(reason=f"the candidate process ended with status {status} while it had it", killed=True),
            )

    def _restart(self) -> None:
        if self._process is not None:
            self._process.kill()  # the channel closes, and `_lost` does the rest

    def _finish(self, token: str, outcome: Outcome) -> None:
        kept = self.journal.finish(token, write_outcome(outcome))
        waiting = self._waiting.pop(token, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(kept)

    def close(self) -> None:
        """End the candidate process."""
        if self._channel is not None and not self._channel.closed:
            get_running_loop().remove_reader(self._descriptor)
            self._channel.close()
        if self._process is not None:
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self.journal.close()


def _folder(name: str) -> Path:
    """Return the folder of a worker's journal."""
    base = cache_folder()
    parent = Path(base).parent if base is not None else Path.home() / ".cache" / "tilewright"
    return parent / "fleet" / re.sub(r"[^\w.-]+", "_", name)


_hosts: dict[str, Host] = {}
"""The host of each Dask worker of this process, by the worker's name."""


def attach(worker: Any, host: Host, announcement: Announcement) -> None:
    """Make a Dask worker announce a host when it registers, and serve its candidates."""
    _hosts[str(worker.name)] = host
    worker.startup_information[ANNOUNCED] = lambda _: announcement.written()


def detach(worker: Any) -> Host:
    """Undo `attach`; returns the host."""
    return _hosts.pop(str(worker.name))


def _host_of(worker: Any) -> Host:
    return _hosts[str(worker.name)]


async def measure(work: list[tuple[str, bytes]], settled: list[str]) -> list[tuple[str, str]]:
    """In a Dask worker: measure candidates, at most once each; returns their outcomes as text."""
    from distributed import get_worker

    host = _host_of(get_worker())
    host.journal.forget(tuple(settled))
    outcomes = await asyncio.gather(*(host.measure(token, candidate) for token, candidate in work))
    return [(token, outcome) for (token, _), outcome in zip(work, outcomes, strict=True)]


async def in_hand(dask_worker: Any) -> list[str]:
    """On a Dask worker's event loop: the candidates in hand."""
    return _host_of(dask_worker).in_hand()


async def dask_setup(worker: Any) -> None:
    """Make a worker that `dask worker --preload tilewright.fleet.worker` starts one of the fleet.

    The target comes from the environment: TILEWRIGHT_FLEET_TARGET, "cuda" if it is not set.
    """
    target = os.environ.get("TILEWRIGHT_FLEET_TARGET", "cuda")
    host = Host(WorkerOptions(target, str(worker.name or ""), os.environ.get("TILEWRIGHT_FLEET_KEY", "")))
    announcement = await host.open()
    # Candidates wait on the event loop: Dask's "threads" only limit the worker's number of candidates at a time.
    worker.state.nthreads = max(worker.state.nthreads, host.slots)
    attach(worker, host, announcement)
    _leaving[str(worker.name)] = asyncio.ensure_future(_leave_when_broken(worker, host))
    logger.info("this worker measures on %s", announcement.attributes.name)


async def dask_teardown(worker: Any) -> None:
    """End the processes that `dask_setup` started."""
    _leaving.pop(str(worker.name)).cancel()
    detach(worker).close()


_leaving: dict[str, asyncio.Task[None]] = {}


async def _leave_when_broken(worker: Any, host: Host) -> None:
    await host.broken.wait()
    logger.error("%s: the device or the journal cannot be used any more: the worker leaves", host.name)
    # Not awaited: closing the worker ends this task.
    _closing.append(asyncio.ensure_future(worker.close(reason="its device cannot be used")))


_closing: list[asyncio.Task[Any]] = []


def visible_devices(text: str, count: int) -> list[int]:
    """Return the numbers of GPUs that an option names: "all", or numbers with commas."""
    if text == "all":
        return list(range(count))
    try:
        chosen = [int(part) for part in text.split(",")]
    except ValueError:
        chosen = []
    if not chosen or len(set(chosen)) < len(chosen) or not all(0 <= index < count for index in chosen):
        raise UserError(
            f"--devices {text!r} does not name some of the {count} GPUs here",
            fix="give their numbers, such as 0,1, or all",
            where="",
        )
    return chosen
