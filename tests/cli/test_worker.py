"""`tilewright worker` and `tilewright tune --workers`: what they refuse, and a session from end to end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.fleet.cluster import environment
from tests.fleet.test_kills import free_port
from tilewright.autotvm.record import load_from_file
from tilewright.cli.app import app
from tilewright.core.errors import UserError
from tilewright.fleet import security


def run(*arguments: Any) -> tuple[int, str]:
    """The exit status and the output of a command, run in this process."""
    done = CliRunner().invoke(app, [*map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("tcp://far:8786",), r"tcp://far:8786 is another host"),
        (("nowhere",), r"'nowhere' is not the address of a scheduler"),
        (("tcp://127.0.0.1:1", "--target", "vulkan"), r"there is no target 'vulkan'"),
    ],
)
def test_workers_that_cannot_be(arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        run("worker", *arguments)


def test_fleets_that_cannot_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tune = ("tune", "conv1d", "--shape", 300, "--log", tmp_path / "x.log")
    with pytest.raises(UserError, match=r"tcp://far:8786 is another host"):
        run(*tune, "--workers", "tcp://far:8786")
    with pytest.raises(UserError, match=r"there is no target 'vulkan'"):
        run(*tune, "--workers", "tcp://127.0.0.1:1", "--target", "vulkan")
    monkeypatch.setattr(security, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"a fleet needs Dask's distributed, which is not installed") as error:
        run(*tune, "--workers", "tcp://127.0.0.1:1", "--target", "llvm")
    assert error.value.fix == "pip install 'tilewright[fleet]'"


def processes(words: str) -> str:
    """The numbers of the processes whose command has these words."""
    return subprocess.run(["pgrep", "-f", words], capture_output=True, text=True, check=False).stdout


@pytest.mark.slow
def test_a_worker_lends_this_host_to_a_tuner(tmp_path: Path) -> None:
    """The commands as people type them; Ctrl-C ends the worker and all that it started."""
    pytest.importorskip("distributed")
    import os

    port, log = free_port(), tmp_path / "fleet.log"
    address = f"tcp://127.0.0.1:{port}"
    env = {**os.environ, **environment(tmp_path)}
    scheduler = ["-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"]
    command = [sys.executable, "-m", "tilewright"]
    with (
        subprocess.Popen([sys.executable, *scheduler], env=env, stderr=subprocess.DEVNULL) as dask,
        subprocess.Popen([*command, "worker", address, "--target", "llvm", "--name", "own"], env=env) as worker,
    ):
        try:
            workload = ["conv1d", "--shape", "300", "--kernel", "5", "--number", "1", "--repeat", "1", "--seed", "0"]
            where = ["--workers", address, "--target", "llvm", "--log", str(log), "-n", "6"]
            done = subprocess.run(
                [*command, "tune", *workload, *where], env=env, capture_output=True, text=True, timeout=900, check=False
            )
            assert done.returncode == 0, done.stderr
            assert f"target llvm, on the workers of {address}" in done.stdout
            assert len([inp for inp, _ in load_from_file(log) if not inp.notes.confirmed]) == 6
            worker.send_signal(signal.SIGINT)
            assert worker.wait(600) == 0
            end = time.monotonic() + 120
            while (left := processes(f"serve {address}")) and time.monotonic() < end:
                time.sleep(0.1)
            assert not left
        finally:
            worker.kill()
            dask.kill()
