"""A candidate is instantiated, lowered and compiled once, from its inspection to its last measurement."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from tilewright import autotvm, te
from tilewright.core.target import Target
from tilewright.fleet import candidate_process
from tilewright.fleet.protocol import PickledCandidate
from tilewright.loops import build as loops
from tilewright.measure import batch
from tilewright.measure.build import build
from tilewright.measure.job import Built, Job
from tilewright.measure.option import LocalBuilder, LocalRunner
from tilewright.measure.outcome import BuildFailed
from tilewright.measure.session import MeasureSession
from tilewright.passes.context import PassContext
from tilewright.tune.analysis.candidate import inspect_candidate
from tilewright.tune.search.by_name import SEARCHES
from tilewright.tune.session.campaign import Entrant
from tilewright.tune.session.layer import LayerSearch
from tilewright.tune.session.options import SearchOptions
from tilewright.tune.space.config import Config
from tilewright.tune.space.space import Space
from tilewright.tune.task import Candidate, PureTemplate, Task


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file to which all processes write what they instantiate, lower and build."""
    log = tmp_path / "counted"
    log.touch()
    instantiate, lower = Task.instantiate, loops._Builder.function
    current = [0]

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{what} {current[0]}\n")

    def instantiated(task: Task, config: Any) -> Any:
        current[0] = config.index
        note("instantiated")
        return instantiate(task, config)

    def lowered(builder: Any, keep_outputs: bool) -> Any:
        note("lowered")
        return lower(builder, keep_outputs)

    def built(job: Any, build_func: Any) -> Any:
        current[0] = job.instantiate.config.index
        note("built")
        return build(job, build_func)

    monkeypatch.setattr(batch, "build", built)
    monkeypatch.setattr(Task, "instantiate", instantiated)
    monkeypatch.setattr(loops._Builder, "function", lowered)
    return log


@pytest.mark.parametrize(("search", "confirm"), [("random", 2), ("xgb", 0)])
def test_a_search_builds_each_candidate_once(search: str, confirm: int, counted: Path) -> None:
    task = autotvm.templates.conv1d.task("llvm", shape=(512,), kernel=5)
    runner = LocalRunner(timeout=600, number=1, repeat=1, cooldown_interval=0)
    counted.write_text("")  # a task counts its operations
    with MeasureSession("llvm", LocalBuilder(timeout=600, n_parallel=2), runner) as session:
        found = Entrant(task, SEARCHES[search](task, 0, 0.0))
        layer = LayerSearch([found], session, SearchOptions(8, confirm=confirm))
        tally = layer.go()
    assert tally.done == 8
    assert tally.best is not None
    assert tally.best.input.notes.confirmed == bool(confirm), "measured again, and not built again"
    times = Counter(counted.read_text().splitlines())
    measured = {trial.input.config.index for trial in layer.runs[0].good.values()}
    assert measured
    counts = {times[f"{what} {index}"] for index in measured for what in ("instantiated", "lowered", "built")}
    assert counts == {1}, "in all rounds of the confirmation too"
    assert max(times.values()) == 1, "the others, which were looked at, neither"
    run = layer.runs[0]
    for held in (run._inspected, run._programs):
        assert len(measured & set(held)) <= confirm + 1, "loop nests and programs are dropped after the outcome"


@pytest.mark.parametrize(
    ("target", "operator", "sizes"),
    [
        ("cuda -arch=sm_90", "conv2d", {"shape": (1, 16, 14, 14), "filters": 32}),
        ("opencl", "conv1d", {"shape": (4096,), "kernel": 7}),
        ("llvm", "depthwise", {"shape": (1, 16, 28, 28)}),
    ],
)
def test_the_code_is_that_of_the_schedule(target: str, operator: str, sizes: dict[str, Any]) -> None:
    task = getattr(autotvm.templates, operator).task(target, **sizes)
    on = Target(target)
    for index in (task.default, task.config_space.range_length // 3):
        config = task.config_space.get(index)
        found = inspect_candidate(task, config, on, "itervar" if index else "knob", keep_lowered=True)
        if found.refusal is None:
            assert 0 < len(found.lowered) < 50_000
            handed = build(Job(_never, 0, on, lowered=found.lowered), "default")
            made = build(Job(Candidate(task, config), 0, on), "default")
            assert isinstance(handed, Built)
            assert isinstance(made, Built)
            assert handed.spec == made.spec
            assert _sources(handed) == _sources(made)


def test_another_target_or_other_options_make_it_anew() -> None:
    task = autotvm.templates.conv1d.task("llvm", shape=(64,), kernel=3)
    config = task.config_space.get(0)
    lowered = inspect_candidate(task, config, Target("llvm"), keep_lowered=True).lowered
    assert isinstance(build(Job(_never, 0, Target("llvm"), lowered=lowered), "default"), Built)
    with PassContext(disabled_pass=["share_storage"]):
        _asks_for_the_schedule(build(Job(_never, 0, Target("llvm"), lowered=lowered), "default"))
    _asks_for_the_schedule(build(Job(_never, 0, Target("llvm -mcpu=x86-64"), lowered=lowered), "default"))
    _asks_for_the_schedule(build(Job(_never, 0, Target("llvm"), lowered=lowered), lambda *_: None))  # type: ignore[arg-type, return-value]
    with PassContext(disabled_pass=["share_storage"]):
        assert inspect_candidate(task, config, Target("llvm"), keep_lowered=True).lowered == b""


def test_a_worker_of_a_fleet_builds_from_it() -> None:
    task = autotvm.templates.conv1d.task("llvm", shape=(64,), kernel=3)
    lowered = inspect_candidate(task, task.config_space.get(0), Target("llvm"), keep_lowered=True).lowered
    sent = PickledCandidate("llvm", pickle.dumps(_never), b"", LocalBuilder(), LocalRunner(), lowered)
    job = candidate_process._job("1", pickle.loads(pickle.dumps(sent)))
    assert isinstance(build(job, "default"), Built)
    of_before = object.__new__(PickledCandidate)  # a message of a version that sent no such thing
    of_before.__dict__.update({name: value for name, value in vars(sent).items() if name != "lowered"})
    _asks_for_the_schedule(build(candidate_process._job("1", pickle.loads(pickle.dumps(of_before))), "default"))


def test_a_program_of_deep_expressions() -> None:
    def chain(config: Any) -> Any:
        A = te.placeholder((4,), name="A")
        B = te.compute((4,), lambda i: reduce(lambda e, k: e * A[(i + k) % 4] + 1.0, range(600), A[i]), name="B")
        return te.create_schedule(B.op), [A, B]

    task, on = Task("tests/deep", (), Target("llvm"), PureTemplate("tests/deep", Space, chain)), Target("llvm")
    found = inspect_candidate(task, Config({}), on, keep_lowered=True)
    assert found.refusal is None
    handed = build(Job(_never, 0, on, lowered=found.lowered), "default")
    made = build(Job(Candidate(task, Config({})), 0, on), "default")
    assert isinstance(handed, Built)
    assert isinstance(made, Built)
    assert _sources(handed) == _sources(made)


def _never() -> Any:
    raise AssertionError("it is lowered already")


def _asks_for_the_schedule(found: Any) -> None:
    assert isinstance(found, BuildFailed)
    assert "it is lowered already" in found.reason


def _sources(built: Built) -> Any:
    program = pickle.loads(built.program)
    return program.source, program.entries, program.kernels
