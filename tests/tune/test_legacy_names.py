"""What tuning scripts of the legacy API ask of tuners, spaces, tasks and measurements."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import autotvm, te, topi
from tilewright.autotvm import database
from tilewright.autotvm.measure import measure as legacy_measure
from tilewright.autotvm.measure import measure_methods
from tilewright.autotvm.task.dispatcher import ApplyHistoryBest, clear_fallback_cache
from tilewright.autotvm.task.space import OtherOptionEntity
from tilewright.autotvm.task.task import compute_flop
from tilewright.autotvm.task.topi_integration import get_workload
from tilewright.core.target import Target
from tilewright.runtime.module import load_module
from tilewright.tune.search.droplet import DropletSearch
from tilewright.tune.search.search import Seen
from tilewright.tune.task import lookup

N = 16


@autotvm.template("tests/product")
def product(n: int) -> Any:
    """A matrix product with two knobs."""
    A, B, k = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B"), te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s, cfg = te.create_schedule(C.op), autotvm.get_config()
    for name, axis in zip(("tile_y", "tile_x"), C.op.axis, strict=True):
        cfg.define_split(name, axis, num_outputs=2)
        cfg[name].apply(s, C, axis)
    return s, [A, B, C]


def task() -> Any:
    """A fresh task of that template, with a space of 25 configurations."""
    return autotvm.task.create("tests/product", (N,), "llvm")


def filtered() -> Any:
    """The same with tiles of 4 to 32 elements only."""
    found = task()
    found.config_space.multi_filter(lambda e: 4 <= e["tile_x"].size[1] * e["tile_y"].size[1] <= 32)
    return found


class Told(autotvm.measure.Runner):
    """A runner that makes up times, and remembers what it was given."""

    def __init__(self, give: Callable[[int], Any] | None = None) -> None:
        super().__init__(1, 1)
        self.given: list[Any] = []
        self.give = give

    def run(self, measure_inputs: Any, build_results: Any) -> Any:
        self.given += zip(measure_inputs, build_results, strict=True)
        if self.give is not None:
            return self.give(len(measure_inputs))
        return [autotvm.MeasureResult((1e-3 + inp.config.index * 1e-5,), 0, 0.1, time.time()) for inp in measure_inputs]


def tuned(tuner: Any, trials: int, runner: Any = None) -> Any:
    """The tuner, after a search by made-up times."""
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(timeout=600), runner=runner or Told())
    tuner.tune(n_trial=trials, measure_option=option, confirm=0)
    return tuner


class TestARunnerOfOnesOwn:
    def test_its_times_decide(self) -> None:
        runner = Told()
        tuner = tuned(autotvm.tuner.GridSearchTuner(task()), 3, runner)
        assert [inp.config.index for inp, _ in runner.given] == [0, 1, 2]
        assert tuner.best_config.index == 0
        assert tuner.best_flops == pytest.approx(2 * N**3 / 1e-3)
        inp, result = tuner.best_measure_pair
        assert (inp.notes.device, inp.notes.checked, result.costs) == ("", False, (1e-3,))
        assert runner.task.name == "tests/product"

    def test_it_gets_modules_that_run(self) -> None:
        ran: list[bool] = []

        class Runs(Told):
            def run(self, measure_inputs: Any, build_results: Any) -> Any:
                for built in build_results:
                    assert built.error is None
                    assert [shape for shape, _ in built.arg_info] == [(N, N)] * 3
                    a, c = np.random.default_rng(0).random((N, N), "float32"), tw.nd.empty((N, N))
                    load_module(built.filename)(tw.nd.array(a), tw.nd.array(a), c)
                    ran.append(bool(np.allclose(c.numpy(), a @ a, rtol=1e-4)))
                return super().run(measure_inputs, build_results)

        tuned(autotvm.tuner.GridSearchTuner(task()), 2, Runs())
        assert ran == [True, True]

    def test_its_failures_are_failures(self) -> None:
        def fail(count: int) -> Any:
            return [autotvm.MeasureResult((RuntimeError("no luck"),), 4, 0.0, 1.0)] * count

        seen: list[Any] = []
        tuner = autotvm.tuner.GridSearchTuner(task())
        option = autotvm.measure_option(runner=Told(fail))
        tuner.tune(2, option, callbacks=[lambda t, inputs, results: seen.extend(results)])
        assert [result.error_no for result in seen] == [4, 4]
        assert "no luck" in str(seen[0].costs[0])
        assert tuner.best_config is None

    def test_what_it_must_return(self) -> None:
        with refused("tune", "Told.run returns [1]", fix="a MeasureResult for each candidate"):
            tuned(autotvm.tuner.GridSearchTuner(task()), 1, Told(lambda count: [1]))
        with refused("tune", "the costs ()", fix="the seconds of each repetition"):
            tuned(
                autotvm.tuner.GridSearchTuner(task()), 1, Told(lambda n: [autotvm.MeasureResult((), 0, 0.0, 1.0)] * n)
            )


class TestTuners:
    def test_a_range_of_indices(self) -> None:
        for tuner in (autotvm.tuner.GridSearchTuner, autotvm.tuner.RandomTuner):
            found = tuned(tuner(task(), range_idx=(8, 15)), 8)
            assert (found.index_offset, found.range_length, found.counter) == (8, 8, 8)
            assert found.visited == set(range(8, 16))
            assert not found.has_next()
        assert autotvm.tuner.GridSearchTuner(task()).range_length == 25

    def test_a_genetic_search_begins_with_a_generation(self) -> None:
        for made, size in ((task(), 25), (filtered(), len(filtered().config_space))):
            for wanted in (4, 100):
                tuner = autotvm.tuner.GATuner(made, pop_size=wanted, seed=1)
                assert tuner.pop_size == len(tuner.visited) == len(tuner.genes) == min(wanted, size)
                assert all(made.config_space.is_index_valid(i) for i in tuner.visited)
                first = [made.config_space.index(gene) for gene in tuner.genes]
                assert [config.index for config in tuner.next_batch(4)] == first[:4]

    def test_results_from_outside_are_not_tried_again(self) -> None:
        made = task()
        tuner = autotvm.tuner.DropletTuner(made)
        configs = [made.config_space.get(i) for i in range(5)]
        tuner.update(
            [autotvm.MeasureInput(Target("llvm"), made, config) for config in configs],
            [autotvm.MeasureResult((i + 1.0,), 0, 0.0, 0.0) for i in range(5)],
        )
        assert tuner.visited == set(range(5))
        assert not tuner.visited & {config.index for config in tuner.next_batch(4)}

    def test_a_descent_reaches_the_bottom(self) -> None:
        space = task().config_space
        bottom = np.array([3, 2])

        def rate(index: int) -> float:
            return float(100 - np.abs(np.array(space.point(index)) - bottom).sum())

        search = DropletSearch(space)
        while found := search.propose(4):
            search.learn([Seen(i, rate(i)) for i in found])
        assert search.best == ((3, 2), 100.0)
        assert not search.has_next()
        tuner = tuned(autotvm.tuner.DropletTuner(filtered(), start_position=[4, 0]), 25)
        assert all(tuner.space.is_index_valid(i) for i in tuner.visited)
        assert (tuner.dims, tuner.pvalue, tuner.start_position) == ([5, 5], 0.05, [4, 0])

    def test_where_a_descent_may_begin(self) -> None:
        with refused("DropletTuner", "start_position=[9, 0] is not a point", fix="below [5, 5]"):
            autotvm.tuner.DropletTuner(task(), start_position=[9, 0])
        with refused("DropletTuner", "is ruled out by a predicate", fix="leave it out"):
            autotvm.tuner.DropletTuner(filtered(), start_position=[0, 0])


class TestIndices:
    def test_of_a_filtered_space(self) -> None:
        space = filtered().config_space
        valid = list(space)
        assert 0 < len(space) == len(valid) < space.range_length == 25
        assert space.subrange_length(0, 25) == len(valid)
        assert space.get_next_index(valid[0]) == valid[1]
        assert space.get_next_index(valid[0], n=3) == valid[3]
        assert space.get_next_index(valid[-1]) is None
        assert space.is_index_filtered(0)
        assert not space.is_index_filtered(25)
        assert space.get_rand_index(start=valid[2], end=valid[2] + 1) == valid[2]
        assert space.get_rand_index(to_exclude=valid[1:]) == valid[0]
        assert set(space.sample_ints(4)) <= set(valid)
        assert space.knob2point(space.point2knob(7)) == 7
        assert space.random_walk(valid[0]) in set(valid[1:])

    def test_of_a_space_that_a_template_declares(self) -> None:
        cfg = autotvm.ConfigSpace()
        cfg.define_split("x", cfg.axis(8), num_outputs=2)
        cfg.multi_filter(lambda e: e["x"].size[1] > 1)
        assert (cfg.dims, cfg.range_length, len(cfg), cfg.is_index_valid(0)) == ([4], 4, 3, False)
        assert cfg.point2knob(2) == [2]

    @pytest.mark.parametrize(
        ("ask", "primitive", "says"),
        [
            (lambda s: s.point2knob(25), "point2knob", "index 25 is outside"),
            (lambda s: s.knob2point([9, 9]), "knob2point", "[9, 9] is not the index of each"),
            (lambda s: s.knob2point(np.array(1)), "knob2point", "array(1) is not the index of each"),
            (lambda s: s.knob2point(["a", "b"]), "knob2point", "['a', 'b'] is not the index of each"),
            (lambda s: s.knob2point([[1], [2, 3]]), "knob2point", "[[1], [2, 3]] is not the index of each"),
            (lambda s: s.subrange_length(5, 3), "subrange_length", "start=5 and end=3 are not a range"),
            (lambda s: s.get_rand_index(to_exclude=range(25)), "get_rand_index", "no index from 0 to 24 is left"),
            (lambda s: s.sample_ints(26), "sample_ints", "too few configurations to draw 26"),
        ],
    )
    def test_what_is_no_index(self, ask: Any, primitive: str, says: str) -> None:
        with refused(primitive, says):
            ask(task().config_space)

    def test_bounds_of_a_fallback(self) -> None:
        cfg = autotvm.task.FallbackConfigEntity()
        cfg.define_split("t", cfg.axis(49), num_outputs=3)
        with refused("fallback_split", "cannot fall back to [-1, 1, 0]", fix="[-1, 8, 4]"):
            cfg.fallback_split("t", [-1, 1, 0])


class TestOperatorsInTwoParts:
    @staticmethod
    def registered() -> Any:
        @autotvm.register_topi_compute("tests/scaled.cpu")
        def declare(cfg: Any, a: Any, by: float) -> Any:
            cfg.define_knob("twice", [False, True])
            return te.compute(a.shape, lambda *i: a(*i) * by * (2.0 if cfg["twice"].val else 1.0), name="scaled")

        @autotvm.register_topi_schedule("tests/scaled.cpu")
        def schedule(cfg: Any, outs: Any) -> Any:
            (out,) = outs
            cfg.define_split("rows", out.op.axis[0], num_outputs=2)
            s = te.create_schedule(out.op)
            cfg["rows"].apply(s, out, out.op.axis[0])
            return s

        return declare, schedule

    def test_they_are_one_task(self) -> None:
        declare, _ = self.registered()
        made = autotvm.task.create("tests/scaled.cpu", (te.placeholder((8, 4)), 3.0), "llvm")
        assert made.workload == ("tests/scaled.cpu", ("TENSOR", (8, 4), "float32"), 3.0)
        assert list(made.config_space.space_map) == ["twice", "rows"]
        assert autotvm.task.create(declare, (te.placeholder((8, 4)), 3.0), "llvm").workload == made.workload
        s, args = made.instantiate(made.config_space.get(1))
        data, out = np.ones((8, 4), "float32"), tw.nd.empty((8, 4))
        tw.build(s, args, "llvm")(tw.nd.array(data), out)
        np.testing.assert_array_equal(out.numpy(), 6.0)

    def test_both_get_what_the_log_knows(self) -> None:
        declare, schedule = self.registered()
        a, b = te.placeholder((8, 4)), te.placeholder((6, 4))
        made = autotvm.task.create("tests/scaled.cpu", (a, 3.0), "llvm")
        best = (
            autotvm.MeasureInput(Target("llvm"), made, made.config_space.get(5)),
            autotvm.MeasureResult((1.0,), 0, 0, 0),
        )
        with ApplyHistoryBest([best]), Target("llvm"):
            out = declare(a, 3.0)
            then = te.compute((8, 4), lambda *i: out(*i) + 1.0)
            assert get_workload(then) == get_workload([then], "tests/scaled.cpu") == made.workload
            s = schedule([out])
        assert str(tw.lower(s, [a, out])) == str(tw.lower(*made.instantiate(best[0].config)))
        assert get_workload(te.compute((6,), lambda i: b[i, 0])) is None
        clear_fallback_cache(Target("llvm"), made.workload)

    def test_mistakes(self) -> None:
        declare, schedule = self.registered()
        a = te.placeholder((8, 4))
        with Target("llvm"):
            with refused(
                "tests/scaled.cpu", "the arguments by of 'tests/scaled.cpu' are given by name", fix="by position"
            ):
                declare(a, by=3.0)
            with refused("tests/scaled.cpu", "none of the outputs depends on a tensor of", fix="its declaration"):
                schedule([te.compute((8,), lambda i: a[i, 0])])
            with refused("tests/none", "returns 3", fix="return a tensor"):
                autotvm.register_topi_compute("tests/none", lambda cfg: 3)()
        with refused("register_topi_compute", "the name of the task is <lambda>", fix='("conv2d.mine")'):
            autotvm.register_topi_compute(lambda: None)
        autotvm.register_topi_compute("tests/half", lambda cfg, x: topi.nn.relu(x))
        with refused("task.create", "has a declaration and no schedule", fix="register_topi_schedule('tests/half')"):
            autotvm.task.create("tests/half", (a,), "llvm")


def tensor(*shape: int, dtype: str = "float32") -> Any:
    return ("TENSOR", shape, dtype)


CONV = ((1, 1), (1, 1), (1, 1), "float32")
NAMED: list[tuple[str, str, tuple[Any, ...], list[tuple[int, ...]]]] = [
    (
        "conv2d_nchw.cuda",
        "cuda",
        (tensor(1, 8, 7, 7), tensor(16, 8, 3, 3), *CONV),
        [(1, 8, 7, 7), (16, 8, 3, 3), (1, 16, 7, 7)],
    ),
    (
        "conv2d_hwcn.cuda",
        "cuda",
        (tensor(7, 7, 8, 4), tensor(3, 3, 8, 16), *CONV),
        [(7, 7, 8, 4), (3, 3, 8, 16), (7, 7, 16, 4)],
    ),
    (
        *("depthwise_conv2d_nchw.cuda", "cuda"),
        (tensor(1, 8, 7, 7), tensor(8, 1, 3, 3), (2, 2), (1, 1, 1, 1), 1, None),
        [(1, 8, 7, 7), (8, 1, 3, 3), (1, 8, 4, 4)],
    ),
    (
        *("group_conv2d_nchw.cuda", "cuda"),
        (tensor(1, 8, 7, 7), tensor(8, 4, 3, 3), *CONV[:3], 2, "float32"),
        [(1, 8, 7, 7), (8, 4, 3, 3), (1, 8, 7, 7)],
    ),
    (
        *("conv2d_transpose_nchw.cuda", "cuda"),
        (tensor(1, 8, 7, 7), tensor(8, 4, 3, 3), (2, 2), (1, 1), "float32", (1, 1)),
        [(1, 8, 7, 7), (8, 4, 3, 3), (1, 4, 14, 14)],
    ),
    (
        *("conv2d_NCHWc.x86", "llvm"),
        (tensor(1, 8, 7, 7), tensor(16, 8, 3, 3), *CONV[:3], "NCHW", "NCHW", "float32"),
        [(1, 8, 7, 7), (16, 8, 3, 3), (1, 16, 7, 7)],
    ),
    ("dense_pack.x86", "llvm", (tensor(4, 16), tensor(8, 16), None, "float32"), [(4, 16), (8, 16), (4, 8)]),
    ("batch_matmul.cuda", "cuda", (tensor(2, 4, 16), tensor(2, 8, 16)), [(2, 4, 16), (2, 8, 16), (2, 4, 8)]),
]


@pytest.mark.parametrize(("name", "target", "args", "shapes"), NAMED, ids=lambda given: given if "." in given else "")
def test_tasks_of_the_legacy_operators(name: str, target: str, args: Any, shapes: Any) -> None:
    made = autotvm.task.create(name, args, target)
    assert made.workload[0] == name
    assert made.flop > 0
    space = made.config_space
    _, tensors = made.instantiate(space.get(next(iter(space))))
    assert [tuple(int(e) for e in t.shape) for t in tensors] == shapes


@pytest.mark.parametrize("by", ["legacy", "packaged"])
def test_what_was_measured_is_used_by_the_operator(by: str) -> None:
    """As in a script of the legacy API: tune the task, then declare the operator where its log applies."""
    a, w = te.placeholder((1, 8, 7, 7), name="A"), te.placeholder((16, 8, 3, 3), name="W")
    made = autotvm.task.create("conv2d_nchw.cuda", (a, w, *CONV), "cuda")
    space = made.config_space

    def declared() -> Any:
        with Target("cuda"):
            out = topi.cuda.conv2d_nchw(a, w, *CONV)
            text = str(tw.lower(topi.cuda.schedule_conv2d_nchw([out]), [a, w, out]))
        return out.op.attrs, text

    usual, program = declared()
    other = next(i for i in space if i != usual["config"])
    if by == "packaged":
        made = lookup(usual["template"]).task(lookup(usual["template"]).kind.of(*usual["workload"]), Target("cuda"))
    measured = autotvm.MeasureInput(Target("cuda"), made, space.get(other)), autotvm.MeasureResult((1e-3,), 0, 0, 0)
    with ApplyHistoryBest([measured]):
        found, changed = declared()
    assert (found["template"], found["config"]) == (usual["template"], other)
    assert changed != program
    foreign = autotvm.ConfigEntity({"x": OtherOptionEntity(1)})
    with ApplyHistoryBest([(autotvm.MeasureInput(Target("cuda"), made, foreign), measured[1])]):
        assert declared() == (usual, program)


def test_wrong_arguments_of_the_legacy_operators() -> None:
    with refused(
        "task.create", "are not the arguments of the template 'conv2d_nchw.cuda'", fix="data, kernel, strides"
    ):
        autotvm.task.create("conv2d_nchw.cuda", (1, 2), "cuda")
    with refused("task.create", "stores float32 here, not float16", fix="out_dtype='float32'"):
        autotvm.task.create("conv2d_nchw.cuda", (*NAMED[0][2][:-1], "float16"), "cuda")


def test_a_list_of_inputs_is_measured() -> None:
    made = task()
    option = autotvm.measure_option(autotvm.LocalBuilder(timeout=600), autotvm.LocalRunner(timeout=600, number=1))
    measure = autotvm.measure.create_measure_batch(made, option)
    inputs = [autotvm.MeasureInput(Target("llvm"), made, made.config_space.get(i)) for i in (3, 1)]
    results = measure(inputs)
    assert [result.error_no for result in results] == [0, 0]
    assert measure.n_parallel >= 1
    with refused("create_measure_batch", "the measurements are not inputs", fix="a list of MeasureInput"):
        measure([3])
    measure.close()
    assert legacy_measure.create_measure_batch is autotvm.measure.create_measure_batch
    assert measure_methods.LocalRunner is autotvm.LocalRunner


def test_a_database() -> None:
    made = task()
    first, second = (autotvm.MeasureInput(Target("llvm"), made, made.config_space.get(i)) for i in range(2))
    results = [autotvm.MeasureResult((1.0,), 0, 0.5, float(t)) for t in range(3)]
    kept = database.DummyDatabase()
    autotvm.callback.log_to_database(kept)(None, [first] * 3, results)
    assert kept.load(first) == results[-1]
    assert kept.load(first, get_all=True) == results
    assert kept.load(second) is None
    other = copy.deepcopy(first)
    other.config.code_hash = "cafe"
    kept.save(other, results[0])
    assert kept.load(other) == results[0] != kept.load(first)
    kept.flush()
    assert kept.load(first) is None
    with refused("log_to_database", "3 is not a database", fix="DummyDatabase()"):
        autotvm.callback.log_to_database(3)  # type: ignore[arg-type]
    with refused("database.save", "3 is not a result", fix="MeasureResult"):
        kept.save(first, 3)  # type: ignore[arg-type]


def test_operations_of_a_schedule() -> None:
    s, _ = product(N)
    assert compute_flop(s) == 2 * N**3
    with refused("compute_flop", "3 is not a schedule", fix="te.create_schedule(C.op)"):
        compute_flop(3)  # type: ignore[arg-type]


def test_the_device_of_a_target_comes_first_among_its_keys() -> None:
    assert Target("llvm -device=arm_cpu").keys == ("arm_cpu", "cpu")
    assert Target("cuda -device=cuda").keys == ("cuda", "gpu")
    assert autotvm.task.deserialize_args([tensor(2, 3), 4])[1] == 4


def test_a_context_of_logs_named_by_the_script() -> None:
    with autotvm.tophub.context("llvm") as known:
        assert isinstance(known, ApplyHistoryBest)
        assert not known.best_by_targetkey
    with refused("Target", "nonesuch"):
        autotvm.tophub.context(["nonesuch"])
