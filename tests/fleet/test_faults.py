"""Four workers of a `LocalCluster` with every kind of fault: each candidate gets one outcome, and runs once."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.fleet.cluster import cluster, session, worker
from tests.measure.programs import Candidate
from tilewright.measure.outcome import Outcome, RunFailed

pytest.importorskip("distributed")

FAULTS = ["crashes", "loops", "wrong", "exits", "build crashes", "build raises"]


def test_what_faults_do_to_a_fleet_of_four(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Candidates that crash, hang, compute something else and end their worker; a worker that is killed; one of another
    version that joins late."""
    tally = tmp_path / "tally"
    tally.touch()
    faults = [*[""] * 20, *FAULTS, "kills its worker"]
    made = [Candidate(fault, number, tally=tally) for number, fault in enumerate(faults)]
    random.Random(1).shuffle(made)
    found: dict[Candidate, Outcome] = {}
    with (
        caplog.at_level(logging.WARNING, "autotvm"),
        cluster(tmp_path, 4) as fleet,
        worker(fleet.scheduler_address, tmp_path, "--name", "newer", "--package", "99.0"),
        session(fleet.scheduler_address, grace=120) as measuring,
    ):
        for job, outcome in measuring.measure([candidate.job("llvm") for candidate in made]):
            assert job.key not in found
            found[job.key] = outcome
            if len(found) == 6:
                victim = next(p.announced.pid for p in measuring.dispatcher.places.values() if p.up and p.announced)
                os.kill(victim, signal.SIGKILL)
        end = time.monotonic() + 30
        while "newer" not in caplog.text and time.monotonic() < end:
            measuring.wait()
    assert len(found) == len(made)
    assert max(Counter(tally.read_text().split()).values()) == 1, "a candidate ran twice"
    lost = [candidate for candidate, outcome in found.items() if isinstance(outcome, RunFailed) and outcome.killed]
    assert "kills its worker" in [candidate.fault for candidate in lost]
    # A worker runs one candidate at a time, so that each death costs one.
    assert len(lost) <= 3, [found[candidate] for candidate in lost]
    for candidate in found.keys() - set(lost):
        candidate.expect(found[candidate])
    assert "worker newer is not used: it has tilewright '99.0' instead of" in caplog.text
