"""Which configurations a sweep tries, and programs that another machine compiled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import convolution_sweep
from benchmarks.convolution_rows import WORKLOADS
from benchmarks.convolution_sweep import jobs_of, main
from benchmarks.likely_configurations import TARGET, neighbours
from benchmarks.timed_rows import FAMILIES, workload_of
from tilewright.codegen.abi import CompiledProgram
from tilewright.functional.planning.compiler import recorded_selection

ROWS = [("dw-256x21-k3", "float16"), ("grouped-b1-128x56-g32", "float16/NHWC"), ("conv1d-16384-k32", "float32")]


def shipped(name: str, mode: str) -> Any:
    of = workload_of(name, mode)
    known = recorded_selection([t for t in FAMILIES[WORKLOADS[name][0]].strategies if t.covers(of, TARGET)], of, TARGET)
    assert known is not None
    return known.template, of, known.config


@pytest.mark.parametrize(("name", "mode"), ROWS)
def test_neighbours_differ_in_one_knob_then_in_two(name: str, mode: str) -> None:
    template, of, config = shipped(name, mode)
    space = template.strategy(TARGET).space(of)
    found = list(neighbours(template, of, config, 60, fused=False))
    assert len(set(found)) == len(found) == 60
    assert all(space.is_index_valid(index) for index in found)
    here = space.point(config.index)
    apart = [sum(a != b for a, b in zip(here, space.point(index), strict=True)) for index in found]
    assert apart == sorted(apart)
    assert set(apart) <= {1, 2}


@pytest.mark.parametrize(("name", "mode"), ROWS)
def test_a_sweep_begins_with_what_ships_and_tries_as_many_as_it_may(name: str, mode: str) -> None:
    template, of, config = shipped(name, mode)
    jobs = list(jobs_of(name, mode, 20, False, {}, shipped=True, near=True))
    assert jobs[0] == (name, mode, template.name, config.index, False)
    assert len(set(jobs)) == len(jobs) == 20
    beside = {(name, mode, template.name, index, False) for index in neighbours(template, of, config, 5, fused=False)}
    assert beside <= set(jobs)


def test_seeds_are_tried_and_so_are_their_neighbours() -> None:
    name, mode = "grouped-b1-128x56-g32", "float16/NHWC"
    template, of, config = shipped(name, mode)
    wanted = {each: choice.size[1:] if hasattr(choice, "size") else choice.data for each, choice in config.items()}
    seed = {**wanted, "tile_y": [2, 4]}
    jobs = list(jobs_of(name, mode, 40, False, {f"{name} {mode}": [(template.name, seed)]}, shipped=True, near=True))
    found = template.strategy(TARGET).nearest(of, seed)
    assert found["tile_y"].size[1:] == [2, 4]
    tried = {index for _, _, _, index, _ in jobs}
    assert found.index in tried
    assert set(neighbours(template, of, found, 5, fused=False)) <= tried


def test_with_an_epilogue_only_the_plain_record_has_none() -> None:
    jobs = list(jobs_of("dw-256x32-k3", "bfloat16", 8, False, {}, shipped=True, epilogue=True))
    assert [fused for *_, fused in jobs] == [False] + [True] * 8
    assert jobs[0][:4] == jobs[1][:4]


@pytest.mark.parametrize(("name", "mode"), ROWS)
def test_kernels_without_an_epilogue_are_not_compiled_twice_for_what_a_bias_does(name: str, mode: str) -> None:
    template, of, _ = shipped(name, mode)
    space = template.strategy(TARGET).space(of)
    jobs = jobs_of(name, mode, 60, False, {}, shipped=True, near=True)
    own = [space.get(index) for _, _, which, index, _ in jobs if which == template.name]
    tiles = [tuple((knob, str(choice)) for knob, choice in each.items() if knob != "bias") for each in own]
    assert len(set(tiles)) == len(tiles)


def test_programs_that_were_compiled_elsewhere_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    row = ["dw-3x4x16x32-k7", "--shipped", "--trials", "2", "--compile-only", "--out", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["sweep", *row])
    main()
    had = convolution_sweep.read_programs(tmp_path / "programs")
    assert len(had) == 2
    assert all(isinstance(program, CompiledProgram) for program in had.values())
    monkeypatch.setattr(convolution_sweep, "compiled", lambda job: pytest.fail(f"{job} is compiled again"))
    monkeypatch.setattr("sys.argv", ["sweep", *row, "--programs", str(tmp_path / "programs")])
    main()
    assert capsys.readouterr().out.count("2 programs, 0 failed") == 2
