"""The benchmark that tunes the layers of networks, on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import networks
from benchmarks.network_layers import layers
from benchmarks.networks import FAILED, LAYERS, Bench, candidates_of, compile_layer, summary, worth_tuning
from benchmarks.ship_records import read
from tilewright.core.target import Target
from tilewright.functional.arguments.problem import CONV, Problem
from tilewright.tune.records.format import decode

LAYER = Problem(CONV, (1, 8, 9, 9), 8, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 8, "float32", "NCHW")


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers are tuned for the CPU, where they can run."""
    pytest.importorskip("torch")
    monkeypatch.setattr(networks, "TARGET", Target("llvm"))


def test_every_layer_is_worth_tuning_again() -> None:
    every = [problem for problem, which in layers().items() if "Mamba" in which]
    assert set(worth_tuning(["Mamba"], again=True)) == set(every)
    assert set(worth_tuning(["Mamba"])) < set(every)


@pytest.mark.parametrize("again", [False, True])
def test_candidates_are_different_and_begin_with_that_of_a_call(again: bool) -> None:
    first, *others = candidates_of(LAYER, 6, again)
    assert first.why != "tried"
    assert len(others) == 5
    assert len({(each.template.name, each.config.index) for each in (first, *others)}) == 6


def test_strategies_are_tried_in_turns() -> None:
    layer = Problem(CONV, (1, 64, 14, 14), 64, (7, 7), (1, 1), (3, 3, 3, 3), (1, 1), 64, "float16", "NCHW")
    names = [each.template.name for each in candidates_of(layer, 8)]
    assert {"topi/depthwise.direct", "topi/depthwise.mma"} < set(names)
    assert max(map(names.count, names)) < 6


def test_a_layer_is_measured_and_written(cpu: None, tmp_path: Path) -> None:
    _, programs = compile_layer(LAYER, 1, False)
    line = networks._tried(LAYER, programs, tmp_path)
    assert line.endswith(str(LAYER))
    (found,) = read(tmp_path / LAYERS)
    assert Problem.read(found["problem"]) == LAYER
    inp, result = decode(networks.json.dumps(found["record"]))
    assert (inp.config.index, result.costs) == (programs[0].index, (found["ours"],))
    assert "depthwise float32 NCHW" in "\n".join(summary([found]))


def test_a_wrong_result_is_no_record(cpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bench, "ours", lambda self, executable: lambda: self.out[:, :-1].copy_(self.right[:, :-1]))
    _, programs = compile_layer(LAYER, 1, False)
    assert "none of 1 configurations is right" in networks._tried(LAYER, programs, tmp_path)
    assert not read(tmp_path / LAYERS)


def test_a_layer_that_fails_is_noted(cpu: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ours(self: Bench, executable: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Bench, "ours", ours)
    _, programs = compile_layer(LAYER, 1, False)
    assert networks._tried(LAYER, programs, tmp_path) == f"{LAYER}: out of memory"
    (noted,) = read(tmp_path / FAILED)
    assert noted["why"] == "out of memory"


@pytest.mark.cuda
def test_a_layer_is_tuned_on_a_gpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this PyTorch has no GPU")
    _, programs = compile_layer(LAYER, 4, True)
    networks._tried(LAYER, programs, tmp_path)
    (found,) = read(tmp_path / LAYERS)
    assert len(found["tried"]) == len(programs)
