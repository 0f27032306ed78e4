"""A few of the cases of `make fuzz`, and the command itself."""

from __future__ import annotations

import collections
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.cases import Case, draw
from tests.fuzz.children import ROOT
from tests.fuzz.engines import Verdict, judge
from tests.fuzz.shrink import shrunk
from tests.paths import python_path

COUNT = 60
WRONG = (
    "A = te.placeholder((12, 5), 'float32', 'A')",
    "U = te.compute((12, 5), lambda i, j: A[i, j] + 1.0, name='U')",
    "T = te.compute((12, 5), lambda i, j: U[i, j] * 2.0, name='T')",
    "kept = []",
    "outputs = ['T']",
    "s = te.create_schedule([T.op])",
    "s.stages[2].split(s.stages[2].leaf_iter_vars[0], factor=4)",
    "s.stages[1].compute_inline()",
)


@pytest.mark.parametrize("part", range(4))
def test_random_cases_are_right_or_refused(part: int) -> None:
    """By the interpreter, and by LLVM where no loop is bound to threads."""
    cases = [draw(seed) for seed in range(part, COUNT, 4)]
    verdicts = [(case, judge(case, ("interpreter", "llvm"))) for case in cases]
    for case, verdict in verdicts:
        assert not verdict.is_fault, f"seed {case.seed}: {verdict}\n{case.text}"
    outcomes = collections.Counter(verdict.outcome for _, verdict in verdicts)
    assert outcomes["right"] * 2 > len(cases), outcomes


def test_random_kernels_read_what_they_have_stored() -> None:
    """Reductions of an array's places and values in global memory are among them."""
    for case in [case for case in map(draw, range(170, 200)) if case.on_grid]:
        verdict = judge(case, ("ptx",))
        assert not verdict.is_fault, f"seed {case.seed}: {verdict}\n{case.text}"


@pytest.mark.cuda
@pytest.mark.parametrize("part", range(8))
def test_random_kernels_run_on_a_gpu(part: int) -> None:
    for case in filter(lambda case: case.on_grid, map(draw, range(1000 + part, 2400, 8))):
        verdict = judge(case, ("cuda",))
        assert not verdict.is_fault, f"seed {case.seed}: {verdict}\n{case.text}"


def test_a_seed_determines_its_case() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


def test_a_fault_shrinks_to_what_it_needs() -> None:
    case = Case("graph", 0, WRONG, ("A", "U", "T"))
    fault = Verdict("wrong", "interpreter", "T[0] is 1, not 2")

    def judged(smaller: Case) -> Verdict:
        return fault if "split(" in smaller.text and "A = " in smaller.text else Verdict("right")

    small, verdict = shrunk(case, fault, judged)
    assert verdict is fault
    assert len(small.lines) == 2
    assert "factor=1" in small.text


def test_the_command_counts_cases_by_primitive(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tests.fuzz", *arguments]
        environment = {**os.environ, "PYTHONPATH": python_path()}
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)

    done = run("--count", "2", "--engines", "interpreter", "--log", str(log))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 cases, 0 faults" in done.stdout
    assert "cases that ran, by primitive" in done.stdout
    again = run("--read", str(log)).stdout
    assert "| `split` |" in again
    assert again.splitlines()[-1].startswith("2 programs: ")
