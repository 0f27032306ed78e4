"""Loads that NVVM would merge, and send through the read-only cache, are kept apart; no others are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

import tilewright as tw
from tests.codegen.ptx import read_stale
from tilewright import te, tir

DTYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"]
Statements = Callable[[Any, Any, Any, Any], None]


def kernel(statements: Statements, dtype: str = "int32", target: str = "cuda -arch=sm_90") -> tw.runtime.module.Module:
    """A kernel of one array to read and two to write: `statements(builder, a, t, i)` in thread i."""
    a = te.placeholder((64,), dtype, "a")

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        read, written, other = (ib.buffer_ptr(buffer) for buffer in (ins[0], outs[0], outs[1]))
        i = te.thread_axis("threadIdx.x")
        ib.scope_attr(i, "thread_extent", 32)
        statements(ib, read, (written, other), i)
        return ib.get()

    out = te.extern([(64,), (64,)], [a], body, dtype=[dtype, dtype], name="t")
    return tw.build(te.create_schedule(out[0].op), [a, *out], target)


def choice(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    t[1][i] = tir.Select(i < 7, t[0][i + 1], a[i])


def lazy_choice(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    t[1][i] = tir.if_then_else(i < 7, a[i], t[0][i + 1])


def branches(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    with ib.if_scope(i < 7):
        t[1][i] = a[i]
    with ib.else_scope():
        t[1][i] = t[0][i + 1]


def overwritten(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    x = ib.allocate(a.dtype, 1, "x", scope="local")
    x[0] = a[i]
    with ib.if_scope(i < 7):
        x[0] = t[0][i + 1]
    t[1][i] = x[0]


def temporary(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    x = ib.let("x", t[0][i + 1])
    t[1][i] = tir.Select(i < 7, x, a[i])


def nested(ib: Any, a: Any, t: Any, i: Any) -> None:
    t[0][i] = a[i + 1]
    t[1][i] = tir.Select(i < 7, tir.Select(i < 3, t[1][i], t[0][i + 1]), a[i])


def carried(ib: Any, a: Any, t: Any, i: Any) -> None:
    x = ib.allocate(a.dtype, 1, "x", scope="local")
    x[0] = a[i]
    with ib.for_range(0, 9, "k") as k:
        t[1][i] = x[0]
        t[0][i] = a[i + k]
        x[0] = t[0][i + 1]


MERGED = [choice, lazy_choice, branches, overwritten, temporary, nested, carried]


@pytest.mark.parametrize("statements", MERGED)
def test_what_the_kernel_stores_is_not_read_through_the_read_only_cache(statements: Statements) -> None:
    module = kernel(statements)
    assert re.search(r"unmerged\(t_v0\[", module.imported_modules[0].get_source())
    assert read_stale(module) == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_loads_of_every_type(dtype: str) -> None:
    module = kernel(choice, dtype)
    assert "unmerged(t_v0[" in module.imported_modules[0].get_source()
    assert read_stale(module) == []


def test_opencl_does_not_promise_that_arrays_that_are_read_are_alone() -> None:
    text = kernel(choice, target="opencl").imported_modules[0].get_source()
    assert "__global const int* a" in text
    assert "__global int* restrict t_v0" in text


def test_the_compiler_is_still_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """When this fails, a compiler without the fault has come, and `merged_loads.py` may go."""
    monkeypatch.setattr("tilewright.codegen.c_family.loads_at_risk", lambda kernel: frozenset())
    assert len(read_stale(kernel(choice))) == 1
