"""Strategies on a synthetic surface: reproducible, never asking twice, and better than chance where they learn."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tune.fakes import surface
from tilewright.tune.search.annealing import AnnealingSearch
from tilewright.tune.search.genetic import GeneticSearch
from tilewright.tune.search.search import Seen
from tilewright.tune.search.simple import GridSearch, RandomSearch
from tilewright.tune.search.trees import TreeModel
from tilewright.tune.space.knobs import value_knob
from tilewright.tune.space.space import Space

STRATEGIES = {
    "random": lambda space, seed: RandomSearch(space, seed),
    "genetic": lambda space, seed: GeneticSearch(space, pop_size=30, seed=seed),
    "annealing": lambda space, seed, **how: AnnealingSearch(space, "knob", seed, **how),
}
every = pytest.mark.parametrize("name", STRATEGIES)


def brief(name, space, seed):
    """A strategy where only its rules matter, not how well it searches: chains are few and short."""
    return STRATEGIES[name](space, seed, **({"chains": 16, "steps": 30} if "annealing" in name else {}))


def run(strategy, rate, trials, batch=16, shuffle=0):
    """The indices tried, in order; results are learned in an order of their own, as real ones are."""
    asked = []
    order = np.random.default_rng(shuffle)
    while len(asked) < trials and (proposed := strategy.propose(min(batch, trials - len(asked)))):
        asked += proposed
        done = order.permutation(proposed).tolist()
        strategy.learn([Seen(i, rate(i)) for i in done])
    return asked


@every
def test_the_same_seed_gives_the_same_trials(name):
    space, rate = surface()
    first, again, other = (run(brief(name, space, seed), rate, 96, shuffle=s) for seed, s in ((1, 1), (1, 2), (2, 1)))
    assert first == again
    assert first != other


@every
def test_nothing_is_tried_twice_or_against_a_predicate(name):
    space, rate = surface()
    space = space.where(lambda c: c["t0"].size[2] <= 64, ["t0"])
    asked = run(brief(name, space, 3), rate, 160)
    assert len(asked) == len(set(asked)) == 160
    assert all(space.is_index_valid(i) for i in asked)


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "random"])
def test_learning_beats_chance(name):
    space, rate = surface()

    def best(name, seed):
        return max(rate(i) for i in run(STRATEGIES[name](space, seed), rate, 240, batch=48))

    learned = [best(name, seed) for seed in range(2)]
    chance = [best("random", seed) for seed in range(2)]
    assert np.mean(learned) > 1.3 * np.mean(chance)
    assert min(learned) > max(chance)


def test_parents_are_the_fittest_of_all_that_were_seen():
    space, rate = surface()
    search, drawn, known = GeneticSearch(space, pop_size=8, seed=0), np.random.default_rng(5), {}
    for _ in range(40):
        again = drawn.choice(list(known), size=2).tolist() if known else []
        seen = {i: float(drawn.choice([0.0, 0.5, 1.0]) * rate(i)) for i in (*search.propose(4), *again)}
        known.update(seen)
        search.learn([Seen(i, score) for i, score in seen.items()])
        fittest = sorted((i for i in known if known[i] > 0), key=lambda i: (-known[i], i))[:8]
        assert search._parents() == (fittest if len(known) >= 8 and len(fittest) >= 2 else [])


@every
def test_a_small_space_is_searched_to_the_end(name):
    space = Space([value_knob("a", list(range(6))), value_knob("b", list(range(7)))])
    space = space.where(lambda c: c["a"].val != c["b"].val)
    asked = run(brief(name, space, 0), float, 1000)
    assert sorted(asked) == list(space)


def test_grid_search_goes_in_order():
    space = Space([value_knob("a", list(range(5)))]).where(lambda c: c["a"].val != 2)
    assert GridSearch(space).propose(10) == [0, 1, 3, 4]
    assert GridSearch(space, 1, 4).propose(10) == [1, 3]


def test_random_search_within_a_range():
    space, _ = surface()
    asked = run(RandomSearch(space, 0, 1000, 1050), float, 50)
    assert set(asked) <= set(range(1000, 1050))


def test_released_configurations_may_come_again():
    space = Space([value_knob("a", list(range(8)))])
    strategy = RandomSearch(space, 0)
    first = strategy.propose(8)
    strategy.release(first[3:])
    assert sorted(strategy.propose(8)) == sorted(first[3:])


@every
def test_advice_is_tried_first(name):
    space, rate = surface()
    strategy = brief(name, space, 0)
    known = np.random.default_rng(5).integers(space.range_length, size=300).tolist()
    strategy.advise([Seen(i, rate(i)) for i in known])
    best = max(known, key=rate)
    assert best in strategy.propose(16)


def test_advice_teaches_the_model():
    space, rate = surface()
    known = np.random.default_rng(5).integers(space.range_length, size=300).tolist()
    taught, plain = AnnealingSearch(space, "knob", 0), AnnealingSearch(space, "knob", 0)
    taught.advise([Seen(i, 50 * rate(i)) for i in known])
    first = [np.mean([rate(i) for i in s.propose(32)]) for s in (taught, plain)]
    assert first[0] > 2 * first[1]


def test_trees_learn_an_order():
    model = TreeModel(0)
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 6))
    scores = np.exp(rows[:, 0] - np.abs(rows[:, 1]) + 0.5 * (rows[:, 2] > 0))
    scores /= scores.max()
    model.fit(rows[:300], scores[:300])
    found, wanted = model.predict(rows[300:]), scores[300:]
    pairs = [(a, b) for a in range(100) for b in range(a)]
    right = np.mean([(found[a] > found[b]) == (wanted[a] > wanted[b]) for a, b in pairs])
    assert right > 0.85


def test_features_of_the_nest_choose_among_what_can_run():
    space, rate = surface()
    strategy = AnnealingSearch(space, "itervar", 0)
    assert strategy.overshoot(10) == 40
    for _ in range(4):
        proposed = strategy.propose(16)
        strategy.learn([Seen(i, rate(i), {"rate": rate(i), "noise": float(i % 7)}) for i in proposed])
    looks = {i: {"rate": rate(i), "noise": float(i % 7)} for i in strategy.propose(16)}
    ranked = strategy.rank(looks)
    assert np.mean([rate(i) for i in ranked[:4]]) > np.mean([rate(i) for i in ranked[-4:]])
