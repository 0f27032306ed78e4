"""Functions of statements whose call has a value: `tir.ret`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir


def built(params: list[Any], body: Any, target: str = "llvm") -> tw.runtime.Module:
    program = tw.IRModule.from_expr(tir.PrimFunc(params, body).with_attr("global_symbol", "f"))
    return tw.build(program, target=target)


def test_each_branch_returns() -> None:
    ib, x = tir.ir_builder.create(), te.var("x")
    A = ib.pointer("float32", name="A")
    with ib.if_scope(x > 3):
        ib.emit(tir.ret(x * 2))
    with ib.else_scope():
        ib.emit(tir.ret(A[x].astype("int32") + 1))
    f = built([A, x], ib.get())
    a = tw.nd.array(np.arange(5, dtype="float32") * 10)
    assert [f(a, 7), f(a, 2), f["f"](a, 3)] == [14, 21, 31]


@pytest.mark.parametrize("value", [-(2**31), -1, 5, 2**30])
def test_integers_wrap(value: int) -> None:
    x = te.var("x")
    wrapped = (3 * value - 1 + 2**31) % 2**32 - 2**31
    assert built([x], tir.Evaluate(tir.ret(x * 3 - 1)))(value) == wrapped


def test_floats_are_computed_by_compiled_code() -> None:
    x = te.var("x", "float32")
    found = built([x], tir.Evaluate(tir.ret(tir.exp(x) * 2)))(1.0)
    assert abs(found - 2 * np.e) < 1e-5


def test_what_follows_a_return_does_not_run() -> None:
    ib, n = tir.ir_builder.create(), te.var("n")
    A = ib.pointer("int32", name="A")
    with ib.for_range(0, n, name="i") as i:
        A[i] = i + 1
        with ib.if_scope(i == 2):
            ib.emit(tir.ret(i * 100))
    f, out = built([A, n], ib.get()), tw.nd.array(np.zeros(5, "int32"))
    assert f(out, 5) == 200
    assert out.numpy().tolist() == [1, 2, 3, 0, 0]
    assert f(out, 2) is None


def test_mistakes() -> None:
    with refused("ret", "of type float32x4, is returned", fix="one number"):
        tir.ret(te.var("v", "float32x4"))
    with refused("call_intrin", "tir.ret is called with", fix="the arguments of tir.ret"):
        tir.call_intrin("int32", "tir.ret", 1, 2, 3)
    ib, x = tir.ir_builder.create(), te.var("x")
    ib.scope_attr(te.thread_axis("threadIdx.x"), "thread_extent", 4)
    ib.emit(tir.ret(x))
    with refused("ret", "is inside a kernel", fix="outside of thread loops"):
        built([x], ib.get(), "opencl")
