"""The GPUs of this host as a fleet. `python -m benchmarks.fleet --gpus 2` measures how much faster two of them are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.fleet.cluster import environment
from tests.fleet.test_kills import free_port
from tilewright import autotvm
from tilewright.fleet.session import FleetSession
from tilewright.measure.job import Job
from tilewright.runtime.device import device
from tilewright.tune.task import Candidate

pytest.importorskip("distributed")


@pytest.mark.cuda
@pytest.mark.slow
def test_each_gpu_is_a_worker_and_all_measure(tmp_path: Path) -> None:
    port, gpus = free_port(), device("cuda").driver.count()
    env = {**os.environ, **environment(tmp_path)}
    scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    with (
        subprocess.Popen([sys.executable, *scheduler], env=env) as dask,
        subprocess.Popen([sys.executable, "-m", "tilewright", "worker", f"tcp://127.0.0.1:{port}"], env=env) as worker,
    ):
        try:
            runner = autotvm.RPCRunner("", "127.0.0.1", port, number=1, repeat=1, cooldown_interval=0)
            with FleetSession("cuda", None, runner, first=300) as session:
                _ = session.attributes
                while session.dispatcher.up < gpus:
                    session.wait()
                task = autotvm.templates.conv1d.task("cuda", shape=(4096,), kernel=8)
                space = task.config_space
                drawn = space.indices(space.draw(np.random.default_rng(0), 16 * gpus))
                jobs = [Job(Candidate(task, space.get(i)), i, session.target) for i in drawn]
                outcomes = [outcome for _, outcome in session.measure(jobs)]
                assert len(outcomes) == len(jobs)
                assert sum(outcome.ok for outcome in outcomes) > len(jobs) // 2
        finally:
            worker.terminate()
            dask.kill()
