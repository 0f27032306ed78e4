"""Runs of tuning with a stand-in for the device: trials, refusals, resuming, interruption, what is logged and shown."""

from __future__ import annotations

import itertools
import logging
import os
import random
import re
import signal
import time
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.tune import fakes
from tilewright import autotvm
from tilewright.autotvm.record import encode, load_from_file
from tilewright.core.target import Target
from tilewright.error import UserError
from tilewright.measure.outcome import BuildFailed, Measured, MeasureResult, Refused, RunFailed, TimedOut, WrongAnswer
from tilewright.tune.records.failure_kinds import kind_of
from tilewright.tune.records.format import MeasureInput, Notes
from tilewright.tune.records.history import History
from tilewright.tune.search.annealing import AnnealingSearch
from tilewright.tune.search.simple import GridSearch, RandomSearch
from tilewright.tune.session.campaign import Entrant
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.options import SearchOptions
from tilewright.tune.session.show import peak_flops, readable, scale_of
from tilewright.tune.session.turns import LEAST_ROUNDS

TASK = fakes.add_task(4096)
SPACE = TASK.config_space


def cost(index: int) -> float:
    """Seconds of a configuration; the best is a unique one in the middle."""
    return 1e-6 * (1 + abs(index - 60))


def tune(judge=cost, strategy=None, known=(), device="Fake 1", **options):
    """A run, and the trials that its listener heard of."""
    heard = []
    measurer = fakes.FakeMeasurer(judge, device)
    limits = SearchOptions(**{"trials": 30, **options})
    search = LayerSearch([Entrant(TASK, strategy or RandomSearch(SPACE, 0))], measurer, limits, [heard.append])
    search.resume(known)
    search.go()
    return search.runs[0], heard, measurer


def pairs(heard):
    """Trials as a log would have them."""
    return [autotvm.record.decode(encode(trial.input, trial.result)) for trial in heard]


def test_trials_are_numbered_and_the_best_is_kept():
    run, heard, measurer = tune(confirm=0)
    assert [trial.number for trial in heard if trial.number] == list(range(1, 31))
    assert len(measurer.asked) == len(set(measurer.asked)) == 30
    fastest = min(measurer.asked, key=cost)
    assert run.tally.best.input.config.index == fastest
    assert run.tally.best_flops == pytest.approx(4096 / cost(fastest))
    assert run.tally.best.input.config == SPACE.get(fastest)


def test_what_cannot_run_is_refused_and_is_no_trial():
    run, heard, measurer = tune(strategy=GridSearch(SPACE), trials=10_000, confirm=0)
    refused = [trial for trial in heard if trial.input.notes.refused]
    assert run.tally.refused == len(refused) > 0
    assert run.tally.done == len(measurer.asked) == len(SPACE) - len(refused)
    for trial in refused:
        assert trial.number == 0
        assert trial.result.error_no == autotvm.MeasureErrorNo.INSTANTIATION_ERROR
        threads = trial.input.config["x"].size[1]
        assert threads > 1024
        assert f"{threads:,} threads per block" in trial.input.notes.reason
        assert ", threadIdx.x) at " in trial.input.notes.step
        assert "fakes.py:" in trial.input.notes.step
    assert all(SPACE.get(i)["x"].size[1] <= 1024 for i in measurer.asked)


def test_the_legacy_count_takes_refusals_as_trials():
    run, heard, _ = tune(strategy=GridSearch(SPACE), trials=90, count_invalid=True, confirm=0)
    assert run.tally.done == 90
    assert [trial.number for trial in heard] == list(range(1, 91))
    assert run.tally.refused == sum(trial.input.notes.refused for trial in heard) > 0


@pytest.mark.parametrize("trials", [5, 10, 33])
def test_where_refusals_are_trials_there_are_never_too_many(monkeypatch, trials):
    """Nor are the trials spent on what a search only looks at, to choose from."""
    monkeypatch.setitem(globals(), "TASK", fakes.add_task(1 << 20))
    for seed in range(3):
        search = AnnealingSearch(TASK.config_space, "itervar", seed)
        run, heard, measurer = tune(lambda i: 1e-3, search, trials=trials, count_invalid=True, confirm=0)
        assert run.tally.done == trials
        assert [trial.number for trial in heard] == list(range(1, trials + 1))
        assert run.tally.refused == trials - len(measurer.asked)
        assert len(measurer.asked) >= trials // 4


def test_early_stopping_counts_from_the_best():
    run, _, measurer = tune(lambda i: 1e-3, early_stopping=20, trials=1000, confirm=0)
    assert 21 <= len(measurer.asked) < 64
    assert run.tally.best_at == 1


def test_the_best_are_measured_again_and_the_winner_confirmed():
    times: Counter[int] = Counter()

    def lucky(index):
        times[index] += 1
        return cost(index) if times[index] > 1 or index != 0 else 1e-9  # the first measurement of 0 is too good

    run, heard, measurer = tune(lucky, strategy=GridSearch(SPACE), trials=70, confirm=3)
    again = [trial for trial in heard if trial.input.notes.confirmed]
    assert len(again) == 3
    assert measurer.asked.count(0) == 1 + LEAST_ROUNDS
    assert run.tally.best.input.config.index == 60
    assert run.tally.done == 70
    # The log says so too: the lucky measurement is not what applies.
    best = History(pairs(heard), lambda _: "Fake 1").best(TASK.target, TASK.workload)
    assert best is not None
    assert best[0].config.index == 60


def test_failures_are_counted_with_the_step_at_fault(caplog):
    kinds = [
        WrongAnswer(reason="B[3] is 7"),
        TimedOut(reason="still running", phase="run"),
        RunFailed(reason="it faults"),
        BuildFailed(reason="no", stage="compile", step="unroll at t.py:7"),
    ]

    def judge(index):
        return kinds[index % 5] if index % 5 < 4 else cost(index)

    with caplog.at_level(logging.INFO, "autotvm"):
        run, heard, _ = tune(judge, strategy=GridSearch(SPACE), trials=50, confirm=0)
    tried = [trial.input.config.index for trial in heard if trial.number]
    failures = [kind_of(kinds[i % 5].error_no) for i in tried if i % 5 < 4]
    assert run.tally.failures == Counter(failures) + Counter(refused=run.tally.refused)
    for trial in heard:
        if trial.number and (kind := trial.input.config.index % 5) < 4:
            assert trial.result.error_no == kinds[kind].error_no
    assert f"wrong answer: {failures.count('wrong answer')} (B[3] is 7)" in caplog.text
    assert f"{failures.count('compile error')} at unroll at t.py:7" in caplog.text
    assert "x       4096 = " in caplog.text
    reasons = {trial.input.notes.reason for trial in heard if trial.number and trial.result.error_no}
    assert reasons == {k.reason for k in kinds}


def test_the_summary_says_where_the_reason_that_it_gives_is_not_the_only_one(caplog):
    def judge(index):
        if index % 2:
            return RunFailed(reason=f"it faults at {index} (in B)")
        return WrongAnswer(reason="B[3] is 7" if index % 4 else "A was written to")

    with caplog.at_level(logging.INFO, "autotvm"):
        tune(judge, strategy=GridSearch(SPACE), trials=20, confirm=0)
    assert re.search(r"runtime error: \d+ \(it faults at \d+ \(in B\)\)$", caplog.text, re.MULTILINE)
    assert re.search(r"wrong answer: \d+ \(.*, and other reasons\)$", caplog.text, re.MULTILINE)


def test_every_trial_has_the_documents_line(caplog):
    with caplog.at_level(logging.DEBUG, "autotvm"):
        _, heard, _ = tune(trials=3, confirm=0)
    lines = [r.getMessage() for r in caplog.records if r.getMessage().startswith("No: ")]
    best = max(trial.flops for trial in heard[:2]) / 1e9
    assert lines[1] == (
        f"No: 2\tGFLOPS: {heard[1].flops / 1e9:.2f}/{best:.2f}\tresult: {heard[1].result}\t{heard[1].input.config}"
    )


# Results that nobody checked


def test_what_was_not_checked_is_said_and_comes_after_what_was(caplog):
    def judge(index):
        if index % 2:
            return cost(index)
        return Measured(costs=(1e-9,), checked=False, unchecked="computing it failed: MemoryError\n...")

    with caplog.at_level(logging.INFO, "autotvm"):
        run, heard, _ = tune(judge, trials=20, confirm=0)
    unchecked = [trial for trial in heard if not trial.input.notes.checked]
    assert 0 < len(unchecked) < 20
    assert all(trial.input.config.index % 2 == 0 for trial in unchecked)
    assert run.tally.best.input.config.index % 2 == 1
    assert (
        f"not checked: {len(unchecked)} measured without comparing their output with a reference "
        "(computing it failed: MemoryError)"
    ) in caplog.messages
    again, *_ = tune(known=pairs(heard), trials=20, confirm=0)
    assert again.tally.best.input.config.index == run.tally.best.input.config.index


def test_where_nothing_was_checked_the_best_says_so(caplog):
    with caplog.at_level(logging.INFO, "autotvm"):
        tune(lambda i: Measured(costs=(cost(i),), checked=False), trials=5, confirm=0)
    assert re.search(r"best: .*, index \d+, not checked$", caplog.text, re.MULTILINE)


def test_the_best_that_turns_out_to_be_wrong_when_it_is_confirmed_is_not_the_best():
    times: Counter[int] = Counter()

    def judge(index):
        times[index] += 1
        if times[index] > 1:
            return WrongAnswer(reason="B[3] is 7") if index % 2 else cost(index)
        return Measured(costs=(1e-9 if index % 2 else cost(index),), checked=False)

    run, heard, _ = tune(judge, trials=30, confirm=3)
    assert any(trial.result.error_no == autotvm.MeasureErrorNo.WRONG_ANSWER for trial in heard)
    best = History(pairs(heard), lambda _: "Fake 1").best(TASK.target, TASK.workload)
    for config in (run.tally.best.input.config, best[0].config):
        assert times[config.index] == 1 or config.index % 2 == 0


# Resuming


def test_what_a_log_holds_is_not_measured_again():
    first, heard, before = tune(trials=20, confirm=2)
    second, _, after = tune(trials=50, known=pairs(heard), strategy=RandomSearch(SPACE, 9), confirm=0)
    assert not set(before.asked) & set(after.asked)
    assert second.tally.resumed == 20
    assert len(after.asked) == 30
    nothing, _, none = tune(trials=20, known=pairs(heard), strategy=RandomSearch(SPACE, 9))
    assert none.asked == []
    assert nothing.tally.best.input.config == first.tally.best.input.config


def test_what_failed_or_ran_out_of_time_is_not_tried_again():
    late = TimedOut(reason="still running after 1 s", phase="run")
    _, heard, before = tune(lambda i: late if i % 2 else RunFailed(reason="it faults"), trials=20)
    run, _, after = tune(trials=30, known=pairs(heard), confirm=0)
    assert run.tally.resumed == 20
    assert len(after.asked) == 10
    assert not set(before.asked) & set(after.asked)


@pytest.mark.parametrize("better", [59, 30])
def test_early_stopping_goes_on_where_the_log_ends(better):
    """A log of 60 trials, the last better one at `better`; 40 without another one end the search."""
    trials = iter(range(1, 61))
    _, heard, _ = tune(lambda i: 1e-4 if next(trials, 0) == better else 1e-3, trials=60)
    run, _, measurer = tune(
        lambda i: 1e-3, trials=1000, known=pairs(heard), strategy=RandomSearch(SPACE, 9), early_stopping=40, confirm=0
    )
    assert run.tally.resumed == 60
    assert run.tally.best_at == better
    stops = better + 40
    assert stops - 60 <= len(measurer.asked) < stops - 60 + 32


def test_resuming_a_log_of_other_things_changes_nothing():
    small = fakes.add_task(64)
    inp, result = pairs(tune(trials=1, confirm=0)[1])[0]
    foreign = autotvm.MeasureInput(inp.target, small, small.config_space.get(0)).noted(inp.notes)
    run, _, measurer = tune(trials=10, known=[(foreign, result)], confirm=0)
    assert run.tally.resumed == 0
    assert len(measurer.asked) == 10


def test_another_devices_log_is_advice():
    _, heard, _ = tune(trials=60, strategy=GridSearch(SPACE, 30), confirm=0)
    run, _, measurer = tune(trials=8, known=pairs(heard), device="Fake 2", confirm=0)
    assert run.tally.resumed == 0
    assert 60 in measurer.asked  # the best over there is tried here, among the first


def test_killing_the_tuner_loses_nothing(tmp_path):
    """Killed at random moments, resumed each time: every configuration is measured once, all are in the log."""
    log = tmp_path / "a.log"
    asked = tmp_path / "asked"
    rng = random.Random(1)
    for _ in range(12):
        child = os.fork()
        if child == 0:
            _tune_slowly(log, asked)
            os._exit(0)
        time.sleep(rng.uniform(0.05, 0.25))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    _tune_slowly(log, asked)
    measured = [int(line) for line in asked.read_text(encoding="utf-8").split()]
    problems = []
    logged = [inp.config.index for inp, _ in load_from_file(log, problems) if not inp.notes.refused]
    assert len(problems) <= 12
    assert len(logged) == len(set(logged)) == 150
    assert set(logged) <= set(measured)
    # What was being measured when the tuner was killed is measured anew; nothing that was recorded is.
    assert len(measured) - len(set(measured)) <= 12


def _tune_slowly(log, asked):
    def judge(index):
        time.sleep(0.001)
        with asked.open("a", encoding="utf-8") as file:
            file.write(f"{index}\n")
        return cost(index)

    callback = autotvm.callback.log_to_file(str(log))
    limits = SearchOptions(150, confirm=0)
    write = [lambda trial: callback(None, [trial.input], [trial.result])]
    search = LayerSearch([Entrant(TASK, RandomSearch(SPACE, 0))], fakes.FakeMeasurer(judge), limits, write)
    search.resume(callback.known())
    search.go()


# Interruption


def test_an_interrupted_run_keeps_the_best_so_far(caplog):
    def judge(index):
        if len(measurer.asked) == 12:
            raise KeyboardInterrupt
        return cost(index)

    measurer = fakes.FakeMeasurer(judge)
    search = LayerSearch([Entrant(TASK, RandomSearch(SPACE, 0))], measurer, SearchOptions(100))
    with caplog.at_level(logging.INFO, "autotvm"):
        tally = search.go()
    assert search.interrupted
    assert tally.done == 11
    assert tally.best.input.config.index == min(measurer.asked[:11], key=cost)
    assert "Interrupted after 11 trials" in caplog.text
    assert "best: " in caplog.text


# The faces


def measure_with(monkeypatch, measurer):
    """Let tuners measure with a stand-in."""

    class Session:
        def __init__(self, target, builder, runner):
            assert isinstance(runner, autotvm.LocalRunner)

        def __enter__(self):
            return measurer

        def __exit__(self, *_):
            pass

    monkeypatch.setattr("tilewright.tune.session.measurers.local_session", Session)


class Backwards(autotvm.tuner.Tuner):
    """A tuner as legacy scripts write their own: from the last index to the first, and some of them twice."""

    def __init__(self, task):
        super().__init__(task)
        self.left = [i for i in range(len(task.config_space)) for _ in range(1 + (i % 3 == 0))]
        self.given, self.told = [], []

    def next_batch(self, batch_size):
        batch, self.left = self.left[-batch_size:][::-1], self.left[:-batch_size]
        self.given += batch
        return [self.task.config_space.get(i) for i in batch]

    def update(self, inputs, results):
        self.told += [(i.config.index, r.error_no, r.costs) for i, r in zip(inputs, results, strict=True)]

    def has_next(self):
        return len(self.left) > 0

    def load_history(self, data_set):
        pass


@pytest.mark.parametrize("trials", [20, 10_000])
def test_a_tuner_of_ones_own_is_told_what_it_gave_in_that_order(monkeypatch, trials):
    measurer = fakes.FakeMeasurer(lambda i: RunFailed(reason="it faults") if i % 5 == 0 else cost(i))
    measure_with(monkeypatch, measurer)
    tuner = Backwards(TASK)
    tuner.tune(trials, autotvm.measure_option())
    assert [index for index, *_ in tuner.told] == tuner.given
    again = autotvm.tuner.GridSearchTuner(TASK)
    again.tune(10_000, autotvm.measure_option())
    runs = {i for i in measurer.asked if i % 5}  # the others are refused, or fail
    for index, error_no, costs in tuner.told:
        assert (error_no == 0) == (index in runs)
        assert error_no or costs == pytest.approx((cost(index),))
    if trials > len(SPACE):
        assert set(tuner.given) == set(range(len(SPACE)))
        assert tuner.best_flops == again.best_flops
    else:
        assert trials == len(set(tuner.given) & set(measurer.asked))


def test_a_subclass_may_change_what_another_tuner_gives(monkeypatch):
    class Even(autotvm.tuner.RandomTuner):
        def next_batch(self, batch_size):
            return [config for config in super().next_batch(2 * batch_size) if config.index % 2 == 0]

    measurer = fakes.FakeMeasurer(cost)
    measure_with(monkeypatch, measurer)
    Even(TASK, seed=0).tune(10, autotvm.measure_option(), early_stopping=None)
    assert len(set(measurer.asked)) >= 10
    assert all(index % 2 == 0 for index in measurer.asked)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (None, r"next_batch\(\d+\) returns None"),
        (3, r"next_batch\(\d+\) returns 3"),
        ("endless", "more than .* configurations"),
        ([3], "next_batch returns 3"),
    ],
)
def test_what_is_no_batch_is_named(monkeypatch, given, said):
    class Odd(autotvm.tuner.Tuner):
        def next_batch(self, batch_size):
            return itertools.cycle([self.task.config_space.get(0)]) if given == "endless" else given

        def has_next(self):
            return True

    measure_with(monkeypatch, fakes.FakeMeasurer(cost))
    with pytest.raises(UserError, match=said):
        Odd(TASK).tune(10, autotvm.measure_option())


def test_a_tuner_that_forgets_its_base_is_told():
    class Forgetful(autotvm.tuner.Tuner):
        def __init__(self, task):
            self.mine = task

        def next_batch(self, batch_size):
            return []

    for use in (
        lambda t: t.tune(3, autotvm.measure_option()),
        lambda t: t.load_history([]),
        repr,
        lambda t: t.best_flops,
    ):
        with pytest.raises(UserError, match=r"its __init__ does not call that of Tuner"):
            use(Forgetful(TASK))
    assert not hasattr(Forgetful(TASK), "anything else")


def test_a_second_interruption_ends_the_script(monkeypatch):
    def judge(index):
        raise KeyboardInterrupt

    clock = [100.0]
    measure_with(monkeypatch, fakes.FakeMeasurer(judge))
    monkeypatch.setattr("tilewright.autotvm.tuner.tuner.time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr("tilewright.autotvm.tuner.tuner._last_interruption", [0.0])  # whatever other tests pressed
    tuner = autotvm.tuner.RandomTuner(TASK)
    tuner.tune(3, autotvm.measure_option())
    assert tuner.interrupted
    clock[0] += 2.5
    tuner.tune(3, autotvm.measure_option())
    clock[0] += 1.5
    with pytest.raises(KeyboardInterrupt):
        tuner.tune(3, autotvm.measure_option())


def test_tuners_report_to_callbacks(tmp_path, monkeypatch, capsys):
    measurer = fakes.FakeMeasurer(cost)
    measure_with(monkeypatch, measurer)
    seen = []
    monitor = autotvm.callback.Monitor()
    tuner = autotvm.tuner.GridSearchTuner(TASK)
    tuner.tune(
        n_trial=40,
        measure_option=autotvm.measure_option(builder=autotvm.LocalBuilder(n_parallel=1), runner=autotvm.LocalRunner()),
        callbacks=[
            autotvm.callback.log_to_file(str(tmp_path / "a.log")),
            autotvm.callback.progress_bar(40, prefix="[add]"),
            monitor,
            lambda t, inputs, results: seen.append((t, inputs[0].config.index, results[0].error_no)),
        ],
    )
    assert [error for _, _, error in seen] == [0] * 40
    assert all(t is tuner for t, _, _ in seen)
    assert tuner.best_config.index == min((i for _, i, _ in seen), key=cost)
    assert tuner.best_flops == pytest.approx(tuner.best_measure_pair[0].task.flop / tuner.best_measure_pair[1].costs[0])
    assert tuner.ttl == 0
    assert len(monitor.trial_scores()) == 40
    assert max(monitor.trial_scores()) == tuner.best_flops
    assert "[add] Current/Best:" in capsys.readouterr().out
    logged = list(load_from_file(tmp_path / "a.log"))
    assert sum(not inp.notes.refused and not inp.notes.confirmed for inp, _ in logged) == 40
    assert {inp.notes.device for inp, _ in logged} == {"Fake 1"}

    again = autotvm.tuner.GridSearchTuner(TASK)
    asked = len(measurer.asked)
    again.tune(40, autotvm.measure_option(), callbacks=[autotvm.callback.log_to_file(str(tmp_path / "a.log"))])
    assert len(measurer.asked) == asked
    assert again.best_config == tuner.best_config

    capsys.readouterr()
    log, bar = autotvm.callback.log_to_file(tmp_path / "a.log"), autotvm.callback.progress_bar(60)
    more = autotvm.tuner.GridSearchTuner(TASK)
    more.tune(41, autotvm.measure_option(), callbacks=[log, bar])
    shown = capsys.readouterr().out
    assert "Progress: (41/60)" in shown, "the trials read from the log count"
    assert shown.endswith(" Done.\n"), "the line ends where the search stops early"
    assert shown.count("Done") == 1


def test_a_run_that_measures_nothing_warns_where_nobody_sees_the_summary(caplog):
    @autotvm.template("tests/needs a GPU")
    def needs_gpu(n):
        return fakes.add.__wrapped__(n)

    tuner = autotvm.tuner.RandomTuner(autotvm.task.create("tests/needs a GPU", (8,), "llvm"))
    with caplog.at_level("WARNING", "autotvm"):
        tuner.tune(2, autotvm.measure_option(autotvm.LocalBuilder(timeout=600)))
    assert tuner.best_config is None
    (message,) = caplog.messages
    assert message.startswith("no configuration of tests/needs a GPU could be measured; ")
    assert "blockIdx.x" in message


def test_mistakes_in_calls_are_named(tmp_path):
    tuner = autotvm.tuner.RandomTuner(TASK)
    with pytest.raises(UserError, match="si_prefix='Q'"):
        tuner.tune(1, autotvm.measure_option(), si_prefix="Q")
    with pytest.raises(UserError, match="measure_option"):
        tuner.tune(1, {"builder": 3})
    with pytest.raises(UserError, match="feature_type 'loops' is unknown"):
        autotvm.tuner.XGBTuner(TASK, feature_type="loops")
    with pytest.raises(UserError, match="model 'gpt' is unknown"):
        autotvm.tuner.XGBTuner(TASK, model="gpt")
    with pytest.raises(UserError, match="there is no template 'nobody'"):
        autotvm.task.create("nobody", (), "opencl")
    with pytest.raises(UserError, match="no target is given"):
        autotvm.task.create("tests/add", (64,))


def test_scripts_may_measure_by_themselves():
    tuner = autotvm.tuner.GATuner(TASK, pop_size=8, seed=0)
    for _ in range(4):
        assert tuner.has_next()
        configs = tuner.next_batch(8)
        inputs = [autotvm.MeasureInput(TASK.target, TASK, c) for c in configs]
        tuner.update(inputs, [autotvm.MeasureResult((cost(c.index),), 0, 0.1, 0.0) for c in configs])
    assert len(tuner.strategy.tried) == 32


def test_history_teaches_where_to_look_first():
    tuner = autotvm.tuner.RandomTuner(TASK, seed=0)
    _, heard, _ = tune(trials=60, strategy=GridSearch(SPACE, 30), confirm=0)
    tuner.load_history(pairs(heard))
    assert 60 in [c.index for c in tuner.next_batch(8)]


# Odds and ends


def test_kinds_of_failure():
    assert kind_of(Measured(costs=(1.0,)).error_no) == "measured"
    assert kind_of(BuildFailed(reason="", stage="instantiate").error_no) == "no kernel"
    assert kind_of(TimedOut(reason="", phase="build").error_no) == "build timeout"


def test_the_peak_of_a_device():
    attributes = fakes.DeviceAttributes("H", "9.0", multi_processor_count=132, max_clock_rate=1_980_000)
    assert peak_flops(attributes) == pytest.approx(66.9e12, rel=0.01)
    assert peak_flops(fakes.DeviceAttributes("C", "OpenCL 3.0")) == 0
    assert scale_of("G") == 1e9


def test_configurations_in_words():
    assert readable(SPACE.get(SPACE.range_length - 1), SPACE) == ["x       4096 = 1 × 1 × 4096", "unroll  1"]


def test_what_was_best_for_another_shape_is_tried_first() -> None:
    small, large = fakes.add_task(1024), fakes.add_task(4096)
    best = small.config_space.find(
        next(c for c in map(small.config_space.get, small.config_space) if c["x"].size[1:] == [128, 2])
    )
    assert best is not None
    pairs = []
    for index, seconds in ((best, 1e-6), (best + 1, 2e-6)):
        inp = MeasureInput(Target("opencl"), small, small.config_space.get(index)).noted(Notes("Fake 1", flop=1024.0))
        pairs.append((inp, MeasureResult((seconds,), 0, 0.1, 0.0)))
    measurer = fakes.FakeMeasurer(lambda index: 1e-6)
    limits = SearchOptions(trials=8, confirm=0)
    search = LayerSearch([Entrant(large, RandomSearch(large.config_space, 0))], measurer, limits)
    search.resume(pairs)
    search.go()
    first = [large.config_space.get(index)["x"].size[1:] for index in measurer.asked[:8]]
    assert [128, 2] in first
    assert search.tally.resumed == 0


def test_a_search_ends_where_the_compiler_refuses_everything(monkeypatch, caplog):
    monkeypatch.setattr("tilewright.tune.session.run._MOST_REFUSED", 40)
    run, _, measurer = tune(lambda index: Refused(reason="there is no compiler"), confirm=0)
    assert run.tally.done == 0
    assert 40 <= len(measurer.asked) < 80
    assert "the compiler refuses 40 configurations in a row: the search ends here" in caplog.text


def test_a_resumed_search_without_patience_left_measures_nothing_more():
    _, heard, _ = tune(strategy=GridSearch(SPACE), trials=40, confirm=0)
    counted = [trial for trial in heard if trial.number]
    best = max(counted, key=lambda trial: trial.flops).number
    for patience in (40 - best, 40 - best + 1):
        limits = {"trials": 100, "early_stopping": patience, "confirm": 0}
        _, _, measurer = tune(lambda index: 1.0, GridSearch(SPACE), pairs(counted), **limits)
        assert bool(measurer.asked) == (patience > 40 - best)


def test_trials_that_the_compiler_refuses_are_made_up_for():
    """A refusal is no trial: the search continues until the trials are used up."""
    run, _, measurer = tune(lambda i: Refused(reason="no") if i % 3 else cost(i), trials=20, confirm=0)
    assert run.tally.done == 20 < len(measurer.asked)


def test_a_search_of_one_task_doubles_its_batches():
    measurer = fakes.FakeMeasurer(cost)
    sizes = []
    measure_all = measurer.measure_all

    def watched(batches):
        for jobs in batches:
            sizes.append(len(jobs))
            yield from measure_all([jobs])

    measurer.measure_all = watched
    LayerSearch([Entrant(TASK, RandomSearch(SPACE, 0))], measurer, SearchOptions(90, confirm=0)).go()
    assert sizes == [8, 16, 32, 32, 2]
