"""Calls of packed functions get names, and host code knows all that they are given."""

from __future__ import annotations

from typing import Any

from tests.loops.programs import function, load, loop, store
from tests.passes.kernels import A, B, i
from tests.passes.running import run_pass
from tilewright.core.dtype import DType
from tilewright.expr.effects import PACKED
from tilewright.expr.nodes import Call, Expr, StringImm
from tilewright.expr.operators import if_then_else, less
from tilewright.expr.traverse import post_order
from tilewright.loops.calls import is_packed
from tilewright.loops.nodes import Allocate, Evaluate, Function, If, Let, Stmt, Store
from tilewright.loops.verify import Form, verify
from tilewright.passes.name_packed_calls import name_packed_calls


def call(*args: Any, dtype: str = "float32") -> Expr:
    return Call(PACKED, (StringImm("f"), *args), DType(dtype))


def named(*body: Any) -> Function:
    """The function after the pass, in which every call is a whole value, and every argument an integer or a name."""
    made = run_pass(name_packed_calls, function((A, B), *body), "llvm")
    verify(made, Form.BUILT)
    whole = [s.value for s in post_order(made.body) if isinstance(s, (Let, Evaluate))]
    calls = [e for e in post_order(made.body) if is_packed(e)]
    assert calls
    assert all(any(e is value for value in whole) for e in calls)
    for e in calls:
        assert isinstance(e, Call)
        assert not any(part.children() and part.dtype.is_float for part in e.args[1:])
    return made


def allocated(made: Function) -> int:
    return sum(isinstance(s, Allocate) for s in post_order(made.body))


def test_an_element_is_read_and_a_float_is_computed_before_the_call() -> None:
    made = named(store(B, 0, call(load(A, 3)) * 2.0 + load(A, 4)))
    assert allocated(made) == 0
    made = named(store(B, 0, call(load(A, 3) + 1.0) * 2.0))
    assert allocated(made) == 1


def test_integers_are_computed_by_host_code() -> None:
    made = named(loop(i, 4, Evaluate(call(i * 2 + 1, dtype="int32"))))
    assert allocated(made) == 0
    assert not any(isinstance(s, Let) for s in post_order(made.body))


def test_a_choice_calls_on_one_side_only() -> None:
    choice = if_then_else(less(i, 2), call(load(A, i)), load(A, i))
    made = named(loop(i, 4, store(B, i, choice)))
    (branch,) = (s for s in post_order(made.body) if isinstance(s, If))
    assert any(is_packed(e) for e in post_order(branch.then))
    assert branch.orelse is not None
    assert not any(is_packed(e) for e in post_order(branch.orelse))


def test_calls_within_calls_are_made_from_the_inside_out() -> None:
    made = named(store(B, 0, call(call(load(A, 0)) + 1.0)))
    inner, outer = (let for let in _lets(made.body) if is_packed(let.value))
    assert any(part is outer for part in post_order(inner.body))
    (stored,) = (s for s in post_order(inner.body) if isinstance(s, Store) and s.buffer is not B)
    assert stored.value is inner.var + 1.0  # compiled code computes what the outer call is given


def _lets(stmt: Any) -> list[Let]:
    """The names in the order in which they are given."""
    own = [stmt] if isinstance(stmt, Let) else []
    return own + [let for child in stmt.children() if isinstance(child, Stmt) for let in _lets(child)]


def test_a_program_without_calls_is_left_as_it_is() -> None:
    before = function((A, B), loop(i, 64, store(B, i, load(A, i))))
    assert run_pass(name_packed_calls, before, "llvm") is before
