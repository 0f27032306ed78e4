"""`tilewright run`: a script behaves as under python, and our errors show the script's lines only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import python_path
from tests.warm import tilewright

Done = subprocess.CompletedProcess[str]


def run(folder: Path, code: str, *arguments: str) -> Done:
    """Run code as `script.py` in a folder, from that folder."""
    (folder / "script.py").write_text(code)
    return tilewright("run", "script.py", *arguments, cwd=folder)


def test_a_script_sees_its_own_arguments_and_name(tmp_path: Path) -> None:
    code = "import sys\nprint(sys.argv, __name__, __file__, sys.modules['__main__'].__dict__ is globals())"
    done = run(tmp_path, code, "-v", "--help", "x y", "--")
    assert done.stdout == "['script.py', '-v', '--help', 'x y', '--'] __main__ script.py True\n", done.stderr


def test_annotations_are_what_the_script_makes_them(tmp_path: Path) -> None:
    assert run(tmp_path, "def f(x: int): ...\nprint(f.__annotations__)").stdout == "{'x': <class 'int'>}\n"


def test_modules_beside_the_script_are_found(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "beside.py").write_text("import tvm\nfound = tvm.__name__\n")
    (inner / "script.py").write_text("import sys, beside\nprint(beside.found, sys.path[0])")
    done = subprocess.run(
        [sys.executable, "-m", "tilewright", "run", "inner/script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == f"tilewright {inner}\n", done.stderr


def test_ours_wins_over_a_real_tvm(tmp_path: Path) -> None:
    (tmp_path / "tvm.py").write_text("raise SystemError('the real one')\n")
    (tmp_path / "script.py").write_text("import tvm\nprint(tvm.__name__)")
    command = [sys.executable, "-m", "tilewright", "run", "script.py"]
    env = {**os.environ, "PYTHONPATH": python_path(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    assert done.stdout == "tilewright\n", done.stderr


@pytest.mark.parametrize(
    ("code", "status", "stderr"),
    [
        ("raise SystemExit", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('a last word')", 1, "a last word\n"),
        ("", 0, ""),
    ],
)
def test_exit_as_under_python(tmp_path: Path, code: str, status: int, stderr: str) -> None:
    done = run(tmp_path, code)
    assert (done.returncode, done.stderr) == (status, stderr)


@pytest.mark.parametrize(
    "code", ["def f():\n    return 1 / 0\nf()", "def f(", "raise KeyError('k') from ValueError('v')"]
)
def test_ordinary_exceptions_as_under_python(tmp_path: Path, code: str) -> None:
    done = run(tmp_path, code)
    plain = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True)
    # python names the script by its full path.
    assert done.stderr == plain.stderr.replace(str(tmp_path) + os.sep, "")
    assert done.returncode == plain.returncode == 1


def test_a_mistake_shows_the_scripts_lines_and_then_the_text(tmp_path: Path) -> None:
    code = """from tvm import te
A = te.placeholder((8,), name="A")
B = te.compute((8,), lambda i: A[i], name="B")
s = te.create_schedule(B.op)


def schedule(stage):
    stage.split(B.op.axis[0], factor=0)


schedule(s[B])
"""
    done = run(tmp_path, code)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert '  File "script.py", line 11, in <module>' in lines
    assert '  File "script.py", line 8, in schedule' in lines
    assert done.stderr.count("File ") == 2
    assert any(line.startswith("UserError: split: ") for line in lines)


@pytest.mark.parametrize("code", ["from tvm import relay", "import tvm\nx = tvm.relay", "import tvm.relay.op"])
def test_a_missing_part_is_named_with_a_fix(tmp_path: Path, code: str) -> None:
    done = run(tmp_path, code)
    assert done.returncode == 1
    assert done.stderr.count("File ") == 1
    said = done.stderr.splitlines()[-3:]
    assert "tvm.relay is not part of Tilewright: it covers " in said[0]
    assert said[1].startswith("  fix: declare the operators one by one")
    assert said[2].startswith("  at:  script.py:")


def test_a_device_that_is_not_there_ends_a_script_with_one_line(tmp_path: Path) -> None:
    code = """import numpy as np
import tvm
print(tvm.metal().exist)
tvm.nd.array(np.zeros(4), tvm.metal(0))
print("not reached")
"""
    done = run(tmp_path, code)
    assert (done.returncode, done.stdout) == (1, "False\n")
    (line,) = done.stderr.splitlines()
    assert line.startswith("script.py:4: Tilewright has no driver for metal; run elsewhere: ")


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    done = tilewright("run", "nothing.py", cwd=tmp_path)
    said = "error: cannot read nothing.py: No such file or directory\n  fix: name a Python script: "
    assert done.returncode == 2
    assert done.stderr.startswith(said)


def test_what_has_no_end_is_no_script(tmp_path: Path) -> None:
    """Nor what has no beginning: a pipe that nobody writes to."""
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("/dev/zero", "/dev/zero is too large for a script"), ("pipe", "a pipe that nobody writes to")):
        done = tilewright("run", name, cwd=tmp_path)
        assert done.returncode == 2
        assert said in done.stderr


def test_a_script_comes_through_a_pipe() -> None:
    command = [sys.executable, "-m", "tilewright", "run", "/dev/stdin"]
    done = subprocess.run(command, input=f"#{'x' * 100_000}\nprint('here')", capture_output=True, text=True)
    assert done.stdout == "here\n", done.stderr
