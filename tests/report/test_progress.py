"""The line that says what goes on: on a terminal, and nowhere else."""

from __future__ import annotations

import io
import sys

import pytest

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
