"""A select that might read outside evaluates one branch only."""

from __future__ import annotations

from tests.loops.programs import function, load, loop, store
from tests.passes.kernels import A, B, i, same
from tests.passes.running import run_pass
from tilewright.expr.nodes import IfThenElse, Select
from tilewright.expr.operators import less
from tilewright.expr.traverse import post_order
from tilewright.passes.guard_selects import guard_selects


def test_a_select_that_might_read_outside_evaluates_one_branch_only() -> None:
    guarded = loop(i, 64, store(B, i, Select(less(i, 60), load(A, i + 4), load(A, i))))
    before = function((A, B), guarded)
    made = run_pass(guard_selects, before)
    assert any(isinstance(node, IfThenElse) for node in post_order(made.body))
    assert not any(isinstance(node, Select) for node in post_order(made.body))
    same(made, made)


def test_a_select_that_reads_inside_stays() -> None:
    before = function((A, B), loop(i, 60, store(B, i, Select(less(i, 30), load(A, i + 4), load(A, i)))))
    made = run_pass(guard_selects, before)
    assert any(isinstance(node, Select) for node in post_order(made.body))
    same(before, made)
