"""`tilewright log`: what logs hold, in words and curves."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.tune.test_records import pair
from tilewright.autotvm.record import encode, load_from_file
from tilewright.cli.app import app
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
        pair(4, error_no=1, reason="2,048 threads a block", refused=True, flop=8e6),
        pair(5, 3e-3, flop=8e6),
        pair(3, 2.5e-3, confirmed=True, flop=8e6),
    ]
    path.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_show(log):
    status, text = run("show", log)
    assert status == 0
    assert "tests/add(4096)" in text
    assert "5 measured, 1 of them failed; 1 refused" in text
    assert text.index("2.500 ms") < text.index("3.000 ms") < text.index("4.000 ms")
    assert "1 × it faults" in text
    assert "3.2" in text  # GFLOPS of the confirmed one


def test_lines_that_are_no_records_are_named(log):
    with log.open("a", encoding="utf-8") as file:
        file.write('{"torn": ')
    status, text = run("show", log)
    assert status == 1
    assert "a.log:7: skipped: this is no record" in text


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
