"""Rates of kernels on CPUs: how they are fitted, which layers they decide, and which a first call times."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tilewright.cli import cpu_calibration
from tilewright.cli.sample_layers import draw
from tilewright.functional.arguments.problem import CONV, WEIGHT_GRADIENT, Problem
from tilewright.functional.planning import cpu_rates, kernel_choice, rivals, tuning
from tilewright.functional.planning.cpu_rates_fit import fit
from tilewright.functional.planning.decision import Decision, Side
from tilewright.runtime.device import cpu

LONG = Problem(CONV, (1, 16, 1, 16000), 16, (1, 100), (1, 1), (0, 0, 0, 0), (1, 1), 16, "float32", "NCHW")
SETS = ("AVX2", "AVX-512", "AMX")


def simulated(problem: Problem) -> tuple[float, float]:
    """A machine on which PyTorch's dense kernels have four times our FLOP/s, and its others a long overhead."""
    times = []
    for side, flop, overhead in ((Side.OURS, 50e9, 2e-6), (Side.THEIRS, 200e9, 80e-6)):
        work, size = cpu_rates.work(problem, side)
        times.append(cpu_rates.LayerRates(overhead, flop if problem.groups == 1 else 50e9, 20e9).seconds(work, size))
    return times[0], times[1]


def test_fitted_rates_predict_the_machine_that_they_were_measured_on() -> None:
    rng = random.Random(3)
    layers = [(problem, *simulated(problem)) for problem in (draw(rng, "float32") for _ in range(300))]
    table: cpu_rates.Table = {"AMX": fit(layers)}
    for problem, ours, theirs in layers[::10]:
        assert cpu_rates.expected_ratio(problem, "AMX", table) == pytest.approx(ours / theirs, rel=0.5)
    whole = table["AMX"]["float32"]
    assert set(whole["any"]) == {"ours", "theirs"}
    found = cpu_rates.rates("AMX", "float32", "no kind of layer", table)[Side.OURS]
    assert found == cpu_rates.LayerRates(*whole["any"]["ours"])


@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
def test_rates_ship_for_each_type_and_instruction_set(instructions: str, dtype: str) -> None:
    found = cpu_rates.rates(instructions, dtype, cpu_rates.kind(LONG))
    for one in found.values():
        assert 1e-7 < one.overhead < 1e-2
        assert 1e8 < one.flop_per_second < 1e13
        assert 1e7 < one.bytes_per_second < 1e13


@pytest.mark.parametrize("instructions", SETS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
@pytest.mark.parametrize("groups", [64, 16])
def test_weight_gradients_have_rates_of_their_own(
    instructions: str, dtype: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of a near instruction set, before those of all layers that calibration measured."""
    taps, zeros = (7, 7), (3, 3, 3, 3)
    of = Problem(WEIGHT_GRADIENT, (8, 64, 28, 28), 64, taps, (1, 1), zeros, (1, 1), groups, dtype, "NHWC")
    before = cpu_rates.expected_ratio(of, instructions)
    others = {"any": {side: [1e-6, 1e9, 1e9] for side in ("ours", "theirs")}}
    monkeypatch.setattr(cpu_rates, "calibrated", lambda: {instructions: {dtype: others}})
    assert cpu_rates.expected_ratio(of, instructions) == before < 1


def test_bfloat16_is_pytorchs_with_matrix_instructions_and_long_windows_are_not() -> None:
    """Layers of no table, which a CPU with AMX computes at many times the speed of vectors."""
    dense = Problem(CONV, (1, 200, 30, 30), 200, (7, 7), (1, 1), (3, 3, 3, 3), (1, 1), 1, "bfloat16", "NCHW")
    assert cpu_rates.expected_ratio(dense, "AMX") > 2
    assert cpu_rates.expected_ratio(dense._replace(dtype="float32"), "AMX") < cpu_rates.expected_ratio(dense, "AMX")
    assert cpu_rates.expected_ratio(LONG, "AVX-512") < 1


def test_calibration_is_kept_and_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(cpu_calibration, "instruction_set", lambda: "AMX")
    cpu_rates.calibrated.cache_clear()
    steps: list[None] = []
    found = cpu_calibration.calibrate(simulated, lambda: steps.append(None), each=6)
    assert len(steps) == 24
    assert {row[1] for row in cpu_calibration.described(found)} == set(cpu_calibration.TYPES)
    before = cpu_rates.expected_ratio(LONG, "AMX")
    path = cpu_rates.keep(found)
    assert path is not None
    assert json.loads(path.read_text()) == found
    assert cpu_rates.expected_ratio(LONG, "AMX") == pytest.approx(cpu_rates.expected_ratio(LONG, "AMX", found))
    assert cpu_rates.expected_ratio(LONG, "AMX") != before
    path.write_text("{")
    cpu_rates.calibrated.cache_clear()
    assert cpu_rates.expected_ratio(LONG, "AMX") == before, "a damaged file counts as none"
    cpu_rates.calibrated.cache_clear()


@pytest.mark.parametrize(("ratio", "times", "side"), [
    (5.0, None, Side.THEIRS), (0.2, None, Side.OURS), (1.4, (3e-6, 4e-6), Side.OURS), (0.8, (5e-6, 4e-6), Side.THEIRS),
])  # fmt: skip
def test_a_first_call_times_both_kernels_only_if_the_estimate_leaves_it_open(
    ratio: float, times: tuple[float, float] | None, side: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals._here.cache_clear()
    monkeypatch.setattr(cpu_rates, "expected_ratio", lambda *_: ratio)
    monkeypatch.setattr(rivals, "known_on_cpu", lambda *_: [])
    rivals._by_rates.cache_clear()
    asked: list[Problem] = []

    def compared(problem: Problem, on: Any, choice: Decision, program: Any) -> tuple[Decision, Any]:
        assert times is not None
        asked.append(problem)
        ours, theirs = times
        return choice._replace(side=Side.OURS if ours <= theirs else Side.THEIRS), program

    monkeypatch.setattr(tuning, "compared", compared)
    choice, _ = kernel_choice.choose(LONG, cpu(), "torch", None, 0)
    assert choice.side == side
    assert asked == ([] if times is None else [LONG])
    rivals._here.cache_clear()
    rivals._by_rates.cache_clear()


def test_dilated_taps_of_strided_gradients_are_tried_for_each_result() -> None:
    plain = Problem("conv_transpose", (2, 16, 8, 8), 16, (3, 3), (2, 3), (0, 0, 0, 0), (1, 1), 16, "float32", "NCHW")
    dilated = plain._replace(dilation=(2, 2))
    padding = dilated.places[1] / plain.places[1]  # rows of results are whole vectors
    for side, factor in ((Side.OURS, 6), (Side.THEIRS, 1)):
        found, usual = (cpu_rates.work(each, side)[0] for each in (dilated, plain))
        assert found / usual == pytest.approx(factor, rel=padding)


def test_layers_that_take_long_are_not_timed_by_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    rivals._here.cache_clear()
    monkeypatch.setattr(rivals, "known_on_cpu", lambda *_: [])
    monkeypatch.setattr(rivals, "_by_rates", lambda *_: 1.1)
    assert rivals.is_undecided(LONG, cpu())
    assert not rivals.is_undecided(LONG._replace(shape=(900, *LONG.shape[1:])), cpu())
    rivals._here.cache_clear()
