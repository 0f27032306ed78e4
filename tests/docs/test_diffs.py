"""The diffs of `docs/diffs` apply to a copy of the tree, and the result runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIFFS = ROOT / "docs" / "diffs"
MOST_LINES = 60

STRATEGY = """
import numpy as np
import tilewright as tw
from tilewright.core.target import Target
from tilewright.topi.templates import Depthwise, named

layer, target = Depthwise.of((2, 3, 6, 21), kernel=(3, 2), padding=(1, 0, 1, 1)), Target("llvm")
rows = named("topi/depthwise.rows")
kernel = tw.build(*rows.program(rows.default_config(layer, target), layer, target), target)
rng = np.random.default_rng(0)
x, w = rng.random((2, 3, 6, 21), np.float32), rng.random((3, 1, 3, 2), np.float32)
out = tw.nd.array(np.full((2, 3, 6, 21), np.nan, np.float32))
kernel(tw.nd.array(x), tw.nd.array(w), out)
zeros = np.pad(x, ((0, 0), (0, 0), (1, 1), (0, 1)))
taps = [(i, j) for i in range(3) for j in range(2)]
right = sum(zeros[:, :, i : i + 6, j : j + 21] * w[None, :, 0, i, j, None, None] for i, j in taps)
np.testing.assert_allclose(out.numpy(), right, rtol=1e-5)
print(named("topi/depthwise").choose(layer, target)[0].name)
"""

BOARD = """
from tilewright.core.target import Target
from tilewright.topi.templates import Depthwise, named
from tilewright.tune.model.machine import Machine

layer = Depthwise.of((64, 96, 56, 56), kernel=3, padding=1)
target = Target({"kind": "cuda", "arch": "sm_90", "model": "NVIDIA GH200 480GB"})
chosen, configuration = named("topi/depthwise").choose(layer, target)
schedule, arguments = chosen.program(configuration, layer, target)
print(schedule.explain(target, arguments))
new, known = (Machine.of(target, f"NVIDIA {name}").rates.memory_bytes_per_cycle for name in ("GH200 480GB", "H200"))
assert abs(new / known - 4000 / 4800) < 1e-6, "the machine model scales rates by the row"
"""

OPERATOR = """
import numpy as np
import tilewright as tw
from tilewright import te, topi
from tilewright.topi.references import softsign_python

A = te.placeholder((5, 7), "float32", "A")
B = topi.nn.softsign(A)
with tw.target.Target("llvm"):
    kernel = tw.build(topi.generic.schedule_injective(B), [A, B])
a, out = np.random.default_rng(0).standard_normal((5, 7), "float32"), tw.nd.empty((5, 7))
kernel(tw.nd.array(a), out)
np.testing.assert_allclose(out.numpy(), a / (1 + abs(a)), rtol=1e-6)
np.testing.assert_allclose(softsign_python(a), out.numpy(), rtol=1e-6)
print("right")
"""


@pytest.fixture
def patched(tmp_path, request):
    """Return a copy of the package with a diff applied; byte code is copied too, but no file that is being written."""
    shutil.copytree(ROOT / "tilewright", tmp_path / "tilewright", ignore=shutil.ignore_patterns("*.pyc.*"))
    alone = {**os.environ, "GIT_DIR": "/"}  # the folder is not part of a repository around it
    subprocess.run(["git", "apply", DIFFS / request.param], cwd=tmp_path, check=True, env=alone)
    return tmp_path


def run(folder: Path, *arguments: str) -> str:
    """Run Python on a copy of the package, and return its output."""
    environment = {**os.environ, "PYTHONPATH": str(folder), "TILEWRIGHT_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("diff", sorted(DIFFS.glob("*.diff")), ids=lambda path: path.stem)
def test_diffs_are_short(diff: Path) -> None:
    assert len(diff.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("patched", ["adding_a_strategy.diff"], indirect=True)
def test_a_strategy_is_a_row_and_a_schedule(patched: Path) -> None:
    """It computes, the command line knows it, and calls without records do not take it."""
    assert run(patched, "-c", STRATEGY) == "topi/depthwise\n"
    assert "(rows)" in run(patched, "-m", "tilewright", "tune", "depthwise", "--help")


@pytest.mark.parametrize("patched", ["adding_a_board.diff"], indirect=True)
def test_a_board_is_a_row(patched: Path) -> None:
    """Explanations name it, and the machine model has its rates."""
    assert "NVIDIA GH200 480GB" in run(patched, "-c", BOARD)


@pytest.mark.parametrize("patched", ["adding_an_operator.diff"], indirect=True)
def test_an_operator_is_a_declaration_and_a_reference(patched: Path) -> None:
    """Schedules of the library compute it."""
    assert run(patched, "-c", OPERATOR) == "right\n"
