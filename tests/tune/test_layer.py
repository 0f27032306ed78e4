"""The strategies of one layer share a budget: defaults first, then those that may still lower the layer's time."""

from __future__ import annotations

import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tune import fakes
from tilewright import autotvm
from tilewright.measure.outcome import Measured, Outcome, RunFailed
from tilewright.tune.records.format import Pair, decode, encode
from tilewright.tune.records.history import History
from tilewright.tune.records.log import load_from_file
from tilewright.tune.search.simple import RandomSearch
from tilewright.tune.session.allotment import SLICE, TaskShare, choose
from tilewright.tune.session.campaign import Campaign, Entrant
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.options import SearchOptions
from tilewright.tune.session.trials import Trial
from tilewright.tune.session.turns import LEAST_ROUNDS

NAMES = ("tutorial", "gemm", "mma")
for _name in NAMES:
    autotvm.template(f"layer.{_name}", fakes.add.__wrapped__)
TASKS = [autotvm.task.create(f"layer.{name}", (4096,), "opencl") for name in NAMES]
DEFAULTS = (3, 5, 8)
MICRO = 1e-6


LEAST = {"tutorial": 36.0, "gemm": 14.0, "mma": 30.0}
DEFAULT_TIMES = {"tutorial": 256.0, "gemm": 17.0, "mma": 31.0}


class Layer(fakes.FakeMeasurer):
    """The layer 1x512x7x7 as measured on an H200: the tutorial's strategy ends at 36 µs, another one at 14.

    `own` returns the outcome of a configuration, None for the time of this layer.
    """

    def __init__(self, own: Callable[[str, int], float | Outcome | None] = lambda *_: None) -> None:
        super().__init__(lambda _: 0.0)
        self.own = own
        self.names: list[str] = []

    def measure(self, jobs: Any) -> Iterator[Any]:
        for job in jobs:
            name, index = job.instantiate.task.name.partition(".")[2], job.instantiate.config.index
            self.names.append(name)
            self.asked.append(index)
            found = self.own(name, index) or _seconds(name, index)
            yield job, found if isinstance(found, Outcome) else Measured(costs=(found,), timestamp=self.clock)


def _seconds(name: str, index: int) -> float:
    """Seconds of a configuration: those of the default, or between them and the least."""
    least, default = LEAST[name], DEFAULT_TIMES[name]
    share = 1.0 if index in DEFAULTS else (index * 7919 % 97) / 97
    return (least + share * (default - least)) * MICRO


def search(measurer: Layer, trials: int = 60, known: list[Pair] | None = None, seed: int = 0, **options: Any) -> Any:
    """The search, done, and the trials that were heard of."""
    heard: list[Trial] = []
    entrants = [
        Entrant(task, RandomSearch(task.config_space, seed), [default])
        for task, default in zip(TASKS, DEFAULTS, strict=True)
    ]
    layer = LayerSearch(entrants, measurer, SearchOptions(trials, **options), [heard.append])
    if known is not None:
        layer.resume(known)
    layer.go()
    return layer, heard


def logged(heard: list[Trial]) -> list[Pair]:
    return [decode(encode(trial.input, trial.result)) for trial in heard]


def test_the_trials_go_to_the_strategy_that_lowers_the_time(caplog: pytest.LogCaptureFixture) -> None:
    measurer = Layer()
    with caplog.at_level(logging.INFO, "autotvm"):
        layer, heard = search(measurer)
    numbered = [trial for trial in heard if trial.number]
    assert [trial.number for trial in numbered] == list(range(1, 61))
    assert [trial.input.config.index for trial in numbered[:3]] == list(DEFAULTS), "each default first"
    assert all(trial.input.notes.default for trial in numbered[:3])
    given = Counter(trial.input.task.name.partition(".")[2] for trial in numbered)
    assert given["tutorial"] == 1, "far behind: its default alone is measured"
    assert given["gemm"] >= 30
    assert 1 < given["mma"] <= 60 - 31
    assert layer.winner is not None
    assert layer.winner.task.name == "layer.gemm"
    assert layer.tally.done == 60
    assert f"µs, index {layer.tally.best.input.config.index} of layer.gemm" in caplog.text
    # The log alone says the same.
    history = History(logged(heard), lambda _: "Fake 1")
    best = [history.best(task.target, task.workload) for task in TASKS]
    seconds = [found[1].costs[0] if found is not None else 1.0 for found in best]
    assert seconds.index(min(seconds)) == NAMES.index("gemm")


def test_the_default_of_the_first_strategy_is_confirmed_beside_the_best() -> None:
    measurer = Layer()
    layer, heard = search(measurer)
    again = [trial for trial in heard if trial.input.notes.confirmed]
    pairs = {(trial.input.task.name, trial.input.config.index) for trial in again}
    assert ("layer.tutorial", DEFAULTS[0]) in pairs
    assert ("layer.gemm", DEFAULTS[1]) in pairs, "the fastest default, too"
    assert measurer.names[-LEAST_ROUNDS * len(pairs) :].count("tutorial") == LEAST_ROUNDS
    assert layer.default_seconds == pytest.approx(256 * MICRO)


def test_a_default_that_nothing_beats_is_the_result() -> None:
    measurer = Layer(lambda name, index: None if name == "gemm" and index in DEFAULTS else 18 * MICRO)
    layer, _ = search(measurer)
    assert layer.tally.best.input.notes.default
    assert layer.winner.task.name == "layer.gemm"


def test_a_strategy_that_never_runs_costs_its_default_and_a_slice() -> None:
    measurer = Layer(lambda name, _: RunFailed(reason="never") if name == "mma" else None)
    layer, heard = search(measurer, 100)
    given = Counter(trial.input.task.name for trial in heard if trial.number)
    assert given["layer.mma"] <= 1 + SLICE
    assert layer.winner.task.name == "layer.gemm"


def test_a_log_is_resumed_over_all_strategies() -> None:
    _, heard = search(Layer(), 30)
    measurer = Layer()
    layer, more = search(measurer, 50, logged(heard), seed=1)
    assert layer.tally.resumed == 30
    assert sum(trial.number > 0 for trial in more) == 20
    before = {(trial.input.task.name, trial.input.config.index) for trial in heard if trial.number}
    after = {(trial.input.task.name, trial.input.config.index) for trial in more if trial.number}
    assert not before & after
    done = Layer()
    layer, nothing = search(done, 30, logged(heard))
    assert (done.asked, nothing) == ([], [])
    assert not layer.is_confirmed
    assert layer.winner.task.name == "layer.gemm"


def test_patience_counts_the_trials_of_all_strategies() -> None:
    measurer = Layer(lambda name, index: None if index in DEFAULTS else 300 * MICRO)
    layer, _ = search(measurer, 500, early_stopping=20, confirm=0)
    assert 20 <= layer.tally.done < 20 + 2 * SLICE
    entrants = [Entrant(task, RandomSearch(task.config_space, 0), layer=number) for number, task in enumerate(TASKS)]
    many = Campaign(entrants, measurer, SearchOptions(500, 20, confirm=0), trials=500)
    many.go()
    assert all(20 <= run.tally.done < 20 + 2 * SLICE for run in many.runs), "layers of one strategy each"


@pytest.mark.parametrize(("processes", "largest"), [(1, SLICE), (16, 32)])
def test_a_strategy_that_is_chosen_again_keeps_all_builders_busy(processes: int, largest: int) -> None:
    batches: list[int] = []

    class Batches(Layer):
        def measure_all(self, given: Any) -> Iterator[Any]:
            for jobs in given:
                batches.append(len(jobs))
                yield from self.measure(jobs)

    measurer = Batches(lambda name, _: 300 * MICRO if name != "gemm" else None)
    measurer.processes = processes
    search(measurer, 120, confirm=0)
    assert batches[:2] == [3, SLICE], "the defaults, then a slice of one strategy"
    assert max(batches) == largest
    assert sum(batches) == 120


def test_ctrl_c_keeps_the_best_of_all_strategies(caplog: pytest.LogCaptureFixture) -> None:
    def judge(name: str, index: int) -> None:
        if len(measurer.asked) == 20:
            raise KeyboardInterrupt

    measurer = Layer(judge)
    layer, _ = search(measurer)
    assert layer.interrupted
    assert layer.winner.task.name == "layer.gemm"
    assert "Interrupted after 19 trials; the best so far is kept" in caplog.text


def test_a_search_that_was_interrupted_before_its_confirmation_confirms_when_it_resumes() -> None:
    def judge(name: str, index: int) -> float | None:
        if len(measurer.asked) > 30:  # all trials are done: the best would be confirmed now
            raise KeyboardInterrupt
        return MICRO if len(measurer.asked) == 20 else None

    measurer = Layer(judge)
    layer, heard = search(measurer, 30)
    assert layer.interrupted
    assert layer.winner.tally.best.result.costs == (MICRO,), "luck"
    layer, confirmed = search(Layer(), 30, logged(heard))
    assert layer.winner.tally.best.result.costs[0] >= LEAST["gemm"] * MICRO
    done = Layer()
    search(done, 30, logged([*heard, *confirmed]))
    assert done.asked == [], "a confirmed log is final"


def test_killing_the_search_loses_at_most_a_line(tmp_path: Path) -> None:
    log, rng = tmp_path / "layer.log", random.Random(1)
    for _ in range(5):
        child = os.fork()
        if child == 0:
            _search_slowly(log)
            os._exit(0)
        time.sleep(rng.uniform(0.1, 0.3))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _search_slowly(log)
    problems: list[Any] = []
    inputs = [inp for inp, _ in load_from_file(log, problems)]
    assert len(problems) <= 5
    trials = [(inp.task.name, inp.config.index) for inp in inputs if not inp.notes.refused]
    assert len(trials) == len(set(trials)) == 80
    assert len({name for name, _ in trials}) == 3


def _search_slowly(log: Path) -> None:
    def judge(name: str, index: int) -> None:
        time.sleep(0.002)

    callback = autotvm.callback.log_to_file(str(log))
    entrants = [Entrant(task, RandomSearch(task.config_space, 0)) for task in TASKS]
    write = [lambda trial: callback(None, [trial.input], [trial.result])]
    layer = LayerSearch(entrants, Layer(judge), SearchOptions(80, confirm=0), write)
    layer.resume(callback.known())
    layer.go()


class TestTheRuleOfRivals:
    """Times are of one layer; `given` counts the trials of each strategy."""

    @staticmethod
    def shares(*rows: tuple[float, int]) -> list[TaskShare]:
        return [TaskShare(str(i), 1.0, 1.0, [cost] * given, given, 1.0 * given, layer=1) for i, (cost, given) in
                enumerate(rows)]  # fmt: skip

    @pytest.mark.parametrize(
        ("rows", "chosen"),
        [
            ([(1.0, 1), (1.3, 1)], 0),  # the fastest default first
            ([(1.0, 9), (1.3, 1)], 1),  # then one that a slice may bring in front
            ([(1.0, 9), (9.0, 1)], 0),  # not one that no slice brings there
            ([(1.0, 41), (1.3, 9)], 1),  # hope shrinks with trials
            ([(1.0, 41), (1.3, 25)], 0),
            ([(1.0, 200), (3.0, 17)], 0),  # and ends for strategies that stay behind
        ],
    )
    def test_choices(self, rows: list[tuple[float, int]], chosen: int) -> None:
        assert choose(self.shares(*rows)) == chosen

    def test_another_layer_is_no_rival(self) -> None:
        alone = TaskShare("9", 1.0, 1.0, [9.0] * 9, 9, 9.0, layer=2)
        assert choose([*self.shares((1.0, 9), (9.0, 1)), alone]) == 2


def test_the_total_of_rivals_is_the_sum_of_their_tallies() -> None:
    layer, heard = search(Layer(), 30, confirm=0)
    total, own = layer.tally, [run.tally for run in layer.runs]
    assert total.done == sum(tally.done for tally in own) == 30
    assert [trial.number for trial in heard if trial.number] == list(range(1, 31))
    assert total.best in [tally.best for tally in own]
    assert total.best_at == total.best.number
    again, _ = search(Layer(lambda *_: 300 * MICRO), 40, logged(heard), confirm=0)
    assert (again.tally.resumed, again.tally.done) == (30, 40)
    assert again.tally.best.flops == total.best.flops
