"""Faults cost the candidate that has them, and are recorded for what they are; everything else is measured."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.measure.programs import FAULTS, Candidate, compile_candidate, patient
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Outcome
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
            for path in filter(Path.is_file, folder.iterdir()):
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
    """The outcome of each candidate; one that ran out of time although it does not hang gets more of it."""
    found: dict[Candidate, Outcome] = {}
    left, more = made, 1
    while left and more < 100:
        builder = LocalBuilder(timeout=patient(1) * more, build_func=compile_candidate)
        seconds = patient(1 if target == "llvm" else 2.5) * more
        runner = LocalRunner(timeout=seconds, number=2, repeat=2, min_repeat_ms=4, cooldown_interval=0)
        with killer(folder), MeasureSession(target, builder, runner) as session:
            outcomes = {job.key: outcome for job, outcome in session.measure([c.job(target) for c in left])}
        assert len(outcomes) == len(left)
        found |= outcomes
        left, more = [candidate for candidate in left if candidate.too_hasty(found[candidate])], 3 * more
    return found


def check(found: dict[Candidate, Outcome]) -> None:
    """Every candidate has the outcome that it deserves."""
    for candidate, outcome in found.items():
        candidate.expect(outcome)


OF_THE_DEVICE = ["near", "far", "unwritten", "input", "wrong"]
"""Faults that each device shows in its own way; the others end a process, keep it busy, or never reach the device."""


@pytest.mark.parametrize(
    ("target", "faults"),
    [
        ("llvm", list(FAULTS)),
        pytest.param("opencl", OF_THE_DEVICE, marks=pytest.mark.opencl),
        pytest.param("opencl", list(FAULTS), marks=[pytest.mark.opencl, pytest.mark.slow]),
        pytest.param("cuda", list(FAULTS), marks=pytest.mark.cuda),
    ],
    ids=lambda given: given if isinstance(given, str) else str(len(given)),
)
def test_every_fault_is_recorded_for_what_it_is(target: str, faults: list[str], tmp_path: Path) -> None:
    """And shows nowhere else: no process of an earlier candidate is there when another one runs."""
    roll = tmp_path / "roll"
    roll.mkdir()
    made = [replace(candidate, roll=roll) for candidate in candidates(6, faults, tmp_path)]
    check(measure(target, made, tmp_path))
    alive = roll / "alive"
    assert not alive.exists(), alive.read_text()
    assert len(list(roll.iterdir())) > len(faults) // 3  # several candidates end their process, or have it ended


SLOW_OPENCL = pytest.param("opencl", marks=[pytest.mark.opencl, pytest.mark.slow])


@pytest.mark.parametrize("target", ["llvm", SLOW_OPENCL, DEVICES[2]])
def test_of_a_hundred_candidates_with_thirty_faults_seventy_are_measured(target: str, tmp_path: Path) -> None:
    again = [fault for fault in FAULTS if "loops" not in fault]  # each of which costs a time limit
    found = measure(target, candidates(70, [*FAULTS, *again][:30], tmp_path), tmp_path)
    check(found)
    assert sum(outcome.ok for outcome in found.values()) == 70


def test_whoever_is_killed_every_candidate_gets_its_outcome() -> None:
    """Somebody kills builders, runners and the server, again and again, and never asks what they were doing."""
    rng = random.Random(5)
    done = threading.Event()
    killed: list[int] = []

    def kill_some() -> None:
        servers = 0
        while not done.wait(rng.uniform(0.05, 0.2)):
            server = session._client.process.pid if session._client is not None else 0
            family = descendants(os.getpid())
            victim = rng.choice(family) if family else 0
            if victim and (victim != server or servers < 3):
                servers += victim == server
                killed.append(victim)
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)

    made = [Candidate("", number) for number in range(150)]
    thread = threading.Thread(target=kill_some)
    builder = LocalBuilder(timeout=600, n_parallel=4, build_func=compile_candidate)
    with MeasureSession(
        "llvm", builder, LocalRunner(timeout=600, number=2, repeat=2, cooldown_interval=0.01)
    ) as session:
        thread.start()
        try:
            found = [(job.key, outcome) for job, outcome in session.measure([c.job("llvm") for c in made])]
        finally:
            done.set()
            thread.join()
    assert sorted(candidate.number for candidate, _ in found) == list(range(150))
    assert killed
    bad = [outcome for _, outcome in found if not outcome.ok]
    assert len(bad) <= len(killed)
    for outcome in bad:
        assert outcome.error_no == 8, outcome
        assert "SIGKILL" in outcome.reason or "the measurement server ended" in outcome.reason  # type: ignore[attr-defined]


def descendants(pid: int) -> list[int]:
    """The processes below one, those of other tests' making included only where they are below it."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            parents.setdefault(parent, []).append(int(entry.name))
    found, left = [], [pid]
    while left:
        below = parents.get(left.pop(), [])
        found += below
        left += below
    return found
