"""What becomes of the records that ship when layers are measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ship_records
from benchmarks.ship_records import read, ship
from tilewright.functional import rivals
from tilewright.functional.problem import CONV, Problem

LAYER = Problem(CONV, (8, 64, 28, 28), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16", "NHWC").described()


def record(strategy: str, seconds: float, channels: int = 64) -> dict[str, Any]:
    return {"input": ["cuda", f"topi/depthwise{strategy}", [[1, channels], 3], {}], "result": [[seconds], 0, 0.0, 0.0]}


def measured(found: dict[str, Any], first: float) -> dict[str, Any]:
    """A line of a run that began with a configuration of `first` seconds."""
    ours = found["result"][0][0]
    return {
        "problem": LAYER,
        "device": "a GPU",
        "ours": ours,
        "theirs": 9.0,
        "record": found,
        "tried": [["", 0, first]],
    }


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of two strategies of one layer, and of another layer."""
    monkeypatch.setattr(ship_records, "RECORDS", tmp_path)
    monkeypatch.setattr(rivals, "TABLE", tmp_path / "rivals.jsonl")
    lines = [record(".direct", 1.0), record("", 2.0), record(".direct", 1.0, channels=96)]
    (tmp_path / "h200_convolutions.log").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "h200_networks.log").write_text("")
    return tmp_path


def test_a_faster_record_replaces_that_of_its_strategy(records: Path) -> None:
    found = record("", 0.5)
    assert ship([measured(found, first=1.0)]) == "1 records of 1 layers"
    assert read(records / "h200_networks.log") == [found]
    assert read(records / "h200_convolutions.log") == [record(".direct", 1.0), record(".direct", 1.0, channels=96)]


def test_a_record_replaces_those_that_another_run_measured_as_faster(records: Path) -> None:
    """1.0 s in that run were 1.5 s in this one, in which the other strategy took 1.2 s."""
    ship([measured(record("", 1.2), first=1.5)])
    assert read(records / "h200_networks.log") == [record("", 1.2)]
    assert read(records / "h200_convolutions.log") == [record(".direct", 1.0, channels=96)]


def test_noise_changes_no_record(records: Path) -> None:
    before = (records / "h200_convolutions.log").read_text()
    assert ship([measured(record(".direct", 0.995), first=1.0)]) == "0 records of 1 layers"
    assert (records / "h200_convolutions.log").read_text() == before
    assert [row["ours"] for row in read(records / "rivals.jsonl")] == [0.995]


def test_a_layer_without_a_record_gets_one(records: Path) -> None:
    ship([measured(record(".direct", 1.0, channels=32), first=1.0)])
    assert read(records / "h200_networks.log") == [record(".direct", 1.0, channels=32)]
