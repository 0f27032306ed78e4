"""Comparing two commits: tables are read, pairs compared, worktrees removed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks.compare import Key, Ratio, checked_out, compare, measure, numbers, run, show

TABLE = """\
milliseconds, median
                        total     bounds
conv1d v1                1.26       0.18
conv2d HWCN          1,019.26       5.67

statement              median, ms  best, ms
─────────────────────  ──────────  ────────
import numpy                  159        91
import tilewright              21         –
"""


def test_numbers_are_known_by_table_column_and_row() -> None:
    assert numbers(TABLE) == {
        Key("milliseconds, median", "total", "conv1d v1"): 1.26,
        Key("milliseconds, median", "bounds", "conv1d v1"): 0.18,
        Key("milliseconds, median", "total", "conv2d HWCN"): 1019.26,
        Key("milliseconds, median", "bounds", "conv2d HWCN"): 5.67,
        Key("milliseconds, median", "median, ms", "import numpy"): 159,
        Key("milliseconds, median", "best, ms", "import numpy"): 91,
        Key("milliseconds, median", "median, ms", "import tilewright"): 21,
    }


def test_ratios_are_those_of_pairs() -> None:
    a, b = Key("t", "c", "a"), Key("t", "c", "b")
    pairs = [({a: 1.0, b: 2.0}, {a: 2.0, b: 2.0}), ({a: 4.0, b: 2.0}, {a: 2.0, b: 4.0})]
    assert compare(pairs, by_row=True) == {a: Ratio(1.25, 0.5, 2.0), b: Ratio(1.5, 1.0, 2.0)}
    *_, row, _ = show(compare(pairs, by_row=True), pairs)
    assert row.split() == ["a,", "c", "1.250", "0.500", "2.000", "2.500", "2.000", "noise"]
    (columns,) = compare(pairs).values()
    assert columns == pytest.approx((2**0.5 / 2 + 0.5, 1.0, 2**0.5))
    assert columns.is_noise
    assert not Ratio(1.1, 1.05, 1.2).is_noise


def test_rows_that_only_one_side_has_are_named() -> None:
    old, new = Key("t", "c", "old"), Key("t", "c", "new")
    pairs = [({old: 1.0}, {new: 1.0})]
    assert compare(pairs) == {}
    assert show({}, pairs) == ["", "not in every run: new, old"]


def test_two_commits_are_measured_in_turn(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", str(tmp_path), *name, *arguments], check=True, capture_output=True)

    git("init", "-q")
    log = tmp_path / "order"
    for seconds in (2.0, 3.0):
        program = f"open({str(log)!r}, 'a').write('{seconds} ')\nprint('title')\nprint('program   {seconds}')\n"
        (tmp_path / "timed.py").write_text(program)
        git("add", "timed.py")
        git("commit", "-q", "-m", str(seconds))
    with checked_out("HEAD~1", tmp_path) as base, checked_out("HEAD", tmp_path) as head:
        pairs = measure((base, head), "timed", [], 2)
    assert log.read_text() == "2.0 3.0 3.0 2.0 "
    assert compare(pairs, by_row=True) == {Key("title", "column 1", "program"): Ratio(1.5, 1.5, 1.5)}
    assert not base.exists()
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1


def test_the_same_benchmark_measures_another_package(tmp_path: Path) -> None:
    """`--same` runs the working tree's file; what it imports comes from the commit."""
    (tmp_path / "tilewright").mkdir()
    (tmp_path / "tilewright" / "__init__.py").write_text("print('table\\nown  1')\nraise SystemExit\n")
    assert run(tmp_path, "benchmarks.trials", [], same=True) == {Key("table", "column 1", "own"): 1}


def test_a_folder_stands_for_a_commit(tmp_path: Path) -> None:
    (tmp_path / "tilewright").mkdir()
    with checked_out(str(tmp_path)) as tree:
        assert tree == tmp_path
    assert tree.is_dir()
