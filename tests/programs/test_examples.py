"""The examples run as they stand, right results included."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.opencl
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("conv1d_ladder", ["blocks", "threads", "registers"]),
        ("depthwise_ladder", ["planes", "tiles", "registers"]),
    ],
)
def test_an_example_runs(name: str, steps: list[str]) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\w+) +([\d.]+) µs   max error (\S+)", done.stdout, re.M)
    assert [name for name, _, _ in rows] == steps
    assert all(float(error) < 1e-5 for _, _, error in rows)
