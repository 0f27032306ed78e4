"""Batches that are asked for while others are measured."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.measure.programs import SIZE, Candidate, compile_candidate
from tests.measure.test_session import QUICK
from tilewright.codegen.abi import CompiledProgram
from tilewright.core.target import Target
from tilewright.measure.client import Client
from tilewright.measure.option import LocalBuilder
from tilewright.measure.outcome import Measured, Outcome
from tilewright.measure.session import Job, MeasureSession


class Caller:
    """Asks for batches of the given sizes, and notes how many outcomes it had each time."""

    def __init__(self, *sizes: int, processes: int = 4, folder: Path | None = None) -> None:
        """With a folder, the last of the first batch to run waits until the second batch is asked for."""
        self.sizes = sizes
        self.processes = processes
        self.folder = folder
        self.outcomes: list[tuple[Any, Outcome]] = []
        self.had: list[int] = []

    def batches(self) -> Iterator[list[Job]]:
        number = 0
        for size in self.sizes:
            self.had.append(len(self.outcomes))
            if number and self.folder is not None:
                (self.folder / "asked").touch()
            yield [Candidate("", number + i).job("llvm") for i in range(size)]
            number += size
        self.had.append(len(self.outcomes))

    def compile(self, handle: Any, tensors: list[Any], target: Target) -> CompiledProgram:
        program = compile_candidate(handle, tensors, target)
        if self.folder is None:
            return program
        (entry,) = program.entries
        head, line_end, rest = entry.source.partition(":\n")
        lines = [
            "import os, time",
            f"ran, asked = {str(self.folder / 'ran')!r}, {str(self.folder / 'asked')!r}",
            "new = 'noted' not in globals()",
            "globals()['noted'] = True",
            "new and os.write(os.open(ran, os.O_WRONLY | os.O_APPEND | os.O_CREAT), b'x')",
            f"while os.path.getsize(ran) == {self.sizes[0]} and not os.path.exists(asked): time.sleep(0.01)",
        ]
        source = head + line_end + "".join(f"    {line}\n" for line in lines) + rest
        return replace(program, entries=(replace(entry, source=source),))

    def measure(self) -> None:
        builder = LocalBuilder(timeout=600, build_func=self.compile, n_parallel=self.processes)
        with MeasureSession("llvm", builder, QUICK) as measuring:
            for job, outcome in measuring.measure_all(self.batches()):
                self.outcomes.append((job.key.number, outcome))
        assert sorted(number for number, _ in self.outcomes) == list(range(sum(self.sizes)))
        assert all(outcome.ok for _, outcome in self.outcomes), self.outcomes


def test_on_the_cpu_a_batch_is_asked_for_when_the_last_one_is_done() -> None:
    caller = Caller(3, 1, 4)
    caller.measure()
    assert caller.had == [0, 3, 4, 8]


@pytest.mark.parametrize(
    ("processes", "had"),
    [
        (2, [0, 30, 46, 55]),  # as soon as a builder would have nothing to do
        (64, [0, 28, 46, 55]),  # but not before most of the last batch is known: 4, 2 and 1 are still to come
    ],
)
def test_on_a_gpu_a_batch_is_asked_for_while_the_last_one_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: int, had: list[int]
) -> None:
    monkeypatch.setattr(Client, "on_host", False)
    caller = Caller(32, 16, 8, processes=processes, folder=tmp_path)
    caller.measure()
    # Several outcomes may arrive at once, so it may know more than it waited for.
    assert all(known >= least for known, least in zip(caller.had, had, strict=True))
    assert caller.had[1] < 32, "it was asked while the first batch was measured"


def test_empty_batches_are_skipped() -> None:
    caller = Caller(0, 2, 0, 0, 1)
    caller.measure()
    assert len(caller.had) == 6


def test_a_caller_that_fails_is_heard() -> None:
    def batches() -> Iterator[list[Job]]:
        yield [Candidate("", 0).job("llvm")]
        raise RuntimeError("no more ideas")

    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as measuring:
        with pytest.raises(RuntimeError, match="no more ideas"):
            list(measuring.measure_all(batches()))
        assert all(outcome.ok for _, outcome in measuring.measure([Candidate("", 1).job("llvm")]))


def test_a_reference_that_is_there_before_anything_is_built() -> None:
    """On the host building waits for it, and nothing else would wake the caller."""

    def reference() -> tuple[list[np.ndarray], list[np.ndarray]]:
        given = np.linspace(-1, 1, SIZE, dtype="float32")
        return [given], [given * 2.0 + 1.0]

    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as measuring:
        assert measuring.attributes.on_host  # so the device is open already
        job = Candidate("").job("llvm")
        ((_, outcome),) = measuring.measure([Job(job.instantiate, 0, job.target, reference)])
        assert outcome.ok, outcome


def test_a_reference_whose_process_dies_is_tried_again_and_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing else goes on meanwhile that would wake the caller."""
    with MeasureSession("llvm", LocalBuilder(timeout=600, build_func=compile_candidate), QUICK) as measuring:
        assert measuring.attributes.on_host
        job = Candidate("").job("llvm")
        with caplog.at_level(logging.WARNING, "autotvm"):
            ((_, outcome),) = measuring.measure([Job(job.instantiate, 0, job.target, lambda: os._exit(9))])
    assert isinstance(outcome, Measured), outcome
    assert not outcome.checked
    assert caplog.messages == [
        "outputs are not checked, as there is no reference to compare them with: computing it failed: "
        "its process exited with status 9"
    ]
