"""`tilewright log`: what logs hold, in words and curves."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tune.test_records import pair
from tilewright import autotvm
from tilewright.autotvm.record import encode, load_from_file
from tilewright.cli.app import app
from tilewright.cli.console import fitted
from tilewright.error import UserError
from tilewright.tune.records.curve import curves

LEGACY = Path(__file__).parents[1] / "tune" / "legacy"


def run(*args):
    """The exit status and the output of a command."""
    done = CliRunner().invoke(app, ["log", *map(str, args)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "a.log"
    rows = [
        pair(1, 4e-3, flop=8e6),
        pair(2, error_no=4, reason="it faults", flop=8e6),
        pair(3, 2e-3, flop=8e6),
        pair(4, error_no=1, reason="2,048 threads per block", refused=True, flop=8e6),
        pair(5, 3e-3, flop=8e6),
        pair(3, 2.5e-3, confirmed=True, flop=8e6),
    ]
    path.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_show(log):
    status, text = run("show", log)
    assert status == 0
    assert "tests/add(4096)" in text
    assert "5 measurements: 1 failed, 1 to confirm the best; 1 configuration refused without measuring" in text
    assert text.index("2.500 ms") < text.index("3.000 ms") < text.index("4.000 ms")
    assert "1 × it faults" in text
    assert "3.2" in text  # GFLOPS of the confirmed one


def test_lines_that_are_no_records_are_named(log):
    with log.open("a", encoding="utf-8") as file:
        file.write('{"torn": ')
    status, text = run("show", log)
    assert status == 1
    assert "a.log:7: skipped: this is not a record" in text


def test_best_of_a_legacy_log():
    status, text = run("best", LEGACY / "conv2d_cuda_v0.19.json")
    assert status == 0
    assert "506.9 µs, cuda" in text
    assert "tile_f                [-1, 2, 64, 1]" in text


def test_merge(log, tmp_path):
    out = tmp_path / "all.log"
    status, text = run("merge", log, log, LEGACY / "matmul_llvm_v0.19.json", "-o", out)
    assert (status, text) == (0, f"22 lines in {out}\n")
    stamps = [result.timestamp for _, result in load_from_file(out)]
    assert stamps == sorted(stamps)
    with pytest.raises(UserError, match="exists"):
        run("merge", log, "-o", out)
    with pytest.raises(UserError, match="File name too long"):
        run("merge", log, "-o", tmp_path / ("a" * 300))


def test_curves_leave_out_what_was_no_trial(log):
    (curve,) = curves(load_from_file(log))
    assert curve.costs == (4e-3, None, 2e-3, 3e-3)
    assert curve.best == [4e-3, 4e-3, 2e-3, 2e-3]
    assert curve.flop == 8e6


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_plot(log, tmp_path, suffix):
    pytest.importorskip("matplotlib")
    out = tmp_path / f"curves{suffix}"
    status, text = run("plot", log, LEGACY / "conv2d_cuda_v0.19.json", LEGACY / "matmul_llvm_v0.19.json", "-o", out)
    assert (status, text) == (0, f"3 curves in {out}\n")
    assert out.stat().st_size > 1000
    with pytest.raises(UserError, match="unknown kind of file"):
        run("plot", log, "-o", tmp_path / "curves.gif")


def test_a_missing_log_is_a_mistake(tmp_path):
    with pytest.raises(UserError, match="cannot read"):
        run("show", tmp_path / "none.log")


@pytest.mark.parametrize("command", ["show", "best"])
def test_logs_without_measurements_say_so(command, tmp_path):
    empty, folder = tmp_path / "empty.log", tmp_path / "folder.log"
    empty.touch()
    folder.mkdir()
    assert run(command, empty) == (1, f"{empty} holds no measurements\n")
    with pytest.raises(UserError, match=r"cannot read .*folder\.log: it is a folder"):
        run(command, folder)


def test_reasons_that_differ_in_numbers_are_one(tmp_path):
    path = tmp_path / "a.log"
    step = "bind threadIdx.x at here.py:7"
    rows = [
        pair(i, error_no=1, refused=True, step=step, reason=f"{threads} threads per block (x {threads}), 1,024 allowed")
        for i, threads in enumerate(("2,048", "4,096", "1,536"))
    ]
    rows += [pair(3, error_no=7, reason="still running after 10 s"), pair(4, error_no=5)]
    path.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")
    _, text = run("show", path)
    assert text.rstrip().splitlines()[-4:] == [
        "3 × 2,048 threads per block (x 2,048), 1,024 allowed, and the like",
        "    3 at bind threadIdx.x at here.py:7",
        "1 × still running after 10 s",
        "1 × error number 5",
    ]
    status, text = run("best", path)
    assert status == 0
    assert f"none of 5 configurations could be measured: tilewright log show {path}" in text
    with pytest.raises(UserError, match=r"no trial that succeeded|charts need matplotlib"):
        run("plot", path, "-o", tmp_path / "a.svg")


def test_long_tables_are_cut_and_configurations_are_brief(log):
    _, text = run("show", log, "--rows", 1)
    assert "... and 2 slower: --rows 3 shows them" in text
    assert re.search(r"x=\?×\d+×\d+  unroll=\d", text)


def test_lines_fit_the_terminal(monkeypatch):
    assert fitted("x" * 300) == "x" * 300  # to a file, all of it
    monkeypatch.setattr("sys.stdout", type("Terminal", (), {"isatty": lambda self: True})())
    monkeypatch.setenv("COLUMNS", "20")
    assert fitted("x" * 300) == "x" * 19 + "…"
    assert fitted("short") == "short"


def test_a_packaged_templates_workload_reads_as_its_options(tmp_path):
    task = autotvm.templates.conv2d.task("cuda", shape=(8, 64, 56, 56), filters=128, stride=2)
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(7))
    path = tmp_path / "a.log"
    path.write_text(encode(inp, autotvm.MeasureResult((1e-3,), 0, 1.0, 0.0)) + "\n", encoding="utf-8")
    _, text = run("best", path)
    assert text.startswith("topi/conv2d(shape=8x64x56x56, filters=128, stride=2)\n1.000 ms, cuda\n")


def test_merging_a_log_into_itself_and_a_torn_one(log, tmp_path):
    other = tmp_path / "b.log"
    other.write_text(encode(*pair(9, 1e-3)) + '\n{"torn', encoding="utf-8")
    status, text = run("merge", log, other, "-o", log)
    assert status == 1
    assert text.splitlines()[0] == f"7 lines in {log}"
    assert "b.log:2: skipped: this is not a record" in text
    assert len(list(load_from_file(log))) == 7
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.log", "b.log"]


def test_logs_of_one_name_are_told_apart(log, tmp_path):
    pytest.importorskip("matplotlib")
    other = tmp_path / "elsewhere" / "a.log"
    other.parent.mkdir()
    other.write_bytes(log.read_bytes())
    status, text = run("plot", log, other, "-o", tmp_path / "two.svg")
    assert (status, text) == (0, f"2 curves in {tmp_path / 'two.svg'}\n")
    drawn = (tmp_path / "two.svg").read_text(encoding="utf-8")
    assert f"<!-- {log} -->" in drawn
    assert f"<!-- {other} -->" in drawn


@pytest.mark.parametrize(("term", "styled"), [("xterm", True), ("dumb", False)])
@pytest.mark.parametrize("name", ["a.log", "missing.log"])
def test_a_terminal_that_knows_no_escapes_gets_none(log, name, term, styled):
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "tilewright", "log", "show", str(log.parent / name)]
    subprocess.run(command, stdout=theirs, stderr=theirs, env={**os.environ, "TERM": term}, timeout=900)
    os.close(theirs)
    text = os.read(ours, 1 << 16)
    os.close(ours)
    assert (b"tests/add" in text) == (name == "a.log")
    assert (b"\x1b" in text) == styled, text


def test_what_others_wrote_into_a_log_commands_no_terminal(log):
    hostile = "\\u001b]0;title\\u0007\\u202e [red]{x}\\n0 lines"
    text = log.read_text("utf-8").replace("tests/add", hostile).replace("it faults", hostile)
    log.write_text(text, encoding="utf-8")
    for command in ("show", "best"):
        _, text = run(command, log)
        assert "]0;title" in text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert not re.search("^0 lines", text, re.MULTILINE)


def test_the_best_of_each_target(tmp_path):
    path = tmp_path / "two.log"
    rows = [pair(1, 4e-3, target="opencl"), pair(2, 2e-3, target="llvm"), pair(3, 3e-3, target="llvm")]
    path.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")
    status, text = run("best", path)
    assert status == 0
    assert re.findall(r"(\d\.\d+) ms, (\w+)", text) == [("4.000", "opencl"), ("2.000", "llvm")]
