"""`tilewright tune many`: the file, the session, and what makes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_tune import tune
from tilewright.autotvm.record import load_from_file
from tilewright.cli.many import read
from tilewright.core.errors import UserError
from tilewright.core.target import Target

LAYERS = """
# two layers
conv1d --shape 256 --kernel 5 --times 3
depthwise --shape 1x4x8x8   # kernel 3
"""


def test_a_file_of_workloads(tmp_path: Path) -> None:
    file = tmp_path / "layers.txt"
    file.write_text(LAYERS)
    line, depthwise = read(file)
    assert (line.workload.title, line.times) == (
        "conv1d  shape 256  kernel 5  stride 1  padding 4  dtype float32", 3.0,
    )  # fmt: skip
    assert depthwise.workload.shape == (1, 4, 8, 8)
    log = tmp_path / "many.log"
    quick = ["--number", "1", "--repeat", "1", "--min-repeat-ms", "0", "--seed", "0"]
    status, said = tune("many", file, "--target", "llvm", "-n", 10, "--log", log, *quick)
    assert status == 0
    assert "2 workloads of" in said
    assert "workload 2" in said
    workloads = [inp.task.name for inp, _ in load_from_file(log) if not inp.notes.confirmed]
    assert len(workloads) == 10
    assert set(workloads) == {"topi/conv1d", "topi/depthwise"}


def test_a_line_is_searched_by_all_strategies_or_those_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "layers.txt"
    file.write_text("conv2d --shape 1x16x5x5\nconv2d --shape 1x16x5x5 --strategy general")
    names = [[task.name for task in line.tasks(Target("llvm"))] for line in read(file)]
    assert names == [["topi/conv2d.direct", "topi/conv2d"], ["topi/conv2d"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"layers\.txt holds no workload"),
        ("conv1d --shape 256\nconv9d", r"layers\.txt:2: 'conv9d' is not an operator"),
        ("conv1d --size 3", r"layers\.txt:1: '--size' is not an option of conv1d with a value"),
        ("conv1d --shape", r"layers\.txt:1: '--shape' is not an option of conv1d with a value"),
        ("conv1d --kernel 3", r"layers\.txt:1: --shape is missing"),
        ("conv1d --shape 9 --times 0", r"layers\.txt:1: --times '0' is not a positive number"),
        ("conv1d --shape 9 --times ²", r"layers\.txt:1: --times '²' is not a positive number"),
        ("conv1d '", r"layers\.txt:1: No closing quotation"),
        ("conv2d --shape 1x4x5x5 --strategy gem", r"layers\.txt:1: --strategy: 'gem' is not a strategy of conv2d"),
    ],
)
def test_what_is_no_workload_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "layers.txt"
    file.write_text(text)
    with pytest.raises(UserError, match=said):
        read(file)


def test_a_file_that_is_not_there_and_a_session_without_end(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot read .*missing"):
        read(tmp_path / "missing")
    with pytest.raises(UserError, match=r"neither --budget nor --trials is given"):
        tune("many", tmp_path / "missing", "--log", tmp_path / "x.log")
