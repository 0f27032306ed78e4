"""The table of what is asked of the one-line call, and how it is judged."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import acceptance, acceptance_parts, convolution_sweep, timed_rows
from benchmarks.acceptance import LINES, MUSTS, known, main, measure, stamp, verdicts
from benchmarks.acceptance_parts import MODES, PARTS, Part
from benchmarks.ship_records import read

BY = {"sources": "abc", "commit": "1", "device": "a GPU"}


def test_every_part_is_asked_something_and_every_requirement_has_units() -> None:
    assert {must.part for must in MUSTS} == set(PARTS)
    for must in MUSTS:
        units = PARTS[must.part].units()
        assert len(set(units)) == len(units)
        if "all threads" not in must.what:  # one processor has none
            assert any(map(must.units, units)), must.what


@pytest.mark.parametrize(
    ("what", "units"),
    [
        ("depthwise, 1-D, float32: mean", 18),
        ("depthwise, 1-D, float16/NHWC: mean", 17),
        ("grouped, bfloat16: least", 2),
    ],
)
def test_requirements_are_of_the_rows_that_they_name(what: str, units: int) -> None:
    (must,) = [must for must in MUSTS if must.what == what and must.part == "rows"]
    assert sum(map(must.units, PARTS["rows"].units())) == units


def test_rows_are_listed_in_every_mode() -> None:
    assert {unit.split()[0] for unit in PARTS["rows"].units()} == set(MODES)


def test_a_requirement_is_open_until_all_is_measured() -> None:
    found: dict[tuple[str, str], Any] = {("startup", "NumPy"): {"ms": 40.0}}
    numpy, cuda = verdicts(found, ["startup"])
    assert numpy[-3:] == ["40", "met (1.25)", "1 of 1"]
    assert cuda[-3:] == ["–", "open", "0 of 1"]
    found = {("host", unit): {"part": 0.9} for unit in PARTS["host"].units()}
    assert verdicts(found, ["host"])[0][-3:] == ["0.9", "missed (0.94)", "4 of 4"]
    found.popitem()
    assert verdicts(found, ["host"])[0][-2:] == ["open (0.94)", "3 of 4"]


def test_failures_are_counted_and_a_wrong_row_meets_nothing() -> None:
    failed = {("tests", unit): {"failed": float(at == 1)} for at, unit in enumerate(PARTS["tests"].units())}
    assert verdicts(failed, ["tests"])[0][-3:-1] == ["1", "missed"]
    wrong = acceptance.json.loads(json.dumps({"untuned": 0.0, "fused": math.inf}))
    found = {("rows", unit): wrong for unit in PARTS["rows"].units()}
    assert not [row for row in verdicts(found, ["rows"]) if row[4].startswith("met")]


def test_lines_of_other_sources_and_devices_do_not_count(tmp_path: Path) -> None:
    lines = [
        {"part": "host", "unit": str(at), "values": {"part": at}, **BY, **other}
        for at, other in enumerate(({}, {"sources": "old"}, {"device": "another"}, {"commit": "2"}))
    ]
    (tmp_path / LINES).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert [unit for _, unit in known(tmp_path, BY)] == ["0", "3"]


def test_units_that_fail_are_measured_again_and_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs: list[str] = []

    def value(unit: str) -> dict[str, float]:
        runs.append(unit)
        return {"value": 1 / runs.count("bad") if unit == "bad" and runs.count("bad") > 1 else 1 / (unit != "bad")}

    part = Part("", lambda: ["good", "bad", "late"], lambda units: ((u, lambda u=u: value(u)) for u in units))
    monkeypatch.setitem(PARTS, "made up", part)
    measure("made up", tmp_path, 60, "")
    assert "bad: ZeroDivisionError" in capsys.readouterr().out
    measure("made up", tmp_path, 60, "")
    assert runs == ["good", "bad", "late", "bad"]
    assert [line["unit"] for line in read(tmp_path / LINES)] == ["good", "late", "bad"]
    measure("made up", tmp_path / "nothing", 0, "")  # no time, no units
    assert len(runs) == 4


def test_a_row_is_compiled_and_its_times_become_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are made as on a GPU; times are made up."""
    compiled: list[Any] = []

    def times(row: Any, programs: list[Any], log: Path) -> dict[str, Any]:
        compiled.extend(programs)
        return {"pytorch": 6.0, "untuned": 3.0, "tuned": 2.0, "fused": 3.3}

    row = SimpleNamespace(data=SimpleNamespace(shape=1), out=SimpleNamespace(shape=2))
    monkeypatch.setattr(timed_rows, "Row", lambda name, mode: row)
    monkeypatch.setattr(convolution_sweep, "measure", times)
    ((unit, run),) = PARTS["rows"].prepare(["float32 dw-256x21-k3"])
    values = run()
    assert unit == "float32 dw-256x21-k3"
    assert [job[4] for job, _ in compiled] == [False, True]
    assert not [program for _, program in compiled if isinstance(program, str)]
    assert (values["untuned"], values["tuned"], values["fused"]) == (2.0, 3.0, pytest.approx(1.1))


def test_the_worst_place_of_an_epilogue_is_known_where_there_is_one() -> None:
    plain = {"pytorch": 6.0, "untuned": 3.0, "tuned": 2.0, "places": {"untuned": [2.0, 4.0], "tuned": [2.0, 2.0]}}
    assert acceptance_parts._ratios(plain)["fused_most"] == float("inf")
    both = {**plain, "fused": 3.3, "places": {"untuned": [2.0, 4.0], "fused": [2.4, 4.2]}}
    assert acceptance_parts._ratios(both)["fused_most"] == pytest.approx(1.2)


def test_a_row_of_which_nothing_compiles_is_a_failure_and_no_time() -> None:
    job = ("dw-256x21-k3", "float32", "topi/depthwise.direct", 0, False)
    with pytest.raises(RuntimeError, match=r"no program of float32 dw-256x21-k3 compiles: .*no such device"):
        acceptance_parts._row("float32 dw-256x21-k3", [(job, "no such device")], Path("records.log"))


def test_tuning_draws_from_every_strategy_with_a_model() -> None:
    jobs = acceptance_parts._jobs("float16 grouped-b1-128x56-g32", 24, False)
    names = [job[2] for job in jobs]
    assert len(set(jobs)) == len(jobs) <= 24
    assert {"topi/conv2d.grouped", "topi/conv2d.grouped_rows"} <= set(names)
    assert min(names.count(f"topi/conv2d.{name}") for name in ("grouped", "grouped_rows")) > 1


def test_a_run_on_this_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In a process of its own; then again, which measures nothing."""
    options = ["records", "--only", "Mamba", "--out", str(tmp_path)]
    main(options)
    out = capfd.readouterr().out
    assert "records  Mamba: layers 18" in out
    assert "layers of networks with a record" in out
    assert "1 of 10" in out
    main([*options, "--here"])
    assert not capfd.readouterr().out
    (line,) = read(tmp_path / LINES)
    assert {**line, **stamp()} == line


def test_calls_on_the_cpu(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    measure("cpu", tmp_path, 60, "one thread: dw-256x21-k3")
    measure("numpy", tmp_path, 60, "")
    cpu, numpy = read(tmp_path / LINES)
    assert cpu["values"]["ratio"] > 0
    assert numpy["values"]["us"] > 0


def test_the_layers_of_the_hosts_part_are_those_of_its_benchmark() -> None:
    pytest.importorskip("torch")
    from benchmarks import one_call, startup

    assert PARTS["host"].units() == list(one_call.HOST_LAYERS)
    assert PARTS["startup"].units() == list(startup.ARRAYS)
    names = {
        f"{name} {dtype} {batch}"
        for name in one_call.MODELS
        for dtype in ("float32", "float16")
        for batch in (1, 32, 128)
    }
    assert set(PARTS["models"].units()) == names


@pytest.mark.parametrize("wrong", [["speed"], ["--seconds", "soon"]], ids=["part", "number"])
def test_wrong_arguments_end_with_a_message(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(wrong)
    assert wrong[-1] in capsys.readouterr().err


def test_parts_and_units_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["rows", "--list", "--only", "convnext"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "rows: rows of benchmarks.convolutions as shipped, 8 units"
    assert lines[1].strip() == "float32 convnext-b1-dw96x56"
