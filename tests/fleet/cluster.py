"""A fleet on this host: Dask's own `LocalCluster`, whose workers measure with host code that plays the kernel."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.measure.programs import Candidate, compile_candidate
from tests.paths import python_path
from tilewright.fleet.option import RPCRunner
from tilewright.fleet.session import FleetSession
from tilewright.measure.option import LocalBuilder

ROOT = Path(__file__).parents[2]


def environment(folder: Path) -> dict[str, str]:
    """The environment of workers whose journals are in a folder."""
    return {
        "TILEWRIGHT_FLEET_TARGET": "llvm",
        "TILEWRIGHT_CACHE": str(folder / "kernels"),
        "PYTHONPATH": python_path(),
    }


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[Any]:
    """A scheduler, and workers in processes of their own that are started again when they die."""
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=workers,
        threads_per_worker=3,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        preload=["tilewright.fleet.worker"],
        env=environment(folder),
    ) as made:
        yield made


@contextmanager
def worker(address: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A worker as `tilewright worker` starts it."""
    command = [sys.executable, "-P", "-m", "tilewright.fleet.serve", address, "--target", "llvm", *options]
    with subprocess.Popen(command, env={**os.environ, **environment(folder)}, stdout=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


def session(address: str, log: Path | None = None, timeout: float = 60, **how: Any) -> FleetSession:
    """A session that measures the candidates of `tests.measure.programs`."""
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    runner = RPCRunner("", host, int(port), timeout=timeout, number=1, repeat=2, cooldown_interval=0)
    return FleetSession(
        "llvm", LocalBuilder(timeout=600, n_parallel=1, build_func=compile_candidate), runner, log, **how
    )


@dataclass(frozen=True)
class Named:
    """A candidate that is known by its name in later sessions."""

    candidate: Candidate

    @property
    def identity(self) -> str:
        return str(self.candidate.number)

    def __call__(self) -> Any:
        return self.candidate.instantiate()
