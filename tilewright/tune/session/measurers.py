"""The sessions that measure candidates: on this host, on a fleet, or by a runner of the script's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...fleet.option import RPCRunner
from ...fleet.session import FleetSession
from ...measure.custom import Runner
from ...measure.option import LocalBuilder, LocalRunner
from ...measure.session import MeasureSession
from ..search.strategy import Strategy
from ..task import Task
from .own_runner import OwnRunnerSession

Session = MeasureSession | FleetSession | OwnRunnerSession


def open_session(target: Any, builder: LocalBuilder, runner: LocalRunner | Runner, log: Path | None = None) -> Session:
    """Open the session that the runner asks for. A fleet keeps its ledger beside `log`."""
    if isinstance(runner, Runner):
        return OwnRunnerSession(target, builder, runner)
    if isinstance(runner, RPCRunner):
        return FleetSession(target, builder, runner, log)
    return MeasureSession(target, builder, runner)


def unrecorded(measurer: Any, task: Task, strategy: Strategy) -> list[int]:
    """Return the configurations of a task that an earlier session sent to a fleet and no log has a record of."""
    found: list[int] = []
    if not isinstance(measurer, FleetSession):
        return found
    for identity in measurer.outstanding:
        index = task.index_of(identity)
        if index is None:
            continue
        if index in strategy.tried:
            measurer.abandon(identity)
        else:
            found.append(index)
    return found
