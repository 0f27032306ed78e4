"""Which kernels are candidates, which of them ship, and what becomes of the records before them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import record_pairs
from benchmarks.convolution_sweep import Job, named
from benchmarks.likely_configurations import TARGET
from benchmarks.record_pairs import candidates, chosen, main, ship
from benchmarks.ship_records import EPILOGUES, SWEEPS, read, write
from benchmarks.timed_rows import workload_of
from tilewright.codegen.abi import CompiledProgram
from tilewright.functional.planning import shipped

ROW, MODE, DIRECT, PLANES = "dw-256x21-k3", "float16", "topi/depthwise.direct", "topi/depthwise.planes"


def line(*trials: tuple[str, int, bool, float | None]) -> dict[str, Any]:
    """A line of a sweep."""
    keys = ("template", "index", "fused", "us")
    made = [{k: v for k, v in zip(keys, trial, strict=True) if v is not None} for trial in trials]
    return {"row": ROW, "mode": MODE, "trials": made}


def record(which: str, index: int, microseconds: float, row: str = ROW) -> dict[str, Any]:
    return record_pairs._record(row, MODE, which, index, microseconds)


def test_the_fastest_of_both_sweeps_and_what_ships_are_candidates_with_each_form_of_the_bias() -> None:
    plain = line((PLANES, 24, False, 3.0), (PLANES, 17, False, 2.0), (PLANES, 25, False, 1.0), (PLANES, 9, False, None))
    fused = line((PLANES, 56, False, 0.1), (PLANES, 305, True, 2.0), (DIRECT, 3, True, 1.0))
    records = {Path("a"): [record(PLANES, 24, 1.0), record(DIRECT, 0, 1.0, row="dw-256x32-k3")]}
    found = candidates(plain, fused, records)
    assert [index for which, index in found if which == PLANES] == [305, 881, 25, 601, 17, 593, 24, 600]
    of = workload_of(ROW, MODE)
    spaces = {which: named(which).strategy(TARGET).space(of) for which in (DIRECT, PLANES)}
    assert [str(spaces[which].get(index)["bias"]) for which, index in found[:5]] == [
        "first",
        "last",
        "held",
        "first",
        "held",
    ]
    assert len(candidates(plain, None, {})) == 4


def job(index: int, fused: bool) -> Job:
    return ROW, MODE, PLANES, index, fused


def test_the_fastest_of_each_kind_ships() -> None:
    us = {job(1, False): 2.0, job(2, False): 2.03, job(1, True): 2.2, job(2, True): 2.07}
    assert chosen(ROW, MODE, us) == {
        "row": ROW,
        "mode": MODE,
        "plain": [PLANES, 1, 2.0],
        "fused": [PLANES, 2, 2.07],
        "fastest": 2.0,
    }


def test_a_bound_takes_a_plain_kernel_that_is_little_slower_and_only_where_that_helps() -> None:
    us = {job(1, False): 2.0, job(2, False): 2.03, job(3, False): 2.04, job(2, True): 2.07}
    assert chosen(ROW, MODE, us, bound=1.03)["plain"] == [PLANES, 2, 2.03]
    assert chosen(ROW, MODE, us, bound=1.04)["plain"] == [PLANES, 1, 2.0]
    assert chosen(ROW, MODE, us, bound=1.001)["plain"] == [PLANES, 1, 2.0]  # 3.5% would be lost


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Records of two strategies of a layer, one with an epilogue, and of another layer."""
    monkeypatch.setattr(shipped, "RECORDS", tmp_path / "records")
    other = record(DIRECT, 0, 5.0, row="dw-256x32-k3")
    write(shipped.RECORDS / SWEEPS, [record(DIRECT, 0, 1.0), record(PLANES, 17, 1.5), other])
    write(shipped.RECORDS / EPILOGUES, [record(PLANES, 56, 1.6), other])
    return shipped.RECORDS


def kept(path: Path) -> list[tuple[str, int]]:
    return [(each["input"][1], each["config"]["index"]) for each in read(path)]


def pair(plain: int, fused: int) -> dict[str, Any]:
    sides = {"plain": [PLANES, plain, 1.2], "fused": [PLANES, fused, 1.3]}
    return {"row": ROW, "mode": MODE, **sides, "fastest": 1.2}


def test_a_pair_replaces_the_records_of_its_layer(records: Path) -> None:
    """That of another strategy is said to be faster, by another run, and would keep calls from the pair."""
    assert ship([pair(24, 25)]) == "1 pairs, 1 with two configurations"
    assert kept(records / SWEEPS) == [(DIRECT, 0), (PLANES, 24)]
    assert kept(records / EPILOGUES) == [(DIRECT, 0), (PLANES, 25)]
    assert [each["input"][2] for each in read(records / SWEEPS)][1] == json.loads(
        json.dumps(workload_of(ROW, MODE).args)
    )


def test_one_configuration_needs_one_record(records: Path) -> None:
    assert ship([pair(25, 25)]) == "1 pairs, 0 with two configurations"
    assert kept(records / EPILOGUES) == [(DIRECT, 0)]


def test_programs_are_compiled_both_ways(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made: list[Job] = []

    def times(name: str, mode: str, programs: list[tuple[Job, CompiledProgram]]) -> dict[Job, float]:
        made.extend(job for job, _ in programs)
        raise KeyboardInterrupt

    write(records / SWEEPS, [])
    write(records / EPILOGUES, [])
    for folder, lines in (("plain", line((PLANES, 24, False, 1.0))), ("fused", line((PLANES, 25, True, 1.0)))):
        write(tmp_path / folder / "sweep.json", [[lines]])
    folders = ["pairs", str(tmp_path / "plain"), str(tmp_path / "fused"), "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", [*folders, "--compile-only"])
    main()
    assert "8 programs of 1 rows" in capsys.readouterr().out
    monkeypatch.setattr(record_pairs, "compiled", lambda job: pytest.fail(f"{job} is compiled again"))
    monkeypatch.setattr(record_pairs, "timed", times)
    monkeypatch.setattr("sys.argv", [*folders, "--programs", str(tmp_path / "programs")])
    with pytest.raises(KeyboardInterrupt):
        main()
    assert made == [job(index, fused) for index in (25, 601, 24, 600) for fused in (False, True)]
    assert kept(records / SWEEPS) == []
