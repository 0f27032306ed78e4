"""Random schedules of scripts: loops of the text split, fused, reordered, written out; values are those of Python."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, note, settings

import tilewright as tw
from tests.loops.running import run
from tests.te.hybrid_scripts import PROGRAMS
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.loops.verify import verify

pytestmark = pytest.mark.hypothesis


@st.composite
def cases(draw: Any) -> tuple[Any, tuple[Any, ...], list[tuple[Any, ...]]]:
    """A script, its values, and steps: a primitive, the places of loops among the leaves, and a number."""
    script, values = draw(st.sampled_from(PROGRAMS))
    place = st.integers(0, 6)
    step = st.one_of(
        st.tuples(st.just("split"), place, st.sampled_from([1, 2, 3, 4, 7])),
        st.tuples(st.just("nparts"), place, st.sampled_from([1, 2, 3, 5])),
        st.tuples(st.just("fuse"), place, st.just(0)),
        st.tuples(st.just("reorder"), place, place),
        st.tuples(st.just("unroll"), place, st.just(0)),
    )
    return script, values, draw(st.lists(step, max_size=6))


def take(s: te.Schedule, op: Any, step: tuple[Any, ...]) -> None:
    """Take a step, unless it is refused or the loops are not there."""
    how, k, number = step
    leaves = s[op].leaf_iter_vars
    if k >= len(leaves):
        return
    try:
        if how == "split":
            s[op].split(leaves[k], factor=number)
        elif how == "nparts":
            s[op].split(leaves[k], nparts=number)
        elif how == "fuse" and k + 1 < len(leaves):
            s[op].fuse(leaves[k], leaves[k + 1])
        elif how == "reorder" and number < len(leaves):
            s[op].reorder(*dict.fromkeys((leaves[k], leaves[number])))
        elif how == "unroll":
            s[op].unroll(leaves[k])
        note(f"{how} {leaves[k].name} {number}")
    except UserError:
        return


@settings(max_examples=40, deadline=None)
@given(cases())
def test_schedules_of_scripts_change_no_value(case: Any) -> None:
    script, values, steps = case
    tensors = [te.placeholder(v.shape, str(v.dtype)) if isinstance(v, np.ndarray) else v for v in values]
    made, want = script(*tensors), script(*values)
    outs, wanted = (made, want) if isinstance(made, list) else ([made], [want])
    s = te.create_schedule(outs[0].op)
    for step in steps:
        take(s, outs[0].op, step)
    inputs = [t for t in tensors if isinstance(t, te.Tensor)]
    try:
        function = tw.lower(s, [*inputs, *outs])["main"]
    except UserError as error:
        if "constant" not in error.message:
            raise
        return  # a loop to be written out, of a length known as it runs
    verify(function)
    results = [np.full([int(e) for e in o.shape], 77, str(o.dtype)) for o in outs]
    run(function, *(v for v in values if isinstance(v, np.ndarray)), *results, races=False)
    for found, expected in zip(results, wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-5)
