"""Three workers of a `LocalCluster` with every kind of fault: each candidate gets one outcome, and runs once."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fleet.cluster import Named, cluster, session, worker
from tests.measure.programs import Candidate, patient
from tilewright.core.target import Target
from tilewright.measure.job import Job
from tilewright.measure.outcome import Outcome, RunFailed

pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Three workers."""
    with cluster(tmp_path_factory.mktemp("fleet"), 3) as made:
        yield made


FAULTS = ["crashes", "loops", "wrong", "exits", "build crashes", "build raises"]


def test_what_faults_do_to_a_fleet(fleet: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Candidates that crash, hang, compute something else and end their worker; a worker that is killed; one of another
    version that joins late."""
    tally = tmp_path / "tally"
    tally.touch()
    faults = [*[""] * 8, *FAULTS, "kills its worker"]
    made = [Candidate(fault, number, tally=tally) for number, fault in enumerate(faults)]
    random.Random(1).shuffle(made)
    found: dict[Candidate, Outcome] = {}
    with (
        caplog.at_level(logging.WARNING, "autotvm"),
        worker(fleet.scheduler_address, tmp_path, "--name", "newer", "--package", "99.0"),
        session(fleet.scheduler_address, timeout=patient(8), first=600) as measuring,
    ):
        for job, outcome in measuring.measure([candidate.job("llvm") for candidate in made]):
            assert job.key not in found
            found[job.key] = outcome
            if len(found) == 6:
                victim = next(p.announced.pid for p in measuring.dispatcher.places.values() if p.up and p.announced)
                os.kill(victim, signal.SIGKILL)
        end = time.monotonic() + 600
        while "newer" not in caplog.text and time.monotonic() < end:
            measuring.wait()
    assert len(found) == len(made)
    assert max(Counter(tally.read_text().split()).values()) == 1, "a candidate ran twice"
    lost = [candidate for candidate, outcome in found.items() if isinstance(outcome, RunFailed) and outcome.killed]
    assert "kills its worker" in [candidate.fault for candidate in lost]
    # Each of two deaths costs the candidate that ran, or all three of a worker that does not come back in time.
    assert len(lost) <= 6, [found[candidate] for candidate in lost]
    for candidate in found.keys() - set(lost):
        candidate.expect(found[candidate])
    assert "worker newer is not used: it has tilewright '99.0' instead of" in caplog.text


def test_what_a_tuner_leaves_behind_the_next_one_fetches(fleet: Any, tmp_path: Path) -> None:
    """The first session takes one outcome and ends, as by Ctrl-C; nothing runs again for the second one."""
    tally, log = tmp_path / "tally", tmp_path / "tune.log"
    tally.touch()
    jobs = [Job(Named(Candidate("", n, tally=tally)), n, Target("llvm")) for n in range(12)]
    with session(fleet.scheduler_address, log, first=600) as measuring:
        measured = measuring.measure(jobs)
        taken = next(measured)[0].key
        measured.close()
        sent = len(measuring.ledger.open)
    assert sent > 1
    with session(fleet.scheduler_address, log, first=600) as measuring:
        left = {int(identity) for identity in measuring.outstanding}
        assert len(left) == sent
        measuring.abandon(str(taken))  # its record is in the log
        rest = [job for job in jobs if job.key != taken]
        found = {job.key: outcome for job, outcome in measuring.measure(rest)}
        assert all(outcome.ok for outcome in found.values()), found
        assert not measuring.outstanding
    assert sorted(Counter(tally.read_text().split()).values()) == [1] * 12
    assert not log.with_name("tune.log.fleet").exists()
