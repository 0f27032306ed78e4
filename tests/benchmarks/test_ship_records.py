"""What becomes of the records that ship when layers are measured again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import ship_records
from benchmarks.ship_records import main, of_sweep, read, ship, ship_epilogues
from benchmarks.timed_rows import workload_of
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.functional.planning import rivals

LAYER = Problem(CONV, (8, 64, 28, 28), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16", "NHWC").description()


def record(strategy: str, seconds: float, channels: int = 64) -> dict[str, Any]:
    task = ["cuda", f"topi/depthwise{strategy}", [[1, channels], 3], {}]
    return {"input": task, "config": {"index": 0}, "result": [[seconds], 0, 0.0, 0.0]}


def measured(found: dict[str, Any], first: float, index: int = 0) -> dict[str, Any]:
    """A line of a run that began with a configuration of `first` seconds: by default, that which ships."""
    ours = found["result"][0][0]
    return {
        "problem": LAYER,
        "device": "NVIDIA H200",
        "ours": ours,
        "theirs": 9.0,
        "record": found,
        "tried": [["topi/depthwise.direct", index, first]],
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


def test_a_run_that_began_with_an_older_record_is_judged_by_what_ships_now(records: Path) -> None:
    before = (records / "h200_convolutions.log").read_text()
    assert ship([measured(record("", 1.2), first=1.5, index=7)]) == "0 records of 1 layers"
    assert (records / "h200_convolutions.log").read_text() == before
    assert read(records / "rivals.jsonl") == []
    assert ship([measured(record("", 0.9), first=0.8, index=7)]) == "1 records of 1 layers"
    assert [row["ours"] for row in read(records / "rivals.jsonl")] == [0.9]


def test_noise_changes_no_record(records: Path) -> None:
    before = (records / "h200_convolutions.log").read_text()
    assert ship([measured(record(".direct", 0.995), first=1.0)]) == "0 records of 1 layers"
    assert (records / "h200_convolutions.log").read_text() == before
    assert [row["ours"] for row in read(records / "rivals.jsonl")] == [0.995]


def test_a_layer_without_a_record_gets_one(records: Path) -> None:
    ship([measured(record(".direct", 1.0, channels=32), first=1.0)])
    assert read(records / "h200_networks.log") == [record(".direct", 1.0, channels=32)]


def test_a_slower_record_with_an_epilogue_gives_way(records: Path) -> None:
    kept, slower = record(".direct", 0.7, channels=32), record(".direct", 0.9)
    (records / "h200_epilogues.log").write_text(f"{json.dumps(kept)}\n{json.dumps(slower)}\n")
    ship([measured(record("", 0.8), first=1.0)])
    assert read(records / "h200_epilogues.log") == [kept]


def test_what_another_gpu_measured_is_left_out(records: Path) -> None:
    before = {path: path.read_text() for path in records.iterdir()}
    line = {**measured(record("", 0.5), first=1.0), "device": "NVIDIA H100 80GB HBM3"}
    assert ship([line]) == "0 records of 0 layers; 1 measured on other GPUs than NVIDIA H200 left out"
    sweep(records / "out", EPILOGUES, swept(7, 8.0), {7: 8.0}, untuned=10.0, fused=10.0, tuned=8.0)
    swept_there = [{**row, "device": "NVIDIA H100 80GB HBM3"} for row in of_sweep(records / "out", EPILOGUES)]
    assert ship_epilogues(swept_there).endswith("1 measured on other GPUs than NVIDIA H200 left out")
    assert {path: path.read_text() for path in before} == before


SWEPT = ("grouped-b16-256x28-g32", "float16/NHWC")
EPILOGUES = "epilogues.log"


def swept(index: int, microseconds: float) -> dict[str, Any]:
    """A record of `SWEPT`."""
    args = json.loads(json.dumps(workload_of(*SWEPT).args))
    found = record("", microseconds * 1e-6)
    return {**found, "input": ["cuda", "topi/conv2d.grouped", args, {}], "config": {"index": index}}


def sweep(folder: Path, log: str, found: dict[str, Any], trials: dict[int, float], **times: float) -> Path:
    """Write what a sweep of `SWEPT` leaves: the log, and the times of all; `trials` of those with an epilogue."""
    folder.mkdir()
    (folder / log).write_text(f"{json.dumps(found)}\n")
    each = [{"template": "topi/conv2d.direct", "index": 2, "fused": False, "us": times["untuned"]}]
    each += [{"template": "topi/conv2d.grouped", "index": n, "fused": True, "us": us} for n, us in trials.items()]
    theirs = {"PyTorch conv2d": 30.0, "PyTorch conv2d, channels last": 16.0}
    row = {"row": SWEPT[0], "mode": SWEPT[1], **theirs, "pytorch": 16.0, **times, "trials": each}
    (folder / "sweep.json").write_text(json.dumps([row]))
    return folder


def test_what_a_sweep_found_is_a_record_and_a_decision(records: Path) -> None:
    found = swept(7, 8.0)
    main([sweep(records / "out", "records.log", found, {}, untuned=10.0, tuned=8.0)])
    assert read(records / "h200_convolutions.log")[-1] == found
    (row,) = read(records / "rivals.jsonl")
    problem = Problem.read(row["problem"])
    assert (problem.shape, problem.filters, problem.groups) == ((16, 256, 28, 28), 256, 32)
    assert (problem.dtype, problem.layout) == ("float16", "NHWC")
    assert (row["ours"], row["theirs"]) == pytest.approx((8e-6, 16e-6))


def test_the_memory_order_of_the_call_is_that_of_pytorch(records: Path) -> None:
    folder = sweep(records / "out", "records.log", swept(7, 8.0), {}, untuned=10.0, tuned=8.0)
    text = (folder / "sweep.json").read_text()
    (folder / "sweep.json").write_text(text.replace("float16/NHWC", "float16"))
    log = (folder / "records.log").read_text()
    (folder / "records.log").write_text(log.replace(', "NHWC"', ""))
    (line,) = of_sweep(folder, "records.log")
    assert line["theirs"] == pytest.approx(30e-6)


def test_a_first_configuration_that_fails_is_slower_than_any(records: Path) -> None:
    folder = sweep(records / "out", "records.log", swept(7, 8.0), {}, untuned=10.0, tuned=8.0)
    (row,) = json.loads((folder / "sweep.json").read_text())
    del row["untuned"]
    (folder / "sweep.json").write_text(json.dumps([row]))
    shipped = {**swept(2, 1.0), "input": ["cuda", "topi/conv2d.direct", *swept(2, 1.0)["input"][2:]]}
    (records / "h200_networks.log").write_text(json.dumps(shipped))
    assert ship(of_sweep(folder, "records.log")) == "1 records of 1 layers"


@pytest.mark.parametrize(
    ("fused", "trials", "kept"),
    [
        (10.0, {1: 10.0, 7: 8.0}, 7),  # no record before
        (8.05, {1: 8.05, 7: 8.0}, None),  # the configuration without an epilogue is as fast
        (10.0, {1: 10.0, 3: 8.5, 7: 8.0}, 7),
        (10.0, {1: 10.0, 3: 8.05, 7: 8.0}, 3),  # that which ships is as fast
        (8.05, {1: 8.05, 3: 8.2, 7: 8.0}, None),  # that which ships is of no use any more
    ],
)
def test_records_with_an_epilogue(records: Path, fused: float, trials: dict[int, float], kept: int | None) -> None:
    other = record(".direct", 1.0)
    before = [other, *([swept(3, 8.2)] if 3 in trials else [])]
    (records / f"h200_{EPILOGUES}").write_text("".join(f"{json.dumps(line)}\n" for line in before))
    main([sweep(records / "out", EPILOGUES, swept(7, 8.0), trials, untuned=9.0, fused=fused, tuned=8.0)])
    left = read(records / "h200_epilogues.log")
    assert left[0] == other
    assert [line["config"]["index"] for line in left[1:]] == ([] if kept is None else [kept])
    assert not (records / "rivals.jsonl").exists()
