"""Intrinsics of LLVM that a program names: overloads, results that are none, and calls that LLVM cannot compile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir


def _program(statement: Any) -> tw.IRModule:
    ib = tir.ir_builder.create()
    a = ib.pointer("uint8", name="A")
    ib.emit(statement(a))
    return tw.IRModule.from_expr(tir.PrimFunc([a], ib.get()).with_attr("global_symbol", "main"))


@pytest.mark.parametrize("flag", ["bool", "int1"])
def test_the_types_of_an_overload_may_be_left_out(flag: str) -> None:
    a = te.placeholder((4,), dtype="int32", name="A")
    b = te.compute((4,), lambda i: tir.call_llvm_pure_intrin("int32", "llvm.ctlz", a[i], tir.const(0, flag)))
    given, found = tw.nd.array(np.array([1, 2, 4, 0], "int32")), tw.nd.empty((4,), "int32")
    tw.build(te.create_schedule(b.op), [a, b], "llvm")(given, found)
    assert found.numpy().tolist() == [31, 30, 29, 32]


@pytest.mark.parametrize("dtype", ["", "void", "int32"])
def test_an_intrinsic_without_a_result(dtype: str) -> None:
    module = _program(lambda a: tir.call_llvm_intrin(dtype, "llvm.assume", tir.const(1, "bool")))
    built = tw.build(module, None, "llvm")
    assert "call void @llvm.assume(i1 true)" in built.get_source()
    built(tw.nd.empty((1,), "uint8"))


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda a: tir.call_llvm_intrin("", "llvm.va_start", a), "non-varargs function"),
        (lambda a: tir.call_llvm_intrin("int32", "llvm.aarch64.crc32b", 1, 2), "does not compile for"),
        (lambda a: tir.call_llvm_intrin("float32", "llvm.ctpop.i32", 1), "llvm.ctpop.i32"),
    ],
)
def test_calls_that_would_end_the_process_are_errors(call: Any, reason: str) -> None:
    with refused("call_llvm_intrin", reason, fix="language reference"):
        tw.build(_program(call), None, "llvm")
