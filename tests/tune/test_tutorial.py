"""The tutorial's document: its space, its configurations, its operation count, its programs, what its system lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.tune import tutorial
from tilewright import autotvm, lower
from tilewright.target import Target
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.session.show import trial_line
from tilewright.tune.session.trials import Measured, Trial, flops_of

LEGACY = Path(__file__).parent / "legacy"


@pytest.fixture(scope="module")
def task():
    return autotvm.task.create("tutorial/conv2d_no_batching", args=tutorial.LAYER, target="cuda")


def test_the_space_prints_as_in_the_document(task):
    assert str(task.config_space) == tutorial.SPACE
    assert len(task.config_space) == 10_454_400


def test_every_index_is_the_configuration_that_the_document_prints(task):
    assert [str(task.config_space.get(index)) for index, _, _ in tutorial.TRIALS] == [c for _, c, _ in tutorial.TRIALS]


def test_operations_include_those_of_the_padding(task):
    assert task.flop == tutorial.FLOP == 2 * 512 * 49 * 512 * 9 + 7 * 512 * 81
    assert f"{task.flop / tutorial.TRIALS[0][2] / 1e9:.2f}" == "456.68"


def test_a_trial_prints_as_in_the_document(task):
    index, config, seconds = tutorial.TRIALS[0]
    result = autotvm.MeasureResult((seconds,), 0, 1.483231544494629, 1606247193.9099)
    inp = autotvm.MeasureInput(task.target, task, task.config_space.get(index))
    flops = flops_of(task.flop, result)
    assert trial_line(Trial(1, inp, result, Measured(costs=(seconds,)), flops), flops, "G") == (
        "No: 1\tGFLOPS: 456.68/456.68\tresult: MeasureResult(costs=(0.0005069250867924528,), error_no=0, "
        f"all_cost=1.483231544494629, timestamp=1606247193.9099)\t{config}"
    )


def test_the_twelve_trials_that_were_lost_are_refused_without_compiling(task):
    """The document's device had 48 KiB of shared memory a block, as OpenCL devices have."""
    target = Target("opencl")
    for index, _, seconds in tutorial.TRIALS:
        refusal = inspect_candidate(task.with_target(target), task.config_space.get(index), target).refusal
        assert (refusal is None) == (seconds > 0), (index, refusal)


def test_workload_and_target(task):
    assert task.workload == ("tutorial/conv2d_no_batching", *tutorial.LAYER)
    assert str(task.target) == "cuda"
    assert task.name == "tutorial/conv2d_no_batching"
    assert task.args == tutorial.LAYER


@pytest.mark.parametrize("index", [4881186, 1263092])
def test_lowered_programs_have_the_structure_that_the_legacy_compiler_gave_them(task, index):
    schedule, args = task.instantiate(task.config_space.get(index))
    ours = lower(schedule, args, simple_mode=True).script()
    theirs = (LEGACY / f"conv2d_nchw_config_{index}.txt").read_text(encoding="utf-8")
    assert outline(ours) == outline(theirs)


def outline(program: str) -> list[str]:
    """Allocations, launches, loops and stores in order, with their nesting; not how indices are written."""
    found = []
    for line in program.splitlines():
        text = line.strip()
        depth = len(line) - len(line.lstrip())
        if match := re.match(r"(\w+) = (T\.(?:allocate|launch_thread)\(.*\))", text):
            found.append((depth, f"{match[1]} {match[2]}"))
        elif text.startswith(("for ", "with ")):
            found.append((depth, text))
        elif match := re.match(r"(\w+)\[.*?\] = ", text):
            found.append((depth, f"store to {match[1]}"))
    # Indentation as nesting, whatever stands between.
    levels: list[int] = []
    shown = []
    for depth, text in found:
        while levels and levels[-1] >= depth:
            levels.pop()
        levels.append(depth)
        shown.append(f"{'  ' * len(levels)}{text}")
    return shown


def test_a_template_called_without_a_log_falls_back_and_says_so(caplog):
    small = (1, 7, 7, 8, 8, 3, 3, (1, 1), (1, 1))
    autotvm.task.clear_fallback_cache(Target("opencl"), ("tutorial/conv2d_no_batching", *small))
    with Target("opencl"), caplog.at_level("WARNING", "autotvm"):
        schedule, args = tutorial.conv2d_no_batching(*small)
        tutorial.conv2d_no_batching(*small)
    assert [arg.name for arg in args] == ["data", "kernel", "conv2d_nchw"]
    assert len(schedule.steps) > 40
    assert len([r for r in caplog.records if "A fallback configuration is used" in r.getMessage()]) == 1


def test_the_documents_log_applies(task):
    with autotvm.apply_history_best(str(LEGACY / "conv2d_cuda_v0.19.json")) as history:
        best = history.query(task.target, task.workload)
        with Target("cuda"):
            schedule, _ = tutorial.conv2d_no_batching(*tutorial.LAYER)
    assert str(best) == tutorial.TRIALS[0][1]
    assert [s.to_json() for s in schedule.steps] == [s.to_json() for s in task.instantiate(best)[0].steps]
