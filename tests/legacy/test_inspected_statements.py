"""Statements and fields that tools make and read, by hand-written programs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tilewright as tw
from tests.errors.refused import refused
from tilewright import te, tir
from tilewright.te.hybrid import script


def test_attributes_of_an_operation_are_constants_and_print_as_json() -> None:
    A = te.placeholder((4,), name="A")
    given = {"factor": 8, "sizes": [10, 12], "scale": 1.5, "layout": 'N"C'}
    op = te.compute((4,), lambda i: A[i], attrs=given).op
    assert op.attrs["factor"].value == 8
    assert [size.value for size in op.attrs["sizes"]] == [10, 12]
    assert op.attrs["layout"] == 'N"C'
    assert json.loads(str(op.attrs)) == given
    again = tw.ir.load_json(tw.ir.save_json(op.output(0))).op
    assert str(again.attrs) == str(op.attrs)


def test_the_body_of_a_script_is_a_statement_on_tensors() -> None:
    @script
    def rows(n, a):  # type: ignore[no-untyped-def]
        b = output_tensor((n,), a.dtype)  # type: ignore[name-defined]  # noqa: F821
        for i in parallel(n):  # type: ignore[name-defined]  # noqa: F821
            assert i < n, "no such row"
            t = 0.0
            for _ in range(2):
                t += a[i]
            b[i] = t
        return b

    n = te.size_var("n")
    a = te.placeholder((n,), name="a")
    b = rows(n, a)
    loop = b.op.body
    assert isinstance(loop, tir.For)
    assert loop.kind == tir.ForKind.PARALLEL
    check, memory = loop.body[0], loop.body[1]
    assert isinstance(check, tir.AssertStmt)
    assert check.message.value == "no such row"
    assert isinstance(memory, tir.ProducerRealize)
    assert (memory.producer.op.name, memory.bounds[0].extent.value) == ("t", 1)
    first, sums, last = memory.body
    assert isinstance(first, tir.ProducerStore)
    assert not isinstance(first, tir.BufferStore)
    assert sums.body.value.b.producer is a
    assert (last.producer.op.name, last.value.producer.op.name) == ("b", "t")
    assert "t = T.allocate" in str(loop)
    assert tw.build(te.create_schedule(b.op), [n, a, b], "llvm")


def test_statements_on_tensors_by_hand() -> None:
    A = te.placeholder((8,), name="A")
    store = tir.ProducerStore(A, 1.0, [3])
    memory = tir.ProducerRealize(A, [tw.ir.Range(0, 8)], True, store)
    assert isinstance(memory, tir.ProducerRealize)
    assert memory.producer is A
    buffer = tir.decl_buffer((8,))
    assert isinstance(tir.BufferRealize(buffer, [tw.ir.Range(0, 8)], True, tir.Evaluate(0)), tir.BufferRealize)
    with refused("ProducerStore", "2 indices of Tensor(shape=[8]", fix="one index or range for each"):
        tir.ProducerStore(A, 1.0, [3, 4])


def test_an_attribute_of_any_key_is_held_and_no_function_takes_it() -> None:
    x = te.var("x")
    stmt = tir.AttrStmt(x, "stride", 10, tir.Evaluate(x + 1))
    assert isinstance(stmt, tir.AttrStmt)
    assert (stmt.node, stmt.attr_key, stmt.value.value) == (x, "stride", 10)
    assert str(stmt).startswith('with T.attr(x, "stride", 10):')
    with refused("PrimFunc", "the attribute 'stride' of x is not known", fix='give "thread_extent"'):
        tir.PrimFunc([x], stmt)


def test_accesses_by_a_pointer_as_of_v08() -> None:
    p = tir.Var("p", tw.ir.PointerType(tw.ir.PrimType("float32")))
    store = tir.Store(p, tir.Load("float32", p, 2) + 1.0, 3)
    assert isinstance(store, tir.Store)
    assert store.buffer_var is p
    assert store.index.value == 3
    assert isinstance(store.value.a, tir.Load)
    assert store.value.a.buffer_var is p
    memory = tir.Allocate(p, "float32", [10], tir.const(1, "uint1"), store)
    assert memory.buffer_var is p
    tir.PrimFunc([], memory)
    with refused("PrimFunc", "the elements at the pointer p are accessed", fix="declare a buffer"):
        tir.PrimFunc([], store)
    with refused("Store", "is not a pointer", fix='te.var("p", "handle")'):
        tir.Store(te.var("n"), 1.0, 0)


def test_accesses_at_the_address_of_a_buffer_as_of_v08() -> None:
    n, i = te.size_var("n"), te.var("i")
    A = tir.decl_buffer((n,), "int64", name="A")
    step = tir.Store(A.data, tir.Load("int64", A.data, i) + 1, i + 1)
    assert isinstance(step, tir.BufferStore)
    assert step.buffer_var is A.data
    loop = tir.For(i, 0, n - 1, tir.ForKind.SERIAL, step)
    module = tw.build(tw.IRModule.from_expr(tir.PrimFunc([A], loop).with_attr("global_symbol", "main")), target="llvm")
    a = tw.nd.array(np.zeros(10, "int64"))
    module(a)
    assert a.numpy().tolist() == list(range(10))
    lanes, backwards = tir.Ramp(0, 1, 4), tir.Shuffle([tir.Ramp(0, 1, 4)], [3, 2, 1, 0])
    every = tir.const(1, "int32x4")
    turn = tir.Store(A.data, tir.Load("int64x4", A.data, backwards, every), lanes, every)
    module = tw.build(tw.IRModule.from_expr(tir.PrimFunc([A], turn).with_attr("global_symbol", "main")), target="llvm")
    module(a)
    assert a.numpy().tolist() == [3, 2, 1, 0, 4, 5, 6, 7, 8, 9]
    with refused("Load", "elements of type float32 at the address of 'A'", fix="tir.BufferLoad"):
        tir.Load("float32", A.data, 0)


def test_the_region_of_a_prefetch() -> None:
    A, i = tir.decl_buffer((10, 20), name="A"), te.size_var("i")
    made = tir.Prefetch(A, [tw.ir.Range.from_min_extent(i + 1, 2), tw.ir.Range.from_min_extent(0, 20)])
    assert str([part.extent for part in made.bounds]) == "[2, 20]"
    assert isinstance(tir.Prefetch(tir.decl_buffer((1, 2)), []), tir.Prefetch)
    with pytest.raises(AttributeError, match="it is no prefetch"):
        _ = tir.Evaluate(1).bounds


def test_axes_by_the_arguments_of_the_legacy_api() -> None:
    axis = tir.IterVar((0, 16), "k", tir.IterVar.CommReduce)
    assert (axis.iter_type, axis.name, axis.dom.extent.value) == (tir.IterVar.CommReduce, "k", 16)
    with refused("IterVar", "is not made of these arguments", fix="te.reduce_axis"):
        tir.IterVar((0, 16), "k", 77)


def test_nodes_by_name() -> None:
    assert tw.ir.make_node("IntImm", dtype="int32", value=10).value == 10
    assert str(tw.ir.make_node("attrs.Conv", axis=1, layout="NCHW")) == '{"axis": 1, "layout": "NCHW"}'
    with refused("make_node", "there is no node 'Nothing'", fix="the name of a class of tir"):
        tw.ir.make_node("Nothing")
    with refused("make_node", "IntImm: int_imm() got an unexpected", fix="the arguments of its class"):
        tw.ir.make_node("IntImm", lanes=1)


def test_leading_zeros_are_int32_and_powers_are_of_floats() -> None:
    x = te.var("x", "int64")
    assert tir.clz(x).dtype == "int32"
    assert te.power(x, te.var("y", "float32")).dtype == "float32"
    with refused("power", "`x` to the power `T.int64(2)`, both integers", fix="x * x"):
        te.power(x, 2)
