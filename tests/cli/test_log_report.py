"""`tilewright log report`: a page that holds all it shows, whatever is in the log."""

from __future__ import annotations

import html.parser
import json
import os
import shutil
import subprocess

import pytest

from tests.cli.test_log import LEGACY, log, run
from tests.tune.test_records import pair
from tilewright.autotvm.record import encode
from tilewright.cli import winner
from tilewright.core.architectures import NVIDIA
from tilewright.core.boards import BOARDS
from tilewright.core.target import Target
from tilewright.measure.outcome import MeasureResult
from tilewright.topi.templates import Conv1dVector, named
from tilewright.tune.records.format import MeasureInput
from tilewright.tune.records.insight import insights

CONV1D = named("topi/conv1d")

__all__ = ["log"]
EVIL = "</script><img src=x onerror=alert(1)><script>alert(2)</script>\"'&\x00\u202e\ud800"


class Tags(html.parser.HTMLParser):
    """The tags of a page in order, with their attributes, and those that are open at the end."""

    VOID = ("meta", "br", "wbr")

    def __init__(self, text):
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(tmp_path, *logs):
    out = tmp_path / "report.html"
    status, text = run("report", *logs, "-o", out)
    return status, text, out.read_text(encoding="utf-8")


def test_a_page(log, tmp_path):
    status, text, made = page(tmp_path, log)
    assert status == 0
    assert "1 workload of 1 log" in text
    tags = Tags(made)
    assert not tags.open
    kinds = {tag for tag, _ in tags.tags}
    assert {"svg", "caption", "header", "main", "section"} <= kinds
    assert "script" not in kinds
    assert all(name not in ("src", "onerror", "onload") for _, found in tags.tags for name in found)
    assert "it faults" in made
    assert "2.500 ms" in made  # the confirmed time, not the first


def test_several_logs_are_compared(log, tmp_path):
    status, text, made = page(tmp_path, log, LEGACY / "conv2d_cuda_v0.19.json", LEGACY / "matmul_llvm_v0.19.json")
    assert status == 0
    assert "of 3 logs" in text
    assert "Overview" in made
    assert not Tags(made).open


def test_text_of_a_log_never_becomes_markup(tmp_path):
    path = tmp_path / "evil.log"
    rows = [
        pair(1, 4e-3, device=EVIL),
        pair(2, 3e-3, device=EVIL),
        pair(3, error_no=4, reason=EVIL, step=EVIL, device=EVIL),
    ]
    path.write_text("".join(encode(*row) + "\n" for row in rows), encoding="utf-8")
    _, _, made = page(tmp_path, path)
    tags = Tags(made)
    assert not tags.open
    assert not {"img", "script"} & {tag for tag, _ in tags.tags}
    assert not set(made) & {"\x00", "\u202e"}


@pytest.mark.parametrize("text", ["", "no record\n"])
def test_a_log_without_records(tmp_path, text):
    path = tmp_path / "empty.log"
    path.write_text(text)
    status, _, made = page(tmp_path, path)
    assert status == 1
    assert "no measurements" in made


def test_winners_are_compiled_while_there_is_time(tmp_path):
    task = CONV1D.task(Conv1dVector.of(4096, 8), Target("cuda"))
    inp = MeasureInput(task.target, task, task.config_space.get(3))
    path = tmp_path / "one.log"
    path.write_text(encode(inp, MeasureResult((1e-6,), 0, 0.1, 1.0)) + "\n")
    _, _, made = page(tmp_path, path)
    assert "__global__" in made
    assert "Spilled bytes" in made
    assert "not compiled here" not in made
    out = tmp_path / "hasty.html"
    assert run("report", path, "-o", out, "--compile-seconds", "0")[0] == 0
    assert "that takes more than the 0 s for all winners" in out.read_text(encoding="utf-8")


def test_json(log):
    status, text = run("report", log, "--json")
    assert status == 0
    (one,) = json.loads(text)
    assert one["winner"]["seconds"] == 2.5e-3
    assert one["winner"]["config"]["index"] == 3
    assert one["runner_up"]["seconds"] == 3e-3
    assert one["counts"] == {"measured": 3, "runtime error": 1, "refused": 1, "confirmed": 1}
    assert [point["trial"] for point in one["improvements"]] == [1, 3]


def test_the_worth_of_knobs_is_a_share():
    (found,) = insights([pair(i, (1 + i % 2) * 1e-3) for i in range(1, 9)])
    assert all(0 <= knob.worth <= 1 for knob in found.knobs)
    assert found.winner is not None
    assert found.winner[1].costs == (1e-3,)


def test_boards_are_of_known_architectures():
    assert {board.architecture for board in BOARDS.values()} <= set(NVIDIA)
    assert BOARDS["NVIDIA H200"].flops == pytest.approx(66.9e12, rel=1e-3)
    assert BOARDS["NVIDIA H200"].bound(1.0, 4.8e12) == pytest.approx(1.0)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [400, 1600])
def test_a_browser_shows_it_without_an_error(log, tmp_path, width):
    page(tmp_path, log)
    flags = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
        " --disable-component-update --disable-sync --enable-logging=stderr"
    )
    command = ["chromium", *flags.split(), f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900"]
    picture = tmp_path / "page.png"
    done = subprocess.run(
        [*command, f"--screenshot={picture}", (tmp_path / "report.html").as_uri()],
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert "CONSOLE" not in done.stderr, done.stderr
    assert picture.stat().st_size > 1000


def test_a_winner_that_ends_its_compiler_says_so(monkeypatch):
    monkeypatch.setattr(winner, "_steps", lambda found: os._exit(3))
    found = winner.Winners(60.0).compiled(pair()[0])
    assert found.missing == "the process that compiles it ended with status 3"
