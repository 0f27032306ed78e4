"""Faults cost the candidate that has them, and are recorded for what they are; everything else is measured."""

from __future__ import annotations

import itertools
import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.measure.programs import FAULTS, Candidate, compile_candidate
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured, Outcome
from tilewright.measure.session import MeasureSession

DEVICES = [
    "llvm",
    pytest.param("opencl", marks=pytest.mark.opencl),
    pytest.param("cuda", marks=pytest.mark.cuda),
]


@contextmanager
def killer(folder: Path) -> Iterator[None]:
    """Kills every process whose number appears in a file of `folder`, as somebody from outside would."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.05):
            for path in folder.iterdir():
                text = path.read_text()
                if text:
                    path.unlink()
                    time.sleep(0.2)
                    with suppress(ProcessLookupError):
                        os.kill(int(text), signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def candidates(good: int, faults: list[str], folder: Path) -> list[Candidate]:
    """Good candidates and faulty ones, mixed."""
    made = [Candidate("", number) for number in range(good)]
    for number, fault in enumerate(faults):
        made.append(Candidate(fault, number, folder / f"{number}" if fault == "killed" else None))
    random.Random(3).shuffle(made)
    return made


def measure(target: str, made: list[Candidate], folder: Path) -> dict[Candidate, Outcome]:
    """The outcome of each candidate."""
    builder = LocalBuilder(timeout=2, build_func=compile_candidate)
    runner = LocalRunner(
        timeout=1.5 if target == "llvm" else 3, number=2, repeat=2, min_repeat_ms=4, cooldown_interval=0
    )
    with killer(folder), MeasureSession(target, builder, runner) as session:
        found = {job.key: outcome for job, outcome in session.measure([c.job(target) for c in made])}
    assert len(found) == len(made)
    return found


def check(found: dict[Candidate, Outcome]) -> None:
    """Each candidate got the outcome it deserves, and a fault does not show in the timing of what came after it."""
    for candidate, outcome in found.items():
        candidate.expect(outcome)
    outcomes = list(found.values())
    after = [b for a, b in itertools.pairwise(outcomes) if isinstance(b, Measured) and not a.ok]
    others = [b for a, b in itertools.pairwise(outcomes) if isinstance(b, Measured) and a.ok]
    if len(after) >= 5 and len(others) >= 5:
        assert statistics.median(o.mean for o in after) < 2 * statistics.median(o.mean for o in others)


@pytest.mark.parametrize("target", DEVICES)
def test_every_fault_is_recorded_for_what_it_is(target: str, tmp_path: Path) -> None:
    check(measure(target, candidates(6, list(FAULTS), tmp_path), tmp_path))


SLOW_OPENCL = pytest.param("opencl", marks=[pytest.mark.opencl, pytest.mark.slow])


@pytest.mark.parametrize("target", ["llvm", SLOW_OPENCL, DEVICES[2]])
def test_of_a_hundred_candidates_with_thirty_faults_seventy_are_measured(target: str, tmp_path: Path) -> None:
    found = measure(target, candidates(70, [*FAULTS, *FAULTS], tmp_path), tmp_path)
    check(found)
    assert sum(outcome.ok for outcome in found.values()) == 70
