"""The matrix product's example runs as it stands, and each of its steps is what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from llvmlite.binding import get_host_cpu_features

EXAMPLE = Path(__file__).parents[3] / "examples" / "matmul_cpu.py"


def run(*options: str) -> str:
    """What the example prints."""
    done = subprocess.run([sys.executable, str(EXAMPLE), *options], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_step_is_right_and_in_the_table() -> None:
    rows = re.findall(r"^(\w+) +([\d.]+) +([\d.]+) +([\d.]+)  \w", run("--size", "128"), re.M)
    steps = "naive blocking vectorization permutation packing registers parallel".split()
    assert [name for name, *_ in rows] == steps
    assert float(rows[5][3]) > 5, "sums in registers are much faster than three loops"


def test_a_step_shows_its_loops() -> None:
    text = run("--show", "parallel")
    assert "T.parallel(16)" in text
    rows = 8 if get_host_cpu_features().get("avx512f", False) else 2
    assert f'T.allocate([{rows * 32}], "float32", "local")' in text
