"""The sessions that measure candidates: on this host, on a fleet, or by a runner of the script's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from ...core.target import Target
from ...fleet.option import RPCRunner
from ...fleet.session import FleetSession
from ...measure.custom import Runner
from ...measure.job import Job
from ...measure.option import LocalBuilder, LocalRunner
from ...measure.outcome import Outcome
from ...measure.session import MeasureSession
from ...runtime.driver import DeviceAttributes
from ..search.search import Search
from ..task import Task
from .own_runner import OwnRunnerSession


class Measurer(Protocol):
    """An object that measures jobs: one of the sessions, or a stand-in."""

    @property
    def attributes(self) -> DeviceAttributes: ...
    @property
    def target(self) -> Target: ...
    def measure(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]: ...
    def measure_all(self, batches: Iterable[Sequence[Job]]) -> Iterator[tuple[Job, Outcome]]: ...


Session = MeasureSession | FleetSession | OwnRunnerSession


def open_session(target: Any, builder: LocalBuilder, runner: LocalRunner | Runner, log: Path | None = None) -> Session:
    """Open the session that the runner asks for. A fleet keeps its ledger beside `log`."""
    if isinstance(runner, Runner):
        return OwnRunnerSession(target, builder, runner)
    if isinstance(runner, RPCRunner):
        return FleetSession(target, builder, runner, log)
    return MeasureSession(target, builder, runner)


def unrecorded(measurer: Measurer, task: Task, search: Search) -> list[int]:
    """Return the configurations of a task that an earlier session sent to a fleet and no log has a record of."""
    found: list[int] = []
    if not isinstance(measurer, FleetSession):
        return found
    for identity in measurer.outstanding:
        index = task.index_of(identity)
        if index is None:
            continue
        if index in search.tried:
            measurer.abandon(identity)
        else:
            found.append(index)
    return found
