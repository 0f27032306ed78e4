"""Measuring without forks: as on macOS and Windows, which this machine simulates."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measure.programs import Candidate, compile_candidate, patient
from tilewright.core.errors import UserError
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured
from tilewright.measure.spawned import SpawnedSession

ROOT = Path(__file__).parents[2]
FOR_LINUX = ("tilewright.cli.worker", "tilewright.fleet.", "tilewright.measure.", "tilewright.tune.session.own_runner")
"""Modules of fleets and of forked measurement, which other platforms do without."""


@pytest.mark.parametrize("installed", ["JAX", pytest.param("PyTorch", marks=pytest.mark.torch)])
def test_other_modules_need_nothing_of_linux_to_be_imported(installed: str) -> None:
    """`make test` runs it with JAX, `make test-torch` with PyTorch."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.measure.on_other_platform"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = done.stdout.split("\n")[:-1]
    assert "tilewright.measure.server" in found  # the simulation does take them away
    assert "tilewright.measure.spawned" not in found
    assert [name for name in found if not name.startswith(FOR_LINUX)] == []


def test_calls_modules_and_a_search_without_the_facilities_of_linux(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.measure.on_other_platform", str(tmp_path / "log.json"), str(tmp_path)]
    environment = {**os.environ, "TILEWRIGHT_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) >= 10  # trials, and confirmations of the best


def test_a_worker_that_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    session = SpawnedSession("llvm", LocalBuilder(build_func=compile_candidate))
    with session, pytest.raises(UserError, match="the worker ends before it has opened a device"):
        list(session.measure([Candidate("", 0).job("llvm")]))


def test_a_bad_candidate_costs_itself_only() -> None:
    """It computes something else, ends its process, or never ends."""
    kinds = ["", "wrong", "", "exits", "", "loops", ""]
    runner = LocalRunner(timeout=patient(2), number=1, repeat=1, cooldown_interval=0)
    with SpawnedSession("llvm", LocalBuilder(build_func=compile_candidate), runner) as session:
        jobs = [Candidate(kind, number).job("llvm") for number, kind in enumerate(kinds)]
        found = [outcome for _, outcome in session.measure(jobs)]
        assert session.attributes.on_host
    assert [type(outcome).__name__ for outcome in found] == [
        "Measured", "WrongAnswer", "Measured", "RunFailed", "Measured", "TimedOut", "Measured",
    ]  # fmt: skip
    assert all(outcome.checked for outcome in found if isinstance(outcome, Measured))


def test_a_candidate_that_cannot_be_built_says_why() -> None:
    with SpawnedSession("llvm", LocalBuilder(build_func=compile_candidate)) as session:
        ((_, found),) = session.measure([Candidate("build_raises", 0).job("llvm")])
    assert not found.ok
