"""Reports of accesses and of assertions become stores, each to a slot of its own, around the whole function."""

from __future__ import annotations

from typing import Any

from tests.loops.programs import launch, load, store
from tests.passes.kernels import A, B, copy, kernel, tx
from tests.passes.running import run_pass
from tilewright.core.dtype import DType
from tilewright.expr.nodes import Call, StringImm
from tilewright.expr.operators import cast, const, less
from tilewright.loops.checked_index import CheckedIndex
from tilewright.loops.nodes import REPORT, Allocate, Assertion, BoundChecks, Evaluate, Function, If, Stmt, Store, seq
from tilewright.loops.walk import statements
from tilewright.passes.lower_bound_reports import lower_bound_reports

CHECKED = (CheckedIndex("reads A", "A", 0, "63"), CheckedIndex("writes B", "B", 0, "63"))


def report(slot: int, index: Any) -> Stmt:
    return Evaluate(Call(REPORT, (const(slot, "int32"), index), DType("int32")))


def failed(message: str, where: str) -> Stmt:
    return Evaluate(Call("assertion_failed", (StringImm(message), StringImm(where)), DType("int32")))


def checked(*body: Stmt) -> Function:
    return Function("main", (A, B), launch(seq(*body), tx=(tx, 8)), (), BoundChecks(CHECKED))


def test_each_report_stores_its_index_to_its_slot() -> None:
    made = run_pass(lower_bound_reports, checked(If(less(tx, 6), copy(tx), seq(report(0, tx), report(1, tx * 2)))))
    assert isinstance(made.body, Allocate)
    assert made.checks is not None
    faults = made.checks.faults
    assert made.body.buffer is faults
    assert made.checks.indices == CHECKED
    stores = [s for s in statements(made.body) if isinstance(s, Store) and s.buffer is faults]
    assert [str(s.indices[0]) for s in stores] == ["0", "1"]
    assert [s.value for s in stores] == [cast("int64", tx) * 2 + 1, cast("int64", tx * 2) * 2 + 1]


def test_assertions_get_slots_behind_the_indices_one_for_each_message_and_line() -> None:
    rows, columns = ("no rows", "f.py:7"), ("no columns", "f.py:8")
    body = seq(failed(*rows), report(1, tx), failed(*columns), failed(*rows))
    made = run_pass(lower_bound_reports, checked(body))
    assert made.checks is not None
    assert made.checks.indices == (*CHECKED, Assertion(*rows), Assertion(*columns))
    slots = [int(s.indices[0]) for s in statements(made.body) if isinstance(s, Store)]
    assert slots == [2, 1, 3, 2]


def test_a_function_without_checks_is_left_as_it_is() -> None:
    before = kernel(store(B, tx, load(A, tx)))
    assert run_pass(lower_bound_reports, before) is before
