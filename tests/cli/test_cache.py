"""`tilewright cache`: what is kept, listed, moved and removed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.warm import tilewright
from tilewright.cli.app import main


def run(*arguments: str, folder: Path) -> str:
    done = tilewright("cache", *arguments, env={**os.environ, "TILEWRIGHT_CACHE": str(folder), "COLUMNS": "200"})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(here))
    x, w = np.ones((1, 2, 7, 11), np.float32), np.ones((2, 1, 3, 3), np.float32)
    tw.conv2d(x, w, groups=2)
    shown = run("show", folder=here)
    assert ": 1 entry, " in shown
    assert "conv  1x2x7x11  weights 2x1x3x3  groups 2  float32  NCHW" in shown
    assert "1 entry written" in run("export", str(tmp_path / "all.tgz"), folder=here)
    assert "1 entry taken in" in run("import", "--yes", str(tmp_path / "all.tgz"), folder=there)
    assert ": 1 entry, " in run("show", folder=there)
    assert "1 entry removed" in run("clear", folder=here)
    assert ": 0 entries, " in run("show", folder=here)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["cache", "show"]])
def test_output_that_cannot_be_written(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tilewright", *words])
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit, match="1"):
            main()
    shown = capsys.readouterr().err
    assert shown.startswith("error: cannot write the output: No space left on device\n  fix: ")
