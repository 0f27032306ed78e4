"""The examples run as they stand, right results included."""

from __future__ import annotations

import io
import re
import runpy
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.opencl
@pytest.mark.optimised  # they run longer than PoCL optimises
@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("conv1d_ladder", ["blocks", "threads", "registers"]),
        ("depthwise_ladder", ["planes", "tiles", "registers"]),
    ],
)
def test_an_example_runs(name: str, steps: list[str]) -> None:
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\w+) +([\d.]+) µs   max error (\S+)", done.stdout, re.M)
    assert [name for name, _, _ in rows] == steps
    assert all(float(error) < 1e-5 for _, _, error in rows)


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_causal_layer() -> None:
    text = run("causal_conv1d", "256")
    assert float(re.findall(r"float64: (\S+)", text)[0]) < 1e-5
    assert "causal: True" in text


def run_here(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> str:
    """Run an example in this process: others would import PyTorch's compiler, which takes longer than the example."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    with redirect_stdout(io.StringIO()) as text:
        runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    return text.getvalue()


def test_the_models_of_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    text = run_here(monkeypatch, "convnext_block", "2")
    assert float(re.findall(r"differ by (\S+)", text)[0]) < 1e-5
    assert "torch.compile: 1 graph, 0 breaks" in text
    text = run_here(monkeypatch, "accelerate_mobilenet", "1", "16")
    assert "results agree: True" in text
    assert "undone: True" in text


@pytest.mark.opencl
def test_the_steps_to_tensor_cores() -> None:
    """On a GPU, the same test checks and times them there."""
    text = run("matmul_tensor_cores", "--size", "128")
    rows = re.findall(r"^(\w+) +(?:–|[\d.]+) +(?:–|[\d.]+) +(\d+) +\d+ +(\S+)  ", text, re.M)
    assert [name for name, _, _ in rows] == ["naive", "tiles", "tensor_cores", "pipeline", "staged"]
    assert all(float(error) < 1e-5 for _, _, error in rows)


def test_the_page_shows_the_steps_of_the_example() -> None:
    page = (EXAMPLES.parent / "docs" / "tensor_cores.md").read_text(encoding="utf-8")
    source = (EXAMPLES / "matmul_tensor_cores.py").read_text(encoding="utf-8")
    steps = re.findall(r"^def (?!check|main).*?(?=\n\n\n)", source.partition("\nSTEPS")[0] + "\n\n", re.M | re.S)
    assert len(steps) == 8
    assert all(step in page for step in steps)
