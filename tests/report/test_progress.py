"""The line that says what goes on: on a terminal, and elsewhere if a command asks for lines."""

from __future__ import annotations

import io
import sys
import time

import pytest

from tilewright.report import progress as module
from tilewright.report.progress import progress


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told_what_goes_on_and_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")
    shown = sys.stderr
    with progress(3) as (say, step):
        say("layer\n[one]")
        step()
        say("the whole model")
        step()
    text = shown.getvalue()  # type: ignore[attr-defined]
    assert "0/3" in text
    assert "the whole model" in text
    assert text.rstrip().endswith("\x1b[2K"), "the line is erased at the end"


def test_nobody_else_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (io.StringIO(), None):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress(2) as (say, step):
            say("a layer")
            step()
        assert stream is None or stream.getvalue() == ""


@pytest.mark.parametrize("ended", [False, True])
def test_a_file_gets_lines_from_time_to_time_if_the_work_is_long(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setattr(module, "FIRST_SECONDS", 60.0 if ended else 0.01)
    monkeypatch.setattr(module, "MORE_SECONDS", 0.01)
    began = time.monotonic()
    with progress(3, lines=True) as (say, step):
        say("a layer")
        step()
        while not ended and "1 of 3: a layer" not in shown.getvalue():  # the work of a second step, which hangs
            time.sleep(0.01)
    assert time.monotonic() - began < 50, "the end of the work does not wait for the next line"
    lines = {"0 of 3: ", "0 of 3: a layer", "1 of 3: a layer"}
    assert set(shown.getvalue().splitlines()) <= lines
    assert bool(shown.getvalue()) != ended
