"""A vthread becomes copies of what depends on it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.loops.programs import alloc, buf, function, load, loop, store, thread
from tests.passes.kernels import A, B, copy, i, same
from tests.passes.running import run_pass
from tilewright import tir
from tilewright.core.errors import UserError
from tilewright.core.hardware import LoopKind
from tilewright.expr.nodes import Var
from tilewright.expr.traverse import post_order
from tilewright.loops.interpret import interpret
from tilewright.loops.nodes import Allocate, Evaluate, For, Seq, Stmt, Store, seq
from tilewright.loops.verify import Form, verify
from tilewright.passes.expand_virtual_threads import MAX_COPIES, expand_virtual_threads


def expanded(body: Stmt) -> Stmt:
    before = function((A, B), body)
    made = run_pass(expand_virtual_threads, before)
    verify(made, Form.FLAT)
    same(before, made)
    return made.body


def test_a_vthread_becomes_copies_of_what_depends_on_it() -> None:
    T = buf("T", 1)
    once = store(T, 0, load(A, i))
    made = expanded(alloc(T, loop(i, 4, thread("vt", 2, lambda v: seq(once, store(B, v * 4 + i, load(T, 0)))))))
    assert isinstance(made, Allocate)
    assert isinstance(made.body, For)
    assert isinstance(made.body.body, Seq)
    assert [s.buffer.name for s in made.body.body.stmts if isinstance(s, Store)] == ["T", "B", "B"]


def test_loops_inside_are_shared_by_the_copies() -> None:
    made = expanded(thread("vt", 2, lambda v: loop(i, 4, copy(v * 4 + i))))
    assert isinstance(made, For)
    assert isinstance(made.body, Seq)
    assert len(made.body.stmts) == 2


def test_storage_that_the_copies_fill_differently_grows() -> None:
    local, shared = buf("L", 2, scope="local"), buf("S", 1, scope="shared")

    def body(v: Var) -> Stmt:
        fill = seq(store(shared, 0, load(A, i)), store(local, 1, load(A, v)))
        return alloc(shared, alloc(local, fill, store(B, v, load(local, 1) + load(shared, 0))))

    made = expanded(loop(i, 1, thread("vt", 2, body)))
    sizes = {n.buffer.name: str(n.buffer.shape[0]) for n in post_order(made) if isinstance(n, Allocate)}
    assert sizes == {"S": "1", "L": "4"}


def test_many_copies_are_a_loop() -> None:
    made = expanded(thread("vt", MAX_COPIES, copy))
    assert isinstance(made, For)
    assert made.kind is LoopKind.SERIAL


def test_a_vthread_of_one_is_nothing() -> None:
    assert isinstance(expanded(thread("vt", 1, copy)), Store)


def test_a_vthread_without_a_constant_extent_is_refused() -> None:
    n = Var("n")
    with pytest.raises(UserError, match="a vthread has the extent `n`"):
        run_pass(expand_virtual_threads, function((A, B, n), thread("vt", n, copy)))


def test_storage_that_a_call_fills_grows() -> None:
    """Each vthread adds to an element of its own."""
    local, out = buf("L", 1, dtype="int32", scope="local"), buf("M", 4, dtype="int32")

    def body(v: Var) -> Stmt:
        adding = Evaluate(tir.call_intrin("int32", "tir.atomic_add", tir.address_of(load(local, 0)), v + 1))
        return alloc(local, store(local, 0, 10), adding, store(out, v, load(local, 0)))

    made = run_pass(expand_virtual_threads, function((out,), thread("vt", 4, body)))
    verify(made, Form.FLAT)
    result = np.zeros(4, "int32")
    interpret(made, [result])
    assert result.tolist() == [11, 12, 13, 14]
