"""How much faster two devices of one host tune than one: the fleet on real workers. See `python -m benchmarks.fleet`.

A fleet of one worker and a fleet of several measure the same configurations, each with an empty cache of kernels.
Building limits some of them (dense convolutions), and the device limits others (depthwise ones, with measurements of
50 ms and more). Both fleets must give the same records: each configuration once, with the same outcome.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import autotvm
from tilewright.fleet.option import RPCRunner
from tilewright.fleet.session import FleetSession
from tilewright.measure.job import Job
from tilewright.measure.outcome import Measured, Outcome
from tilewright.tune.model.ranking import rank
from tilewright.tune.task import Candidate, Task

ROOT = Path(__file__).parents[1]
_WARM = 4
"""Configurations of each worker before the clock starts: references, processes, the device's context."""
_FIRST_SECONDS = 120.0
_WANTED = 0.9
"""The sufficient fraction of the number of workers times the rate of one."""


@dataclass(frozen=True)
class Load:
    """Configurations to measure, and how."""

    name: str
    operator: str
    options: dict[str, Any]
    trials: int
    min_repeat_ms: float

    def task(self, target: str) -> Task:
        """Return the task of a packaged template."""
        found: Task = getattr(autotvm.templates, self.operator).task(target, **self.options)
        return found


LOADS = {
    "cuda": (
        Load("depthwise", "depthwise", {"shape": (1, 256, 64, 64)}, 80, 30),
        Load("dense", "conv2d", {"shape": (1, 256, 14, 14)}, 192, 4),
    ),
    "llvm": (Load("line", "conv1d", {"shape": 2048, "kernel": 8}, 8, 20),),
}


@dataclass(frozen=True)
class Run:
    """The results of a fleet for a load: when each outcome came, and the outcome of each configuration."""

    times: list[float]
    outcomes: dict[int, Outcome]

    @property
    def rate(self) -> float:
        """Trials per second of the middle half: the begin and end of a session are left out."""
        skip = len(self.times) // 4
        return (len(self.times) - 1 - 2 * skip) / (self.times[-1 - skip] - self.times[skip])

    @property
    def busy(self) -> float:
        """How many devices ran candidates at a time, on average."""
        return sum(outcome.run_seconds for outcome in self.outcomes.values()) / (self.times[-1] - self.times[0])

    @property
    def stages(self) -> dict[str, float]:
        """Milliseconds of each stage of a trial, on average: its waits, and the parts of its turn."""
        known = self.outcomes.values()
        found = {"build": 0.0, **dict.fromkeys(stage for outcome in known for stage in outcome.stages)}
        made = {stage: np.mean([outcome.stages.get(stage, 0.0) for outcome in known]) for stage in found}
        made["build"] = np.mean([outcome.build_seconds for outcome in known])
        made["turn"] = np.mean([outcome.run_seconds for outcome in known])
        return {stage: 1e3 * float(seconds) for stage, seconds in made.items()}


def compare(count: int, target: str, builders: Sequence[int] = (0,)) -> None:
    """Print trials per second of one worker and of `count`, how their records differ, and the time of a trial by stage.

    Further numbers of builders are tried as long as several workers are not fast enough.
    """
    alone = measured(1, target, builders[0])
    for several in builders if count > 1 else ():
        together = measured(count, target, several)
        show(count, alone, together)
        if all(together[name].rate >= _WANTED * count * one.rate for name, one in alone.items()):
            return


def show(count: int, alone: dict[str, Run], together: dict[str, Run]) -> None:
    """Print how much faster several workers are, for each load."""
    for name, one in alone.items():
        several = together[name]
        print(
            f"{name}: {one.rate:.2f} -> {several.rate:.2f} trials/s, {several.rate / one.rate:.2f} times; "
            f"{difference(one.outcomes, several.outcomes)}"
        )
        before, after = one.stages, several.stages
        print(f"  {'ms of a trial':20} {'1':>8} {count:8}")
        for stage in before | after:
            print(f"  {stage:20} {before.get(stage, 0):8.1f} {after.get(stage, 0):8.1f}", flush=True)


def difference(one: dict[int, Outcome], other: dict[int, Outcome]) -> str:
    """Return in words how two sets of records differ."""
    if one.keys() != other.keys():
        return f"{len(one.keys() ^ other.keys())} configurations only in one of them"
    differing = sum(type(outcome) is not type(other[key]) for key, outcome in one.items())
    pairs = [
        (float(np.median(mine.costs)), float(np.median(theirs.costs)))
        for key, mine in one.items()
        if isinstance(mine, Measured) and isinstance(theirs := other[key], Measured)
    ]
    ratios = np.array([b / a for a, b in pairs])
    low, middle, high = np.quantile(ratios, (0.05, 0.5, 0.95))
    return (
        f"the same configurations, each once; {differing} outcomes of another kind; "
        f"times differ by {middle:.3f} (median; 90 % within {low:.3f} to {high:.3f})"
    )


def measured(devices: int, target: str, builders: int) -> dict[str, Run]:
    """Start a scheduler and that many workers on this host; returns their results for each load."""
    port = free_port()
    found: dict[str, Run] = {}
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tilewright-fleet-"))
        environment = {**os.environ, "TILEWRIGHT_CACHE": folder, "DASK_LOGGING__DISTRIBUTED": "error"}
        for command in _commands(devices, target, port, builders):
            process = stack.enter_context(subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment))
            stack.callback(process.wait, 30)
            stack.callback(process.terminate)
        for load in LOADS[target]:
            runner = RPCRunner(
                "", "127.0.0.1", port, number=1, repeat=3, min_repeat_ms=load.min_repeat_ms, cooldown_interval=0
            )
            with FleetSession(target, None, runner, first=_FIRST_SECONDS) as session:
                _wait_for(session, devices)
                found[load.name] = _run(session, load, devices)
            run = found[load.name]
            print(
                f"{devices} worker(s), {load.name}: {run.rate:.2f} trials/s, {run.times[-1] - run.times[0]:.1f} s; "
                f"{run.busy:.2f} devices busy, {run.stages['build']:.0f} ms to build one",
                flush=True,
            )
    return found


def _commands(devices: int, target: str, port: int, builders: int) -> list[list[str]]:
    """The command lines of the scheduler and of the workers."""
    scheduler = ["--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    found = [["-m", "distributed.cli.dask_scheduler", *scheduler]]
    address = f"tcp://127.0.0.1:{port}"
    if target == "cuda":
        chosen = ["--devices", ",".join(map(str, range(devices))), "--builders", str(builders)]
        return [*found, ["-m", "tilewright", "worker", address, *chosen]]
    names = [f"host-{number}" for number in range(devices)]
    return [*found, *(["-m", "tilewright", "worker", address, "--target", target, "--name", name] for name in names)]


def _wait_for(session: FleetSession, devices: int) -> None:
    end = time.monotonic() + _FIRST_SECONDS
    while session.dispatcher.up < devices:
        if time.monotonic() > end:
            raise SystemExit(f"{session.dispatcher.up} of {devices} workers have come in {_FIRST_SECONDS:g} s")
        session.wait()


def _run(session: FleetSession, load: Load, devices: int) -> Run:
    """Measure the configurations that the model ranks first; a few per worker before them are not counted."""
    task = load.task(str(session.target))
    space = task.config_space
    count = load.trials + _WARM * devices
    chosen = rank(task, count).indices or tuple(space)[:count]  # on the CPU, which the model does not cover
    jobs = [Job(Candidate(task, space.get(index)), index, session.target) for index in chosen]
    for _ in session.measure(jobs[load.trials :]):
        pass
    times, outcomes = [time.monotonic()], {}
    for job, outcome in session.measure(jobs[: load.trials]):
        outcomes[job.key] = outcome
        times.append(time.monotonic())
    return Run(times, outcomes)


def free_port() -> int:
    """Return a port that nobody listens to."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
