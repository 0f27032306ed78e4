"""Spaces that are counted and indexed without being listed, and knobs that are refused."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from tilewright.error import UserError
from tilewright.tune.search.annealing import AnnealingSearch
from tilewright.tune.search.genetic import GeneticSearch
from tilewright.tune.search.simple import GridSearch, RandomSearch
from tilewright.tune.space import factors, lazy
from tilewright.tune.space.choices import SplitChoice
from tilewright.tune.space.knobs import annotate_knob, reorder_knob, split_knob, value_knob
from tilewright.tune.space.space import Space


def products(extent: int, parts: int, tried: list[int], no_tail: bool) -> list[tuple[int, ...]]:
    """The splits of an extent from the definition: all tuples of sizes, the first varying fastest."""
    found = [tuple(reversed(rest)) for rest in itertools.product(tried, repeat=parts - 1)]
    fits = [s for s in found if math.prod(s) <= extent and (not no_tail or extent % math.prod(s) == 0)]
    return [(-1, *sizes) for sizes in fits]


@pytest.mark.parametrize("policy", factors.POLICIES)
@pytest.mark.parametrize("no_tail", [False, True])
@pytest.mark.parametrize(("extent", "parts"), [(1, 1), (12, 1), (12, 2), (36, 3), (50, 4), (7, 3)])
def test_splits_are_those_of_the_definition_in_its_order(policy: str, no_tail: bool, extent: int, parts: int) -> None:
    tried = factors.candidates(extent, policy)
    splits = lazy.Splits(extent, parts, tried, no_tail)
    wanted = products(extent, parts, tried, no_tail)
    assert [splits.at(i) for i in range(splits.count)] == wanted
    assert [splits.place(sizes) for sizes in wanted] == list(range(len(wanted)))
    assert splits.place((-1, *[extent + 1] * (parts - 1))) in (None, 0)


@pytest.mark.parametrize("count", range(6))
def test_orders_are_the_permutations(count: int) -> None:
    orders = lazy.Orders(count)
    wanted = list(itertools.permutations(range(count)))
    assert [orders.at(i) for i in range(orders.count)] == wanted
    assert [orders.place(order) for order in wanted] == list(range(len(wanted)))


@pytest.mark.parametrize("words", [["none", "unroll", "vec"], ["vec"], ["none", "vec"], ["none"], ["vec", "unroll"]])
@pytest.mark.parametrize("count", range(5))
def test_words_are_all_tuples_with_one_vector(words: list[str], count: int) -> None:
    made = lazy.Words(words, count, once="vec")
    wanted = [w for w in itertools.product(words, repeat=count) if w.count("vec") <= 1]
    assert [made.at(i) for i in range(made.count)] == wanted
    assert [made.place(marks) for marks in wanted] == list(range(len(wanted)))


def large_space() -> Space:
    """More configurations than anybody could list, of knobs that are themselves larger than that."""
    return Space(
        [
            split_knob("split", 2**20, num_outputs=20),
            split_knob("tails", 5000, "verbose", num_outputs=12),
            reorder_knob("order", list(range(15)), "all"),
            annotate_knob("marks", list(range(30)), "try_unroll_vec"),
            value_knob("flag", [0, 1]),
        ]
    )


def test_a_space_too_large_to_list_is_counted_indexed_and_searched() -> None:
    space = large_space()
    assert [len(knob) for knob in space.knobs[:1]] == [math.comb(39, 19)]
    assert space.size == math.prod(len(knob) for knob in space.knobs)
    rng = random.Random(1)
    for _ in range(50):
        index = rng.randrange(space.size)
        config = space.get(index)
        assert space.find(config) == index
        assert math.prod(config["split"].size[1:]) <= 2**20
    for search in (
        RandomSearch(space, 0), GridSearch(space), GeneticSearch(space, 20, 3, 0.1, 0),
        AnnealingSearch(space, "knob", 0),
    ):  # fmt: skip
        found = search.propose(8)
        assert len(set(found)) == 8
        assert all(space.is_index_valid(i) for i in found)
    assert "order: Reorder(policy=all) len=1307674368000" in repr(space)


def test_choices_of_another_kind_are_not_found_there() -> None:
    knob = large_space().knobs[0]
    assert knob.place_of(SplitChoice([-1, 2])) is None
    assert knob.place_of(SplitChoice([-1, 3, *[1] * 18])) is None
    assert knob.place_of(value_knob("x", [1]).choices[0]) is None
    assert knob.choices[-1] == knob.choices[len(knob) - 1]
    assert len(knob.entities[:3]) == 3
    with pytest.raises(IndexError):
        knob.choices[len(knob)]


def test_draws_from_large_knobs_reach_all_of_them() -> None:
    space = large_space()
    points = space.draw(np.random.default_rng(0), 200)
    assert (points[:, 0] > len(space.knobs[0]) // 2).any()
    assert all(0 <= p < len(k) for p, k in zip(points[0].tolist(), space.knobs, strict=True))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: split_knob("x", 512, num_outputs=1000), "num_outputs=1000"),
        (lambda: split_knob("x", 2**40, num_outputs=64), "more than can be numbered"),
        (lambda: split_knob("x", 2**20, num_outputs=30, filter=lambda e: True), "would have to be tried on"),
        (lambda: reorder_knob("x", list(range(40)), "all"), "more than can be numbered"),
        (lambda: annotate_knob("x", list(range(64)), "locate_cache", num_anchor=32), "chooses 32 of 64 loops"),
        (lambda: value_knob("x", range(10**7)), "more than 1,000,000 values"),
        (lambda: value_knob("x", itertools.count()), "more than 1,000,000 values"),
    ],
)
def test_what_nobody_could_search_is_refused_at_once(make, said) -> None:
    with pytest.raises(UserError, match=said):
        make()


def test_the_label_of_a_long_list_is_short() -> None:
    assert len(repr(value_knob("x", range(100_000)))) < 1000
