"""One rule says what is best: tuning, logs, reports and `apply_history_best` agree."""

from __future__ import annotations

import random

import pytest

from tests.tune.test_records import pair
from tilewright.tune.records.best import best_of
from tilewright.tune.records.history import History
from tilewright.tune.records.insight import insights


def at(stamp, index, seconds, **notes):
    inp, result = pair(index, seconds, **notes)
    return inp, result._replace(timestamp=float(stamp))


def test_a_confirmation_outranks_luck():
    rows = [at(1, 1, 2.0e-3), at(2, 2, 2.1e-3), at(3, 3, 2.2e-3), at(4, 1, 2.6e-3, confirmed=True),
            at(5, 2, 2.4e-3, confirmed=True)]  # fmt: skip
    assert best_of(rows) == rows[-1]
    later = at(6, 4, 2.3e-3)  # of a search that ended before it confirmed
    assert best_of([*rows, later]) == later


def test_a_confirmation_says_nothing_of_another_device():
    here, there = at(1, 1, 3e-3, device="a", confirmed=True), at(0, 2, 2e-3, device="b")
    assert best_of([here, there]) == there


def test_a_wrong_answer_counts_against_what_was_not_checked():
    rows = [at(1, 1, 1e-3, checked=False), at(2, 2, 2e-3, checked=False), at(3, 1, 1e-3, error_no=5)]
    assert best_of(rows) == rows[1]
    assert best_of(rows[2:]) is None


@pytest.mark.parametrize("seed", range(12))
def test_all_readers_agree(seed):
    chance = random.Random(seed)
    true = {i: chance.uniform(1e-3, 1.2e-3) for i in range(20)}

    def measured(stamp, i, **notes):
        return at(stamp, i, true[i] * chance.uniform(0.8, 1.2), **notes)

    rows = [measured(i, i) for i in true]
    tops = sorted(rows, key=lambda row: row[1].costs)[:3]
    rows += [measured(100 + k, top[0].config.index, confirmed=True) for k, top in enumerate(tops)]
    winner = min(rows[-3:], key=lambda row: row[1].costs)
    (read,) = History(rows, lambda _: "").pairs()
    in_parts = History(rows[:10], lambda _: "")
    in_parts.add(rows[10:])
    assert best_of(rows) == read == in_parts.pairs()[0] == insights(rows)[0].winner == winner
