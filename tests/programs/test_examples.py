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


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_causal_layer() -> None:
    text = run("causal_conv1d", "256")
    assert float(re.findall(r"float64: (\S+)", text)[0]) < 1e-5
    assert "causal: True" in text


def test_the_models_of_pytorch() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = run("convnext_block")
    assert float(re.findall(r"differ by (\S+)", text)[0]) < 1e-5
    assert "torch.compile: 1 graph, 0 breaks" in text
    text = run("accelerate_mobilenet")
    assert "results agree: True" in text
    assert "undone: True" in text
