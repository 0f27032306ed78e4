"""Tables align, units read well, files are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from tilewright.core.errors import UserError
from tilewright.report import units
from tilewright.report.chart import Bar, bar_chart, can_draw
from tilewright.report.environment import environment, versions
from tilewright.report.files import folder, write, write_text
from tilewright.report.table import Column, table, width
from tilewright.runtime.device import cpu

COLUMNS = (Column("name", right=False), Column("time"), Column("×"))


def test_a_table_aligns() -> None:
    assert table(COLUMNS, [["a", "1.00 ms", "1.0×"], ["longer", "12 µs", "–"], [], ["ÅΩ", "3 s", "2×"]]) == [
        "name       time     ×",
        "──────  ───────  ────",
        "a       1.00 ms  1.0×",
        "longer    12 µs     –",
        "──────  ───────  ────",
        "ÅΩ          3 s    2×",
    ]


def test_a_table_without_rows_has_its_heads() -> None:
    assert table(COLUMNS, []) == ["name  time  ×", "────  ────  ─"]


def test_a_table_can_be_stretched() -> None:
    stretched = table(COLUMNS, [["a", "b", "c"]], least=40)
    assert {width(line) for line in stretched} == {40}


def test_wide_characters_take_two_cells() -> None:
    assert width("朴素") == 4
    assert width("e\u0301") == 1
    first, _, second = table(COLUMNS, [["朴素", "1", "2"]])
    assert width(first) == width(second)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "–"), (18.286e-3, "18.29 ms"), (2.15e-6, "2.150 µs"), (0.12983, "129.8 ms"), (3.0, "3.000 s"),
        (4e-7, "400.0 ns"), (1e-6, "1.000 µs"), (99.86e-6, "99.86 µs"),
    ],
)  # fmt: skip
def test_durations(seconds: float | None, text: str) -> None:
    assert units.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.834, "0.83×"), (42.71, "42.7×"), (1474.7, "1,475×"), (1.0, "1.00×")]
)
def test_factors(value: float | None, text: str) -> None:
    assert units.factor(value) == text


@pytest.mark.parametrize(("part", "text"), [(None, "–"), (0.004, "±0.4%"), (0.123, "±12%")])
def test_spreads(part: float | None, text: str) -> None:
    assert units.percent(part) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.0, "0"), (1.57e-6, "1.6e-06")])
def test_errors(value: float | None, text: str) -> None:
    assert units.error(value) == text


def test_an_interrupted_write_leaves_the_old_file_alone(tmp_path: Path) -> None:
    path = write_text(tmp_path / "table.json", "old")

    def interrupted(file: BinaryIO) -> None:
        file.write(b"half of the ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, interrupted)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["table.json"]


def test_files_have_the_usual_permissions(tmp_path: Path) -> None:
    path = write_text(tmp_path / "new", "×")
    plain = tmp_path / "plain"
    plain.write_text("")
    assert os.stat(path).st_mode == os.stat(plain).st_mode
    assert path.read_text(encoding="utf-8") == "×"


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot write to"):
            folder(path)
    with pytest.raises(UserError, match="cannot write"):
        write_text(tmp_path / "nowhere" / "x", "")


@pytest.mark.skipif(not can_draw(), reason="matplotlib is not installed")
def test_a_chart_of_one_bar_and_of_many(tmp_path: Path) -> None:
    for count in (1, 9):
        bars = [Bar(f"v{i}", 10.0**i, "1 ms", ours=i % 2 == 0) for i in range(count)]
        bar_chart("title", "times as fast", bars, tmp_path / f"{count}.png", tmp_path / f"{count}.svg")
        assert (tmp_path / f"{count}.png").read_bytes().startswith(b"\x89PNG")
        assert "v0" in (tmp_path / f"{count}.svg").read_text() or "<svg" in (tmp_path / f"{count}.svg").read_text()


def test_the_environment_names_what_is_installed() -> None:
    found = environment(cpu())
    assert set(found) == {"date", "command", "device", "host", "versions"}
    assert versions(["numpy", "no-such-package"]).keys() == {"numpy"}
