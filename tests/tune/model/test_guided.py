"""The guided search: what it proposes first, that it learns, repeats, and ends; its parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tilewright import autotvm
from tilewright.core.errors import UserError
from tilewright.core.target import Target
from tilewright.measure.outcome import MeasureErrorNo, MeasureResult
from tilewright.topi.templates import Conv1dVector, Conv2dLayer, named
from tilewright.tune.model.learned import Corrections
from tilewright.tune.model.ranking import rank, rank_quickly
from tilewright.tune.model.scoring import Scorer
from tilewright.tune.records.format import MeasureInput, Notes
from tilewright.tune.search.annealing import AnnealingSearch
from tilewright.tune.search.guided import GuidedSearch, automatic
from tilewright.tune.search.search import Seen
from tilewright.tune.session.show import short_line
from tilewright.tune.space.knobs import split_knob, value_knob
from tilewright.tune.space.moves import Moves
from tilewright.tune.space.space import Space
from tilewright.tune.task import Task

CONV1D = named("topi/conv1d")
CONV2D = named("topi/conv2d")

CUDA = Target.parse("cuda -arch=sm_90")


def task() -> Task:
    return CONV2D.task(Conv2dLayer.of((1, 64, 14, 14), 64), CUDA)


class Measured:
    """A device that is not as the model expects: it dislikes wide blocks, and loves two results per thread."""

    def __init__(self, of: Task) -> None:
        self.task = of
        self.scorer = Scorer(of)

    def seconds(self, indices: Sequence[int]) -> list[float]:
        return [float(s) * self.wrong(i) for i, s in zip(indices, self.scorer.seconds(indices), strict=True)]

    def wrong(self, index: int) -> float:
        config = self.task.config_space.get(index)
        threads = config["tile_f"].size[2] * config["tile_y"].size[2] * config["tile_x"].size[2]
        return float(1 + 0.4 * abs(np.log2(threads) - 5) + 0.5 * abs(np.log2(config["tile_f"].size[3]) - 1))

    def run(self, search: GuidedSearch, trials: int, batch: int = 8) -> list[float]:
        """The best after each trial."""
        best, curve = np.inf, []
        while len(curve) < trials and (proposed := search.propose(batch)):
            assert len(set(proposed)) == len(proposed)
            seconds = self.seconds(proposed)
            for found in seconds:
                best = min(best, found)
                curve.append(best)
            rates = [self.task.flop / found if np.isfinite(found) else 0.0 for found in seconds]
            search.learn([Seen(i, rate) for i, rate in zip(proposed, rates, strict=True)])
        return curve


def test_the_first_batch_is_what_the_model_ranks_first() -> None:
    of = task()
    first = GuidedSearch(of, seed=0, effort=0.2).propose(8)
    expected = Scorer(of).seconds(first)
    drawn = of.config_space.indices(of.config_space.draw(np.random.default_rng(0), 500))
    sampled = Scorer(of).seconds(drawn)
    assert expected.max() < np.percentile(sampled[np.isfinite(sampled)], 5)
    threads = {of.config_space.get(i)["tile_f"].size[2] for i in first}
    assert len(threads) > 1  # of several kinds


def test_it_learns_what_the_model_gets_wrong() -> None:
    of = task()
    device = Measured(of)
    curve = device.run(GuidedSearch(of, seed=2, effort=0.2), 48)
    trusting = device.seconds(rank(of, count=48).indices)
    assert curve[-1] < 0.98 * min(trusting)


def test_the_same_seed_repeats() -> None:
    of = task()
    device, runs = Measured(of), []
    for _ in range(2):
        search, proposed = GuidedSearch(of, seed=5, effort=0.2), []
        for _ in range(3):
            batch = search.propose(8)
            proposed += batch
            found = list(zip(batch, device.seconds(batch), strict=True))
            search.learn([Seen(i, of.flop / seconds) for i, seconds in reversed(found)])
        runs.append(proposed)
    assert runs[0] == runs[1]


def test_it_ends_where_no_gain_is_expected() -> None:
    of = task()
    device = Measured(of)
    curve = device.run(GuidedSearch(of, seed=0, least_gain=0.2, effort=0.2), 400, batch=16)
    assert 32 < len(curve) < 400


def test_a_small_space_is_tried_to_its_end() -> None:
    of = CONV1D.task(Conv1dVector.of(4, 1), CUDA)
    search, proposed = GuidedSearch(of, seed=0, effort=0.2), []
    while batch := search.propose(32):
        proposed += batch
        search.learn([Seen(i, 1e9 + i) for i in batch])
    assert sorted(proposed) == sorted(of.config_space)


def test_failures_are_learned() -> None:
    of = task()
    search = GuidedSearch(of, seed=0, effort=0.2)
    batch = search.propose(8)
    search.learn([Seen(i, 0.0 if k % 2 else 1e11) for k, i in enumerate(batch)])
    assert not set(search.propose(8)) & set(batch)


def test_where_the_model_does_not_reach_the_search_is_annealing() -> None:
    assert isinstance(automatic(CONV1D.task(Conv1dVector.of(100, 3), Target("llvm")), 0), AnnealingSearch)
    assert isinstance(automatic(task(), 0), GuidedSearch)
    assert isinstance(autotvm.tuner.AutoTuner(task(), seed=0).strategy, GuidedSearch)


def test_first_configurations_are_those_that_rank_first() -> None:
    workload = Conv2dLayer.of((1, 64, 14, 14), 64)
    first = CONV2D.default_config(workload, CUDA)
    assert first.index == rank_quickly(task())
    assert Scorer(task()).seconds([first.index])[0] <= 1.3 * rank(task()).seconds[0]
    usual = CONV2D.gpu.default_config(workload)
    assert Scorer(task()).seconds([first.index])[0] < Scorer(task()).seconds([usual.index])[0]


@pytest.mark.parametrize("least_gain", [2, -1, "much", True])
def test_a_gain_that_is_none(least_gain: Any) -> None:
    with pytest.raises(UserError, match="least_gain="):
        autotvm.tuner.AutoTuner(task(), least_gain=least_gain)


# Parts


def test_corrections_interpolate_and_know_what_they_do_not_know() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, size=(120, 3))
    learned = Corrections()
    before = learned.estimate(rows[:2], np.array([1.0, 2.0]))
    assert before.mean.tolist() == pytest.approx([0.0, np.log(2.0)])
    learned.fit(rows[:100], np.full(100, 2.0), 2.0 * np.exp(np.sin(rows[:100, 0]) + 0.3))
    found = learned.estimate(rows[100:], np.full(20, 2.0))
    assert found.mean == pytest.approx(np.log(2.0) + np.sin(rows[100:, 0]) + 0.3, abs=0.25)
    useless = Corrections()
    guesses = np.exp(rng.normal(size=100))
    useless.fit(rows[:100], guesses, np.ones(100))
    assert np.ptp(useless.estimate(rows[:100], guesses).mean) < 0.5  # what told nothing apart is not believed
    far = learned.estimate(np.full((1, 3), 30.0), np.ones(1))
    assert far.deviation[0] > 3 * found.deviation.mean()


def test_moves_stay_in_the_space() -> None:
    knobs = [split_knob("a", 64, num_outputs=3), split_knob("b", 36, num_outputs=2), value_knob("c", ["x", "y", "z"])]
    space = Space(knobs).where(lambda e: e["a"].size[1] * e["b"].size[1] <= 64, ("a", "b"))
    rng = np.random.default_rng(0)
    moves = Moves(space, rng)
    points = space.draw(rng, 200)
    for made in (moves.mutated(points), moves.crossed(points, 100)):
        assert len(made) > 20
        assert space.admitted(made).all()
    changed = [min((made != point).sum() for point in points) for made in moves.mutated(points, knobs=1)]
    assert max(changed) <= 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MeasureErrorNo.RUN_TIMEOUT, "trial 12  failed: run timeout"),
        (MeasureErrorNo.BUILD_TIMEOUT, "trial 12  failed: build timeout"),
        (MeasureErrorNo.WRONG_ANSWER, "trial 12  failed: wrong answer"),
        (MeasureErrorNo.COMPILE_DEVICE, "trial 12  failed: compile error"),
        (MeasureErrorNo.INSTANTIATION_ERROR, "trial 12  failed: no kernel"),
        (99, "trial 12  failed: error number 99"),
    ],
)
def test_lines_of_failures(error: int, expected: str) -> None:
    of = task()
    inp = MeasureInput(CUDA, of, of.config_space.get(0))
    assert short_line(12, inp, MeasureResult((RuntimeError("no"),), error, 1.0, 0.0)) == expected


def test_line_of_a_measurement() -> None:
    of = task()
    inp = MeasureInput(CUDA, of, of.config_space.get(0)).noted(Notes(flop=2e6))
    line = short_line(3, inp, MeasureResult((1e-6, 3e-6), 0, 1.0, 0.0), "best")
    assert line == "trial 3  1,000.0 GFLOPS  2.00 µs  best"
