"""Calls become what the rules of their target return, as often as rules apply."""

from __future__ import annotations

import pytest

import tilewright.te as te
from tests.loops.programs import load, store
from tests.passes.kernels import A, B, copy, inside, kernel, tx
from tests.passes.running import run_pass
from tilewright import tir
from tilewright.expr import op_registry
from tilewright.expr.nodes import Expr
from tilewright.ir import register_intrin_lowering, register_op_attr
from tilewright.loops.nodes import Function, Store
from tilewright.passes.lower_intrinsics import lower_intrinsics

for declared in ("tir.test_half", "tir.test_quarter"):
    register_op_attr(declared, "TCallEffectKind", tir.CallEffectKind.Pure)
register_intrin_lowering("tir.test_half", "default", f=lambda op: op.args[0] * 0.5)
register_intrin_lowering("tir.test_half", "opencl", f=lambda op: op.args[0] / 2.0)
register_intrin_lowering(
    "tir.test_quarter", "default", f=lambda op: tir.call_intrin(op.dtype, "tir.test_half", op.args[0] * 0.5)
)


def stored(value: Expr) -> Function:
    return kernel(store(B, tx, value))


def value(made: Function) -> Expr:
    (stmt,) = (s for s in [inside(made)] if isinstance(s, Store))
    return stmt.value


def half(x: Expr) -> Expr:
    made: Expr = tir.call_intrin("float32", "tir.test_half", x)
    return made


def test_the_rule_of_the_target_comes_before_that_of_all() -> None:
    a = load(A, tx)
    assert value(run_pass(lower_intrinsics, stored(half(a)), "cuda")) is a * 0.5
    assert value(run_pass(lower_intrinsics, stored(half(a)), "opencl")) is a / 2.0


def test_calls_within_calls_and_in_what_a_rule_returns() -> None:
    a = load(A, tx)
    assert value(run_pass(lower_intrinsics, stored(half(half(a) + 1.0)))) is (a * 0.5 + 1.0) * 0.5
    quarter: Expr = tir.call_intrin("float32", "tir.test_quarter", a)
    assert value(run_pass(lower_intrinsics, stored(quarter))) is a * 0.5 * 0.5


def test_other_targets_and_other_calls_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(op_registry, "_OPS", dict(op_registry._OPS))  # the rule is not for other tests
    register_intrin_lowering("tir.asinh", "c", f=lambda op: te.log(op.args[0]))
    before = stored(te.asinh(load(A, tx)))
    assert run_pass(lower_intrinsics, before, "cuda").body is before.body
    plain = kernel(copy(tx))
    assert run_pass(lower_intrinsics, plain).body is plain.body
