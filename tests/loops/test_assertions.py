"""`tir.AssertStmt`: printed as an assertion, and checked by every call on every target and by the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright
from tests.errors.refused import refused
from tests.programs.harness import every_target
from tilewright import ir, te, tir
from tilewright.loops.interpret import interpret
from tilewright.loops.interpret.memory import InterpretError

MESSAGE = 'a "negative" number has no root'


def roots(on_threads: bool) -> tuple[te.Schedule, list[te.Tensor]]:
    """Square roots by a hand-written loop, which asserts that each has one."""
    A = te.placeholder((8,), name="A")

    def generate(ins: list[tir.Buffer], outs: list[tir.Buffer]) -> tir.Stmt:
        i = te.thread_axis("threadIdx.x") if on_threads else tir.Var("i", "int32")
        at = i.var if on_threads else i
        x = tir.BufferLoad(ins[0], [at])
        body = tir.AssertStmt(x >= 0, MESSAGE, tir.BufferStore(outs[0], te.sqrt(x), [at]))
        if on_threads:
            return tir.AttrStmt(i, "thread_extent", 8, body)
        return tir.For(at, 0, 8, tir.ForKind.SERIAL, body)

    B = te.extern((8,), [A], generate, name="B")
    return te.create_schedule(B.op), [A, B]


@every_target
def test_a_call_says_which_assertion_does_not_hold(target: str) -> None:
    s, args = roots(target != "llvm")
    module, on = tilewright.build(s, args, target), tilewright.device(target)
    x, out = np.arange(8, dtype="float32"), tilewright.nd.empty((8,), "float32", on)
    module(tilewright.nd.array(x, on), out)
    np.testing.assert_allclose(out.numpy(), np.sqrt(x), rtol=1e-6)
    with refused("assert", f"main: {MESSAGE}", fix="test_assertions.py"):
        module(tilewright.nd.array(x - 3, on), out)
    np.testing.assert_allclose(out.numpy()[3:], np.sqrt(x[3:] - 3), rtol=1e-6)
    module(tilewright.nd.array(x, on), out)  # the next call begins anew


def test_the_interpreter_ends_where_an_assertion_does_not_hold() -> None:
    s, args = roots(False)
    (function,) = tilewright.lower(s, args).functions
    out = np.zeros(8, "float32")
    interpret(function, [np.arange(8, dtype="float32"), out])
    np.testing.assert_allclose(out, np.sqrt(np.arange(8)), rtol=1e-6)
    with pytest.raises(InterpretError, match=r"an assertion does not hold: a .negative. number"):
        interpret(function, [np.full(8, -1, "float32"), out])


def test_it_prints_as_an_assertion() -> None:
    s, args = roots(False)
    lines = str(tilewright.lower(s, args)).splitlines()[-3:]
    assert [line.strip() for line in lines if line.strip()] == [
        "for i in range(8):",
        'assert A[i] >= T.float32(0), "a \\"negative\\" number has no root"',
        "B[i] = T.sqrt(A[i])",
    ]


def function() -> Any:
    """Two assertions of a function of any length, one of them in a loop."""
    n, i = te.var("n"), tir.Var("i", "int32")
    X = tir.decl_buffer((n,), "float32", "X")
    store = tir.AssertStmt(i < 100, "too long", tir.BufferStore(X, tir.const(1.0, "float32"), [i]))
    return tir.PrimFunc([X], tir.AssertStmt(n > 2, "too short", tir.For(i, 0, n, tir.ForKind.SERIAL, store)))


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_assertions_of_sizes(target: str) -> None:
    module = tilewright.build(function(), target=target)
    x = tilewright.nd.array(np.zeros(5, "float32"))
    module(x)
    assert x.numpy().all()
    for length, said in ((2, "too short"), (101, "too long")):
        with refused("assert", said):
            module(tilewright.nd.array(np.zeros(length, "float32")))


def test_the_fields_and_the_text_of_an_assertion() -> None:
    n = te.var("n")
    stmt = tir.AssertStmt(n > 2, tir.StringImm("short"), tir.Evaluate(0))
    assert isinstance(stmt, tir.AssertStmt)
    assert str(stmt.condition) == "n > 2"
    assert stmt.message == "short"
    assert isinstance(stmt.body, tir.Evaluate)
    other = tir.IfThenElse(n > 2, tir.Evaluate(0), None)
    assert not isinstance(other, tir.AssertStmt)
    with pytest.raises(AttributeError):
        _ = other.message
    ir.assert_structural_equal(ir.load_json(ir.save_json(stmt)), stmt, map_free_vars=True)


def test_a_message_that_is_not_text() -> None:
    with refused("AssertStmt", "the message is 3", fix="give a text"):
        tir.AssertStmt(te.var("n") > 2, 3, tir.Evaluate(0))


def test_skip_assert_leaves_the_bodies() -> None:
    text = str(tir.transform.SkipAssert()(tilewright.ir.IRModule({"main": function()})))
    assert "assert" not in text
    assert "X[i] = T.float32(1)" in text
