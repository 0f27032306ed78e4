"""`python -m tilewright.bench`: its layers, its table and line of JSON, its errors. Times are not judged."""

from __future__ import annotations

import importlib.util
import json

import pytest

from tilewright import bench
from tilewright.core.version import __version__
from tilewright.runtime.device import cpu

ROWS = [
    {"layer": "a", "ours_us": 1.0, "torch_us": 4.0, "runs": "Tilewright"},
    {"layer": "bb", "ours_us": 1000.0, "torch_us": 1000.0, "runs": "PyTorch"},
    {"layer": "c", "error": "left out after 1 s"},
]


@pytest.mark.parametrize("kind", bench.LAYERS)
def test_ten_layers_of_either_kind(kind: str) -> None:
    problems = [bench.problem_of(sizes, "float32", "NCHW") for _, *sizes in bench.LAYERS[kind]]
    assert len(set(problems)) == 10
    for problem in problems:
        assert problem.shape[1] % problem.groups == problem.filters % problem.groups == 0
        assert problem.flop < 1e10


def test_without_pytorch_an_error_tells_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert bench.main([]) == 1
    shown = capsys.readouterr()
    assert shown.err == (
        "error: PyTorch, which the layers are compared with, is not installed\n  fix: pip install torch\n"
    )
    assert not shown.out


def test_the_table_and_the_line() -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    lines = bench.lines(cpu(), ROWS, "float32", "NHWC")
    assert [line.split() for line in lines[4:7]] == [
        ["a", "1.00", "4.00", "4.00", "Tilewright"],
        ["bb", "1,000.00", "1,000.00", "1.00", "PyTorch"],
        ["c", "–", "–", "–", "left", "out", "after", "1", "s"],
    ]
    assert "geometric mean: 2.00" in lines
    line = json.loads(bench.json_line(cpu(), ROWS, "float32", "NHWC"))
    assert (line["tilewright"], line["rows"], line["device"]["kind"]) == (__version__, ROWS, "cpu")


def test_a_layer_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    small = ("small", (1, 8, 6, 6), 8, (3, 3), 1, (1, 1, 1, 1), 8)
    monkeypatch.setitem(bench.LAYERS, "cpu", [small])
    kept = torch.backends.cudnn.benchmark
    (row,) = bench.measured(cpu(), "float32", "NHWC", 60)
    assert row["layer"] == "small, 1×8×6×6"
    assert min(row["ours_us"], row["torch_us"]) > 0
    assert row["runs"] in ("Tilewright", "PyTorch")
    assert torch.backends.cudnn.benchmark == kept
    (row,) = bench.measured(cpu(), "float32", "NHWC", -1)
    assert row["error"] == "left out after -1 s"
