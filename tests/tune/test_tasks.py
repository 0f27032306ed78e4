"""Many tasks in one session: who gets the budget, what is logged, and what goes wrong."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.tune import fakes
from tilewright import autotvm
from tilewright.core.errors import UserError
from tilewright.measure.outcome import Measured, RunFailed
from tilewright.tune.search.simple import RandomSearch
from tilewright.tune.session.allotment import WINDOW, TaskShare, choose
from tilewright.tune.session.campaign import SLICE, Campaign, Entrant, lines
from tilewright.tune.session.durations import seconds_of
from tilewright.tune.session.options import SearchOptions

INFINITY = float("inf")


def share(costs: list[float], kind: str = "a", flop: float = 1.0, weight: float = 1.0, spent: float = 1.0) -> TaskShare:
    return TaskShare(kind, flop, weight, costs, len(costs), spent * len(costs))


class TestTheRule:
    def test_each_task_begins_in_order(self) -> None:
        shares = [share([1.0] * 8), TaskShare("a", 1.0), TaskShare("a", 1.0)]
        assert choose(shares) == 1

    def test_what_gains_most_goes_on(self) -> None:
        falling = share([2.0 - i / 24 for i in range(25)])
        flat = share([1.0] * 25)
        assert choose([flat, falling]) == 1

    def test_the_longer_time_has_more_to_gain(self) -> None:
        assert choose([share([1.0] * 8), share([3.0] * 8)]) == 1

    def test_hope_shrinks_with_trials(self) -> None:
        assert choose([share([1.0] * 100), share([1.0] * 10)]) == 1

    def test_weights_count(self) -> None:
        assert choose([share([1.0] * 8), share([1.0] * 8, weight=5.0)]) == 1

    def test_trials_that_take_longer_gain_less_per_second(self) -> None:
        assert choose([share([1.0] * 8, spent=4.0), share([1.0] * 8)]) == 1

    def test_a_task_far_behind_others_of_its_template_is_trusted_to_catch_up(self) -> None:
        behind, ahead = share([1.0] * 30, flop=1.0), share([1.0] * 30, flop=20.0)
        assert choose([share([1.0] * 30, "b"), ahead, behind]) == 2

    def test_a_task_of_which_nothing_runs_is_given_up_for_now(self) -> None:
        hopeless = share([INFINITY] * WINDOW)
        assert choose([hopeless, share([1.0] * 100)]) == 1
        assert choose([share([INFINITY] * 8), share([1.0] * 100)]) == 0

    def test_a_task_with_nothing_left_gets_nothing(self) -> None:
        done = share([5.0] * 8)
        done.over = True
        assert choose([done, share([1.0] * 8)]) == 1
        assert choose([done]) is None


class Measurer(fakes.FakeMeasurer):
    """Tasks that differ: the first cannot get better, the second does, the third never runs."""

    def measure(self, jobs: Any) -> Any:
        for job in jobs:
            number, index = job.key if isinstance(job.key, tuple) else (0, job.key)
            self.asked.append(number)
            worth = {0: 1e-5, 1: 1e-3 / (1 + self.asked.count(1))}.get(number)
            if worth is None:
                yield job, RunFailed(reason="never", run_seconds=1.0)
            else:
                yield job, Measured(costs=(worth * (1 + index / 1e6),), run_seconds=1.0)


def campaign(trials: int | None, seconds: float | None = None) -> tuple[Campaign, Measurer, list[Any]]:
    measurer = Measurer(lambda _: 1.0)
    heard: list[Any] = []
    tasks = [fakes.add_task(n) for n in (4096, 8192, 16384)]
    entrants = [Entrant(task, RandomSearch(task.config_space, 0), layer=number) for number, task in enumerate(tasks)]
    options = SearchOptions(10**6, seconds=seconds)
    return Campaign(entrants, measurer, options, [heard.append], trials), measurer, heard


def test_the_budget_goes_where_it_gains() -> None:
    many, measurer, heard = campaign(96)
    assert all("0 trials  the session ended before its turn" in line for line in lines(many.runs))
    many.go()
    given = Counter(measurer.asked[:96])
    assert sum(given.values()) == 96
    assert set(given) == {0, 1, 2}
    assert given[1] >= 48
    assert given[2] <= WINDOW
    counted = Counter(trial.input.task.args for trial in heard if trial.number)
    assert sum(counted.values()) == 96
    assert [run.tally.done for run in many.runs] == [given[0], given[1], given[2]]
    said = lines(many.runs)
    assert "nothing could be measured" in said[2]
    assert "GFLOPS" in said[1]


def test_a_space_that_is_used_up_leaves_the_rest_to_others() -> None:
    many, _, _ = campaign(10**6)
    many.go()
    sizes = [run.task.config_space.size for run in many.runs]
    done = [run.tally.done + run.tally.refused for run in many.runs]
    assert done == sizes


def test_no_time_is_time_for_one_slice() -> None:
    many, measurer, _ = campaign(None, 1e-9)
    many.go()
    assert len(measurer.asked) - 3 * SLICE <= SLICE


def test_the_session_for_users(tmp_path: Path) -> None:
    """On the CPU, twice: the second session takes the first one's results from the log."""
    log = tmp_path / "many.log"
    tasks = [autotvm.templates.conv1d.task("llvm", shape=(n,), kernel=4) for n in (256, 512)]
    runner = autotvm.LocalRunner(timeout=600, number=1, repeat=1, cooldown_interval=0)
    option = autotvm.measure_option(autotvm.LocalBuilder(timeout=600), runner)
    first = autotvm.tune_tasks(tasks, trials=16, measure_option=option, log=log, seed=1, confirm=0)
    assert [tuner.task for tuner in first] == tasks
    assert all(tuner.best_config is not None for tuner in first)
    records = list(autotvm.record.load_from_file(log))
    assert len(records) == 16
    second = autotvm.tune_tasks(tasks, trials=1, measure_option=option, log=log, tuner="gridsearch", confirm=0)
    assert len(list(autotvm.record.load_from_file(log))) == 17
    assert all(after.best_flops >= before.best_flops for before, after in zip(first, second, strict=True))


def test_a_session_that_finds_all_configurations_in_its_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    task = autotvm.templates.conv1d.task("llvm", shape=(2,), kernel=1)
    size, log = task.config_space.size, tmp_path / "a.log"
    runner = autotvm.LocalRunner(timeout=600, number=1, repeat=1, min_repeat_ms=0, cooldown_interval=0)
    option = autotvm.measure_option(autotvm.LocalBuilder(timeout=600), runner)
    for _ in range(2):
        assert "0 new trials" not in caplog.text
        autotvm.tune_tasks([task], trials=size, measure_option=option, log=log, tuner="gridsearch", confirm=0)
    assert f"0 new trials: the log holds {size}; pass resume=False to measure them again" in caplog.messages


TASK = fakes.add_task(4096)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tasks": []}, r"tasks=\[\] is not a list of tasks"),
        ({"tasks": [TASK, autotvm.templates.conv1d.task("llvm", shape=(64,))]}, r"the tasks are for llvm and opencl"),
        (
            {"tasks": [autotvm.task.create("tests/add", (64,), f"llvm -mcpu={cpu}") for cpu in ("skylake", "znver3")]},
            r"the tasks are for llvm -mcpu=skylake and llvm -mcpu=znver3",
        ),
        ({"least_gain": 0.1, "tuner": "xgb"}, r"least_gain=0\.1: the tuner 'xgb' expects nothing of its candidates"),
        ({"least_gain": 2}, r"least_gain=2 is not a fraction"),
        ({"tuner": "magic"}, r"tuner='magic' is unknown"),
        ({"budget": None}, r"neither a budget nor trials are given"),
        ({"budget": "soon"}, r"budget='soon' is not a duration"),
        ({"budget": 0}, r"budget=0 is not a duration"),
        ({"trials": 0}, r"trials=0 is not a number of trials"),
        ({"weights": [1, 2]}, r"weights=\[1, 2\] are not 1 positive numbers"),
        ({"layers": [1, 2]}, r"layers=\[1, 2\] are not the numbers of 1 tasks' layers"),
    ],
)
def test_what_makes_no_session_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        autotvm.tune_tasks(**{"tasks": [TASK], "budget": "1s", "log": None, **given})


def test_budgets() -> None:
    assert [seconds_of(text, "x") for text in (None, 3, "15s", "2m", "1.5h")] == [None, 3.0, 15.0, 120.0, 5400.0]
