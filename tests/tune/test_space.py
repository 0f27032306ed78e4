"""Knobs, spaces and predicates: what is offered, in which order, and how it is counted, drawn and found again."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright import autotvm, te
from tilewright.core.divisors import divisors
from tilewright.error import UserError
from tilewright.tune.search.simple import RandomSearch
from tilewright.tune.space import factors, lazy
from tilewright.tune.space.choices import SplitChoice, ValueChoice
from tilewright.tune.space.config import Config
from tilewright.tune.space.knobs import annotate_knob, reorder_knob, split_knob, value_knob
from tilewright.tune.space.predicates import innermost
from tilewright.tune.space.space import Space


@st.composite
def knobs(draw):
    name = draw(st.uuids()).hex
    kind = draw(st.sampled_from(["split", "reorder", "annotate", "value"]))
    if kind == "split":
        policy = draw(st.sampled_from(factors.POLICIES))
        return split_knob(name, draw(st.integers(1, 60)), policy, num_outputs=draw(st.integers(1, 4)))
    if kind == "reorder":
        return reorder_knob(name, list("abc")[: draw(st.integers(1, 3))], "all")
    if kind == "annotate":
        policy = draw(st.sampled_from(["try_unroll", "try_unroll_vec", "unroll"]))
        return annotate_knob(name, list("abc")[: draw(st.integers(1, 3))], policy)
    return value_knob(name, draw(st.lists(st.integers() | st.text(), min_size=1, max_size=5, unique_by=repr)))


spaces = st.lists(knobs(), max_size=5).map(Space)


def test_a_configuration_names_all_knobs_and_no_others():
    first, second = value_knob("a", [1, 2, 3]), value_knob("b", [4, 5])
    shorter, longer = Space([first]), Space([first, second])
    assert longer.find(shorter.get(2)) is None
    assert shorter.find(longer.get(2)) is None
    assert Space([]).find(shorter.get(2)) is None


@given(spaces, st.data())
def test_index_and_configuration_are_one_to_one(space, data):
    index = data.draw(st.integers(0, space.range_length - 1))
    config = space.get(index)
    assert space.index(space.point(index)) == index
    assert space.find(config) == index
    assert space.find(Config.from_json_dict(config.to_json_dict())) == index
    assert Config.from_json_dict(config.to_json_dict()) == config
    assert repr(Config.from_json_dict(config.to_json_dict())) == repr(config)


@given(spaces)
def test_the_first_knob_varies_fastest(space):
    expected = [tuple(reversed(p)) for p in product(*(range(d) for d in reversed(space.dims)))]
    assert [space.point(i) for i in range(min(space.range_length, 200))] == expected[:200]


@given(st.integers(1, 300), st.integers(1, 4), st.sampled_from(factors.POLICIES), st.booleans())
def test_splits_are_all_the_products_that_fit(n, parts, policy, no_tail):
    tried = factors.candidates(n, policy)
    splits = lazy.Splits(n, parts, tried, no_tail)
    found = [splits.at(i) for i in range(splits.count)]
    assert [splits.place(sizes) for sizes in found] == list(range(len(found)))
    every = [(-1, *reversed(sizes)) for sizes in product(tried, repeat=parts - 1)]
    fits = [s for s in every if (n % prod(s[1:]) == 0 if no_tail else prod(s[1:]) <= n)]
    assert found == fits


@given(st.integers(1, 5000))
def test_factors(n):
    assert divisors(n) == [i for i in range(1, n + 1) if n % i == 0]
    assert factors.powers_of_two(n) == [1 << i for i in range(20) if 1 << i <= n]


def test_policies_and_limits_of_a_split():
    assert [c.size for c in split_knob("x", 12, num_outputs=2)] == [[-1, f] for f in (1, 2, 3, 4, 6, 12)]
    assert [c.size[1] for c in split_knob("x", 12, "power2", num_outputs=2)] == [1, 2, 4, 8]
    assert [c.size[1] for c in split_knob("x", 12, "verbose", num_outputs=2)] == [1, 2, 3, 4, 6, 8, 12]
    assert [c.size[1] for c in split_knob("x", 12, num_outputs=2, max_factor=4)] == [1, 2, 3, 4]
    assert [c.size[1] for c in split_knob("x", 12, num_outputs=2, filter=lambda e: e.size[-1] > 4)] == [6, 12]
    listed = split_knob("x", 16, "candidate", candidate=[[1, 4, 4], [4, 1, 4]], num_outputs=3)
    assert [c.size for c in listed] == [[1, 4, 4], [4, 1, 4]]


def test_orders():
    assert len(reorder_knob("o", list("abcd"), "all")) == 24
    kept = reorder_knob("o", list("abcd"), "interval_all", interval=(1, 3))
    assert [c.perm for c in kept] == [[0, 1, 2, 3], [0, 2, 1, 3]]
    a, b, c = (te.reduce_axis((0, 4), name) for name in "abc")
    assert [x.perm for x in reorder_knob("o", [a, b, c], "candidate", candidate=[[c, a, b], [b, a]])] == [
        [2, 0, 1],
        [1, 0],
    ]
    merged = reorder_knob("o", list("abcdef"), "interleave_cuda", spatial=[["a", "b"], ["c", "d"]], reduce=[["e", "f"]])
    assert [x.perm for x in merged] == [[0, 2, 4, 5, 1, 3]]


def test_annotations():
    assert [c.anns for c in annotate_knob("a", ["i"], "try_unroll_vec")] == [["none"], ["unroll"], ["vec"]]
    assert len(annotate_knob("a", ["i", "j"], "try_unroll_vec")) == 8  # not both "vec"
    assert annotate_knob("a", list("ijklm"), "bind_gpu")[0].anns == [
        "fuse", "blockIdx.y", "blockIdx.x", "threadIdx.y", "threadIdx.x",
    ]  # fmt: skip
    assert [c.anns for c in annotate_knob("a", list("ijk"), "locate_cache", num_anchor=2)] == [[0, 1], [0, 2], [1, 2]]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: split_knob("x", 8, "halves", num_outputs=2), "unknown policy 'halves'.*candidate"),
        (lambda: split_knob("x", 8), "num_outputs=0"),
        (lambda: split_knob("x", 8, num_outputs=2, filter=lambda e: False), "has no choices"),
        (lambda: split_knob("x", te.var("n"), num_outputs=2), "extent of the axis of knob 'x' is not known"),
        (lambda: split_knob("x", 8, "candidate", candidate=[[1, 2, 3]], num_outputs=2), "has 3 sizes"),
        (lambda: reorder_knob("o", ["a"], "some"), "unknown policy 'some'"),
        (lambda: reorder_knob("o", ["a"], "candidate", candidate=[["b"]]), "names 'b'"),
        (lambda: reorder_knob("o", ["a"], "interval_all", interval=(0, 2)), "interval"),
        (lambda: annotate_knob("a", ["i"], "bind_gpu"), "too few loops"),
        (lambda: annotate_knob("a", ["i"], "try_dance"), "unknown policy"),
        (lambda: Space([value_knob("v", [1, 2])])["w"], "no knob 'w'.*v"),
        (lambda: Space([value_knob("v", [1, 2])]).get(2), "outside the space of 2"),
        (lambda: Space([value_knob("v", [1, 2])]).get(0)["w"], "no knob 'w'"),
    ],
)
def test_mistakes_are_named(make, says):
    with pytest.raises(UserError, match=rf"(?s){says}"):
        make()


# Predicates


def _tiles(*extents: int) -> Space:
    return Space([split_knob(f"t{i}", n, num_outputs=2) for i, n in enumerate(extents)])


def test_predicates_prune_and_leave_indices_as_they_are():
    plain = _tiles(64, 64, 12)
    space = plain.where(lambda c: c["t0"].size[1] * c["t1"].size[1] <= 256, ["t0", "t1"], "threads")
    valid = [i for i in range(plain.range_length) if space.is_index_valid(i)]
    assert len(space) == len(valid) < plain.range_length == space.range_length
    assert list(space) == valid
    assert all(space.get(i) == plain.get(i) for i in valid)
    with pytest.raises(UserError, match="threads"):
        space.get(next(i for i in range(plain.range_length) if i not in set(valid)))
    assert f"len={len(valid)}, range_length={plain.range_length}" in repr(space)


def test_the_knobs_that_a_predicate_reads_are_found():
    space = _tiles(64, 64, 12).where(lambda c: c["t1"].size[1] > 4 or c["t2"].size[1] == 3)
    assert space.predicates[0].names == ("t1", "t2")
    assert len(space) == sum(space.is_index_valid(i) for i in range(space.range_length))


@pytest.mark.parametrize("limit", [4, 1 << 18], ids=["point by point", "from a table"])
def test_drawing_is_uniform_over_what_is_allowed(limit, monkeypatch):
    monkeypatch.setattr("tilewright.tune.space.predicates.TABLE_LIMIT", limit)
    space = _tiles(8, 8, 3).where(lambda c: c["t0"].size[1] * c["t1"].size[1] == 8, ["t0", "t1"])
    indices = space.indices(space.draw(np.random.default_rng(0), 4000))
    counts = np.bincount(indices, minlength=space.range_length)
    valid = [i for i in range(space.range_length) if space.is_index_valid(i)]
    assert set(np.flatnonzero(counts)) == set(valid)
    assert counts[valid].min() > 0.7 * len(indices) / len(valid)


def test_predicates_that_rule_out_everything_say_so():
    space = _tiles(8).where(lambda c: False, ["t0"], "nothing pleases")
    assert len(space) == 0
    with pytest.raises(UserError, match="nothing pleases"):
        space.draw(np.random.default_rng(0), 1)


def test_a_large_space_of_few_configurations_is_not_empty():
    places = list(range(600))
    space = Space([value_knob("a", places), value_knob("b", places)]).where(lambda c: c["a"].val == c["b"].val == 7)
    assert space.is_index_valid(7 + 7 * 600)
    assert space.size > 0  # an estimate: few draws at random are allowed
    assert RandomSearch(space).has_next()


def test_a_space_may_hold_more_than_64_bits_can_count():
    space = Space([value_knob(f"v{i}", range(100)) for i in range(11)])
    assert space.size == space.range_length == 10**22
    assert repr(space).startswith("ConfigSpace (len=10000000000000000000000, space_map=\n")
    assert space
    with pytest.raises(UserError, match=r"has 1\.00e\+22 configurations, more than len\(\) can say"):
        len(space)
    found = RandomSearch(space, 0, 10**21, 10**21 + 1000).propose(8)
    assert len(set(found)) == 8
    assert all(10**21 <= i < 10**21 + 1000 and space.find(space.get(i)) == i for i in found)


def test_multi_filter_in_a_template():
    @autotvm.template("tests/filtered")
    def filtered(n):
        A = te.placeholder((n,), name="A")
        B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
        s = te.create_schedule(B.op)
        cfg = autotvm.get_config()
        cfg.define_split("x", B.op.axis[0], num_outputs=2)
        cfg.define_split("y", 16, num_outputs=2)
        cfg.multi_filter(filter=lambda entity: 8 <= entity["x"].size[1] * entity["y"].size[1] < 64)
        cfg["x"].apply(s, B, B.op.axis[0])
        return s, [A, B]

    space = autotvm.task.create("tests/filtered", (16,), "opencl").config_space
    assert len(space) == sum(8 <= x * y < 64 for x in (1, 2, 4, 8, 16) for y in (1, 2, 4, 8, 16))


# Choices


def test_choices_apply_to_a_schedule():
    A = te.placeholder((64, 32), name="A")
    B = te.compute((64, 32), lambda i, j: A[i, j] + 1.0, name="B")
    s = te.create_schedule(B.op)
    i, j = B.op.axis
    io, im, ii = SplitChoice([-1, 4, 8]).apply(s, B, i)
    assert [a.name for a in (io, im, ii)] == ["i.outer", "i.inner.outer", "i.inner.inner"]
    order = reorder_knob("o", [io, im, j], "all")[5].apply(s, B, [io, im, j])
    assert order == [j, im, io]
    assert list(s[B].leaf_iter_vars) == [j, im, ii, io]  # only the slots of the three were permuted
    annotate_knob("a", [ii], "unroll")[0].apply(s, B, [ii])
    with pytest.raises(autotvm.task.InstantiationError, match="Too large factor"):
        annotate_knob("a", [io], "unroll")[0].apply(s, B, [io], axis_lens=[64], max_unroll=8)


def test_a_value_is_equal_to_what_a_log_makes_of_it():
    assert ValueChoice((1, 2)) == ValueChoice([1, 2])
    assert hash(ValueChoice((1, 2))) == hash(ValueChoice([1, 2]))
    assert ValueChoice("a") != ValueChoice("b")


@pytest.mark.parametrize(
    "name", ["is_index_filtered", "is_index_valid", "point", "index", "sample_ints", "get_next_index"]
)
def test_an_index_is_a_whole_number(name):
    with pytest.raises(UserError, match=r"is (not )?a whole number"):
        getattr(autotvm.task.ConfigSpace(), name)("x")


def test_a_predicate_is_asked_once_for_choices_that_are_alike_to_it():
    asked = []

    def small(choices):
        asked.append((choices["x"].size[-1], choices["y"].size[-1]))
        return choices["x"].size[-1] * choices["y"].size[-1] <= 8

    knobs = [split_knob("x", 24, num_outputs=3), split_knob("y", 16, num_outputs=2)]
    plain, alike = (Space(knobs).where(small, ("x", "y"), "", part) for part in (None, innermost))
    right = [plain.is_index_valid(i) for i in range(plain.range_length)]
    asked.clear()
    assert alike.size == sum(right)
    assert len(set(asked)) == len(asked) == 8 * 5  # the divisors of 24 and of 16
    assert [alike.is_index_valid(i) for i in range(alike.range_length)] == right


def test_a_predicate_may_read_knobs_that_it_was_not_seen_to_read():
    knobs = [value_knob(name, range(3)) for name in "abc"]
    space = (
        Space(knobs)
        .where(lambda e: e["a"].val != 2 or e["c"].val > 0, ("a",))
        .where(lambda e: e["b"].val <= e["c"].val, ("b", "c"))
        .where(lambda e: e["a"].val <= e["b"].val, ("a", "b"))
    )
    right = [(a, b, c) for c in range(3) for b in range(3) for a in range(3) if a <= b <= c and (a != 2 or c > 0)]
    found = [space.get(i) for i in range(space.range_length) if space.is_index_valid(i)]
    assert [tuple(config[name].val for name in "abc") for config in found] == right


@pytest.mark.parametrize("more", [10, 400])
def test_a_filter_that_reads_a_knob_for_few_choices_of_another(more):
    """Of 1,000 choices, one leads to a knob that no sample was seen to read; with 400 more, too many to tabulate."""
    space = Space([value_knob("a", range(1000)), value_knob("b", range(more))])
    space = space.where(lambda e: e["a"].val != 17 or e["b"].val > 3)
    assert space.predicates[0].names == ("a",)
    assert space.size == pytest.approx(1000 * more - 4, rel=1e-3)
    drawn = space.draw(np.random.default_rng(0), 4000)
    assert len(drawn) == 4000
    assert space.admitted(drawn).all()
    assert space.admitted(np.array([[17, 3], [17, 4], [16, 3]])).tolist() == [False, True, True]


def test_a_filter_that_reads_an_undefined_knob_for_few_choices_is_refused():
    space = Space([value_knob("a", range(1000))]).where(lambda e: e["a"].val != 17 or e["c"].val > 3)
    with pytest.raises(UserError, match="the filter reads knob 'c', which is not defined"):
        _ = space.size


def test_equal_configurations_and_values_hash_alike():
    a, b = value_knob("a", [1, 2]).choices[0], value_knob("b", [3]).choices[0]
    assert len({Config({"a": a, "b": b}), Config({"b": b, "a": a})}) == 1
    assert len({ValueChoice([1, {"x": 2}]), ValueChoice((1.0, {"x": 2}))}) == 1


def test_a_walk_in_a_space_of_very_many_choices():
    space = Space([split_knob("x", 2**60, "verbose", num_outputs=12), value_knob("one", [0])])
    assert space.range_length > 1 << 40
    assert space.random_walk(5) != 5
    assert Space([value_knob("one", [0])]).random_walk(0) == 0


@pytest.mark.parametrize("tuner", [autotvm.tuner.AutoTuner, autotvm.tuner.XGBTuner, autotvm.tuner.GATuner])
def test_a_template_without_knobs_has_one_configuration(tuner):
    @autotvm.template("tests/no_knobs")
    def no_knobs(n):
        a = te.placeholder((n,), name="A")
        b = te.compute((n,), lambda i: a[i] + 1.0, name="B")
        s = te.create_schedule(b.op)
        s[b].bind(b.op.axis[0], te.thread_axis("threadIdx.x"))
        return s, [a, b]

    task = autotvm.task.create("tests/no_knobs", (64,), "cuda")
    made = tuner(task, seed=1)
    assert [config.index for config in made.next_batch(4)] == [0]
    assert not made.has_next()
    assert [config.index for config in autotvm.rank(task, 3)] == [0]


def test_a_filter_of_too_many_combinations_to_ask_about_all():
    space = Space([value_knob("a", range(1000)), value_knob("b", range(1000)), value_knob("c", range(2))])
    space = space.where(lambda e: (e["a"].val, e["b"].val) != (17, 3) or e["c"].val == 1)
    assert space.predicates[0].names == ("a", "b")
    assert space.admitted(np.array([[17, 3, 0], [17, 3, 1], [17, 4, 0]])).tolist() == [False, True, True]
    assert space.predicates[0].names == ("a", "b", "c")
    assert len(space.draw(np.random.default_rng(0), 1000)) == 1000
