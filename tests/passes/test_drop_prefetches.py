"""On GPUs no prefetch is left, and no loop or condition that held nothing else."""

from __future__ import annotations

from tests.loops.programs import load, loop, store
from tests.passes.kernels import A, B, copy, i, inside, j, kernel, same, tx
from tests.passes.running import run_pass
from tilewright.core.dtype import DType
from tilewright.expr.effects import PREFETCH
from tilewright.expr.nodes import Call
from tilewright.expr.operators import const, less
from tilewright.loops.nodes import AddressOf, Evaluate, If, Stmt, seq
from tilewright.passes.drop_prefetches import drop_prefetches


def prefetch(index: object) -> Stmt:
    place = AddressOf(load(A, index), const(1, "int32"), True, False)
    return Evaluate(Call(PREFETCH, (place,), DType("int32")))


def test_a_prefetch_goes_with_the_loops_and_conditions_around_it() -> None:
    only = loop(i, 4, If(less(tx, 3), prefetch(tx * 4 + i), None))
    before = kernel(only, copy(tx))
    after = run_pass(drop_prefetches, before)
    assert inside(after) is inside(kernel(copy(tx)))


def test_what_stands_beside_a_prefetch_stays() -> None:
    before = kernel(loop(i, 4, seq(prefetch(tx * 4 + i), copy(tx * 4 + i))))
    after = run_pass(drop_prefetches, before)
    assert inside(after) is inside(kernel(loop(i, 4, copy(tx * 4 + i))))
    same(kernel(loop(i, 4, copy(tx * 4 + i))), after)


def test_a_condition_with_another_branch_stays() -> None:
    other = store(B, tx, load(A, tx) * 2)
    after = run_pass(drop_prefetches, kernel(If(less(tx, 3), prefetch(tx), other)))
    same(kernel(If(less(tx, 3), seq(), other)), after)


def test_a_program_without_prefetches_is_left_as_it_is() -> None:
    before = kernel(loop(i, 2, loop(j, 2, copy(tx * 4 + i * 2 + j))))
    assert run_pass(drop_prefetches, before) is before
