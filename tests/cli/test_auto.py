"""`tilewright auto`: the schedule of a program in a file, ranked or measured."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import tilewright as tw
from tilewright.cli.automatic import AutoOptions, automatic
from tilewright.core.errors import UserError

PROGRAM = """
from tilewright import te

def scaled(n=64):
    a = te.placeholder((n, n), name="a")
    return [a, te.compute((n, n), lambda i, j: a[i, j] * 2.0, name="b")]

def sized(n, m, *more):
    return scaled(n)

text = "no tensors"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a program."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def test_a_ranked_schedule_is_printed(file: Path) -> None:
    command = [sys.executable, "-m", "tilewright", "auto", f"{file}:scaled", "--target", "cuda"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "nothing is measured" in done.stdout
    program = done.stdout[done.stdout.index("from tilewright import te") :]
    compile(program, "program", "exec")


def test_candidates_are_measured(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = file.with_name("auto.log")
    assert automatic(AutoOptions(f"{file}:scaled", "llvm", 2, None, log)) == 0
    shown = capsys.readouterr().out
    assert "ranked  " in shown
    assert "(tuned)" in shown
    assert len(log.read_text().splitlines()) >= 2

    assert automatic(AutoOptions(f"{file}:scaled", "llvm", 0, None, log)) == 0
    known = tw.auto_schedule(runpy.run_path(str(file))["scaled"](), "llvm", log=log).as_python()
    assert "(tuned)" in known
    assert known.strip() in capsys.readouterr().out
    assert known.strip() in shown


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("other", "has no other"),
        ("text", "is not a list of tensors"),
        ("", "names no program"),
        ("sized", "needs the arguments n, m"),
    ],
)
def test_errors(file: Path, name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        automatic(AutoOptions(f"{file}:{name}", "llvm", 0, None, None))
    with pytest.raises(UserError, match=r"there is no file .*nowhere\.py"):
        automatic(AutoOptions("/nowhere.py:scaled", "llvm", 0, None, None))


@pytest.mark.parametrize("text", ["1 / 0\n", "def scaled():\n    return 1 / 0\n", "x = \0\n"])
def test_an_exception_of_the_program_shows_its_own_lines_only(
    text: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(text)
    with pytest.raises(SystemExit, match="1"):
        automatic(AutoOptions(f"{file}:scaled", "llvm", 0, None, None))
    shown = capsys.readouterr().err
    assert "Error: " in shown
    assert "tilewright" not in shown.replace(str(file), "")
