"""Statements that are made of the wrong things say what they are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.errors.refused import refused
from tilewright import ir, te, tir

A = tir.decl_buffer((8,), "float32", name="A")
i = tir.Var("i", "int32")
STORE = tir.BufferStore(A, 1.0, [i])
LOOP = tir.For(i, 0, 8, "serial", STORE)
x = te.var("x", "float32")
visit = tir.stmt_functor

CASES: list[tuple[str, str, str, Callable[[], Any]]] = [
    ("For", "3 is not a variable", "tir.Var", lambda: tir.For(3, 0, 8, 0, STORE)),
    ("For", "there is no loop of kind 'fast'", "tir.ForKind", lambda: tir.For(i, 0, 8, "fast", STORE)),
    ("For", "a thread loop has thread_binding=None", "thread_binding=", lambda: tir.For(i, 0, 8, 4, STORE)),
    ("For", "the body is 3", "give a statement", lambda: tir.For(i, 0, 8, 0, 3)),
    ("PrimFunc", "[1] is not a parameter", "give buffers", lambda: tir.PrimFunc([[1]], STORE)),
    ("PrimFunc", "attrs is 3, which is not a mapping", "give a dict", lambda: tir.PrimFunc([A], STORE, attrs=3)),
    ("Allocate", "float32[3] is not the declared", "of the buffer", lambda: tir.Allocate(A, "float32", 3, True, STORE)),
    ("For", "annotations=[3] is not a mapping", "give {", lambda: tir.For(i, 0, 8, 0, STORE, annotations=[3])),
    ("IfThenElse", "then_case is 'x'", "give a statement", lambda: tir.IfThenElse(i < 3, "x")),
    ("BufferStore", "3 is not a buffer", "tir.decl_buffer", lambda: tir.BufferStore(3, 1.0, [i])),
    ("BufferStore", "has 1 dimension, but 2 indices", "one index per", lambda: tir.BufferStore(A, 1.0, [i, i])),
    ("BufferStore", "of type int32 is stored to 'A'", "astype", lambda: tir.BufferStore(A, i, [i])),
    ("BufferLoad", "the index `x` is of type float32", "give integers", lambda: tir.BufferLoad(A, [x])),
    ("ProducerLoad", "is not a tensor", "te.compute", lambda: tir.ProducerLoad(A, [i])),
    ("LetStmt", "has the value `x` of type float32", "one type", lambda: tir.LetStmt(i, x, STORE)),
    ("Allocate", "float32[9] is not the", "of the buffer itself", lambda: tir.Allocate(A, "float32", [9], 1, STORE)),
    ("Allocate", "condition `T.bool(False)`", "branch", lambda: tir.Allocate(A, "float32", [8], False, STORE)),
    ("AttrStmt", "the key 3 is not text", "thread_extent", lambda: tir.AttrStmt(i, 3, 1, LOOP)),
    ("PrimFunc", "the attribute 'storage_scope'", "thread_extent",
     lambda: tir.PrimFunc([], tir.AttrStmt(i, "storage_scope", 1, LOOP))),
    ("PrimFunc", "'a' is not a parameter", "give buffers", lambda: tir.PrimFunc(["a"], STORE)),
    ("IRModule", "3 is not a mapping", "give {", lambda: ir.IRModule(3)),
    ("IRModule", "3 is not a function", "tir.PrimFunc", lambda: ir.IRModule({"main": 3})),
    ("ir_transform", "'x' is not part of a program", "give a statement",
     lambda: visit.ir_transform("x", None, None)),
    ("ir_transform", "3.5 is returned for a statement", "return a statement",
     lambda: visit.ir_transform(LOOP, None, lambda node: 3.5, ["tir.BufferStore"])),
    ("ir_transform", "x is returned for an expression of type int32", "or None",
     lambda: visit.ir_transform(i + 1, lambda node: x, None)),
    ("substitute", "vmap=3 is not a mapping", "give {variable", lambda: visit.substitute(i, 3)),
    ("substitute", "'i' is not a variable", "give {variable", lambda: visit.substitute(i, {"i": 3})),
]  # fmt: skip


@pytest.mark.parametrize(("primitive", "says", "fix", "wrong"), CASES)
def test_what_statements_are_made_of(primitive: str, says: str, fix: str, wrong: Callable[[], Any]) -> None:
    with refused(primitive, says, fix=fix):
        wrong()


def test_builders_refuse_loops_of_floats_and_negative_extents() -> None:
    ib = tir.ir_builder.create()
    with refused("for_range", "dtype='float32' of the loop 'i' is not an integer type", fix='give "int32"'):
        ib.for_range(0, 4, "i", dtype="float32").__enter__()
    with refused("allocate", "the shape [-1] of 'buf' has an extent below 0", fix="give extents of at least 0"):
        ib.allocate("float32", (-1,))
