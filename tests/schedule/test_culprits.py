"""Which steps of a schedule errors of later floors name."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tilewright as tw
from tilewright import te
from tilewright.core.errors import Suspect, UserError
from tilewright.schedule.culprits import culprits


def transpose() -> tuple[te.Schedule, Any, Any, Any]:
    A = te.placeholder((64, 64), name="A")
    B = te.compute((64, 64), lambda i, j: A[j, i], name="B")
    s = te.create_schedule(B.op)
    tile = s.cache_read(A, "shared", [B])
    outer, inner = s[B].split(B.op.axis[0], factor=8)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.x"))
    s[tile].compute_at(s[B], outer)
    s[tile].vectorize(tile.op.axis[1])
    return s, A, B, tile


def named(s: te.Schedule, *suspects: Suspect) -> list[str]:
    return [step.text for step in culprits(s.steps, suspects)]


def test_steps_are_found_by_what_they_were_applied_to() -> None:
    s, *_ = transpose()
    assert named(s, Suspect(("bind",))) == ["s[B].bind(i.outer, blockIdx.x)", "s[B].bind(i.inner, threadIdx.x)"]
    assert named(s, Suspect(("bind",), tag="threadIdx.x")) == ["s[B].bind(i.inner, threadIdx.x)"]
    assert named(s, Suspect(("bind",), axis="i.outer")) == ["s[B].bind(i.outer, blockIdx.x)"]
    assert named(s, Suspect(("bind",), ("A.shared",))) == []
    assert named(s, Suspect(("split", "vectorize"))) == ["s[B].split(i, 8)", "s[A.shared].vectorize(ax1)"]


def test_a_step_that_makes_a_stage_is_found_by_its_name() -> None:
    s, *_ = transpose()
    assert named(s, Suspect(("cache_read", "compute_at"), ("A.shared",))) == [
        's.cache_read(A, "shared", [B])',
        "s[A.shared].compute_at(B, i.outer)",
    ]


def test_a_later_step_takes_the_place_of_an_earlier_one() -> None:
    s, _, B, tile = transpose()
    s[tile].compute_at(s[B], s[B].leaf_iter_vars[2])
    assert named(s, Suspect(("compute_at",))) == ["s[A.shared].compute_at(B, j)"]
    with pytest.warns(UserWarning, match="was bound to blockIdx.x"):
        s[B].bind(s[B].leaf_iter_vars[0], te.thread_axis("blockIdx.y"))
    assert named(s, Suspect(("bind",), axis="i.outer")) == ["s[B].bind(i.outer, blockIdx.y)"]


def test_an_error_keeps_its_steps_on_its_way_between_processes() -> None:
    error = UserError("too many", fix="take fewer", primitive="build", where="x.py:3", suspects=(Suspect(("bind",)),))
    error.naming(["s[B].bind(i, threadIdx.x) at x.py:2"])
    text = "build: too many\n  step: s[B].bind(i, threadIdx.x) at x.py:2\n  fix: take fewer\n  at:  x.py:3"
    assert str(error) == str(pickle.loads(pickle.dumps(error))) == text


def test_replayed_steps_are_named_too() -> None:
    A = te.placeholder((4096,), name="A")
    B = te.compute((4096,), lambda i: A[i] + 1, name="B")
    first, again = te.create_schedule(B.op), te.create_schedule(B.op)
    first[B].bind(B.op.axis[0], te.thread_axis("threadIdx.x"))
    again.replay([step.to_json() for step in first.steps])
    for s in (first, again):
        with pytest.raises(tw.UserError) as caught:
            tw.build(tw.lower(s, [A, B]), target="cuda")
        assert [step.partition(" at ")[0] for step in caught.value.steps] == ["s[B].bind(i, threadIdx.x)"]
