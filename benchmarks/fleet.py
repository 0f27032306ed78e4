"""The scheduler's load and the efficiency of a fleet, simulated by recorded measurements; or of real GPUs.

    python -m benchmarks.fleet [--workers 10 100 1000] [--trials 20] [--stretch 20] [--table tutorial]
    python -m benchmarks.fleet --gpus 2 [--target cuda]

Simulated: Dask's scheduler, the courier, the tuner's session and the function that workers run are the real ones. A
worker waits as long as a trial of the table took: 16 at a time are built, and one at a time runs. Its outcome is the
recorded one. `--stretch` lengthens all trials, so that a host with few cores can play a thousand workers, which share
some processes. Efficiency is the share of the time in which devices are busy or, if building limits them, the cores
are.

Prints, for each number of workers, the trials per second and the efficiency. It also prints the processor milliseconds
per trial of the scheduler, the courier and the tuner. The last figure is the scheduler's load of one core at the
recorded pace (without stretch).

With GPUs: see `benchmarks/fleet_devices.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import lzma
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.fleet_devices import LOADS, compare, free_port
from tilewright import autotvm
from tilewright.core.version import __version__
from tilewright.fleet.option import RPCRunner
from tilewright.fleet.protocol import Announcement, write_outcome
from tilewright.fleet.session import FleetSession
from tilewright.fleet.worker import attach
from tilewright.measure.job import Job
from tilewright.measure.outcome import Measured, RunFailed
from tilewright.runtime.driver import DeviceAttributes
from tilewright.tune.task import Candidate

ROOT = Path(__file__).parents[1]
TABLES = ROOT / "tests" / "data" / "tables"
BUILDERS = 16
RUN_SECONDS = 0.15
"""A candidate's time on the device, without compilation: the median of the table `depthwise`."""
HOSTS = max(4, min(24, len(os.sched_getaffinity(0)) - 6))
"""Processes that simulated workers share."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Recorded:
    """A recorded trial: the seconds that it took, and its outcome as text."""

    seconds: float
    outcome: str


def recorded(table: str) -> list[Recorded]:
    """Return the trials of a table."""
    found = []
    with lzma.open(TABLES / f"{table}.log.xz", "rt") as file:
        for line in map(json.loads, file):
            costs, error, seconds, _ = line["result"]
            outcome = RunFailed(reason="recorded") if error else Measured(costs=tuple(costs))
            found.append(Recorded(seconds, write_outcome(outcome)))
    return found


class SimulatedHost:
    """Takes the place of a worker's `Host`: it waits, and answers from the table."""

    def __init__(self, number: int, trials: list[Recorded], stretch: float) -> None:
        self.trials = trials
        self.stretch = stretch
        self.journal = self
        self.announcement = Announcement(
            f"simulated-{number}", "cuda", DeviceAttributes("Simulated", "9.0"), __version__,
            f"{sys.version_info.major}.{sys.version_info.minor}", str(number), BUILDERS + 1,
        )  # fmt: skip
        self._cores = asyncio.Semaphore(BUILDERS)
        self._device = asyncio.Lock()

    def forget(self, tokens: tuple[str, ...]) -> None:
        """Have nothing to forget."""

    async def measure(self, token: str, candidate: bytes) -> str:
        """Wait as long as a recorded trial took."""
        trial = self.trials[int(token.rpartition(".")[2]) % len(self.trials)]
        async with self._cores:
            await asyncio.sleep(max(0.0, trial.seconds - RUN_SECONDS) * self.stretch)
        async with self._device:
            await asyncio.sleep(RUN_SECONDS * self.stretch)
        return trial.outcome

    def in_hand(self) -> list[str]:
        """Be alive."""
        return []


async def play(address: str, first: int, count: int, table: str, stretch: float) -> None:
    """Be some workers, for ever."""
    import dask
    from distributed import Worker

    dask.config.set({
        "distributed.worker.profile.enabled": False, "distributed.admin.system-monitor.interval": "60s",
        "distributed.worker.memory.monitor-interval": "60s",
    })  # fmt: skip
    trials = recorded(table)
    workers = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            worker = Worker(
                address, nthreads=BUILDERS + 1, name=f"simulated-{number}", memory_limit=0, dashboard=False,
                dashboard_address="127.0.0.1:0", local_directory=folder, host="127.0.0.1",
            )  # fmt: skip
            host: Any = SimulatedHost(number, trials, stretch)
            attach(worker, host, host.announcement)
            workers.append(await worker)
        await asyncio.gather(*(worker.finished() for worker in workers))


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def started(stack: ExitStack, *command: str) -> int:
    """Start a Python process that ends with the stack; returns its number."""
    process = stack.enter_context(
        subprocess.Popen([sys.executable, *command], cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    )
    stack.callback(process.kill)
    return process.pid


def simulate(workers: int, trials: int, stretch: float, table: str) -> list[str]:
    """Return a row of figures for a number of workers, with the same number of trials each."""
    port = free_port()
    address = f"tcp://127.0.0.1:{port}"
    with ExitStack() as stack:
        scheduler = started(
            stack, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"
        )  # fmt: skip
        hosts = min(HOSTS, workers)
        for host in range(hosts):
            first, last = workers * host // hosts, workers * (host + 1) // hosts
            part = json.dumps([address, first, last - first, table, stretch])
            started(stack, "-m", "benchmarks.fleet", "--play", part)
        runner = RPCRunner("", "127.0.0.1", port, timeout=100 * stretch, cooldown_interval=0)
        session = stack.enter_context(FleetSession("cuda", None, runner, first=600))
        end = time.monotonic() + 600
        while session.dispatcher.up < workers and time.monotonic() < end:
            session.wait()
        task = autotvm.templates.conv2d.task("cuda", shape=(1, 64, 56, 56))
        job = Job(Candidate(task, task.config_space.get(0)), 0, session.target)
        return measured(session, scheduler, [job] * (workers * trials), workers, stretch, recorded(table))


def measured(
    session: FleetSession, scheduler: int, jobs: list[Job], workers: int, stretch: float, table: list[Recorded]
) -> list[str]:
    """Return the row, once all is measured; the begin and end of a session are left out."""
    skip = len(jobs) // 4
    courier = session.courier_pid
    marks: list[tuple[float, float, float, float]] = []
    for count, _ in enumerate(session.measure(jobs), 1):
        if count in (skip, len(jobs) - skip):
            used = [processor_seconds(scheduler), processor_seconds(courier), time.process_time()]
            marks.append((time.monotonic(), used[0], used[1], used[2]))
    spent = [after - before for before, after in zip(*marks, strict=True)]
    done = len(jobs) - 2 * skip
    rate = done / spent[0]
    mean = sum(one.seconds for one in table) / len(table)
    best = min(1 / RUN_SECONDS, BUILDERS / max(mean - RUN_SECONDS, 1e-9))  # one worker: its device, or its cores
    per = [1e3 * used / done for used in spent[1:]]
    load = per[0] / 1e3 * best * workers
    return [
        f"{workers:,}", f"{stretch:g}", f"{rate:.1f}", *(f"{ms:.2f}" for ms in per), f"{best * workers:,.0f}",
        f"{load:.0%}", f"{rate * stretch / (best * workers):.0%}",
    ]  # fmt: skip


HEAD = ("workers", "stretch", "trials/s", "scheduler ms", "courier ms", "tuner ms", "pace of devices /s",
        "scheduler's load at it", "efficiency")  # fmt: skip


def main() -> None:
    """Run the benchmarks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--trials", type=int, default=0, help="of each worker (40)")
    parser.add_argument("--stretch", type=float, default=20.0)
    parser.add_argument("--table", default="tutorial")
    parser.add_argument("--gpus", type=int, default=0, help="compare this many real workers of this host with one")
    parser.add_argument("--builders", type=int, nargs="+", default=[0], help="of each real worker; 0: by the cores")
    parser.add_argument("--target", default="cuda", choices=tuple(LOADS), help="of real workers")
    parser.add_argument("--play", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        asyncio.run(play(*json.loads(options.play)))
    elif options.gpus:
        compare(options.gpus, options.target, options.builders)
    else:
        print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}")
        for workers in options.workers:
            row = simulate(workers, options.trials or 40, options.stretch, options.table)
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
