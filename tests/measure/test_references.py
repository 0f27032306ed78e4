"""References that cannot be made: tried again from other configurations, and what happens where none can."""

from __future__ import annotations

import pickle
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.errors.refused import refused
from tests.measure.programs import SIZE, Candidate, compile_candidate
from tests.measure.test_session import QUICK
from tilewright.core.target import Target
from tilewright.measure import reference, reference_queue, waits
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import Measured, Outcome, WrongAnswer
from tilewright.measure.pool import WorkerPool
from tilewright.measure.session import Job, MeasureSession

TARGET = Target("llvm")


def measure(jobs: list[Job], runner: LocalRunner = QUICK, rounds: int = 1) -> list[Outcome]:
    """The outcomes of jobs, measured several times in one session."""
    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), runner) as session:
        return [outcome for _ in range(rounds) for _, outcome in session.measure(jobs)]


def fails_as_a_reference(candidate: Candidate, bad: bool, folder: Path) -> tuple[Any, list[Any]]:
    """Built as ever; where it is asked for a reference, which is its second time, it raises."""
    mark = folder / str(candidate.number)
    if bad and mark.exists():
        raise MemoryError("no memory for this one")
    mark.touch()
    return candidate.instantiate()


def test_a_reference_that_one_configuration_does_not_give_comes_from_another(tmp_path: Path) -> None:
    made = [Candidate("", 0), *(Candidate("wrong", n) for n in range(1, 5))]
    jobs = [Job(lambda c=c: fails_as_a_reference(c, c.number < 2, tmp_path), c, TARGET) for c in made]
    outcomes = measure(jobs)
    assert sum(isinstance(outcome, WrongAnswer) for outcome in outcomes) == 4, outcomes
    assert sum(isinstance(outcome, Measured) and outcome.checked for outcome in outcomes) == 1


def test_a_reference_that_runs_out_of_time_is_tried_once_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    attempts = tmp_path / "attempts"
    attempts.touch()

    class Patient(WorkerPool):
        """Waits a thousand seconds for every attempt but the first, which hangs."""

        def _start(self, number: int) -> None:
            before = attempts.stat().st_size
            attempts.write_text("x" * (before + 1))
            super()._start(number)
            for doing in self._busy.values():
                doing.deadline += 1000 * before

    monkeypatch.setattr(reference_queue, "WorkerPool", Patient)
    monkeypatch.setattr(reference_queue, "_COMPUTATION_SECONDS", 0.5)

    def reference() -> tuple[list[np.ndarray], list[np.ndarray]]:
        if attempts.read_text() == "x":
            time.sleep(1000)
        a = np.ones(SIZE, "float32")
        return [a], [a * 3.0]

    (outcome,) = measure([Job(Candidate("").instantiate, 0, TARGET, reference)])
    assert isinstance(outcome, Measured), outcome
    assert outcome.checked
    assert attempts.read_text() == "xx"


def test_what_failed_is_tried_again_for_later_candidates(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As on a disk that was full, and has room again."""
    monkeypatch.setattr(reference_queue, "_UNCHECKED_CANDIDATES", 2)

    def reference() -> tuple[list[np.ndarray], list[np.ndarray]]:
        with (tmp_path / "asked").open("a") as file:
            file.write("x")
        if (tmp_path / "asked").stat().st_size <= 3:
            raise OSError(28, "No space left on device")
        a = np.ones(SIZE, "float32")
        return [a], [a * 2.0 + 1.0]

    first, *others = measure([Job(Candidate("wrong").instantiate, 0, TARGET, reference)], rounds=4)
    assert isinstance(first, Measured)
    assert not first.checked
    assert "No space left" in first.unchecked
    assert isinstance(others[-1], WrongAnswer), others


def test_a_file_that_cannot_be_read_any_more_is_made_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Somebody tidies the temporary folder; the runner that knows the reference is another one by then."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def jobs(fault: str) -> Iterator[list[Job]]:
        yield [Candidate("").job("llvm")]
        for path in tmp_path.rglob("*.npz"):
            path.write_bytes(path.read_bytes()[:100])
        yield [Candidate("crashes").job("llvm")]
        yield [Candidate(fault).job("llvm")]

    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as session:
        for fault, kind in (("wrong", WrongAnswer), ("", Measured)):
            outcomes = [outcome for _, outcome in session.measure_all(jobs(fault))]
            assert isinstance(outcomes[-1], kind), outcomes


def test_half_a_file_does_not_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk it would be what keeps the disk full."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left: list[Path] = []

    def fill(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilewright.measure.reference_file.save", fill)
    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as session:
        ((_, outcome),) = session.measure([Candidate("").job("llvm")])
        left += tmp_path.rglob("*.npz")
    assert isinstance(outcome, Measured)
    assert not outcome.checked
    assert not left


def test_switched_off_is_said_as_well() -> None:
    (outcome,) = measure([Candidate("wrong").job("llvm")], LocalRunner(timeout=600, repeat=1, check_correctness=False))
    assert isinstance(outcome, Measured)
    assert (outcome.checked, outcome.unchecked) == (False, "check_correctness=False")


@pytest.mark.parametrize("all_arguments", [False, True])
def test_inputs_that_the_user_gives(all_arguments: bool) -> None:
    """The wrong candidate leaves out + 1.0, which makes no difference to large values."""
    runner = LocalRunner(timeout=600, number=1, repeat=1, cooldown_interval=0)
    large = np.full(SIZE, 1e30, "float32")
    runner.ref_input = [large, np.zeros(SIZE, "float32")] if all_arguments else [large]
    assert [type(outcome) for outcome in measure([Candidate("wrong").job("llvm")], runner)] == [Measured]
    runner.ref_input = None
    assert [type(outcome) for outcome in measure([Candidate("wrong").job("llvm")], runner)] == [WrongAnswer]


def test_inputs_that_do_not_fit() -> None:
    runner = LocalRunner(timeout=600, number=1, repeat=1, cooldown_interval=0)
    runner.ref_input = [np.zeros(3)]
    (outcome,) = measure([Candidate("").job("llvm")], runner)
    assert isinstance(outcome, Measured)
    assert f"ref_input holds float64[3]\n  fix: give the inputs of the kernel, float32[{SIZE}]" in outcome.unchecked
    assert pickle.loads(pickle.dumps(runner)).ref_input is None
    with refused("LocalRunner", "check_correctness=False leaves out", fix="without check_correctness=False"):
        LocalRunner(check_correctness=False).ref_input = [np.zeros(3)]


def test_files_that_nobody_uses_make_room_where_they_take_more_than_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = [0.0]
    left = [1000]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=left[0]))
    references = reference_queue.References(lambda: clock[0])
    paths = [str(tmp_path / name) for name in "abcd"]
    for path in paths:
        Path(path).write_bytes(bytes(100))
    for path in paths[:3]:
        references.keep(path, path)
    left[0] = 250
    clock[0] = 700.0
    assert references.file(paths[0]), "used last"
    references.keep(paths[3], paths[3])
    assert [Path(path).exists() for path in paths] == [True, False, True, True], "until less is taken than is left"
    assert references.wanted(paths[1])
    clock[0] = 900.0
    left[0] = 0
    references.keep(paths[1], paths[1])
    assert [bool(references.file(path)) for path in paths] == [True, True, False, True], "others may be on their way"


class TestSamples:
    """A reference that would take too long is a sample of eight elements, and finds wrong candidates all the same."""

    def measured(self, monkeypatch: pytest.MonkeyPatch, *faults: str) -> list[Outcome]:
        """The outcomes of candidates, one after the other."""
        monkeypatch.setattr(reference, "_MOST_STEPS", 400)
        jobs = [[Candidate(fault, n).job("llvm")] for n, fault in enumerate(faults)]
        with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as session:
            return [outcome for _, outcome in session.measure_all(jobs)]

    def test_faults_in_all_elements_in_a_corner_and_in_one_element(self, monkeypatch: pytest.MonkeyPatch) -> None:
        faults = ("", "wrong", "unwritten", "hole", "gap", "near", "input", "")
        outcomes = self.measured(monkeypatch, *faults)
        for fault, outcome in zip(faults, outcomes, strict=True):
            Candidate(fault).expect(outcome)
        assert isinstance(outcomes[0], Measured)
        assert outcomes[0].sampled in range(5, 9)

    def test_the_reference_decides_between_candidates_that_differ_outside_of_the_sample(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        alone, good, again = self.measured(monkeypatch, "gap", "", "gap")
        assert isinstance(alone, Measured)  # most probably, as its gap is hardly ever in the sample
        Candidate("").expect(good)
        Candidate("gap").expect(again)


def test_long_waits_are_reported(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(waits, "_PATIENCE_SECONDS", 0.05)

    def slow() -> tuple[list[np.ndarray], list[np.ndarray]]:
        time.sleep(0.3)
        a = np.ones(SIZE, "float32")
        return [a], [a * 2.0 + 1.0]

    heard: list[str] = []
    with (
        MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as session,
        caplog.at_level("INFO", "autotvm"),
    ):
        session.on_wait = heard.append
        ((_, outcome),) = session.measure([Job(Candidate("").instantiate, 0, TARGET, slow)])
    assert isinstance(outcome, Measured)
    assert heard == ["the expected values, which NumPy computes from the declaration", ""]
    assert f"waiting for {heard[0]}" in caplog.text
