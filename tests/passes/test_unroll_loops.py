"""Which loops are written out, and how."""

from __future__ import annotations

from typing import Any

import pytest

import tilewright as tw
from tests.loops.programs import alloc, buf, function, load, loop, store, thread
from tests.passes.running import run_pass
from tilewright import te
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Var
from tilewright.expr.operators import less, likely
from tilewright.loops.nodes import For, If, Seq, Stmt, Store, seq
from tilewright.loops.verify import verify
from tilewright.passes.unroll_loops import unroll_loops

A, B = buf("A", 64), buf("B", 64)
i, j, k = Var("i"), Var("j"), Var("k")
UNROLLED = LoopKind.UNROLLED


def unrolled(stmt: Stmt, params: tuple[Any, ...] = (A, B)) -> Stmt:
    made = run_pass(unroll_loops, function(params, stmt))
    verify(made)
    return made.body


def copy(index: Any) -> Stmt:
    return store(B, index, load(A, index))


def marked(stmt: For, **pragmas: Any) -> For:
    return For(stmt.var, stmt.min, stmt.extent, stmt.kind, stmt.thread, tuple(pragmas.items()), stmt.body)


def indices(stmt: Stmt) -> list[str]:
    """Where the stores of a sequence go."""
    parts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
    return [str(part.indices[0]) for part in parts if isinstance(part, Store)]


def kinds(stmt: Stmt) -> list[LoopKind]:
    """The kinds of the loops, outermost first."""
    own = [stmt.kind] if isinstance(stmt, For) else []
    return own + [kind for child in stmt.children() if isinstance(child, Stmt) for kind in kinds(child)]


def test_an_unrolled_loop_is_written_out() -> None:
    assert indices(unrolled(loop(i, 4, copy(i * 2 + 1), UNROLLED))) == ["1", "3", "5", "7"]


def test_from_its_minimum() -> None:
    assert indices(unrolled(loop(i, 3, copy(i), UNROLLED, low=5))) == ["5", "6", "7"]


def test_from_a_minimum_that_the_call_brings() -> None:
    n = Var("n")
    assert indices(unrolled(loop(i, 2, copy(i), UNROLLED, low=n), (A, B, n))) == ["n", "n + 1"]


def test_a_loop_of_one() -> None:
    assert indices(unrolled(loop(i, 1, copy(i), UNROLLED))) == ["0"]


def test_a_loop_of_none() -> None:
    assert unrolled(loop(i, 0, copy(i), UNROLLED)) == Seq(())


def test_others_stay() -> None:
    for kind in (LoopKind.SERIAL, LoopKind.PARALLEL):
        assert kinds(unrolled(loop(i, 4, copy(i), kind))) == [kind]
    assert kinds(unrolled(thread("tx", 4, copy))) == [LoopKind.THREAD]


def test_nested_loops_are_written_out_together() -> None:
    body = loop(i, 2, loop(j, 3, copy(i * 3 + j), UNROLLED), UNROLLED)
    assert indices(unrolled(body)) == [str(n) for n in range(6)]


def test_an_unrolled_loop_around_a_serial_one() -> None:
    made = unrolled(loop(i, 2, loop(j, 8, copy(i * 8 + j)), UNROLLED))
    assert isinstance(made, Seq)
    assert kinds(made) == [LoopKind.SERIAL] * 2
    assert [str(part.body.indices[0]) for part in made.stmts] == ["j", "j + 8"]  # type: ignore[attr-defined]


def test_guards_are_decided_in_the_copies() -> None:
    body = loop(i, 4, If(likely(less(i, 3)), copy(i), None), UNROLLED)
    assert indices(unrolled(body)) == ["0", "1", "2"]
    either = loop(i, 2, If(less(i, 1), copy(i), copy(i + 10)), UNROLLED)
    assert indices(unrolled(either)) == ["0", "11"]


def test_an_extent_that_is_not_constant_is_refused() -> None:
    n = Var("n")
    with pytest.raises(UserError, match="loop 'i' has the extent `n`, which is not constant"):
        unrolled(loop(i, n, copy(i), UNROLLED), (A, B, n))


# auto_unroll_max_step: serial loops are unrolled while extent times steps stays within it.


@pytest.mark.parametrize(("steps", "kept"), [(0, 1), (3, 1), (4, 0), (16, 0)])
def test_serial_loops_within_the_limit_are_written_out(steps: int, kept: int) -> None:
    body = marked(loop(k, 2, loop(i, 4, copy(k * 4 + i))), auto_unroll_max_step=steps)
    made = kinds(unrolled(body))
    assert made == [LoopKind.SERIAL] * (1 + kept) if steps < 8 else made == []


def test_the_weight_of_a_body_counts_all_its_stores() -> None:
    body = loop(i, 4, seq(copy(i), copy(i + 4)))
    assert kinds(unrolled(marked(loop(k, 9, body), auto_unroll_max_step=7))) == [LoopKind.SERIAL] * 2
    assert kinds(unrolled(marked(loop(k, 9, body), auto_unroll_max_step=8))) == [LoopKind.SERIAL]


def test_a_loop_around_one_that_stays_stays() -> None:
    body = loop(i, 2, loop(j, 100, copy(j)))
    assert kinds(unrolled(marked(loop(k, 2, body), auto_unroll_max_step=64))) == [LoopKind.SERIAL] * 3


def test_unrolling_a_loop_explicitly_counts_towards_those_around() -> None:
    body = loop(j, 2, loop(i, 4, copy(j * 4 + i), UNROLLED))
    assert kinds(unrolled(marked(loop(k, 9, body), auto_unroll_max_step=7))) == [LoopKind.SERIAL] * 2
    assert kinds(unrolled(marked(loop(k, 9, body), auto_unroll_max_step=8))) == [LoopKind.SERIAL]


def test_a_limit_holds_below_its_loop_only() -> None:
    first = marked(loop(i, 2, loop(j, 2, copy(i * 2 + j))), auto_unroll_max_step=2)
    second = loop(k, 2, loop(Var("l"), 2, copy(k)))
    made = unrolled(seq(first, second))
    assert isinstance(made, Seq)
    assert [len(kinds(part)) for part in made.stmts] == [1, 2]


def test_an_inner_limit_replaces_an_outer_one() -> None:
    inner = marked(loop(j, 4, loop(i, 2, copy(i))), auto_unroll_max_step=0)
    assert kinds(unrolled(marked(loop(k, 2, inner), auto_unroll_max_step=64))) == [LoopKind.SERIAL] * 3


# unroll_explicit=0: the back end's compiler shall do it.


def test_unrolling_is_left_to_the_compiler() -> None:
    body = marked(loop(k, 5, loop(i, 4, copy(i))), auto_unroll_max_step=4, unroll_explicit=0)
    assert kinds(unrolled(body)) == [LoopKind.SERIAL, UNROLLED]
    asked = marked(loop(k, 5, loop(i, 4, copy(i), UNROLLED)), unroll_explicit=False)
    assert kinds(unrolled(asked)) == [LoopKind.SERIAL, UNROLLED]


def test_explicit_is_the_default() -> None:
    assert kinds(unrolled(marked(loop(k, 5, loop(i, 4, copy(i))), auto_unroll_max_step=4))) == [LoopKind.SERIAL]


# What the copies share.


def test_storage_of_the_copies_is_one() -> None:
    """Each copy is done with it before the next begins."""
    local = buf("L", 1, scope="local")
    body = loop(i, 2, alloc(local, store(local, 0, load(A, i)), store(B, i, load(local, 0))), UNROLLED)
    assert isinstance(unrolled(body), Seq)


def test_a_loop_that_stands_in_two_places_may_stay_in_one() -> None:
    """As the copies of a pipelined loop do: written out where the limit admits it, and not elsewhere."""
    body = loop(i, 4, copy(i))
    made = unrolled(seq(marked(loop(k, 2, body), auto_unroll_max_step=4), loop(j, 9, seq(body, copy(j)))))
    assert kinds(made) == [LoopKind.SERIAL, LoopKind.SERIAL, LoopKind.SERIAL]


def test_what_has_nothing_to_unroll_is_left_alone() -> None:
    before = function((A, B), loop(i, 4, copy(i)))
    assert run_pass(unroll_loops, before) is before


def test_more_copies_than_compile_in_reasonable_time_are_refused() -> None:
    """Counted over all unrolled loops of a function: nested ones, one behind the other, and long vectors."""
    nested = loop(i, 128, loop(j, 64, copy(i), kind=UNROLLED), kind=UNROLLED)
    unrolled(nested)
    with pytest.raises(UserError, match=r"16,384 stores, more than the 8,192.*come from the loop 'i' of stage 'B'"):
        unrolled(loop(i, 256, loop(j, 64, copy(i), kind=UNROLLED), kind=UNROLLED))
    again = loop(k, 4096, copy(k), kind=UNROLLED)
    with pytest.raises(UserError, match=r"12,288 stores.*8,192 of them come from the loop 'i'"):
        unrolled(seq(nested, again))
    unrolled(loop(Var("t"), 100_000, again))  # a loop that stays makes no copies
    with pytest.raises(UserError, match="reduce the value of the pragma auto_unroll_max_step"):
        unrolled(marked(loop(k, 9_000, copy(k)), auto_unroll_max_step=10_000))


def test_a_pragma_of_the_name_of_the_mark_is_a_pragma() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1, name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], 4)
    with pytest.warns(UserWarning, match="nothing reads 'write_out'"):
        s[B].pragma(outer, "write_out", True)
    s[B].unroll(inner)
    assert "for i_outer in range(4)" in str(tw.lower(s, [A, B]))
