"""Assertions of programs that are written by hand: `tir.AssertStmt(condition, message, body)`.

    assert n > 0, "no rows"        If(n > 0, body, Evaluate(assertion_failed("no rows", "script.py:7")))
    body

An assertion is a branch: its body runs if the condition holds, and otherwise a call reports the failure.
`lower_bound_reports` gives the reports their memory, and the call of the function raises a UserError.
"""

from __future__ import annotations

from typing import Any

from ..core.errors import UserError, caller_location
from ..expr.effects import FAILED
from ..expr.nodes import Call, StringImm
from ..expr.operators import condition as test_of
from ..expr.operators import const
from .nodes import Assertion, Evaluate, Function, If, Stmt, map_statements


def asserting(condition: Any, message: Any, body: Stmt) -> If:
    """Return `body` under the condition; otherwise the call of the function raises UserError with the message."""
    text = message.value if isinstance(message, StringImm) else message
    if not isinstance(text, str):
        raise UserError(
            f"the message is {message!r}, which is not text",
            primitive="AssertStmt",
            fix='give a text: tir.AssertStmt(n > 0, "there are no rows", body)',
        )
    failed = Call(FAILED, (StringImm(text), StringImm(caller_location())), const(0, "int32").dtype)
    return If(test_of(condition, "AssertStmt"), body, Evaluate(failed))


def failure(stmt: Any) -> Assertion | None:
    """The report of a statement about a failed assertion; None for any other statement."""
    value = stmt.value if isinstance(stmt, Evaluate) else None
    if not isinstance(value, Call) or value.name != FAILED:
        return None
    message, where = value.args
    assert isinstance(message, StringImm)
    assert isinstance(where, StringImm)
    return Assertion(message.value, where.value)


def assertion_of(stmt: Any) -> Assertion | None:
    """The assertion that a statement makes; None for any other statement."""
    return failure(stmt.orelse) if isinstance(stmt, If) else None


def without_assertions(function: Function) -> Function:
    """The function with the body of each assertion in its place."""

    def visit(stmt: Stmt) -> Stmt:
        done = map_statements(stmt, visit)
        return done.then if isinstance(done, If) and assertion_of(done) is not None else done

    return function.with_body(visit(function.body))
