"""Measured schedules: the knobs of all kernels, a log to resume from, and the ways of a product."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.auto.programs import (
    PROGRAMS,
    argmax,
    box_blur,
    column_sums,
    group_norm,
    layer_norm,
    matrix_product,
    row_sums,
    softmax,
    total,
    two_outputs,
)
from tests.auto.test_auto_schedule import check
from tilewright import te
from tilewright.auto import search
from tilewright.auto.program import AutomaticProgram, AutomaticTemplate, unfit
from tilewright.auto.ways import Way
from tilewright.cli.log import merge_logs
from tilewright.core.target import Target
from tilewright.fleet.option import RPCRunner
from tilewright.measure import reference
from tilewright.measure.option import LocalBuilder
from tilewright.tensor.tensor import PlaceholderOp
from tilewright.tune.records.log import load_from_file
from tilewright.tune.search import guided


def test_a_search_measures_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The reference is a sample, as of a program whose reference would take minutes."""
    monkeypatch.setattr(reference, "_MOST_STEPS", 1e5)
    program, log = box_blur(64, 64), tmp_path / "auto.log"
    with caplog.at_level("INFO", "autotvm"):
        first = tw.auto_schedule(program[0], "llvm", trials=2, log=log)
    assert re.search(r"checked by a sample: .* elements of each result were compared", caplog.text)
    lines = log.read_text().splitlines()
    assert len(lines) >= 2
    check(program, first, "llvm")
    tw.auto_schedule(program[0], "llvm", trials=2, log=log)
    assert len(log.read_text().splitlines()) == len(lines)
    best = tw.auto_schedule(program[0], "llvm", log=log)
    assert [s.to_json() for s in best.steps] == [s.to_json() for s in first.steps]
    assert "(tuned)" in best.as_python()
    other = tw.auto_schedule(softmax()[0], "llvm", log=log)
    assert "(ranked, not tuned)" in other.as_python()
    assert "(ranked, not tuned)" in str(other.explain("llvm"))


def test_records_of_several_logs_serve_their_programs(tmp_path: Path) -> None:
    programs, merged = [box_blur(64, 64), box_blur(64, 96)], tmp_path / "merged.log"
    for number, (args, _) in enumerate(programs):
        tw.auto_schedule(args, "llvm", trials=1, log=tmp_path / f"{number}.log")
    merge_logs(merged, [tmp_path / f"{number}.log" for number in (0, 1)])
    for args, _ in programs:
        assert "(tuned)" in tw.auto_schedule(args, "llvm", log=merged).as_python()


def test_records_of_the_package_are_found_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By structure and sizes. Another device's record is none for this one."""
    log, program = tmp_path / "of_a_machine.log", row_sums(64, 256)
    tw.auto_schedule(program[0], "llvm", trials=1, log=log)
    record = json.loads(log.read_text().splitlines()[0])
    record["config"]["entity"] = [[name, kind, 2] for name, kind, _ in record["config"]["entity"]]
    log.write_text(json.dumps(record) + "\n")
    monkeypatch.setattr(search, "shipped", lambda: list(load_from_file(log)))
    found = tw.auto_schedule(program[0], "llvm")
    assert "(tuned)" in str(found.explain("llvm"))
    assert "factor=2)" in found.as_python()
    check(program, found, "llvm")
    check(program, program[0], "llvm")  # bare tensors
    assert "(ranked, not tuned)" in str(tw.auto_schedule(row_sums(64, 255)[0], "llvm").explain("llvm"))
    log.write_text(json.dumps(record | {"device": "another processor"}) + "\n")
    assert "(ranked, not tuned)" in tw.auto_schedule(program[0], "llvm").as_python()


@pytest.mark.parametrize("declare", [row_sums, column_sums])
def test_plain_reductions_have_candidates(declare: Any) -> None:
    program = declare(24, 256)
    automatic = AutomaticProgram([program[0][-1].op], Target("llvm"))
    ((way,),) = automatic.ways
    assert len(way.space) > 3
    for index in range(0, len(way.space), 5):
        check(program, automatic.schedule([way], way.space.get(index)), "llvm")


@pytest.mark.parametrize("target", ["cuda -arch=sm_75", "cuda -arch=sm_90", "opencl"])
def test_candidates_fit_a_block(target: str) -> None:
    """Threads and shared memory: the candidate with the largest choices, for each set of choices left to extents."""
    for declare in (row_sums, column_sums, argmax, partial(softmax, 64, 16384), group_norm, box_blur):
        args, _ = declare()
        program = AutomaticProgram([args[-1].op], Target(target))
        for at, ways in enumerate(program.ways):
            for way in (way for way in ways if way.space.knobs and way.model is None):
                chosen = [each[0] for each in program.ways]
                chosen[at] = way
                for index in _largest(way):
                    s = program.begun(chosen)
                    for each in chosen:
                        each.apply(s, way.space.get(index) if each is way else each.chosen)
                    assert not unfit(s, program.target)


def _largest(way: Way) -> list[int]:
    """Return the candidate with the largest product of choices, for each set of knobs that are 0."""
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for index in way.space:
        values = {k: c.val for k, c in way.space.get(index).items() if isinstance(c.val, int)}
        size = prod(value or 1 for value in values.values())
        zeros = tuple(name for name, value in values.items() if not value)
        found[zeros] = max(found.get(zeros, (0, 0)), (size, index))
    return [index for _, index in found.values()]


@pytest.mark.parametrize("declare", [group_norm, total])
def test_models_of_searches_cover_results_without_dimensions_and_divided_axes(declare: Any) -> None:
    assert len(set(candidates(declare()[0], "cuda -arch=sm_90")[1])) > 1


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
def test_operations_of_every_program_are_counted(target: str) -> None:
    """Also of reductions of several values, and of scans: a search divides its trials by them."""
    for declare in PROGRAMS:
        args = declare()[0]
        program = AutomaticProgram([t.op for t in args if not isinstance(t.op, PlaceholderOp)], Target(target))
        assert AutomaticTemplate(program, program.alternatives()[0], args).task().flop > 0
    product = AutomaticProgram([matrix_product(16, 24, 32)[0][-1].op], Target(target))
    assert product.flop == 16 * 24 * (2 * 32 + 1)


SAME = """
from tests.auto.programs import PROGRAMS
from tests.auto.test_search import candidates
print([candidates(declare()[0], target) for declare in PROGRAMS for target in ("llvm", "cuda -arch=sm_90")])
"""


def candidates(args: list[te.Tensor], target: str) -> list[Any]:
    """The schedule of the rules, and the first configurations that a search tries."""
    outputs = [t.op for t in args if not isinstance(t.op, PlaceholderOp)]
    program = AutomaticProgram(outputs, Target(target))
    task = AutomaticTemplate(program, program.alternatives()[0], args).task()
    return [program.by_rules().as_python(), guided.automatic(task, 0).propose(8) if task.config_space.knobs else []]


@pytest.mark.slow
def test_processes_with_other_hashes_make_the_same_schedules() -> None:
    found = [
        subprocess.run([sys.executable, "-c", SAME], capture_output=True, check=True, text=True,
                       env={**os.environ, "PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert found[0] == found[1]
    assert "vectorize" in found[0]


def test_a_search_begins_with_records_of_other_sizes(tmp_path: Path) -> None:
    """The only record of the neighbour is not the choice of the rules."""
    log, neighbour, program = tmp_path / "auto.log", box_blur(64, 64), box_blur(64, 96)
    tw.auto_schedule(neighbour[0], "llvm", trials=1, log=log)
    record = json.loads(log.read_text().splitlines()[0])
    default = record["config"]["entity"]
    record["config"]["entity"] = other = [[name, kind, 8] for name, kind, _ in default]
    log.write_text(json.dumps(record) + "\n")
    tw.auto_schedule(program[0], "llvm", trials=2, log=log)
    measured = [json.loads(line)["config"]["entity"] for line in log.read_text().splitlines()[1:]]
    assert default != other
    assert other in measured


@pytest.mark.slow
def test_a_fleet_measures(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    from tests.fleet.cluster import cluster

    program, log = box_blur(64, 64), tmp_path / "auto.log"
    with cluster(tmp_path, 1) as made:
        host, _, port = made.scheduler_address.removeprefix("tcp://").rpartition(":")
        runner = RPCRunner("", host, int(port), number=1, repeat=2, cooldown_interval=0)
        check(program, tw.auto_schedule(program[0], "llvm", trials=2, log=log, runner=runner), "llvm")
    assert "(tuned)" in tw.auto_schedule(program[0], "llvm", log=log).as_python()


def test_kernels_have_knobs_of_their_own() -> None:
    args, _ = two_outputs(64, 64)
    program = AutomaticProgram([t.op for t in args[1:]], Target("cuda"))
    template = AutomaticTemplate(program, program.alternatives()[0], args)
    task = template.task()
    default = task.config_space.get(task.default)
    assert [s.to_json() for s in task.instantiate(default)[0].steps] == [s.to_json() for s in program.by_rules().steps]


def test_a_product_has_several_ways() -> None:
    args, _ = matrix_product(64, 64, 64)
    program = AutomaticProgram([args[-1].op], Target("cuda -arch=sm_90"))
    (ways,) = program.ways
    assert {way.name for way in ways} == {"ordinary arithmetic", "matrix instructions"}
    found = AutomaticTemplate(program, [ways[0]], args).task().declared.expected
    assert found is not None
    assert ways[0].default in found.rank(8)


def test_models_of_kernels_add_up() -> None:
    """Of two products, the second of which reads the first."""
    a, b, c = (te.placeholder((64, 64), "float16", name) for name in "abc")
    first = tw.topi.matmul(a, b)
    args = [a, b, c, tw.topi.matmul(first, c)]
    program = AutomaticProgram([args[-1].op], Target("cuda -arch=sm_90"))
    ways = program.alternatives()[0]
    task = AutomaticTemplate(program, ways, args).task()
    expected, default = task.declared.expected, task.declared.default
    assert expected is not None
    assert default is not None
    each = [way.model(way.chosen).cycles for way in ways if way.model is not None]
    assert len(each) == 2
    assert expected.of(default()).cycles == pytest.approx(sum(each))
    ranked = expected.rank(16)
    assert len(set(ranked)) == len(ranked) > 1
    cycles = [expected.of(task.config_space.get(index)).cycles for index in ranked]
    assert cycles[0] == min(cycles)


def test_structures_identify_programs() -> None:
    def identity(args: list[tw.te.Tensor]) -> tuple[str, ...]:
        program = AutomaticProgram([args[-1].op], Target("cuda"))
        return AutomaticTemplate(program, program.alternatives()[0], args).task().args

    assert identity(softmax()[0]) == identity(softmax()[0])
    assert identity(softmax()[0]) != identity(softmax(38)[0])


def test_a_structure_has_any_sizes() -> None:
    def name(args: list[tw.te.Tensor]) -> str:
        program = AutomaticProgram([args[-1].op], Target("llvm"))
        return AutomaticTemplate(program, program.alternatives()[0], args).name

    assert name(softmax()[0]) == name(softmax(38)[0])
    assert name(softmax()[0]).partition(".")[0] == name(layer_norm()[0]).partition(".")[0]
    assert name(softmax()[0]) != name(layer_norm()[0])


def test_candidates_that_build_for_too_long_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "LocalBuilder", partial(LocalBuilder, timeout=1e-3))
    program = row_sums(8, 64)
    found = tw.auto_schedule(program[0], "llvm", trials=1)
    assert "(ranked, not tuned)" in found.as_python()
    check(program, found, "llvm")


@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_90"])
def test_the_schedule_without_trials_is_the_first_candidate(target: str) -> None:
    """So a search measures it first, and again beside its best."""
    for declare in (softmax, two_outputs, total, row_sums, lambda: matrix_product(64, 64, 64)):
        args = declare()[0]
        program = AutomaticProgram([t.op for t in args if not isinstance(t.op, PlaceholderOp)], Target(target))
        first, *_ = search._templates(program, args)
        task = first.task()
        assert task.default is not None
        begun = task.instantiate(task.config_space.get(task.default))[0]
        without = tw.auto_schedule(args, target)
        assert [s.to_json() for s in begun.steps] == [s.to_json() for s in without.steps]


def test_programs_that_no_rule_fits_have_a_first_candidate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tilewright.auto.program.unfit", lambda s, target: "made up")
    made, log = box_blur(64, 64), tmp_path / "auto.log"
    without = tw.auto_schedule(made[0], "llvm")
    assert "no rule fits" in without.as_python()
    check(made, tw.auto_schedule(made[0], "llvm", trials=3, log=log), "llvm")
    names = [json.loads(line)["input"][1].partition(".")[0] for line in log.read_text().splitlines()]
    assert names.count("auto/separate_stages") > 1, "a trial, and again beside the best"


def test_errors(tmp_path: Path) -> None:
    args, _ = softmax()
    for trials in (0, 1):
        with pytest.raises(tw.UserError, match=r"which is a folder|cannot write to"):
            tw.auto_schedule(args, "llvm", trials=trials, log=tmp_path)
    with pytest.raises(tw.UserError, match="trials=-1 is not a whole number"):
        tw.auto_schedule(args, "llvm", trials=-1)
    with pytest.raises(tw.UserError, match="budget=-2 is not a duration"):
        tw.auto_schedule(box_blur()[0], "llvm", trials=1, budget=-2)


@pytest.mark.cuda
def test_a_product_of_rows_takes_a_transposed_copy() -> None:
    """For warpgroups, which multiply factors with neighbouring terms."""
    left, right = te.placeholder((64, 72), "float16", name="left"), te.placeholder((72, 80), "float16", name="right")
    k = te.reduce_axis((0, 72), name="k")

    def value(i: Any, j: Any) -> Any:
        return te.sum(left[i, k].astype("float32") * right[k, j].astype("float32"), axis=k)

    sums = te.compute((64, 80), value, name="sums")
    target = Target("cuda -arch=sm_90")
    program = AutomaticProgram([sums.op], target)
    way = next(way for way in program.ways[0] if way.name.endswith("of a copy"))
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(shape).astype("float16") for shape in ((64, 72), (72, 80))]
    arrays = [tw.nd.array(x, tw.cuda()) for x in (*given, np.full((64, 80), np.nan, "float32"))]
    tw.build(program.schedule([way]), [left, right, sums], target)(*arrays)
    expected = given[0].astype("float64") @ given[1].astype("float64")
    np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-3)
