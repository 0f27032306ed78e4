"""The sessions that measure candidates: on this host, on a fleet, or by a script's own runner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...core.target import Target
from ...fleet.option import RPCRunner
from ...measure.base_session import BaseSession
from ...measure.job import Job
from ...measure.local import local_session
from ...measure.option import LocalBuilder, LocalRunner
from ...measure.outcome import Outcome
from ...measure.own_runner_api import Runner
from ...runtime.driver import DeviceAttributes
from ..search.search import Search
from ..task import Task


class Measurer(Protocol):
    """An object that measures jobs: one of the sessions, or a stand-in."""

    @property
    def attributes(self) -> DeviceAttributes: ...
    @property
    def target(self) -> Target: ...
    @property
    def processes(self) -> int:
        """The number of candidates inspected at a time, which is that of the builder's processes."""

    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]: ...
    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]: ...


def open_session(
    target: Any, builder: LocalBuilder, runner: LocalRunner | Runner, log: Path | None = None
) -> BaseSession:
    """Open the session for a runner. A fleet keeps its ledger beside `log`.

    The modules of other sessions are not imported: they need facilities that some platforms lack.
    """
    if isinstance(runner, Runner):
        from .own_runner_session import OwnRunnerSession

        return OwnRunnerSession(target, builder, runner)
    if isinstance(runner, RPCRunner):
        from ...fleet.session import FleetSession

        return FleetSession(target, builder, runner, log)
    return local_session(target, builder, runner)


def show_waits(measurer: Measurer, show: Callable[[str], None]) -> None:
    """Show the waits of a session that reports them."""
    if hasattr(measurer, "on_wait"):
        measurer.on_wait = show


def unrecorded(measurer: Measurer, task: Task, search: Search) -> list[int]:
    """Return the configurations of a task that an earlier session sent to a fleet and that have no record."""
    found: list[int] = []
    fleet: Any = measurer
    for identity in getattr(measurer, "outstanding", ()):
        index = task.index_of(identity)
        if index is None:
            continue
        if index in search.tried:
            fleet.abandon(identity)
        else:
            found.append(index)
    return found
