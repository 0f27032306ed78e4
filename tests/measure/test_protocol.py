"""The page on measuring lists every message and every state of a device."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from tilewright.measure import protocol
from tilewright.measure.protocol import DeviceState, FromRunner, FromServer, FromTuner, RunRequest

PAGE = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text(encoding="utf-8")


def test_the_page_lists_every_message_by_its_sender() -> None:
    listed = set(re.findall(r"^\| (\w+) +\| (\w+) +\| `(\w+)`", PAGE, re.M))
    sent = {("tuner", "server", kind.__name__) for kind in get_args(FromTuner)}
    sent |= {("server", "tuner", kind.__name__) for kind in get_args(FromServer)}
    sent |= {("runner", "server", kind.__name__) for kind in get_args(FromRunner)}
    assert listed == sent | {("server", "runner", RunRequest.__name__)}


def test_the_diagram_shows_every_state() -> None:
    diagram = PAGE.partition("```mermaid")[2].partition("```")[0]
    assert set(re.findall(r"\b[A-Z]{4,}\b", diagram)) == {state.name for state in DeviceState}


def test_the_diagram_of_the_module_names_every_message() -> None:
    assert protocol.__doc__ is not None
    kinds = [*get_args(FromTuner), *get_args(FromServer), *get_args(FromRunner), RunRequest]
    assert not [kind.__name__ for kind in kinds if kind.__name__ not in protocol.__doc__]
