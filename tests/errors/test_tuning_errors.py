"""Wrong uses of templates, knobs, tasks, tuners and logs: one row a message."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tilewright import autotvm, te

Attempt = Callable[[Any, Any, Any, Any], Any]


def program(n: int) -> tuple[Any, Any]:
    """A matrix product, and its schedule."""
    A, k = te.placeholder((n, n), name="A"), te.reduce_axis((0, n), "k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * A[k, j], axis=k), name="C")
    return te.create_schedule(C.op), [A, C]


@autotvm.template("errors/good")
def good(n: int) -> Any:
    s, args = program(n)
    cfg = autotvm.get_config()
    cfg.define_split("tile", args[1].op.axis[0], num_outputs=2)
    cfg["tile"].apply(s, args[1], args[1].op.axis[0])
    return s, args


# What a template may do wrong with its configuration.

KNOBS: list[tuple[Attempt, str, str, str]] = [
    (lambda c, s, C, y: c.define_split("a", None, num_outputs=2), "define_split", "it is None", "s[B].op.axis"),
    (lambda c, s, C, y: c.define_split("a", te.var("n"), num_outputs=2), "define_split", "it is n", "constant extent"),
    (lambda c, s, C, y: c.define_split("a", True, num_outputs=2), "define_split", "it is True", "an int"),
    (lambda c, s, C, y: c.define_split("a", 0, num_outputs=2), "define_split", "has extent 0", "1 or more"),
    (lambda c, s, C, y: c.define_split(3, y, num_outputs=2), "define_split", "the name of a knob is 3", '"tile_x"'),
    (lambda c, s, C, y: c.define_split("a", y), "define_split", "num_outputs=0", "1 or more"),
    (lambda c, s, C, y: c.define_split("a", y, num_outputs="x"), "define_split", "num_outputs='x'", "1 or more"),
    (
        lambda c, s, C, y: c.define_split("a", y, outputs=2),
        "define_split",
        "there is no option 'outputs'",
        "num_outputs",
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, num_outputs=2, filter=3),
        "define_split",
        "is 3, which is no",
        "lambda e",
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, "some", num_outputs=2),
        "define_split",
        "unknown policy 'some'",
        "power2",
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, "candidate", num_outputs=2, candidate=[[3]]),
        *("define_split", "candidate [3] of knob 'a' has 1 sizes", "2 extents"),
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, "candidate", num_outputs=2, candidate=3),
        *("define_split", "candidate of knob 'a' is 3, which is not a list", "a list"),
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, "candidate", candidate=[[-1, 4], [2, "a"]]),
        *("define_split", "candidate [2, 'a'] of knob 'a'", "1 or more"),
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, "candidate", candidate=[[-1, 4], [2, -1]]),
        *("define_split", "candidate [2, -1] of knob 'a'", "the first may be -1"),
    ),
    (
        lambda c, s, C, y: c.define_split("a", y, num_outputs=2, max_factor="x"),
        *("define_split", "max_factor='x'", "leave it out"),
    ),
    (lambda c, s, C, y: c.multi_filter(3), "multi_filter", "the filter is 3, which is not a function", "lambda e"),
    (lambda c, s, C, y: c.multi_filter(lambda e: e["b"].val), "multi_filter", "reads knob 'b'", "tile, plain, order"),
    (lambda c, s, C, y: c.define_knob("a", 3), "define_knob", "candidate of knob 'a' is 3", "a list"),
    (lambda c, s, C, y: c.define_knob("a", [object]), "define_knob", "cannot be written to a log", "numbers, strings"),
    (lambda c, s, C, y: c.define_reorder("a", 3, "all"), "define_reorder", "axes of knob 'a' is 3", "a list"),
    (lambda c, s, C, y: c.define_reorder("a", [y], "x"), "define_reorder", "unknown policy 'x'", "interleave"),
    (lambda c, s, C, y: c.define_annotate("a", None, "vec"), "define_annotate", "axes of knob 'a' is None", "a list"),
    (lambda c, s, C, y: c.define_annotate("a", [y], "bind_gpu"), "define_annotate", "too few loops (1)", "2 or more"),
    (
        lambda c, s, C, y: c.define_reorder("a", [y], "interval_all", interval=3),
        *("define_reorder", "reorders 1 loops within the interval 3", "(begin, end)"),
    ),
    (
        lambda c, s, C, y: c.define_reorder("a", [y], "candidate", candidate=[3]),
        *("define_reorder", "a candidate of knob 'a' is 3", "a list"),
    ),
    (
        lambda c, s, C, y: c.define_reorder("a", [y], "interleave", spatial=None, reduce=[[y]]),
        *("define_reorder", "spatial of knob 'a' is None", "a list"),
    ),
    (lambda c, s, C, y: c.define_annotate("a", [y], 3), "define_annotate", "unknown policy 3", "try_unroll"),
    (
        lambda c, s, C, y: c.define_annotate("a", [y], "locate_cache", num_anchor=2),
        *("define_annotate", "num_anchor=2 of 1 loops", "from 1 to 1"),
    ),
    (lambda c, s, C, y: c["order"].apply(s, C, 3), "apply", "the loops are given as 3", "[y, x]"),
    (lambda c, s, C, y: c["marks"].apply(s, C, None), "apply", "the loops are given as None", "[y, x]"),
    (lambda c, s, C, y: c["marks"].apply(C, C, [y]), "apply", "the schedule is given as", "s comes first"),
    (lambda c, s, C, y: c["nope"], "config_space", "no knob 'nope'", "its knobs"),
    (lambda c, s, C, y: c["tile"].apply(3, C, y), "apply", "the schedule is given as 3", "s comes first"),
    (lambda c, s, C, y: c["tile"].val, "", "the choice [-1, 1] has no 'val'", ".size"),
    (lambda c, s, C, y: c["plain"].apply(s, C, y), "", "the choice 1 has no 'apply'", ".val"),
    (lambda c, s, C, y: c.add_flop("x"), "add_flop", "add_flop('x') counts nothing", "at least 0"),
    (lambda c, s, C, y: c.add_flop(-1), "add_flop", "add_flop(-1) counts nothing", "at least 0"),
]


ZEROS = te.compute((4,), lambda i: te.const(0.0), name="ZEROS")
EMPTY = str(Path(__file__).parents[1] / "tune" / "__init__.py")
"""A log without a line."""


@pytest.mark.parametrize("row", KNOBS, ids=lambda row: row[2][:40])
def test_a_wrong_use_of_the_configuration(row: tuple[Attempt, str, str, str]) -> None:
    attempt, primitive, says, fix = row
    s, (_, C) = program(8)
    config = autotvm.ConfigSpace()
    y = C.op.axis[0]
    config.define_split("tile", y, num_outputs=2)
    config.define_knob("plain", [1, 2])
    config.define_reorder("order", [y], "all")
    config.define_annotate("marks", [y], "try_unroll")
    with refused(primitive, says, fix=fix):
        attempt(config, s, C, y)


def test_a_refused_configuration_says_why() -> None:
    @autotvm.template("errors/refuses")
    def refuses(n: int) -> Any:
        autotvm.get_config().raise_error("too wide")
        return program(n)

    with refused("template", "too wide", fix="another configuration"):
        autotvm.task.create("errors/refuses", (8,), "llvm").instantiate(autotvm.ConfigEntity({}, 0))


# Templates and tasks.


@autotvm.template("errors/nothing")
def nothing(n: int) -> Any:
    return None


@autotvm.template("errors/numbers")
def numbers(n: int) -> Any:
    return 1, 2


@autotvm.template("errors/one tensor")
def one_tensor(n: int) -> Any:
    s, args = program(n)
    return s, args[1]


@autotvm.template("errors/none left")
def none_left(n: int) -> Any:
    cfg = autotvm.get_config()
    cfg.define_knob("a", [1, 2])
    cfg.multi_filter(lambda entity: entity["a"].val > 2)
    return program(n)


def task() -> Any:
    return autotvm.task.create("errors/good", (8,), "llvm")


def tuner(**options: Any) -> Any:
    """A run of a random tuner with those options, none of which gets as far as a trial."""
    return autotvm.tuner.RandomTuner(task()).tune(
        **{"n_trial": 1, "measure_option": autotvm.measure_option("local", "local"), **options}
    )


class Numbers(autotvm.tuner.Tuner):
    """A tuner that gives numbers instead of configurations."""

    def next_batch(self, batch_size: int) -> Any:
        return list(range(batch_size))


def measured() -> Any:
    """What a callback gets of one trial."""
    config = task().config_space.get(0)
    inp = autotvm.MeasureInput(task().target, task(), config)
    return [inp], [autotvm.MeasureResult((1e-3,), 0, 1.0, 1.0)]


def encoded(**result: Any) -> str:
    """The line of a trial whose result has these fields."""
    (inp,), (good,) = measured()
    return autotvm.record.encode(inp, good._replace(**result))


def fallback() -> Any:
    """A configuration that stands in, with one split."""
    config = autotvm.task.FallbackConfigEntity()
    config.define_split("a", 128, num_outputs=3)
    return config


TASKS: list[tuple[Callable[[], Any], str, str, str]] = [
    (lambda: autotvm.template(3), "template", "the name of the template is 3", "parentheses"),  # type: ignore[arg-type]
    (lambda: autotvm.task.create("errors/no", (8,), "llvm"), "task.create", "no template 'errors/no'", "errors/good"),
    (lambda: autotvm.task.create(len, (8,), "llvm"), "task.create", "given as <built-in function len", "registered"),
    (lambda: good(8, 9), "errors/good", "called with the 2 arguments (8, 9): too many", "its parameters are (n:"),
    (lambda: autotvm.task.create("errors/good", 8, "llvm"), "task.create", "args=8", "args=(8,)"),  # type: ignore[arg-type]
    (lambda: autotvm.task.create("errors/good", None, "llvm"), "task.create", "args=None", "args=()"),  # type: ignore[arg-type]
    (lambda: autotvm.task.create("errors/good", (8, 9), "llvm"), "task.create", "too many positional", "(n:"),
    (lambda: autotvm.task.create("errors/good", (8,)), "task.create", "no target is given", '"llvm"'),
    (lambda: autotvm.task.create("errors/good", (object(),), "llvm"), "task.create", "is a object", "numbers"),
    (lambda: autotvm.task.create("errors/nothing", (8,), "llvm"), "template", "returns NoneType", "return s, [A"),
    (lambda: autotvm.task.create("errors/one tensor", (8,), "llvm"), "template", "(ScheduleHandle, Tensor)", "[A, W"),
    (lambda: autotvm.task.create("errors/none left", (8,), "llvm"), "config_space", "rule out every", "loosen"),
    (lambda: autotvm.task.create("errors/numbers", (8,), "llvm"), "template", "tuple of (int, int)", "return s, [A"),
    (lambda: task().instantiate(3), "task.instantiate", "the configuration is 3", "config_space.get(0)"),
    (lambda: task().config_space.get("x"), "config_space.get", "the index is 'x'", "space[name]"),
    (lambda: task().config_space.get(99), "config_space.get", "99 is outside the space of 4", "0 to 3"),
    (lambda: autotvm.tuner.RandomTuner(3), "tuner", "the task is 3", "task.create"),  # type: ignore[arg-type]
    (
        lambda: autotvm.tuner.Tuner(task()),
        "tuner",
        "Tuner names no configuration to try",
        "next_batch(self, batch_size)",
    ),
    (lambda: Numbers(task()).tune(1, autotvm.measure_option()), "tune", "Numbers.next_batch returns 0", "config_space"),
    (lambda: autotvm.tuner.RandomTuner(task(), seed=-1), "tuner", "seed=-1", "0 or more"),
    (lambda: autotvm.tuner.GATuner(task(), seed="x"), "tuner", "seed='x'", "leave it out"),  # type: ignore[arg-type]
    (lambda: autotvm.tuner.RandomTuner(task(), 5), "tuner", "range_idx=5 is not a range of the 4", "(0, 3)"),  # type: ignore[arg-type]
    (lambda: autotvm.tuner.GridSearchTuner(task(), (4, 9)), "tuner", "range_idx=(4, 9)", "(0, 3)"),
    (lambda: autotvm.tuner.XGBTuner(task(), num_threads="x"), "XGBTuner", "num_threads='x'", "100"),  # type: ignore[arg-type]
    (lambda: autotvm.tuner.XGBTuner(task(), loss_type="x", model="numpy"), "tuner", "loss_type 'x'", '"rank"'),
    (lambda: autotvm.tuner.XGBTuner(task(), optimizer=np.zeros(2)), "XGBTuner", "optimizer=array", '"sa"'),
    (lambda: autotvm.tuner.XGBTuner(task(), loss_type=["x"], model="numpy"), "tuner", "loss_type ['x']", '"rank"'),  # type: ignore[arg-type]
    (lambda: autotvm.tuner.GATuner(task(), pop_size=0), "GATuner", "pop_size=0", "an int"),
    (lambda: autotvm.tuner.GATuner(task(), mutation_prob=2), "GATuner", "mutation_prob=2", "0 to 1"),
    (lambda: autotvm.tuner.XGBTuner(task(), plan_size="x"), "XGBTuner", "plan_size='x'", "100"),  # type: ignore[arg-type]
    (lambda: tuner(n_trial="x"), "tune", "n_trial='x' is not a whole number", "n_trial=100"),
    (lambda: tuner(n_trial=-1), "tune", "n_trial=-1 is not a whole number of 1 or more", "n_trial=100"),
    (lambda: tuner(early_stopping="x"), "tune", "early_stopping='x'", "early_stopping=100"),
    (lambda: tuner(resume=np.zeros(0)), "tune", "resume=array([], dtype=float64) is not True", "resume=True"),
    (lambda: autotvm.measure_option(np.zeros(0), "local"), "measure_option", "builder=array([]", "LocalBuilder"),
    (lambda: tuner(confirm="x"), "tune", "confirm='x' is not a whole number of 0 or more", "confirm=3"),
    (
        lambda: autotvm.tuner.RandomTuner(task()).load_history([], min_seed_records="x"),  # type: ignore[arg-type]
        *("load_history", "min_seed_records='x' is not a whole number of 0 or more", "min_seed_records=3"),
    ),
    (lambda: autotvm.tune_tasks([task()], "1s", confirm=-1), "tune_tasks", "confirm=-1", "confirm=3"),
    (lambda: autotvm.tune_tasks([task()], "1s", early_stopping=0), "tune_tasks", "early_stopping=0", "=100"),
    (lambda: tuner(callbacks=3), "tune", "callbacks=3 is not a list", "log_to_file"),
    (lambda: tuner(callbacks=[3]), "tune", "callbacks=[3] is not a list of functions", "log_to_file"),
    (lambda: tuner(measure_option=None), "tune", "measure_option is None", "autotvm.measure_option"),
    (
        lambda: autotvm.tuner.RandomTuner(task()).load_history(3),
        "load_history",
        "3 is not a measurement",
        "load_from_file",
    ),  # type: ignore[arg-type]
    (lambda: autotvm.LocalBuilder(timeout="x"), "LocalBuilder", "timeout='x'", "timeout=10"),  # type: ignore[arg-type]
    (lambda: autotvm.LocalBuilder(timeout=0), "LocalBuilder", "timeout=0: a positive number", "timeout=10"),
    (
        lambda: autotvm.task.clear_fallback_cache(None, ["conv"]),
        "DispatchContext",
        "is not a workload",
        "task.workload",
    ),
    (lambda: autotvm.ConfigEntity(3), "ConfigEntity", "is not a mapping", "space.get(index)"),  # type: ignore[arg-type]
    (lambda: autotvm.LocalRunner(timeout=10**5000), "LocalRunner", "timeout= is a number of more than", "timeout=10"),
    (lambda: autotvm.LocalBuilder(n_parallel="x"), "LocalBuilder", "n_parallel='x'", "n_parallel=4"),  # type: ignore[arg-type]
    (lambda: autotvm.LocalRunner(number=0), "LocalRunner", "number=0: a whole number of at least 1", "number=4"),
    (lambda: autotvm.LocalRunner(repeat="x"), "LocalRunner", "repeat='x'", "repeat=4"),  # type: ignore[arg-type]
    (lambda: autotvm.LocalRunner(min_repeat_ms=-1), "LocalRunner", "min_repeat_ms=-1", "leave it out"),
    (lambda: autotvm.measure_option("rpc", "local"), "measure_option", "builder='rpc'", "LocalBuilder"),
    (
        lambda: autotvm.measure_option("local", number=10, do_fork=True),
        *("measure_option", "takes a builder and a runner, and no number, do_fork", "LocalRunner(number=10))"),
    ),
    (lambda: autotvm.callback.log_to_file(3), "log_to_file", "3 is not a file", "conv.log"),  # type: ignore[arg-type]
    (lambda: autotvm.callback.log_to_file(io.BytesIO()), "log_to_file", "not a file that takes text", "conv.log"),  # type: ignore[arg-type]
    (lambda: autotvm.callback.log_to_file(""), "log_to_file", "'' is not a file path", "conv.log"),
    (lambda: autotvm.callback.log_to_file("a.log", "pickle"), "record", "protocol 'pickle'", '"json"'),
    (
        lambda: autotvm.callback.log_to_file("/dev/full")(None, *measured()),
        "log_to_file",
        "No space left",
        "free some disk space",
    ),
    (lambda: autotvm.callback.log_to_file("/proc/no/x"), "log_to_file", "cannot write to /proc/no/x", "a folder"),
    (lambda: autotvm.callback.progress_bar("x"), "progress_bar", "total='x'", "n_trial"),  # type: ignore[arg-type]
    (lambda: autotvm.apply_history_best(3), "apply_history_best", "3 is not a log", "a log file"),
    (lambda: autotvm.apply_history_best("/no/log"), "load_from_file", "cannot read /no/log", "log_to_file"),
    (lambda: autotvm.apply_history_best(""), "load_from_file", "'' is not a file path", "conv.log"),
    (lambda: autotvm.record.pick_best(EMPTY, None), "record", "None is not a file path", "conv.log"),  # type: ignore[arg-type]
    (lambda: autotvm.record.pick_best(EMPTY, "/proc"), "record", "cannot write /proc: Is a directory", "a file"),
    (lambda: tilewright.auto_schedule([ZEROS], "llvm", log=3), "auto_schedule", "3 is not a file path", "conv.log"),
    (lambda: autotvm.record.load_from_file(3), "load_from_file", "3 is not a file path", "conv.log"),  # type: ignore[arg-type]
    (
        lambda: autotvm.tuner.RandomTuner(task()).load_history("a.log"),
        "load_history",
        "'a.log' is no",
        "load_from_file",
    ),  # type: ignore[arg-type]
    (lambda: fallback().fallback_split("a", [-1, 8]), "fallback_split", "cannot fall back to [-1, 8]", "[-1, 8, 4]"),
    (lambda: fallback().fallback_split("a", 3), "fallback_split", "cannot fall back to 3", "one bound for each"),
    (lambda: fallback().fallback_split("a", [1, "x", 2]), "fallback_split", "back to [1, 'x', 2]", "one bound"),
    (lambda: fallback().__setitem__("a", 5), "cfg[...]", "cfg['a'] = 5 is not a choice", "SplitEntity([-1, 4])"),
    (
        lambda: fallback().fallback_with_reference_log([3]),
        *("fallback_with_reference_log", "3 is not a measurement", "load_from_file"),
    ),
    (lambda: encoded(costs=None), "record.encode", "costs=None", "MeasureResult((seconds"),
    (lambda: encoded(costs=()), "record.encode", "the costs are ()", "MeasureResult((seconds"),
    (lambda: encoded(costs=(float("nan"),)), "record.encode", "the costs are (nan,)", "MeasureResult((seconds"),
    (lambda: encoded(error_no="x"), "record.encode", "error_no='x'", "NO_ERROR"),
    (lambda: autotvm.record.encode(1, 2), "record.encode", "1 and 2 are not a measurement", "MeasureInput"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("row", TASKS, ids=lambda row: row[2][:40])
def test_a_wrong_use_of_the_tuner(row: tuple[Callable[[], Any], str, str, str]) -> None:
    attempt, primitive, says, fix = row
    with refused(primitive, says, fix=fix):
        attempt()


def test_an_error_of_the_template_itself_is_left_as_it_is() -> None:
    @autotvm.template("errors/raises")
    def raises(n: int) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        autotvm.task.create("errors/raises", (8,), "llvm")


def test_lines_of_a_log_that_are_no_records(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log").write_text("not json\n{}\n[1]\n")
    assert list(autotvm.record.load_from_file(tmp_path / "log")) == []
    assert [text.split("skipped: ")[1][:20] for text in caplog.messages] == ["this is not a record"] * 3
