"""Halves of vectors, and dot products of bytes."""

from __future__ import annotations

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir


def test_halves_make_a_whole() -> None:
    A = tir.decl_buffer((8,), "int32", "A")
    B = tir.decl_buffer((16,), "int32", "B")
    ib = tir.ir_builder.create()
    v = A.vload(0, "int32x8")
    low, high = tir.vectorlow("int32x4", v), tir.vectorhigh("int32x4", v)
    ib.emit(B.vstore(0, tir.vectorcombine("int32x8", high, low)))
    ib.emit(B.vstore(8, v))
    program = tw.IRModule.from_expr(tir.PrimFunc([A, B], ib.get()))
    out = tw.nd.array(np.zeros(16, "int32"))
    tw.build(program, target="llvm")(tw.nd.array(np.arange(8, dtype="int32")), out)
    assert out.numpy().tolist() == [4, 5, 6, 7, 0, 1, 2, 3, *range(8)]


@pytest.mark.parametrize(("first", "second"), [("int8", "int8"), ("uint8", "uint8"), ("uint8", "int8")])
def test_dot_products_of_bytes(first: str, second: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-128 if kind == "int8" else 0, 127, 4).astype(kind) for kind in (first, second))
    wide = "uint32" if first == second == "uint8" else "int32"
    A, B = tir.decl_buffer((4,), first, "A"), tir.decl_buffer((4,), second, "B")
    C = tir.decl_buffer((1,), wide, "C")
    stmt = tir.BufferStore(C, tir.dp4a(A.vload(0, f"{first}x4"), B.vload(0, f"{second}x4"), tir.const(7, wide)), [0])
    out = tw.nd.array(np.zeros(1, wide))
    tw.build(tw.IRModule.from_expr(tir.PrimFunc([A, B, C], stmt)), target="llvm")(tw.nd.array(a), tw.nd.array(b), out)
    assert int(out.numpy()[0]) == int(a.astype(int) @ b.astype(int)) + 7


def test_mistakes() -> None:
    x, v = te.var("x"), te.var("v", "int8x4")
    with refused("vectorlow", "has no halves", fix="a vector"):
        tir.vectorlow("int32", x)
    with refused("vectorhigh", "the result is of type int8x2", fix='"int8x2"'):
        tir.vectorhigh("int8x4", v)
    with refused("dp4a", "of types int8x4 and int32", fix="uint8x4"):
        tir.dp4a(v, x)
