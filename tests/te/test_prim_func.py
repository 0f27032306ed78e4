"""Functions of tensors and of statements, before any pass."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.driver import schedule_to_module
from tilewright.ir import IRModule
from tilewright.passes.context import PassContext


def chain() -> tuple[Any, ...]:
    n = te.size_var("n")
    A = te.placeholder((n, 4), name="A")
    B = te.compute((n, 4), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((n, 4), lambda i, j: B[i, j] + 1.0, name="C")
    return n, A, B, C


def doubled(function: Any) -> None:
    a, c = np.arange(12, dtype="float32").reshape(3, 4), tw.nd.empty((3, 4), "float32")
    tw.build(function, target="llvm")(tw.nd.array(a), c)
    assert np.array_equal(c.numpy(), a * 2 + 1)


def test_a_function_of_tensors() -> None:
    n, A, _, C = chain()
    made = te.create_prim_func([A, C])
    assert isinstance(made, tir.PrimFunc)
    doubled(made)
    doubled(IRModule.from_expr(made))
    assert len(te.create_prim_func([A, C, n]).params) == 3
    with refused("create_prim_func", "none of the tensors is computed", fix="[A, B]"):
        te.create_prim_func([A])
    with refused("create_prim_func", "3 is neither a tensor nor a size", fix="[A, B, n]"):
        te.create_prim_func([A, C, 3])


def test_a_function_of_the_loops_of_a_schedule() -> None:
    _, A, B, C = chain()
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    nest = te.schedule.ScheduleOps(s, te.schedule.InferBound(s))
    made = te.schedule.SchedulePostProcToPrimFunc([A, C], nest, None)
    assert [p.name for p in made.params] == ["A", "C"]
    doubled(made.with_attr("global_symbol", "ours"))
    module = schedule_to_module(s, [A, C])
    assert isinstance(module["main"], tir.PrimFunc)
    doubled(module)
    with refused("SchedulePostProcToPrimFunc", "the arguments are 3", fix="a list of tensors"):
        te.schedule.SchedulePostProcToPrimFunc(3, nest)
    x, y = te.placeholder((4,), name="twin"), te.placeholder((4,), name="twin")
    both = te.compute((4,), lambda i: x[i] + y[i], name="both")
    nest = te.schedule.ScheduleOps(te.create_schedule(both.op))
    with refused("SchedulePostProcToPrimFunc", "has 2 buffers called 'twin'", fix="names of their own"):
        te.schedule.SchedulePostProcToPrimFunc([x, y, both], nest)


def test_intrinsics_by_name() -> None:
    x, y = te.var("x", "float32"), te.var("i")
    for name, args, same in (
        ("tir.if_then_else", (y > 0, x, 0.0), tir.if_then_else(y > 0, x, 0.0)),
        ("tir.likely", (y > 0,), tir.likely(y > 0)),
        ("tir.fma", (x, x, x), x * x + x),
        ("tir.shift_left", (y, 2), y << 2),
        ("tir.bitwise_xor", (y, 3), y ^ 3),
    ):
        assert tir.call_intrin("float32", name, *args) is same


@pytest.mark.parametrize("key", ["tir.LoopPartition", "tir.disable_cse_tir", "te.keep_schedule_record"])
def test_settings_without_effect_draw_a_warning(key: str) -> None:
    with pytest.warns(UserWarning, match=f"{key} has no effect: "):
        PassContext(config={key: True})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PassContext(config={"tir.disable_vectorize": True})


def test_loops_of_a_builder_have_simple_extents() -> None:
    ib, n = tir.ir_builder.create(), te.size_var("n")
    with ib.for_range(n, n + 2) as i:
        ib.emit(tir.Evaluate(i))
    assert int(ib.get().extent) == 2
