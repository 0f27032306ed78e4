"""The model and the guided search, judged by tables of configurations measured on an H200."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import model_fit, replay
from benchmarks.tables import TABLES as TABLES_OF
from tilewright.core.target import Target
from tilewright.tune.model.machine import Machine

TABLES = Path(__file__).parents[2] / "data" / "tables"
CUDA = Target.parse("cuda -arch=sm_90")


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("depthwise", 0.83),
        ("conv1d", 0.90),
        ("tutorial", 0.88),
        ("tutorial-filters", 0.82),
        ("conv1d-line", 0.90),
        ("conv2d-steps", 0.80),
        # The weights were fitted without these:
        ("conv2d-threads", 0.85),
        ("packaged-conv1d", 0.85),
        ("r50-b1-l1.3x3", 0.83),
        ("r50-b1-l3.3x3", 0.87),
        # Templates with models of their own:
        ("dense-mma-512x1024-f16", 0.80),
        ("direct-256x64-k3", 0.90),
        ("direct-16x576x14s2-f16", 0.85),
        ("direct-grouped-128x56", 0.90),
        ("dwmma-1x96x56-k7-f16", 0.85),
        ("dwmma-32x96x56-k7-f16", 0.90),
        ("gemm-1x256x14", 0.88),
        ("gemm-16x128x28", 0.90),
        ("mma-16x128x28-f16", 0.85),
        ("mma-32x256x14-f16", 0.80),
        ("mma-8x256x14-f32", 0.80),
        ("window-16x32x56-f16", 0.92),
        ("window-16x64x56-f16", 0.92),
        # Direct loads of fused loops, behind conditions:
        ("pool-16x256x14-f16", 0.92),
        ("pool-64x112", 0.92),
        ("transposed-4x64x28", 0.85),
        ("transposed-64x56", 0.85),
    ],
)
def test_predicted_times_are_in_the_order_of_measured_ones(name: str, least: float) -> None:
    table = model_fit.read(TABLES / f"{name}.log.xz", CUDA)
    rank, _, ten, ratio = model_fit.judged(table, Machine.of(CUDA, "NVIDIA H200"))
    assert rank >= least
    assert ten >= 0.8
    assert 0.5 < ratio < 1.5


@pytest.mark.parametrize("name", ["depthwise", "conv1d-line", "conv2d-steps", "conv2d-threads"])
def test_what_is_ranked_first_is_nearly_the_best_of_a_whole_space(name: str) -> None:
    table = model_fit.read(TABLES / f"{name}.log.xz", CUDA)
    _, first, ten, _ = model_fit.judged(table, Machine.of(CUDA, "NVIDIA H200"))
    assert first >= 0.85
    assert ten >= 0.95


GENERAL = ["line-4096-k8", "line-65536-k128", "pool-64x112", "transposed-64x56"]
"""Tables of packaged templates that begin with the default configuration."""
MORE = [
    "line-262144-k15",
    "line-16384-k32-f16",
    "line-1000000-k3",
    "pool-16x256x14-f16",
    "pool-8x512x7",
    "transposed-128x28-k2",
    "transposed-4x64x28",
    "transposed-8x256x14-f16",
    "pool-32x96x56",
]


def first_of(name: str) -> tuple[float, float]:
    """How fast the default configuration and the best of a table are, beside the one that is ranked first."""
    table = model_fit.read(TABLES / f"{name}.log.xz", CUDA)
    predicted = table.predicted(Machine.of(CUDA, "NVIDIA H200"))
    default = TABLES_OF[name].task(CUDA).declared.ranked_default
    assert default is not None
    (default_index,) = np.flatnonzero(table.indices == default.find())
    best = predicted.argmin()
    first = default_index if predicted[default_index] <= predicted[best] * (1 + default.lead) else best
    return float(table.seconds[default_index] / table.seconds[first]), float(table.seconds.min() / table.seconds[first])


@pytest.mark.parametrize("names", [GENERAL, pytest.param(GENERAL + MORE, marks=pytest.mark.slow)], ids=["some", "all"])
def test_first_configurations_of_general_templates_are_faster_than_rules_of_thumb(names: list[str]) -> None:
    beside_rules, beside_best = np.array([first_of(name) for name in names]).T
    assert beside_rules.min() > 0.93
    assert np.exp(np.log(beside_rules).mean()) > 1.15
    assert np.exp(np.log(beside_best).mean()) > 0.85


def searched(name: str, seeds: int, trials: int) -> np.ndarray:
    """The best of the table over the best found, for each seed after each trial."""
    table = replay.read(TABLES / f"{name}.log.xz", CUDA)
    guided = replay.SEARCHES["guided"]
    curves = [replay.searched(table, guided(table.task, seed), trials) for seed in range(seeds)]
    return table.best / np.array(curves)


@pytest.mark.parametrize(("name", "least"), [("tutorial-sums", 0.93), ("tutorial-filters", 0.97)])
def test_the_guided_search_finds_the_best_soon(name: str, least: float) -> None:
    assert searched(name, seeds=2, trials=32)[:, -1].min() >= least


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tutorial-sums", "tutorial-filters", "depthwise"])
def test_five_seeds_find_the_best(name: str) -> None:
    parts = searched(name, seeds=5, trials=64)
    assert np.median(parts[:, 31]) >= 0.95
    assert parts[:, -1].min() >= 0.95
