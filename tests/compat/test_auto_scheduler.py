"""Automatic schedules under the legacy API's names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import UserError, auto_scheduler, te
from tilewright.auto_scheduler import loop_state
from tilewright.fleet.option import RPCRunner as FleetRunner


@auto_scheduler.register_workload
def doubled(n: int, dtype: str = "float32") -> list[Any]:
    A = te.placeholder((n,), dtype, "A")
    return [A, te.compute((n,), lambda i: A[i] * 2.0, name="B")]


@auto_scheduler.register_workload("sums of rows")
def sums(n: int, m: int) -> list[Any]:
    A, k = te.placeholder((n, m), name="A"), te.reduce_axis((0, m), name="k")
    return [A, te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="B")]


class Held(auto_scheduler.PythonBasedMeasureCallback):
    """Keeps the measurements."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def callback(self, policy: Any, inputs: Any, results: Any) -> None:
        self.pairs += zip(inputs, results, strict=True)


class Runner(auto_scheduler.LocalRunner):
    """Says without running that the schedules take 1, 2, 3 ... seconds."""

    count = 0

    def run(self, measure_inputs: Any, build_results: Any, verbose: int = 1) -> Any:
        self.count += 1
        return [auto_scheduler.MeasureResult((float(self.count),))]


def task_of(n: int = 64) -> Any:
    return auto_scheduler.SearchTask(func=doubled, args=(n,), target="llvm")


def options(*callbacks: Any, trials: int = 1) -> Any:
    return auto_scheduler.TuningOptions(trials, runner=Runner(), measure_callbacks=callbacks, verbose=0)


def test_a_workload_key_is_json() -> None:
    key = auto_scheduler.make_workload_key(doubled, (8,))
    assert json.loads(key) == ["doubled", 8]
    assert auto_scheduler.make_workload_key("sums of rows", (8, 4)) == '["sums of rows", 8, 4]'
    assert [t.name for t in auto_scheduler.workload_key_to_tensors(key)] == ["A", "B"]
    assert auto_scheduler.SearchTask(workload_key=key, target="llvm").workload_key == key


def test_records_are_applied(tmp_path: Path) -> None:
    log = tmp_path / "log.json"
    held, task = Held(), task_of()
    task.tune(options(auto_scheduler.RecordToFile(log), held))
    ((given, result),) = held.pairs
    ((read, again),) = auto_scheduler.load_records(log)
    assert read.state == given.state
    assert again.costs == result.costs == (1.0,)
    s, args = task.apply_best(log)
    assert s.recorded == given.state.transform_steps
    module = tw.build(s, args, "llvm")
    arrays = [tw.nd.array(np.full(64, value, np.float32)) for value in (3, 0)]
    module(*arrays)
    assert (arrays[1].numpy() == 6).all()
    assert "def schedule(B):" in task.print_best(log)
    assert auto_scheduler.RecordReader(log).read_lines()[1][0].mean == 1.0


def test_the_best_of_the_same_key_and_target_is_taken(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    empty = task.compute_dag.init_state
    costs = {"llvm": [3.0, 2.0], "cuda": [1.0]}
    for target, times in costs.items():
        other = auto_scheduler.SearchTask(func=doubled, args=(64,), target=target)
        for cost in times:
            auto_scheduler.save_records(
                log, [auto_scheduler.MeasureInput(other, empty)], [auto_scheduler.MeasureResult((cost,))]
            )
    failed = auto_scheduler.MeasureResult((), auto_scheduler.MeasureErrorNo.RUNTIME_DEVICE)
    auto_scheduler.save_records(log, [auto_scheduler.MeasureInput(task, empty)], [failed])
    for asked, expected in (((task.workload_key, "llvm"), 2.0), ((), 1.0)):
        _, best = auto_scheduler.load_best_record(log, *asked)
        assert best is not None
        assert best.mean == expected
    assert auto_scheduler.load_best_record(log, task_of(65).workload_key) == (None, None)


def test_without_a_record_the_schedule_is_ranked(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="the schedule is ranked, not tuned"):
        s, _ = task_of().apply_best(tmp_path / "none.json")
    assert s.recorded == tw.auto_schedule(doubled(64), "llvm").recorded


def test_lines_of_tvm_are_read(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    steps = [["SP", 1, 0, 64, [4, 8], 1], ["FU", 1, [0, 1]], ["AN", 1, 0, 3], ["AN", 1, 1, 2]]
    given = [['["doubled", 64]', "llvm -keys=cpu -mcpu=core-avx2", [2, 64], "llvm -keys=cpu", 1, []], [[], steps]]
    log.write_text("# A comment\n" + json.dumps({"i": given, "r": [[0.5], 0, 1, 1], "v": "v0.6"}) + "\n")
    ((read, result),) = auto_scheduler.load_records(log)
    assert (read.task.workload_key, str(read.task.target.host), result.mean) == (task.workload_key, "llvm", 0.5)
    assert [str(loop.range.extent) for loop in read.state[1].iters] == ["8", "8"]
    s, args = task.apply_best(log)
    assert [step[0] for step in s.recorded] == ["split", "split", "fuse", "parallel", "vectorize"]
    arrays = [tw.nd.array(np.full(64, value, np.float32)) for value in (3, 0)]
    tw.build(s, args, "llvm")(*arrays)
    assert (arrays[1].numpy() == 6).all()


def test_damaged_lines_are_skipped(tmp_path: Path) -> None:
    whole: dict[str, Any] = {"i": [["[]", "llvm"], [[], []], ""], "r": [[1.0], 0, 1.0, 1.0], "v": "tilewright 1"}
    damaged = (
        *({"i": i} for i in ([["[]", "no target"], [[], []], ""], [[3, "llvm"], [[], []], ""])),
        *({"i": [["[]", "llvm"], [[], steps], record]} for steps, record in (("a", ""), ([], "a"), ([], 3))),
        *({"r": [costs, 0, 1.0, 1.0]} for costs in ("a", ["a"], 3, [float("nan")], [0.0], [-1.0])),
        *({"r": [[1.0], *rest]} for rest in (["a", 1.0, 1.0], [0, "a", 1.0])),
        {"i": [["[]", "llvm"], [[], [["XX", 0]]]], "v": "v0.6"},
    )
    lines = [*(json.dumps(whole | part) for part in ({}, *damaged)), "[" * 100_000, "\udcff"]
    log = tmp_path / "log.json"
    log.write_bytes("\n".join(lines).encode(errors="surrogateescape"))
    with pytest.warns(UserWarning, match=f"{len(lines) - 1} lines of .* no records of Tilewright or"):
        assert len(list(auto_scheduler.load_records(log))) == 1


def test_measured_states_are_not_measured_again(tmp_path: Path) -> None:
    log, task = tmp_path / "log.json", task_of()
    chosen = options(auto_scheduler.RecordToFile(log))
    task.tune(chosen)
    preload = [auto_scheduler.PreloadMeasuredStates(log)]
    task.tune(chosen, auto_scheduler.SketchPolicy(task, auto_scheduler.XGBModel(), init_search_callbacks=preload))
    assert len(log.read_text().splitlines()) == 1
    assert chosen.runner.count == 1


def test_every_candidate_is_recorded_and_none_is_measured_again(tmp_path: Path) -> None:
    """Also of a graph without a registered function."""
    log, tensors = tmp_path / "log.json", sums(64, 256)
    task = auto_scheduler.SearchTask(compute_dag=auto_scheduler.ComputeDAG(tensors), target="llvm")
    runner = auto_scheduler.LocalRunner(number=1, min_repeat_ms=0)
    chosen = auto_scheduler.TuningOptions(
        2, runner=runner, verbose=0, measure_callbacks=[auto_scheduler.RecordToFile(log)]
    )
    task.tune(chosen)
    pairs = list(auto_scheduler.load_records(log))
    assert sum(not given.is_confirmed for given, _ in pairs) == 2
    best, result = auto_scheduler.load_best_record(log, task.workload_key)
    assert best is not None
    assert result is not None
    assert best.is_confirmed
    assert result.mean in [each.mean for given, each in pairs if given.is_confirmed]
    s, args = task.apply_best(log)
    assert s.recorded == best.state.transform_steps
    assert args == tensors
    policy = auto_scheduler.SketchPolicy(task, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)])
    task.tune(chosen, policy)
    places = [json.loads(given.record)["config"]["index"] for given, _ in auto_scheduler.load_records(log)
              if not given.is_confirmed]  # fmt: skip
    assert len(places) == len(set(places)) == 4


def test_values_of_inputs_are_given() -> None:
    X, index = te.placeholder((10,), "int32", "X"), te.placeholder((1,), "int32", "index")
    dag = auto_scheduler.ComputeDAG([X, index, te.compute((1,), lambda i: X[index[i]], name="Y")])
    inputs = {"index": tw.nd.array(np.array([5], "int32"))}
    task = auto_scheduler.SearchTask(compute_dag=dag, target="llvm", task_inputs=inputs)
    assert task.task_input_names == ["index"]
    assert dag.flop_ct == 0
    given = auto_scheduler.MeasureInput(task, dag.init_state)
    (built,) = auto_scheduler.LocalBuilder().build([given])
    (result,) = auto_scheduler.LocalRunner(min_repeat_ms=0).run([given], [built])
    assert not result.error_no
    assert result.mean > 0
    with pytest.raises(UserError, match="task_inputs are"):
        auto_scheduler.SearchTask(compute_dag=dag, target="llvm", task_inputs={"index": 5})


def test_no_layout_is_rewritten() -> None:
    A, B, k = te.placeholder((8, 8), name="A"), te.placeholder((8, 8), name="B"), te.reduce_axis((0, 8), name="k")
    attrs = {"layout_free_placeholders": [B], "FLOP": 77}
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([A, B, C])
    assert dag.flop_ct == 77
    option = auto_scheduler.LayoutRewriteOption
    with pytest.warns(UserWarning, match="no layout is rewritten: B keep"):
        assert dag.apply_steps_from_state(dag.init_state, option.REWRITE_FOR_PRE_TRANSFORMED)[1] == [A, B, C]
    assert dag.apply_steps_from_state(dag.init_state, option.get_target_default("llvm"))[1] == [A, B, C]


def test_layouts_follow_the_loops() -> None:
    A, B, k = te.placeholder((6, 10), name="A"), te.placeholder((10, 8), name="B"), te.reduce_axis((0, 10), name="k")
    attrs = {"layout_free_placeholders": [B]}
    C = te.compute((6, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C", attrs=attrs)
    dag = auto_scheduler.ComputeDAG([A, B, te.compute((6, 8), lambda i, j: C[i, j] + 1.0, name="D")])
    rng = np.random.default_rng(0)
    a, b = rng.random((6, 10), np.float32), rng.random((10, 8), np.float32)
    for cached in (False, True):
        state = dag.init_state
        stage = state.cache_write(C, "local") if cached else C
        (j0, j1), (k0, k1) = (state.split(stage, state[stage].iters[at], [size]) for at, size in ((1, 4), (3, 5)))
        state.reorder(stage, [j0, k0, state[stage].iters[0], k1, j1])
        s, args = dag.apply_steps_from_state(state, auto_scheduler.LayoutRewriteOption.REWRITE_FOR_PRE_TRANSFORMED)
        assert [int(extent) for extent in args[1].shape] == [2, 2, 5, 4]
        packed = b.reshape(2, 5, 2, 4).transpose(2, 0, 1, 3)
        arrays = [tw.nd.array(each) for each in (a, np.ascontiguousarray(packed), np.zeros((6, 8), np.float32))]
        tw.build(s, args, "llvm")(*arrays)
        np.testing.assert_allclose(arrays[2].numpy(), a @ b + 1, rtol=1e-5)


def test_tasks_share_the_trials(capsys: pytest.CaptureFixture[str]) -> None:
    tasks = [task_of(), auto_scheduler.SearchTask(func="sums of rows", args=(8, 4), target="llvm", desc="rows")]
    tuner = auto_scheduler.TaskScheduler(tasks, task_weights=[1, 2])
    tuner.tune(options(trials=2))
    assert tuner.best_costs == [1.0, 2.0]
    assert tuner.cur_score == 5.0
    assert "rows" in capsys.readouterr().out


def test_callbacks_of_rounds_and_printed_results(capsys: pytest.CaptureFixture[str]) -> None:
    """Each measurement has a number of its own, also at the end of a search, when the fastest are measured again."""

    class Rounds(auto_scheduler.task_scheduler.TaskSchedulerCallback):
        def pre_tune(self, task_scheduler: Any, task_id: int) -> None:
            assert task_scheduler.task_cts[task_id] == 0

        def post_tune(self, task_scheduler: Any, task_id: int) -> None:
            assert task_scheduler.task_cts[task_id] == 1

    auto_scheduler.TaskScheduler([task_of()], callbacks=[Rounds()]).tune(options(trials=1))
    policy = auto_scheduler.SketchPolicy(task_of())
    task_of().tune(auto_scheduler.TuningOptions(2, runner=Runner(), verbose=1), policy)
    numbers = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert numbers
    assert numbers == [f"No: {i + 1}" for i in range(len(numbers))]
    policy.set_verbose(0)
    task_of().tune(auto_scheduler.TuningOptions(2, runner=Runner(), verbose=1), policy)
    assert not capsys.readouterr().out


def test_runners_of_other_hosts() -> None:
    runner = auto_scheduler.RPCRunner("h200", "127.0.0.1", 8786, n_parallel=2, number=5, min_repeat_ms=7)
    fleet: Any = runner.options([], {})
    assert isinstance(fleet, FleetRunner)
    assert (fleet.key, fleet.address, fleet.n_parallel, fleet.number) == ("h200", "tcp://127.0.0.1:8786", 2, 5)
    assert (fleet.repeat, fleet.min_repeat_ms) == (1, 7)
    with pytest.raises(UserError, match="cannot run on other hosts"):
        runner.run([], [])
    with pytest.raises(UserError, match="the values of A are given"):
        runner.options([], {"A": tw.nd.array(np.ones(4))})


def test_the_best_lines_of_a_file_are_kept(tmp_path: Path) -> None:
    task, other = task_of(), auto_scheduler.SearchTask(func="sums of rows", args=(8, 4), target="llvm")
    log, best = tmp_path / "all.json", tmp_path / "best.json"
    for of, steps, seconds in (
        (task, [], 3.0),
        (task, [["CR", 1]], 2.0),
        (other, [], 5.0),
        (task, [["CR", 1]] * 2, 4.0),
    ):
        given = auto_scheduler.MeasureInput(of, loop_state.State(steps, of.compute_dag))
        auto_scheduler.save_records(log, [given], [auto_scheduler.MeasureResult((seconds,))])
    for _ in range(2):
        auto_scheduler.measure_record.distill_record_file(log, best)
        assert sorted(result.mean for _, result in auto_scheduler.load_records(best)) == [2.0, 5.0]
    reader = auto_scheduler.RecordReader(best)
    reader.check_workload_key(reader.read_lines()[0])


def test_rounds_go_to_the_task_that_gains_most() -> None:
    class Searched(auto_scheduler.SearchTask):
        """Measures each trial as half of the time of the one before, without running."""

        def tune(self, tuning_options: Any, search_policy: Any = None) -> None:
            for _ in range(tuning_options.num_measure_trials):
                steps = [["CR", 1]] * len(search_policy.measured)
                given = auto_scheduler.MeasureInput(self, loop_state.State(steps, self.compute_dag))
                search_policy.keep(given, auto_scheduler.MeasureResult((0.5 ** len(steps),)))
            order.append(self.desc)

    tasks = [Searched(func=doubled, args=(64,), target="llvm", desc=desc) for desc in "abc"]
    for strategy, expected in (("round-robin", "abcabca"), ("gradient", "abcbbba")):
        order: list[str] = []
        tuner = auto_scheduler.TaskScheduler(
            tasks, [1, 100, 1], strategy=strategy, callbacks=[], objective_func=lambda costs: costs[0] + 99 * costs[1]
        )
        tuner.tune(auto_scheduler.TuningOptions(14, num_measures_per_round=2))
        assert "".join(order) == expected
    with pytest.raises(UserError, match="strategy is 'best'"):
        auto_scheduler.TaskScheduler(tasks, strategy="best")


def test_a_slower_state_does_not_replace_the_schedule_without_measurements(tmp_path: Path) -> None:
    """A rule's state has a lucky trial; three are measured in turns, which show that it is slower."""
    rule, log = auto_scheduler.PreloadCustomSketchRule, tmp_path / "log.json"
    task = task_of()

    def sketches(policy: Any, state: Any, stage: int) -> list[Any]:
        other = loop_state.State(state, policy.search_task.compute_dag)
        other.split(stage, other[stage].iters[0], [8, 2])
        return [[other.state_object, -1]]

    policy = auto_scheduler.SketchPolicy(task, init_search_callbacks=[rule(lambda *_: rule.APPLY, sketches)])
    (lucky,), ranked = policy.generate_sketches(), policy.scheduled(0)
    times = {lucky: iter([1.0, *[3.0] * 20]), ranked: iter([2.0] * 20)}

    class Lucky(auto_scheduler.LocalRunner):
        def run(self, measure_inputs: Any, build_results: Any, verbose: int = 1) -> Any:
            return [auto_scheduler.MeasureResult((next(times[given.state]),)) for given in measure_inputs]

    chosen = auto_scheduler.TuningOptions(
        2, runner=Lucky(), measure_callbacks=[auto_scheduler.RecordToFile(log)], verbose=0
    )
    task.tune(chosen, policy)
    assert policy.best == ranked
    best, result = auto_scheduler.load_best_record(log, task.workload_key)
    assert best is not None
    assert result is not None
    assert (best.state, result.mean) == (ranked, 2.0)


def test_models_score_states(tmp_path: Path) -> None:
    task = auto_scheduler.SearchTask(func="sums of rows", args=(64, 256), target="llvm")
    states = auto_scheduler.SketchPolicy(task).sample_initial_population()
    assert len(set(states)) == len(states) > 3
    inputs = [auto_scheduler.MeasureInput(task, state) for state in states[:2]]
    results = [auto_scheduler.MeasureResult([seconds], 0, "", 1.0, 1) for seconds in (1.0, 4.0)]
    model = auto_scheduler.XGBModel()
    model.update(inputs, results)
    assert model.predict(task, states[:3]) == [1.0, 0.25, 0.625]
    model.save(tmp_path / "model")
    again = auto_scheduler.XGBModel()
    again.load(tmp_path / "model")
    assert again.predict(task, states[:3]) == [1.0, 0.25, 0.625]
    assert len(auto_scheduler.RandomModel().predict(task, states)) == len(states)


def test_a_graph_prints_its_operations() -> None:
    dag = auto_scheduler.ComputeDAG(sums(8, 4))
    assert str(dag) == "A = PLACEHOLDER [8, 4]\nB(i) += A[i, k]\n"
    assert dag.flop_ct == 32
    assert dag.hash_key() == auto_scheduler.ComputeDAG(sums(8, 4)).hash_key() != task_of().compute_dag.hash_key()
    state = auto_scheduler.SketchPolicy(auto_scheduler.SearchTask(compute_dag=dag, target="llvm")).generate_sketches()[
        0
    ]
    assert "Placeholder: A\n" in str(state)
    assert dag.print_python_code_from_state(state).startswith("from tilewright import te")
    of_schedule = auto_scheduler.ComputeDAG(te.create_schedule(dag.tensors[-1].op))
    assert [t.name for t in of_schedule.tensors] == ["A", "B"]


def test_limits_of_the_target() -> None:
    params = auto_scheduler.SearchTask(func=doubled, args=(8,), target="cuda -arch=sm_90").hardware_params
    assert (params.max_threads_per_block, params.warp_size, params.max_vthread_extent) == (1024, 32, 8)
    assert params.max_shared_memory_per_block >= 48 << 10
    assert task_of().hardware_params.num_cores == os.cpu_count()
    assert auto_scheduler.HardwareParams(3, target="llvm").num_cores == 3


def test_the_early_functions() -> None:
    task = auto_scheduler.create_task(doubled, (8,), "llvm")
    s, args = auto_scheduler.auto_schedule(task)
    assert s.recorded == tw.auto_schedule(args, "llvm").recorded
    with pytest.raises(UserError, match="no trial is asked for"):
        task.tune(auto_scheduler.TuningOptions())
    assert auto_scheduler.load_best is auto_scheduler.load_best_record


def test_mistakes() -> None:
    with pytest.raises(UserError, match="'doubled' is registered already"):
        auto_scheduler.register_workload("doubled", sums)
    with pytest.raises(UserError, match="'unknown' is not registered"):
        auto_scheduler.make_workload_key("unknown", ())
    with pytest.raises(UserError, match="names no registered function"):
        auto_scheduler.workload_key_to_tensors('["unknown"]')
    with pytest.raises(UserError, match="no computation is given"):
        auto_scheduler.SearchTask(target="llvm")
    with pytest.raises(UserError, match="no target is given"):
        auto_scheduler.SearchTask(func=doubled, args=(8,))
    with pytest.raises(UserError, match="are not the tensors of a computation"):
        auto_scheduler.ComputeDAG([1])
    with pytest.raises(UserError, match="runner is 'remote'"):
        task_of().tune(auto_scheduler.TuningOptions(1, runner="remote"))
    with pytest.raises(UserError, match="cannot be read"):
        list(auto_scheduler.load_records("/nowhere/log.json"))
